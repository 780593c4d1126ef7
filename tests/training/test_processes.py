"""Two processes that train together (torchrun, gloo, on the CPU): the same as one that adds up both batches."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import selfguide
from selfguide.files import read_json, write_json
from tiny_models import WORDS

SCRIPT = Path(__file__).with_name("train_together.py")
TEXTS = [f"the {first} and the {second}" for first in WORDS for second in WORDS]
SMALL = {"batch_size": 8, "projection_width": 64, "learning_rate": 1e-3, "device": "cpu"}


@pytest.fixture
def start(tiny_bert, tmp_path):
    """A tiny BERT without dropout, and sentences."""
    folder = shutil.copytree(tiny_bert, tmp_path / "start")
    config = read_json(folder / "config.json")
    write_json(folder / "config.json", {**config, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0})
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    return folder


def settings_of(start, name, **settings):
    places = {"model": str(start), "data": str(start.parent / "texts.txt"), "output": str(start.parent / name)}
    return {**places, **SMALL, **settings}


def train_together(settings):
    """A run in two processes; gives the exit code, what each of them noted, and stderr."""
    place = Path(settings["output"]).parent / "together"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    write_json(place / "settings.json", settings)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    done = subprocess.run(
        [*launch, SCRIPT, place / "settings.json", place], env=os.environ, capture_output=True, text=True, timeout=300
    )
    notes = [json.loads(path.read_text()) for path in sorted(place.glob("[01].json"))]
    return done.returncode, notes, done.stderr


def train_alone(settings):
    settings = dict(settings)
    return selfguide.train(settings.pop("model"), settings.pop("data"), settings.pop("output"), progress=False, **settings)


def steps_of(folder):
    lines = (folder / "selfguide" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["step"] for line in lines if "loss" in line]


@pytest.mark.second_environment
def test_two_processes_are_one_with_both_batches(start):
    """Gradients are averaged over the processes; one folder is written, and every process loads it."""
    code, notes, errors = train_together(settings_of(start, "two", steps=3))
    assert code == 0, errors
    alone = train_alone(settings_of(start, "one", steps=3, accumulation=2))
    two, one = (load_file(start.parent / name / "model.safetensors") for name in ("two", "one"))
    torch.testing.assert_close(two, one, atol=1e-5, rtol=0)
    untrained = load_file(start / "model.safetensors")
    assert max((two[name] - untrained[name]).abs().max() for name in two) > 1e-3
    assert [note["vector"] for note in notes] == [pytest.approx(alone.encode(["the cat"])[0].tolist(), abs=1e-5)] * 2
    assert steps_of(start.parent / "two") == [1, 2, 3]
    assert sorted(path.name for path in start.parent.iterdir()) == ["one", "start", "texts.txt", "together", "two"]
    assert read_json(start.parent / "two" / "selfguide" / "summary.json")["processes"] == 2
    for name in ("one", "two"):
        assert "3 of 3 steps of 16 sentences in 2 batches" in (start.parent / name / "README.md").read_text()


@pytest.mark.second_environment
def test_two_processes_stop_together_and_go_on_as_if_never_stopped(start, tiny_bert):
    """Ctrl-C reaches the main process after its step 3; with dropout, so that the generators of both must come back."""
    settings = settings_of(tiny_bert, "whole", steps=6, score_every=1, patience=0)
    settings = {**settings, "data": str(start.parent / "texts.txt"), "output": str(start.parent / "whole")}
    code, notes, errors = train_together(settings)
    assert code == 0, errors
    assert [note["scores"] for note in notes] == [7, 0], "the main process scores, before training and after each step"

    parted = {**settings, "output": str(start.parent / "parted")}
    code, notes, errors = train_together({**parted, "interrupt_at": 3})
    assert code != 0 and notes == [] and "interrupted after step 3; --resume goes on from there" in errors
    assert [path.name for path in start.parent.glob("parted*/step-*")] == ["step-00000003"]
    assert {path.name for path in start.parent.glob("parted*/step-*/random_states_*")} == {
        "random_states_0.pkl",
        "random_states_1.pkl",
    }

    code, notes, errors = train_together({**parted, "score_from": 4, "resume": True})
    assert code == 0, errors
    assert {read_json(path)["kept_step"] for path in start.parent.glob("*/selfguide/summary.json")} == {6}
    whole, resumed = (load_file(start.parent / name / "model.safetensors") for name in ("whole", "parted"))
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)
    assert steps_of(start.parent / "parted") == [1, 2, 3, 4, 5, 6]
