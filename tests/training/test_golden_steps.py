"""Training against the same steps written once more from the formulas: every parameter after three steps."""

import json
import shutil

import pytest
import torch
from plain_training import PlainTraining

from selfguide.training.batches import BatchPlan
from selfguide.training.progress import Silent
from selfguide.training.train import run_training
from tiny_runs import SENTENCES, metrics_of, weights_of

STEPS, PEAK = 3, 1e-4

KEY_BIAS = "attention.self.key.bias"
"""The softmax over keys does not see this bias: its true gradient is 0, and AdamW follows the sign of rounding errors."""


@pytest.fixture(scope="module")
def calm_bert(tiny_folder, tmp_path_factory):
    """The tiny BERT with dropout 0."""
    folder = tmp_path_factory.mktemp("calm") / "bert"
    shutil.copytree(tiny_folder("bert"), folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def trained(folder, output, *, sentences=SENTENCES[:16], accumulation=1, **settings):
    data = output.with_suffix(".txt")
    data.write_text("".join(f"{sentence}\n" for sentence in sentences))
    given = {
        "model": str(folder),
        "data": (str(data),),
        "output": str(output),
        "steps": STEPS,
        "batch_size": 4,
        "accumulation": accumulation,
        "projection_width": 32,
        "learning_rate": PEAK,
        "warmup": 0.0,
        "device": "cpu",
    }
    run_training({**given, **settings}, progress=Silent())
    return weights_of(output)


def plain(folder, *, sentences=SENTENCES[:16], accumulation=1, **settings):
    training = PlainTraining(folder, **settings)
    plan = BatchPlan(len(sentences), 4, seed=1, accumulation=accumulation)
    for step in range(STEPS):
        batches = [[sentences[p] for p in plan.positions(step, part)] for part in range(accumulation)]
        training.step(batches, PEAK * (STEPS - step) / STEPS)
    return training


def assert_equal(found, training, initial):
    expected = training.encoder.state_dict()
    assert {name for name in found if not name.startswith("pooler.")} == expected.keys()
    moved = 0
    for name, tensor in expected.items():
        tolerance = 3 * PEAK if name.endswith(KEY_BIAS) else 1e-5
        torch.testing.assert_close(
            found[name], tensor, rtol=0, atol=tolerance, msg=lambda text, name=name: f"{name}: {text}"
        )
        moved += (tensor - initial[name]).abs().max() > PEAK / 2
    assert moved >= 4 * 12  # of 16 tensors a layer: else there would be nothing to compare


@pytest.mark.parametrize(
    "settings",
    [
        {"objective": "sg-opt"},
        {"objective": "sg"},
        {"objective": "sg-opt", "distance_weight": 10.0, "clip": 0.0},
        {"objective": "sg-opt", "temperature": 0.2, "weight_decay": 0.5, "betas": (0.8, 0.95)},
        {"objective": "sg-opt", "max_length": 4},
        {"objective": "sg-opt", "accumulation": 2},
        {"objective": "sg", "accumulation": 2},
    ],
    ids=lambda settings: " ".join(f"{name}={value}" for name, value in settings.items()),
)
def test_three_steps_are_those_of_the_formulas(calm_bert, tmp_path, settings):
    betas = settings.get("betas", (0.9, 0.9))
    ours = {name: value for name, value in settings.items() if name != "betas"}
    found = trained(calm_bert, tmp_path / "out", beta1=betas[0], beta2=betas[1], **ours)
    training = plain(calm_bert, **settings)
    assert [row["loss"] for row in metrics_of(tmp_path / "out")] == pytest.approx(training.losses, rel=1e-4)
    assert max(training.norms) > 1  # so that the limit of 1 does something
    assert_equal(found, training, weights_of(calm_bert))


TEMPLATES = {
    "{mask} : {sentence} near": "[MASK] : {sentence} near",
    "{cls} {sentence} in {mask}": "[CLS] {sentence} in [MASK]",
    "the old {sentence}": "the old {sentence}",
}


@pytest.mark.parametrize("settings", [{}, {"max_length": 9}, {"objective": "sg"}], ids=str)
@pytest.mark.parametrize("template", TEMPLATES)
def test_the_encoder_reads_the_template_and_the_guide_does_not(calm_bert, tmp_path, template, settings):
    settings = {"objective": "sg-opt", **settings}
    found = trained(calm_bert, tmp_path / "out", template=template, **settings)
    training = plain(calm_bert, template=TEMPLATES[template], **settings)
    assert [row["loss"] for row in metrics_of(tmp_path / "out")] == pytest.approx(training.losses, rel=1e-4)
    assert_equal(found, training, weights_of(calm_bert))


REPEATED = (*SENTENCES[:8], *SENTENCES[:8])


@pytest.mark.parametrize("masked", [True, False])
def test_identical_sentences_of_a_batch(calm_bert, tmp_path, masked):
    plan = BatchPlan(16, 4, seed=1)
    assert any(len({p % 8 for p in plan.positions(step)}) < 4 for step in range(STEPS))  # some do meet
    found = trained(calm_bert, tmp_path / "out", sentences=REPEATED, deduplicate=False, mask_duplicates=masked)
    training = plain(calm_bert, sentences=REPEATED, objective="sg-opt", masked=masked)
    assert_equal(found, training, weights_of(calm_bert))


def test_the_comparison_can_fail(calm_bert, tmp_path):
    settings = {"objective": "sg-opt", "weight_decay": 0.5, "distance_weight": 1.0}
    found = trained(calm_bert, tmp_path / "out", **settings)
    assert_equal(found, plain(calm_bert, **settings), weights_of(calm_bert))
    for wrong in ({"weight_decay": 0.4}, {"distance_weight": 0.5}, {"temperature": 0.0101}, {"clip": 0.5}, {"seed": 2}):
        with pytest.raises(AssertionError, match="not close"):
            assert_equal(found, plain(calm_bert, **{**settings, **wrong}), weights_of(calm_bert))
