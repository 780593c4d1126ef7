"""GLUE by fine-tuning: metrics, inputs, training loop, choice of the learning rate, rows."""

import copy
import dataclasses
import json
import random

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef
from transformers import get_linear_schedule_with_warmup

from selfguide.data.glue import TASKS
from selfguide.encoders.fingerprint import weights_sha256
from selfguide.encoders.loading import load_encoder
from selfguide.errors import InputError, MissingDataError, SelfguideError
from selfguide.evaluation.finetuning import Classifier, EncodedTexts, FineTuning, fine_tune, predict, rate_factor
from selfguide.evaluation.glue import TASK_EPOCHS, TASK_METRICS, accuracy, f1, glue_scores, matthews
from tiny_models import ENCODERS, WORDS

CPU = torch.device("cpu")
FILLERS = [word for word in WORDS if word not in ("cat", "dog")]
PAIRS = [("the cat sits", "a dog"), ("bird", "the quickest man runs near the red house in the park"), ("a", "the")]


def toy_examples(count, seed):
    """Sentences of class 1 hold a cat, those of class 0 a dog."""
    draw = random.Random(seed)
    texts, labels = [], []
    for _ in range(count):
        label = draw.randrange(2)
        words = draw.choices(FILLERS, k=draw.randint(1, 5))
        words.insert(draw.randrange(len(words) + 1), ("dog", "cat")[label])
        texts.append((" ".join(words),))
        labels.append(label)
    return texts, labels


def write_toy(folder, name="SST-2", *, train=256, flip=0):
    """A toy task as files; of its validation set, the first ``flip`` labels are wrong."""
    place = folder / "glue" / name
    place.mkdir(parents=True)
    for file, count, wrong in (("train.tsv", train, 0), ("dev.tsv", 100, flip)):
        texts, labels = toy_examples(count, seed=count)
        labels = [1 - label if row < wrong else label for row, label in enumerate(labels)]
        second = ["bird"] * (len(TASKS[name].columns) - 1)
        lines = ["\t".join([str(label), *text, *second]) for label, text in zip(labels, texts, strict=True)]
        (place / file).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def trained(encoder, *, seed=1, learning_rate=3e-3, examples=64, **settings):
    texts, labels = toy_examples(examples, seed=0)
    inputs = EncodedTexts(encoder, texts, max_length=32, device=CPU)
    settings = FineTuning(**{"epochs": 1, **settings})
    return fine_tune(encoder, inputs, labels, classes=2, learning_rate=learning_rate, settings=settings, seed=seed)


def same(left, right):
    return [bool(torch.equal(a, b)) for a, b in zip(left.parameters(), right.parameters(), strict=True)]


@pytest.fixture(scope="module", autouse=True)
def single_thread():
    """Operations on tiny tensors: on a busy machine a second thread costs far more than it gives."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def encoder(tiny_folder):
    return load_encoder(tiny_folder("bert"))


# metrics


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("size", [1, 7, 1000])
def test_metrics_are_those_of_sklearn(share, size):
    draw = np.random.default_rng(size)
    gold = draw.integers(0, 2, size)
    predicted = np.where(draw.random(size) < share, gold, draw.integers(0, 2, size))
    for guess in (predicted, np.zeros_like(gold), np.ones_like(gold), 1 - gold):
        assert accuracy(guess, gold) == pytest.approx(100 * accuracy_score(gold, guess))
        assert f1(guess, gold) == pytest.approx(100 * f1_score(gold, guess, zero_division=0))
        if len(set(gold) | set(guess)) == 2:  # of a single class on both sides sklearn warns
            assert matthews(guess, gold) == pytest.approx(100 * matthews_corrcoef(gold, guess))
        else:
            assert matthews(guess, gold) == 0.0


def test_every_task_has_metrics_and_epochs():
    assert list(TASK_METRICS) == list(TASK_EPOCHS) == list(TASKS)


# inputs


@pytest.mark.parametrize("max_length", [48, 10])
def test_pairs_are_the_tokenizers_own_pairs(encoder, max_length):
    inputs = EncodedTexts(encoder, PAIRS, max_length=max_length, device=CPU)
    firsts, seconds = zip(*PAIRS, strict=True)
    own = encoder.tokenizer(
        list(firsts), list(seconds), truncation=True, max_length=max_length, padding=True, return_tensors="pt"
    )
    assert set(inputs.tensors) == {"input_ids", "token_type_ids", "attention_mask"} == set(own)
    for name, tensor in inputs.tensors.items():
        assert torch.equal(tensor, own[name])
    assert inputs.tensors["token_type_ids"].sum(dim=1).tolist() == (own["token_type_ids"] == 1).sum(dim=1).tolist()
    assert (inputs.tensors["token_type_ids"].amax(dim=1) == 1).all()


def test_batches_are_cut_at_the_longest_row_and_lose_nothing(encoder):
    texts, _ = toy_examples(50, seed=3)
    inputs = EncodedTexts(encoder, [*texts, ("the man " * 15,)], max_length=48, device=CPU)
    order = torch.randperm(51, generator=torch.Generator().manual_seed(0))
    seen = []
    for positions, batch in inputs.batches(order, 8):
        longest = int(inputs.lengths[positions].max())
        assert longest <= batch["input_ids"].shape[1] < longest + 8
        assert torch.equal(batch["attention_mask"].sum(dim=1), inputs.lengths[positions])
        seen += positions.tolist()
    assert seen == order.tolist()


@pytest.mark.parametrize("family", sorted(set(ENCODERS) - {"modernbert"}))
def test_every_family_takes_pairs(tiny_folder, family):
    encoder = load_encoder(tiny_folder(family))
    inputs = EncodedTexts(encoder, PAIRS, max_length=48, device=CPU)
    classifier = Classifier(encoder.model, dim=encoder.dim, classes=2, dropout=0.1)
    assert predict(classifier, inputs).shape == (3,)
    has_segments = family in ("bert", "electra", "albert")
    assert ("token_type_ids" in inputs.tensors and bool(inputs.tensors["token_type_ids"].any())) == has_segments


def test_tokenizer_without_a_template_for_pairs(tiny_folder):
    encoder = load_encoder(tiny_folder("modernbert"))
    EncodedTexts(encoder, [("a cat",)], max_length=48, device=CPU)
    with pytest.raises(InputError, match=r"does not begin an input of 2 texts with \[CLS\]"):
        EncodedTexts(encoder, PAIRS, max_length=48, device=CPU)


# training


def test_schedule_is_linear_with_warmup():
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    reference = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=4, num_training_steps=40)
    for step in range(40):
        assert rate_factor(step, steps=40, warmup=0.1) == pytest.approx(reference.get_last_lr()[0])
        optimizer.step()
        reference.step()
    assert rate_factor(0, steps=3, warmup=0.1) == 1.0


# AdamW feels a clipped norm only where gradients come near its epsilon; far from it, it enlarges differences in rounding
@pytest.mark.parametrize(("clip", "tolerance"), [(1.0, 2e-4), (1e-6, 1e-5)])
def test_training_is_the_loop_one_would_write_down_first(encoder, clip, tolerance):
    """Against single-tensor AdamW and transformers' schedule, all padded to one length; without dropout, so alike."""
    model = copy.deepcopy(encoder.model)
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    ours = trained(
        dataclasses.replace(encoder, model=model),
        learning_rate=1e-3,
        examples=40,
        epochs=2,
        batch_size=16,
        clip=clip,
        dropout=0.0,
        weight_decay=5.0,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        plain = Classifier(model, dim=encoder.dim, classes=2, dropout=0.0).train()
        orders = [torch.randperm(40) for _ in range(2)]
    decayed, others = ([p for p in plain.parameters() if (p.ndim > 1) == is_matrix] for is_matrix in (True, False))
    groups = [{"params": decayed, "weight_decay": 5.0}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, foreach=False)
    schedule = get_linear_schedule_with_warmup(optimizer, num_warmup_steps=0, num_training_steps=6)
    texts, labels = toy_examples(40, seed=0)
    encoded = encoder.tokenizer([text for (text,) in texts], padding="max_length", max_length=32, return_tensors="pt")
    for rows in (rows for order in orders for rows in order.split(16)):
        logits = plain({name: tensor[rows] for name, tensor in encoded.items()})
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits, torch.tensor(labels)[rows]).backward()
        torch.nn.utils.clip_grad_norm_(plain.parameters(), clip)
        optimizer.step()
        schedule.step()
    for (name, mine), theirs in zip(ours.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}")


def test_head_and_encoder_move_and_the_given_encoder_does_not(encoder):
    before = {name: tensor.clone() for name, tensor in encoder.model.state_dict().items()}
    state = torch.get_rng_state()
    start, end = trained(encoder, learning_rate=0.0, weight_decay=0.0), trained(encoder)
    assert not any(same(start.head, end.head))
    assert not any(same(start.encoder.encoder, end.encoder.encoder))
    assert not torch.equal(start.encoder.embeddings.word_embeddings.weight, end.encoder.embeddings.word_embeddings.weight)
    assert all(same(start.encoder, encoder.model))
    assert all(torch.equal(tensor, before[name]) for name, tensor in encoder.model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)


def test_seeds_reproduce_bit_for_bit(encoder):
    first, again, other = trained(encoder, seed=5), trained(encoder, seed=5), trained(encoder, seed=6)
    assert all(same(first, again))
    assert not any(same(first.head, other.head))


def test_the_learning_rate_does_not_change_where_training_starts(encoder):
    slow, fast = (trained(encoder, learning_rate=rate, weight_decay=0.0) for rate in (1e-9, 2e-9))
    for left, right in zip(slow.head.parameters(), fast.head.parameters(), strict=True):
        torch.testing.assert_close(left, right, rtol=0, atol=1e-7)


def test_predictions_do_not_depend_on_the_batch(encoder):
    classifier = trained(encoder, examples=256, epochs=3)
    texts, _ = toy_examples(30, seed=9)
    inputs = EncodedTexts(encoder, texts, max_length=48, device=CPU)
    together = predict(classifier, inputs)
    assert set(together) == {0, 1}
    assert predict(classifier, inputs, batch_size=1).tolist() == predict(classifier, inputs, batch_size=7).tolist()
    assert predict(classifier, inputs, batch_size=1).tolist() == together.tolist()


def test_diverged_training_is_said(encoder):
    classifier = trained(encoder, learning_rate=float("inf"))
    texts, _ = toy_examples(8, seed=0)
    with pytest.raises(SelfguideError, match="logits that are not finite; lower the learning rate"):
        predict(classifier, EncodedTexts(encoder, texts, max_length=32, device=CPU))


@pytest.mark.parametrize("precision", ["float32", "bf16"])
def test_mixed_precision_learns_and_leaves_float32_weights(encoder, precision):
    classifier = trained(encoder, examples=256, epochs=6, precision=precision)
    texts, labels = toy_examples(100, seed=11)
    predicted = predict(classifier, EncodedTexts(encoder, texts, max_length=32, device=CPU))
    assert accuracy(predicted, np.asarray(labels)) > 95
    assert {parameter.dtype for parameter in classifier.parameters()} == {torch.float32}


# rows


def test_a_toy_task_is_learnt_and_its_rows_say_how(tiny_bert, tmp_path):
    steps = []
    rows = glue_scores(
        tiny_bert,
        ["SST-2"],
        data=write_toy(tmp_path),
        seeds=[1, 2],
        device="cpu",
        learning_rates=(1e-6, 3e-3),
        epochs=6,
        progress=lambda what, step, steps_in_all: steps.append((what, step, steps_in_all)),
    )
    assert [(row.dataset, row.metric, row.seed, row.split) for row in rows] == [
        ("SST-2", "accuracy", seed, "validation-last-90%") for seed in (1, 2)
    ]
    for row in rows:
        assert row.value > 95
        assert row.embedder == f"{tiny_bert.name}/fine-tuned"
        assert row.protocol["learning_rate"] == 3e-3
        assert row.protocol["selected_by_labels"] is True
        assert row.protocol["examples"] == {"train": 256, "selection": 10, "test": 90}
        assert row.protocol["max_length"] == 48  # the positions of the tiny model
        assert "pooler not used" in row.protocol["head"]
        assert row.protocol["weights"] == weights_sha256(load_encoder(tiny_bert).model)
        assert json.loads(json.dumps(row.as_json())) == row.as_json()
    assert rows[0].run_id != rows[1].run_id
    assert [step for what, step, _ in steps if what == "SST-2 seed 2 learning rate 0.003"] == list(range(1, 49))
    assert {total for *_, total in steps} == {48}


def test_mrpc_has_two_metrics_and_rows_reproduce(tiny_bert, tmp_path):
    write_toy(tmp_path, "MRPC", train=64)
    options = {"data": tmp_path, "seeds": [3], "device": "cpu", "learning_rates": [3e-3], "embedder": "tiny/sg-opt"}
    rows = glue_scores(tiny_bert, ["MRPC"], **options)
    assert [(row.metric, row.embedder) for row in rows] == [("f1", "tiny/sg-opt"), ("accuracy", "tiny/sg-opt")]
    assert rows[0].protocol["epochs"] == 3
    assert rows[0].protocol["selected_by_labels"] is False
    assert glue_scores(tiny_bert, ["MRPC"], **options) == rows


def test_the_learning_rate_is_chosen_on_the_selection_part_only(tiny_bert, tmp_path):
    """The labels of the first 10% are wrong: there the rate that learns is the worst, though it is the best on the rest."""
    options = {"seeds": [1], "device": "cpu", "epochs": 6}
    (row,) = glue_scores(tiny_bert, ["SST-2"], data=write_toy(tmp_path, flip=10), learning_rates=(3e-3, 1e-6), **options)
    assert row.protocol["learning_rate"] == 1e-6
    assert row.protocol["selection_scores"]["0.003"] == 0.0 < row.protocol["selection_scores"]["1e-06"]
    (good,) = glue_scores(tiny_bert, ["SST-2"], data=tmp_path, learning_rates=[3e-3], **options)
    assert row.value < 80 < 95 < good.value


def test_of_equal_learning_rates_the_first_is_chosen(tiny_bert, tmp_path):
    options = {"data": write_toy(tmp_path, train=32), "seeds": [1], "device": "cpu", "epochs": 1}
    for rates in ((1e-9, 2e-9), (2e-9, 1e-9)):
        (row,) = glue_scores(tiny_bert, ["SST-2"], learning_rates=rates, **options)
        assert len(set(row.protocol["selection_scores"].values())) == 1
        assert row.protocol["learning_rate"] == rates[0]


def test_data_is_read_before_anything_is_trained(tiny_bert, tmp_path):
    with pytest.raises(MissingDataError, match=r"CoLA/train\.tsv: no such file"):
        glue_scores(
            tiny_bert, ["SST-2", "CoLA"], data=write_toy(tmp_path), seeds=[1], progress=lambda *_: pytest.fail("trained")
        )


def test_nothing_to_do_is_refused(tiny_bert, tmp_path):
    with pytest.raises(InputError, match="at least one task, one seed and one learning rate"):
        glue_scores(tiny_bert, ["SST-2"], data=tmp_path, seeds=[])


@pytest.mark.parametrize("setting", ["epochs", "batch_size", "max_length"])
def test_settings_out_of_range(tiny_bert, tmp_path, setting):
    with pytest.raises(InputError, match=rf"{setting.replace('_', ' ')} 0 was asked for; fine-tuning needs at least"):
        glue_scores(tiny_bert, ["SST-2"], data=write_toy(tmp_path), seeds=[1], device="cpu", **{setting: 0})


def test_unknown_device(tiny_bert, tmp_path):
    with pytest.raises(InputError, match="device 'tpu' is not known"):
        glue_scores(tiny_bert, ["SST-2"], data=tmp_path, seeds=[1], device="tpu")
