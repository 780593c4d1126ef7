"""Checkpoints: when they are due, what they hold, how many stay, and that damage is noticed."""

import shutil

import pytest
import torch
from torch import nn

from selfguide.errors import InputError
from selfguide.files import read_json
from selfguide.training import checkpoints as module
from selfguide.training.checkpoints import Checkpoints
from selfguide.training.config import TrainingConfig
from selfguide.training.devices import accelerated
from selfguide.training.loop import RunState
from selfguide.training.selection import Selection

BEST = {"weight": torch.arange(6.0).view(2, 3).T}  # not contiguous


@pytest.fixture
def accelerator(tmp_path):
    with accelerated(TrainingConfig(), torch.device("cpu"), "float32", tmp_path) as accelerator:
        yield accelerator


class Parts:
    """A model, its optimiser after two steps, and the state of a run, under an accelerator."""

    def __init__(self, accelerator, *, seed, width=3):
        torch.manual_seed(seed)
        model = nn.Linear(width, 2)
        self.model, self.optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.1))
        self.state = RunState(Selection(10), torch.Generator().manual_seed(seed), step=7)
        accelerator.register_for_checkpointing(self.state)

    def step(self):
        self.model(torch.ones(1, self.model.in_features)).sum().backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def forget(self, accelerator):
        accelerator.free_memory()
        accelerator._custom_objects.clear()


def in_folder(folder, **options):
    return Checkpoints(folder, **{"every_steps": 0, "every_minutes": 0.0, **options})


@pytest.fixture
def saved(accelerator, tmp_path):
    """A folder with checkpoints of steps 7 and 8, and the parts that were saved."""
    folder = tmp_path / "checkpoints"
    parts = Parts(accelerator, seed=1)
    parts.step()
    parts.state.selection.add(5, 42.0)
    for step in (7, 8):
        parts.state.step = step
        in_folder(folder).save(accelerator, step, BEST)
    return folder, parts


# When


def test_due_by_steps(tmp_path):
    found = in_folder(tmp_path, every_steps=4)
    assert [step for step in range(1, 13) if found.are_due(step)] == [4, 8, 12]


def test_due_by_time(tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    found = in_folder(tmp_path, every_minutes=5.0)
    assert not found.are_due(1)
    now[0] = 299.0
    assert not found.are_due(2)
    now[0] = 300.0
    assert found.are_due(3)


def test_the_time_begins_again_with_each_checkpoint(accelerator, tmp_path, monkeypatch):
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    found = in_folder(tmp_path / "checkpoints", every_minutes=5.0)
    now[0] = 300.0
    found.save(accelerator, 1, None)
    now[0] = 599.0
    assert not found.are_due(2)
    now[0] = 600.0
    assert found.are_due(3)


def test_never_due_when_both_are_0(tmp_path, monkeypatch):
    found = in_folder(tmp_path)
    monkeypatch.setattr(module.time, "monotonic", lambda: 1e9)
    assert not any(found.are_due(step) for step in range(100))


# What


def test_everything_comes_back(accelerator, saved):
    folder, parts = saved
    weights = {name: tensor.clone() for name, tensor in parts.model.state_dict().items()}
    moments = parts.optimizer.state_dict()["state"][0]["exp_avg"].clone()
    drawn = torch.rand(3), torch.rand(3, generator=parts.state.layer_generator)

    parts.forget(accelerator)
    other = Parts(accelerator, seed=2)
    assert not torch.equal(other.model.weight, weights["weight"])
    best = in_folder(folder).load(accelerator)

    assert all(torch.equal(tensor, weights[name]) for name, tensor in other.model.state_dict().items())
    assert torch.equal(other.optimizer.state_dict()["state"][0]["exp_avg"], moments)
    assert other.state.step == 8
    assert vars(other.state.selection) == {"patience": 10, "best": 42.0, "best_step": 5, "since_best": 0}
    assert torch.equal(best["weight"], BEST["weight"])
    assert torch.equal(torch.rand(3), drawn[0])
    assert torch.equal(torch.rand(3, generator=other.state.layer_generator), drawn[1])


def test_without_scores_there_are_no_best_weights(accelerator, tmp_path):
    folder = tmp_path / "checkpoints"
    Parts(accelerator, seed=1)
    in_folder(folder).save(accelerator, 1, None)
    assert in_folder(folder).load(accelerator) is None


def test_the_newest_two_are_kept(accelerator, tmp_path):
    folder = tmp_path / "checkpoints"
    for step in (5, 10, 100, 1000):
        in_folder(folder).save(accelerator, step, None)
    assert [path.name for path in sorted(folder.iterdir())] == ["step-00000100", "step-00001000"]


def test_the_manifest_covers_every_file(saved):
    folder, _ = saved
    newest = folder / "step-00000008"
    manifest = read_json(newest / "manifest.json")
    assert manifest["step"] == 8
    assert {*manifest["sha256"], "manifest.json"} == {path.name for path in newest.iterdir()}
    assert {"best.safetensors", "model.safetensors", "optimizer.bin", "random_states_0.pkl"} <= manifest["sha256"].keys()


def test_what_the_process_had_before_is_there_afterwards(accelerator, saved):
    """Loading sets the generators of Python and numpy too; a run gives them back."""
    import random

    import numpy as np

    folder, _ = saved
    expected = random.Random(3).random(), np.random.RandomState(3).random(), torch.Generator().manual_seed(3)
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)
    with accelerated(TrainingConfig(seed=9), torch.device("cpu"), "float32", folder) as other:
        Parts(other, seed=1)
        in_folder(folder).load(other)
    assert random.random() == expected[0]
    assert np.random.random() == expected[1]
    assert torch.equal(torch.rand(2), torch.rand(2, generator=expected[2]))


# Damage


def flip_a_byte(path):
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


FILES = (
    "best.safetensors",
    "custom_checkpoint_0.pkl",
    "manifest.json",
    "model.safetensors",
    "optimizer.bin",
    "random_states_0.pkl",
)
DAMAGES = {
    "flipped": flip_a_byte,
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:-20]),
    "emptied": lambda path: path.write_bytes(b""),
    "missing": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", FILES)
def test_damage_is_noticed_and_the_way_out_is_told(accelerator, saved, name, damage):
    folder, _ = saved
    DAMAGES[damage](folder / "step-00000008" / name)
    with pytest.raises(InputError, match=r"step-00000008' is damaged .*delete that folder to go on from the one before"):
        in_folder(folder).load(accelerator)


def test_the_way_out_leads_on(accelerator, saved):
    folder, parts = saved
    shutil.rmtree(folder / "step-00000008")
    in_folder(folder).load(accelerator)
    assert parts.state.step == 7
    flip_a_byte(folder / "step-00000007" / "optimizer.bin")
    with pytest.raises(InputError, match=r"optimizer.bin is not as it was written\); use --overwrite to start anew"):
        in_folder(folder).load(accelerator)


@pytest.mark.parametrize("content", ["[]", "{}", '{"sha256": []}', '{"sha256": 3}', '"text"'])
def test_a_manifest_of_another_form_is_damage(accelerator, saved, content):
    folder, _ = saved
    (folder / "step-00000008" / "manifest.json").write_text(content)
    with pytest.raises(InputError, match="is damaged"):
        in_folder(folder).load(accelerator)


def test_nothing_to_load(accelerator, tmp_path):
    with pytest.raises(InputError, match=r"no checkpoint in .* to resume from"):
        in_folder(tmp_path).load(accelerator)


def test_a_checkpoint_of_another_model_does_not_fit(accelerator, saved):
    folder, parts = saved
    parts.forget(accelerator)
    Parts(accelerator, seed=1, width=4)
    with pytest.raises(InputError, match=r"step-00000008' does not fit this run: .*size mismatch"):
        in_folder(folder).load(accelerator)
