"""Batches: every sentence once an epoch, nothing but seed and step decides, and what goes into the inputs of a step."""

import itertools

import pytest
import torch

from selfguide.encoders.guide import Guide
from selfguide.encoders.loading import load_encoder
from selfguide.training.batches import BatchMaker, BatchPlan
from tiny_runs import PARAPHRASES, SENTENCES

CPU = torch.device("cpu")


def epoch_of(plan, epoch=0):
    batches = range(epoch * plan.batches_per_epoch, (epoch + 1) * plan.batches_per_epoch)
    return [plan.positions(batch) for batch in batches]


# The plan


@pytest.mark.parametrize("epoch", [0, 1, 5])
def test_each_sentence_comes_once_an_epoch_and_the_smaller_last_batch_is_kept(epoch):
    batches = epoch_of(BatchPlan(38, 16, seed=1), epoch)
    assert [len(batch) for batch in batches] == [16, 16, 6]
    assert sorted(itertools.chain(*batches)) == list(range(38))


def test_a_single_leftover_has_no_negatives_and_is_dropped():
    batches = epoch_of(BatchPlan(33, 16, seed=1))
    assert [len(batch) for batch in batches] == [16, 16]
    assert len(set(itertools.chain(*batches))) == 32
    assert [len(batch) for batch in epoch_of(BatchPlan(34, 16, seed=1))] == [16, 16, 2]


def test_over_the_epochs_no_sentence_is_always_the_one_that_is_dropped():
    plan = BatchPlan(33, 16, seed=1)
    missing = {*range(33)} - set(itertools.chain(*epoch_of(plan, 0), *epoch_of(plan, 1)))
    assert missing == set()


def test_the_papers_text_takes_1079_steps():
    plan = BatchPlan(17_256, 16, seed=1)
    assert plan.steps_of(1) == plan.batches_per_epoch == 1_079
    assert len(plan.positions(1_078)) == 17_256 - 1_078 * 16 == 8


def test_order_depends_on_seed_and_step_alone():
    first, again, other = (BatchPlan(40, 8, seed=seed) for seed in (1, 1, 2))
    forward = [first.positions(step) for step in range(12)]
    assert [again.positions(step) for step in reversed(range(12))] == forward[::-1]
    assert [other.positions(step) for step in range(12)] != forward
    assert epoch_of(first, 0) != epoch_of(first, 1)
    assert forward[0] != sorted(forward[0])


@pytest.mark.parametrize(("accumulation", "processes"), [(2, 1), (1, 2), (2, 3), (3, 2)])
def test_parts_and_processes_share_the_batches_without_overlap(accumulation, processes):
    """What they read together, step by step, are the batches of a plain plan in their order."""
    plain = BatchPlan(50, 4, seed=3)
    plans = [
        BatchPlan(50, 4, seed=3, accumulation=accumulation, process=process, processes=processes)
        for process in range(processes)
    ]
    steps = plans[0].steps_of(1)
    taken = [plan.positions(step, part) for step in range(steps) for part in range(accumulation) for plan in plans]
    assert taken == [plain.positions(batch) for batch in range(steps * accumulation * processes)]
    first_epoch = list(itertools.chain(*taken[: plain.batches_per_epoch]))
    assert sorted(first_epoch) == list(range(50))


@pytest.mark.parametrize(("epochs", "accumulation", "processes", "steps"), [(1, 1, 1, 13), (1, 2, 1, 7), (3, 2, 2, 10)])
def test_steps_of_epochs(epochs, accumulation, processes, steps):
    assert BatchPlan(50, 4, seed=1, accumulation=accumulation, processes=processes).steps_of(epochs) == steps


# The inputs of a step


@pytest.fixture(scope="module")
def encoder(tiny_folder):
    return load_encoder(tiny_folder("bert"))


@pytest.fixture(scope="module")
def guide(encoder):
    return Guide(encoder, layers=range(encoder.layer_count + 1), pooling="max")


def maker_of(encoder, *, sentences=SENTENCES, guide=None, **options):
    plan = BatchPlan(len(sentences), 8, seed=1)
    return BatchMaker(encoder, plan, sentences, device=CPU, guide=guide, cache=None, **options)


def rows_of(encoder, inputs):
    return [row[: int(length)].tolist() for row, length in zip(inputs.ids, inputs.mask.sum(1), strict=True)]


def test_inputs_hold_the_sentences_of_the_plan_padded(encoder):
    maker = maker_of(encoder)
    texts = [SENTENCES[position] for position in maker.plan.positions(3)]
    inputs = maker(3)
    assert rows_of(encoder, inputs) == encoder.tokenize(texts)
    assert inputs.ids.shape == inputs.mask.shape == (8, max(map(len, encoder.tokenize(texts))))
    assert (inputs.ids[inputs.mask == 0] == encoder.pad_id).all()
    assert inputs.views is None
    assert inputs.same is None


def test_width_can_be_rounded_up(encoder):
    assert maker_of(encoder, width_of=lambda longest: longest + 5)(0).ids.shape[1] == maker_of(encoder)(0).ids.shape[1] + 5


@pytest.mark.parametrize("paraphrases", [None, PARAPHRASES], ids=["sentence again", "paraphrase"])
def test_a_second_pass_follows_the_first(encoder, paraphrases):
    maker = maker_of(encoder, second_pass=True, paraphrases=paraphrases)
    positions = maker.plan.positions(0)
    first, second = ([texts[position] for position in positions] for texts in (SENTENCES, paraphrases or SENTENCES))
    assert rows_of(encoder, maker(0)) == encoder.tokenize(first) + encoder.tokenize(second)


@pytest.mark.parametrize("paraphrases", [None, PARAPHRASES], ids=["sentence", "paraphrase"])
def test_the_guide_reads_the_sentence_or_its_paraphrase(encoder, guide, paraphrases):
    maker = maker_of(encoder, guide=guide, paraphrases=paraphrases)
    read = [(paraphrases or SENTENCES)[position] for position in maker.plan.positions(0)]
    inputs = maker(0)
    expected = torch.cat([guide.views(*encoder.pad(encoder.tokenize([text]))) for text in read])
    torch.testing.assert_close(inputs.views, expected)
    assert rows_of(encoder, inputs) == encoder.tokenize([SENTENCES[position] for position in maker.plan.positions(0)])


def test_one_layer_is_drawn_for_each_sentence(encoder, guide):
    everything = maker_of(encoder, guide=guide)(0).views
    generator = torch.Generator().manual_seed(5)
    drawn = maker_of(encoder, guide=guide, all_layers=False, layer_generator=generator)(0).views
    layers = torch.randint(5, (8,), generator=torch.Generator().manual_seed(5))
    assert len(set(layers.tolist())) > 1
    torch.testing.assert_close(drawn, torch.stack([views[layer] for views, layer in zip(everything, layers, strict=True)]))


def test_identical_sentences_are_marked_when_asked(encoder):
    repeated = (*SENTENCES[:4], *SENTENCES[:4])
    maker = maker_of(encoder, sentences=repeated, mask_duplicates=True)
    texts = [repeated[position] for position in maker.plan.positions(0)]
    assert maker(0).same.tolist() == [[a == b for b in texts] for a in texts]
    assert maker_of(encoder, sentences=repeated)(0).same is None
