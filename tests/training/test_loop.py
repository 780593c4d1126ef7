"""Whole runs on a tiny BERT: what is learned, what is repeatable, how long it goes on, what is kept and what is written."""

import json
import logging
import math
from pathlib import Path

import pytest
import torch
from sentence_transformers import SentenceTransformer

import selfguide
from selfguide.encoders.loading import load_encoder
from selfguide.errors import InputError, SelfguideError
from selfguide.files import only_one, read_json, read_json_lines
from selfguide.guidance import MONITORS
from selfguide.training import assembly
from selfguide.training import train as train_module
from selfguide.training.train import run_training
from tiny_runs import PAIRS, PARAPHRASES, SENTENCES, Watcher, metrics_of, same_bits, tree, weights_of


@pytest.fixture
def run(tiny_bert, text, tmp_path):
    """Trains into a folder of the test; gives the folder and the summary."""

    def train_into(name="out", *, progress=None, score=None, resume=False, **settings):
        given = {
            "model": str(tiny_bert),
            "output": str(tmp_path / name),
            "batch_size": 8,
            "projection_width": 32,
            "device": "cpu",
            **({} if "paraphrases" in settings else {"data": (text["sentences"],)}),
            **settings,
        }
        summary = run_training(given, progress=progress or Watcher(), score=score, resume=resume)
        return tmp_path / name, summary

    return train_into


def losses_of(output):
    return [row["loss"] for row in metrics_of(output) if "loss" in row]


def scores_of(output):
    return {row["step"]: row["dev"] for row in metrics_of(output) if "dev" in row}


# What is learned


@pytest.mark.parametrize("objective", ["sg-opt", "sg", "opt1", "opt2"])
def test_training_reduces_the_loss(run, objective):
    output, _ = run(objective=objective, steps=40, learning_rate=2e-3)
    losses = losses_of(output)
    assert sum(losses[-5:]) < 0.7 * sum(losses[4:9])  # from the fifth step on: before, the rate rises from 0


def test_layer_0_stays_and_the_rest_moves(run, tiny_bert):
    output, _ = run(steps=3, warmup=0.0)
    before, after = weights_of(tiny_bert), weights_of(output)
    still = {name for name in before if torch.equal(before[name], after[name])}
    assert still == {name for name in before if name.startswith(("embeddings.", "pooler."))}


def test_layer_0_moves_when_it_is_not_frozen(run, tiny_bert):
    output, _ = run(steps=3, warmup=0.0, freeze_embeddings=False)
    before, after = weights_of(tiny_bert), weights_of(output)
    assert not torch.equal(before["embeddings.word_embeddings.weight"], after["embeddings.word_embeddings.weight"])
    assert torch.equal(before["pooler.dense.weight"], after["pooler.dense.weight"])


def test_distance_holds_the_encoder_back(run):
    near, far = (
        run(name, steps=15, learning_rate=1e-3, distance_weight=w)[1] for name, w in (("near", 100.0), ("far", 0.1))
    )
    assert near.last["distance"] < 0.5 * far.last["distance"]


# What is repeatable


def test_the_same_seed_gives_the_same_bits_and_another_does_not(run):
    """With dropout in the encoder, and whatever the process has drawn before."""
    first, _ = run("first", steps=6, seed=3)
    torch.manual_seed(99)
    torch.rand(5)
    again, _ = run("again", steps=6, seed=3)
    other, _ = run("other", steps=6, seed=4)
    assert same_bits(weights_of(first), weights_of(again))
    assert metrics_of(first) == metrics_of(again)
    assert not same_bits(weights_of(first), weights_of(other))


def test_a_run_leaves_the_process_as_it_was(run):
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    run(steps=2)
    assert torch.equal(torch.rand(3), expected)


# How long it goes on


@pytest.mark.parametrize(
    ("settings", "steps"),
    [({"steps": 3}, 3), ({"epochs": 1}, 5), ({"epochs": 2}, 10), ({"epochs": 2, "accumulation": 2}, 5), ({"steps": 7}, 7)],
)
def test_steps_and_epochs(run, settings, steps):
    """40 sentences in batches of 8."""
    output, summary = run(**settings)
    assert summary.steps_taken == summary.steps_planned == steps
    assert [row["step"] for row in metrics_of(output)] == list(range(1, steps + 1))


def test_with_dev_pairs_one_epoch_is_the_default(run, text, caplog):
    with caplog.at_level(logging.INFO, "selfguide"):
        _, summary = run(dev=text["pairs"])
    assert summary.steps_planned == 5
    assert "no labelled pairs" not in caplog.text


def test_without_dev_pairs_a_fixed_number_of_steps_is_taken_and_said(run, caplog, monkeypatch):
    """The number is 300 (see the test of the configuration); here fewer, for time."""
    monkeypatch.setattr(assembly, "STEPS_WITHOUT_LABELS", 4)
    with caplog.at_level(logging.INFO, "selfguide"):
        _, summary = run()
    assert summary.steps_taken == 4
    (warning,) = (record for record in caplog.records if record.levelno == logging.WARNING)
    assert "no labelled pairs were given (--dev)" in warning.getMessage()
    assert "stops after 4 steps" in warning.getMessage()
    assert "--steps changes that" in warning.getMessage()
    assert "40 sentences kept of 40 read" in caplog.text


@pytest.mark.parametrize("settings", [{"steps": 2}, {"epochs": 1}])
def test_nothing_is_said_when_the_number_of_steps_was_chosen(run, caplog, settings):
    run(**settings)
    assert "no labelled pairs" not in caplog.text


# What is kept


class Scripted:
    """Gives the scores of a script, first the one before training, and keeps the weights at each."""

    def __init__(self, *scores):
        self.scores, self.weights = list(scores), []

    def __call__(self, embedder):
        assert embedder.encode(SENTENCES[:2]).shape == (2, 32)
        self.weights.append({name: tensor.clone() for name, tensor in embedder.encoder.model.state_dict().items()})
        return self.scores[len(self.weights) - 1]


def kept_weights(output):
    return {name: tensor for name, tensor in weights_of(output).items() if not name.startswith("pooler.")}


def test_the_weights_of_the_best_score_are_kept(run):
    score = Scripted(50, 1, 5, 3, 2)
    output, summary = run(score=score, steps=8, score_every=2)
    assert scores_of(output) == {2: 1, 4: 5, 6: 3, 8: 2}
    assert (summary.before, summary.after, summary.kept_step, summary.steps_taken) == (50, 5, 4, 8)
    assert same_bits(kept_weights(output), score.weights[2])
    assert not same_bits(kept_weights(output), score.weights[-1])


def test_training_stops_when_the_best_has_stood_long_enough(run):
    score = Scripted(0, 1, 5, 3, 4, 2, 9, 9, 9)
    output, summary = run(score=score, steps=16, score_every=2, patience=3)
    assert (summary.kept_step, summary.steps_taken, summary.steps_planned) == (4, 10, 16)
    assert len(losses_of(output)) == 10
    assert same_bits(kept_weights(output), score.weights[2])


def test_the_last_step_is_always_scored(run):
    output, summary = run(score=Scripted(0, 1, 2), steps=5, score_every=3)
    assert list(scores_of(output)) == [3, 5]
    assert summary.kept_step == 5


def test_without_scores_the_last_weights_are_kept(run):
    _, summary = run(steps=4)
    assert (summary.before, summary.after, summary.kept_step) == (None, None, 4)


def test_scoring_does_not_disturb_training(run, text):
    scored, _ = run("scored", dev=text["pairs"], steps=4, score_every=1, patience=0)
    silent, _ = run("silent", steps=4)
    assert losses_of(scored) == losses_of(silent)


def test_dev_pairs_choose_and_it_is_said(run, text):
    output, summary = run(dev=text["pairs"], steps=6, score_every=2, learning_rate=1e-3)
    scores = scores_of(output)
    assert summary.kept_step == max(scores, key=scores.get)
    before, after = read_json_lines(output / "selfguide" / "scores.jsonl")
    assert before["protocol"]["selected_by_labels"] is False
    assert after["protocol"]["selected_by_labels"] is True
    assert after["protocol"]["step"] == summary.kept_step
    assert (before["value"], after["value"]) == (summary.before, summary.after) == (summary.before, max(scores.values()))
    assert (before["seed"], after["seed"]) == (None, 1)
    assert before["embedder"].endswith("/cls") and after["embedder"].endswith("/sg-opt")
    assert (after["dataset"], after["metric"], after["split"]) == ("pairs", "spearman", "dev")
    card = (output / "README.md").read_text()
    assert "The labels of these pairs chose the checkpoint" in card
    assert f"{summary.before:.2f} | {summary.after:.2f}" in card


def test_the_dev_score_is_that_of_the_saved_folder(run, text):
    from scipy.stats import spearmanr

    output, summary = run(dev=text["pairs"], steps=4, score_every=2, learning_rate=1e-3)
    model = SentenceTransformer(str(output), device="cpu")
    left, right = (torch.from_numpy(model.encode([pair[side] for pair in PAIRS])) for side in (1, 2))
    cosines = torch.cosine_similarity(left, right)
    assert summary.after == pytest.approx(100 * spearmanr(cosines, [pair[0] for pair in PAIRS]).statistic, abs=0.01)


def test_a_score_function_sees_the_weights_of_each_step(run):
    """Not those of the first one, whose hash an embedder keeps: rows of an evaluation are found again by that hash."""
    seen = []

    def score(embedder):
        seen.append(embedder.protocol["weights"])
        return float(len(seen))

    run(score=score, steps=4, score_every=2)
    assert len(seen) == len(set(seen)) == 3


def test_a_score_function_chooses_and_the_card_says_so(run):
    output, _ = run(score=Scripted(1, 7), steps=2)
    card = (output / "README.md").read_text()
    assert "A score function given in Python chose the checkpoint: 1.00 before training, 7.00 after" in card
    assert "None" not in card
    assert read_json_lines(output / "selfguide" / "scores.jsonl") == []


def test_without_labels_the_card_says_so(run):
    output, _ = run(steps=2)
    assert "no score chose the checkpoint" in (output / "README.md").read_text()


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_a_score_that_is_no_number_is_refused(run, tmp_path, value):
    with pytest.raises(InputError, match=f"the score function gave {value}"):
        run(score=Scripted(1, value), steps=2)
    assert not (tmp_path / "out").exists()


def test_score_and_dev_exclude_each_other(run, text, tmp_path):
    with pytest.raises(InputError, match="both score and dev were given"):
        run(score=Scripted(1), dev=text["pairs"], steps=2)
    assert tree(tmp_path) == {}


def test_a_loss_that_is_no_number_ends_the_run(run, tmp_path):
    with pytest.raises(SelfguideError, match=r"the loss is (nan|inf) at step \d+, .*lower --learning-rate"):
        run(steps=10, learning_rate=1e30, clip=0.0, warmup=0.0)
    assert not (tmp_path / "out").exists()


# What is written


def test_every_step_has_all_monitors_and_all_are_finite(run, text):
    output, summary = run(dev=text["pairs"], steps=6, score_every=3)
    rows = metrics_of(output)
    assert [row["step"] for row in rows] == [1, 2, 3, 3, 4, 5, 6, 6]
    assert [tuple(row) for row in rows if "loss" in row] == [("step", *MONITORS)] * 6
    assert [tuple(row) for row in rows if "dev" in row] == [("step", "dev")] * 2
    assert all(math.isfinite(value) for row in rows for value in row.values())
    assert all(0 <= row["accuracy"] <= 1 for row in rows if "loss" in row)
    assert summary.last == {name: value for name, value in rows[-2].items() if name != "step"}


ENCODER_FILES = {
    "1_Pooling/config.json",
    "README.md",
    "config.json",
    "config_sentence_transformers.json",
    "model.safetensors",
    "modules.json",
    "sentence_bert_config.json",
    "tokenizer.json",
    "tokenizer_config.json",
}
RECORD_FILES = {
    "config.json",
    "environment.json",
    "map.json",
    "metrics.jsonl",
    "neighbours.json",
    "report.html",
    "scores.jsonl",
    "summary.json",
}


def test_the_output_folder_holds_this_and_nothing_else_is_left(run, tmp_path, text):
    output, _ = run(dev=text["pairs"], steps=4, score_every=2, checkpoint_every=1)
    files = {name for name in tree(output) if (output / name).is_file()}
    assert files == ENCODER_FILES | {f"selfguide/{name}" for name in RECORD_FILES}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_everybody_may_read_the_output(run):
    output, _ = run(steps=1)
    assert {path.stat().st_mode & 0o444 for path in output.rglob("*")} == {0o444}


def test_the_record_tells_how_it_came_about(run, tiny_bert, text):
    output, _ = run(steps=3, seed=5)
    config = read_json(output / "selfguide" / "config.json")
    assert (config["steps"], config["seed"], config["model"], config["data"]) == (3, 5, str(tiny_bert), [text["sentences"]])
    environment = read_json(output / "selfguide" / "environment.json")
    assert environment["device"] == "cpu"
    assert environment["precision"] == "float32"
    assert environment["packages"]["selfguide"] == selfguide.__version__
    assert environment["packages"]["torch"] == torch.__version__
    assert {"python", "platform", "cores", "threads", "command"} <= environment.keys()
    summary = read_json(output / "selfguide" / "summary.json")
    assert (summary["steps_taken"], summary["kept_step"], summary["dim"]) == (3, 3, 32)


class Tracker(Watcher):
    """Writes where accelerate's TensorBoard tracker does."""

    def __init__(self, checkpoints):
        self.folder = checkpoints / "selfguide"

    def start(self, step, steps):
        self.folder.mkdir()
        (self.folder / "events.out").write_text("curves")


def test_what_tensorboard_wrote_goes_into_the_record(run, tmp_path):
    output, _ = run(steps=1, progress=Tracker(tmp_path / "out.checkpoints"))
    assert (output / "selfguide" / "tensorboard" / "events.out").read_text() == "curves"


def test_the_longest_input_is_kept_with_the_encoder(run):
    output, _ = run(steps=1, max_length=7)
    assert SentenceTransformer(str(output), device="cpu").max_seq_length == 7
    assert load_encoder(output).max_length == 7


@pytest.mark.parametrize("anchor", ["cls", "mean", "max"])
def test_the_pooling_is_kept_with_the_encoder(run, anchor):
    output, _ = run(steps=1, anchor=anchor)
    assert SentenceTransformer(str(output), device="cpu")[1].get_config_dict()["pooling_mode"] == anchor


class Counter(Watcher):
    def __init__(self):
        self.counted = []

    def update(self, step, loss, sentences):
        self.counted.append(sentences)


@pytest.mark.parametrize("settings", [{"objective": "sg-opt"}, {"objective": "simcse"}, {"simcse_weight": 1.0}], ids=str)
def test_a_sentence_is_counted_once_though_some_objectives_read_it_twice(run, settings):
    counter = Counter()
    run(steps=3, progress=counter, **settings)
    assert counter.counted == [8, 16, 24]


# Through Python


def test_train_gives_a_sentence_transformer(tiny_bert, tmp_path, capfd):
    model = selfguide.train(
        tiny_bert,
        list(SENTENCES),
        tmp_path / "out",
        steps=2,
        batch_size=8,
        projection_width=32,
        device="cpu",
        progress=False,
    )
    assert isinstance(model, SentenceTransformer)
    assert model.encode(["the cat"]).shape == (1, 32)
    assert capfd.readouterr().out == ""


def test_train_knows_a_home_folder(tiny_bert, text, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    selfguide.train(str(tiny_bert), text["sentences"], "~/out", steps=1, batch_size=8, projection_width=32, progress=False)
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_train_takes_paths_and_lists_for_settings(tiny_bert, text, tmp_path):
    (tmp_path / "table.csv").write_text(
        "left,right\n" + "".join(f"{a},{b}\n" for a, b in zip(SENTENCES, PARAPHRASES, strict=True))
    )
    small = {"steps": 1, "batch_size": 8, "projection_width": 32, "device": "cpu", "progress": False}
    selfguide.train(tiny_bert, tmp_path / "table.csv", tmp_path / "out", column=["right"], dev=Path(text["pairs"]), **small)
    config = read_json(tmp_path / "out" / "selfguide" / "config.json")
    assert (config["column"], config["dev"]) == (["right"], text["pairs"])


def test_train_refuses_unknown_settings_with_a_hint(tiny_bert, tmp_path):
    with pytest.raises(InputError, match=r"'step' \(did you mean 'steps'\?\)"):
        selfguide.train(tiny_bert, list(SENTENCES), tmp_path / "out", step=5)
    assert tree(tmp_path) == {}


def test_train_refuses_data_beside_paraphrases(tiny_bert, text, tmp_path):
    with pytest.raises(InputError, match="data and paraphrases were both given"):
        selfguide.train(
            tiny_bert, list(SENTENCES), tmp_path / "out", objective="bt", paraphrases=text["paraphrases"], progress=False
        )
    assert tree(tmp_path) == {}


def test_the_card_has_a_front_that_the_hub_reads(run):
    output, _ = run(steps=1)
    front = (output / "README.md").read_text().split("---\n")[1]
    values = {key: json.loads(value) for key, _, value in (line.partition(": ") for line in front.splitlines())}
    assert values["library_name"] == "sentence-transformers"
    assert values["pipeline_tag"] == "sentence-similarity"
    assert "base_model" not in values  # a local folder is no name on the hub


def test_a_second_run_into_the_same_folder_is_refused(tiny_bert, text, tmp_path):
    """Without, it would take the checkpoints of the first away."""
    settings = {"steps": 1, "batch_size": 8, "projection_width": 32, "progress": False}
    with only_one(tmp_path / "out"), pytest.raises(InputError, match="another run is writing"):
        selfguide.train(str(tiny_bert), text["sentences"], tmp_path / "out", **settings)
    assert not (tmp_path / "out").exists() and not (tmp_path / "out.checkpoints").exists()
    selfguide.train(str(tiny_bert), text["sentences"], tmp_path / "out", **settings)
    assert {path.name for path in tmp_path.iterdir()} >= {"out"} and not (tmp_path / ".out.lock").exists()


def test_a_run_that_ended_while_this_one_loaded_is_not_replaced(run, tmp_path, monkeypatch):
    """Both began when nothing was there."""
    load = train_module.load_encoder

    def slow_load(*given, **settings):
        monkeypatch.setattr(train_module, "load_encoder", load)
        run(steps=1, seed=5)
        return load(*given, **settings)

    monkeypatch.setattr(train_module, "load_encoder", slow_load)
    with pytest.raises(InputError, match="holds a finished run already"):
        run(steps=1, seed=6)
    assert read_json(tmp_path / "out" / "selfguide" / "config.json")["seed"] == 5
