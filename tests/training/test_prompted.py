"""Training with a template: what encoder and guide read, what the folder and its card say, and training on from it."""

import json

import numpy as np
import pytest
import torch

import selfguide
from selfguide.choices import MEANING_TEMPLATE
from selfguide.data.pairs import read_pairs
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.encoders.guide import Guide
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.saving import save_encoder
from selfguide.encoders.template import template_of, with_template, without_template
from selfguide.errors import InputError
from selfguide.files import read_json, read_json_lines
from selfguide.training.batches import BatchMaker, BatchPlan
from selfguide.training.progress import Silent
from selfguide.training.scoring import DevScore
from selfguide.training.train import run_training
from tiny_runs import PARAPHRASES, SENTENCES, same_bits, weights_of

OTHER = '{cls} the " {sentence} " in {mask} .'
TEXTS = [*SENTENCES, "the cat " * 60]
SMALL = {"steps": 4, "batch_size": 8, "projection_width": 32, "learning_rate": 1e-3, "device": "cpu"}


def train(model, output, text, **settings):
    given = {"model": str(model), "output": str(output), "data": (text["sentences"],), **SMALL, **settings}
    run_training(given, progress=Silent())
    return output


@pytest.fixture(scope="module")
def prompted(tiny_folder, text, tmp_path_factory):
    """A finished run; to be read, never written to."""
    folder = tmp_path_factory.mktemp("prompted") / "out"
    return train(tiny_folder("bert"), folder, text, preset="prompted", dev=text["pairs"], score_every=2)


# What is read


@pytest.mark.parametrize("second_pass", [False, True])
@pytest.mark.parametrize("paraphrases", [None, PARAPHRASES], ids=["sentences", "paraphrases"])
@pytest.mark.parametrize("guided", [False, True])
def test_encoder_and_guide_read_each_its_own(tiny_bert, second_pass, paraphrases, guided):
    """Without a cache of views, as for a guide with dropout; the second pass of the encoder has the template too."""
    plain = load_encoder(tiny_bert)
    encoder, guide = with_template(plain, MEANING_TEMPLATE), Guide(plain, layers=(0, 2, 4), pooling="max")
    plan = BatchPlan(len(SENTENCES), 8, seed=1)
    maker = BatchMaker(
        *(encoder, plan, SENTENCES),
        device=torch.device("cpu"),
        guide=guide if guided else None,
        cache=None,
        paraphrases=paraphrases,
        second_pass=second_pass,
    )
    inputs, positions = maker(0), plan.positions(0)
    own, other = ([texts[position] for position in positions] for texts in (SENTENCES, paraphrases or SENTENCES))
    again = [] if not second_pass else own if guided else other
    rows = [row[: int(length)].tolist() for row, length in zip(inputs.ids, inputs.mask.sum(1), strict=True)]
    assert rows == encoder.tokenize([*own, *again])
    if guided:
        torch.testing.assert_close(inputs.views, guide.views_of_rows(plain.tokenize(other)))
    else:
        assert inputs.views is None


@pytest.mark.parametrize("settings", [{}, {"guide_dropout": True}, {"objective": "simcse"}, {"simcse_weight": 1.0}], ids=str)
def test_a_template_changes_what_is_learned(tiny_bert, text, tmp_path, settings):
    with_one, without = (
        weights_of(train(tiny_bert, tmp_path / name, text, **settings, **template))
        for name, template in (("with", {"template": MEANING_TEMPLATE}), ("without", {}))
    )
    assert not same_bits(with_one, without)


# Scores and the folder


def test_the_dev_score_is_that_of_the_folder(prompted, text):
    summary = read_json(prompted / "selfguide" / "summary.json")
    score = DevScore(load_encoder(prompted), read_pairs(text["pairs"]), pooling="cls")
    assert score() == pytest.approx(summary["after"], abs=1e-3)
    bare = DevScore(without_template(load_encoder(prompted)), score.pairs, pooling="cls")
    assert bare() != pytest.approx(summary["after"], abs=0.1)


def test_a_score_function_gets_the_prompted_embedder(tiny_bert, text, tmp_path):
    seen = []

    def score(embedder):
        seen.append(embedder.encode(TEXTS))
        return float(len(seen))

    options = {name: value for name, value in SMALL.items() if name != "steps"}
    model = selfguide.train(
        tiny_bert, text["sentences"], tmp_path / "out", score=score, progress=False, steps=1, template=OTHER, **options
    )
    start = with_template(load_encoder(tiny_bert), OTHER)
    assert seen[0] == pytest.approx(PooledEmbedder(start).encode(TEXTS), abs=1e-5)
    assert seen[-1] == pytest.approx(model.encode([text.strip() for text in TEXTS]), abs=1e-5)
    assert not np.allclose(seen[0], seen[-1], atol=1e-3)


def test_the_folder_and_its_record_have_the_template(prompted, tiny_bert):
    expected = with_template(load_encoder(tiny_bert), MEANING_TEMPLATE).tokenize(TEXTS)
    assert load_encoder(prompted).tokenize(TEXTS) == expected
    assert read_json(prompted / "selfguide" / "config.json")["template"] == MEANING_TEMPLATE
    for row in read_json_lines(prompted / "selfguide" / "scores.jsonl"):
        assert row["protocol"]["template"].startswith("[MASK] is the meaning of")


def test_the_card_says_what_is_inside(prompted):
    card = " ".join((prompted / "README.md").read_text(encoding="utf-8").split())
    assert "the first token ([MASK]) of the last layer" in card
    assert "This template is inside the tokenizer (`tokenizer.json`)" in card
    assert "nothing has to be added" in card
    # the tiny vocabulary has no quotation mark and no full stop
    assert "reads every sentence as `[MASK] is the meaning of [UNK] {sentence} [UNK] [UNK] [SEP]`" in card


def test_the_card_of_a_plain_run_speaks_of_no_template(tiny_folder, text, tmp_path):
    for family, token in (("bert", "[CLS]"), ("roberta", "<s>")):
        card = (train(tiny_folder(family), tmp_path / family, text) / "README.md").read_text(encoding="utf-8")
        assert f"the first token ({token}) of the last layer" in " ".join(card.split())
        assert "template" not in card


# Training on


@pytest.mark.parametrize("template", [None, OTHER], ids=["kept", "replaced"])
def test_training_on_from_a_folder_with_a_template(prompted, text, tmp_path, template):
    """The guide reads plain sentences again: as from the same weights with a plain tokenizer and the template given."""
    wanted = template or MEANING_TEMPLATE
    (tmp_path / "plain").mkdir()
    save_encoder(without_template(load_encoder(prompted)), tmp_path / "plain")
    on = train(prompted, tmp_path / "on", text, **({"template": template} if template else {}))
    anew = train(tmp_path / "plain", tmp_path / "anew", text, template=wanted)
    assert same_bits(weights_of(on), weights_of(anew))
    assert load_encoder(on).tokenize(TEXTS) == load_encoder(anew).tokenize(TEXTS)
    assert template_of(load_encoder(on)) == template_of(with_template(load_encoder(tmp_path / "plain"), wanted))
    assert "This template is inside the tokenizer" in (on / "README.md").read_text(encoding="utf-8")


def test_an_encoder_without_a_mask_token(tiny_bert, text, tmp_path):
    encoder = load_encoder(tiny_bert)
    encoder.tokenizer.mask_token = None
    save_encoder(encoder, tmp_path)
    config = read_json(tmp_path / "tokenizer_config.json") | {"tokenizer_class": "PreTrainedTokenizerFast"}
    config.pop("mask_token", None)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"asks for \{mask\}, and the tokenizer of '.*' has no mask token"):
        train(tmp_path, tmp_path / "out", text, preset="prompted")
