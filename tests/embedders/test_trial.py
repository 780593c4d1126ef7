"""The trial of a precision: made once in a process of its own, and remembered."""

import json
import subprocess

import pytest

from selfguide import InputError
from selfguide.embedders import trial


@pytest.fixture
def child(tmp_path, monkeypatch):
    """Gives a way to say how the process ends; and the calls that were made."""
    monkeypatch.setenv("SELFGUIDE_CACHE", str(tmp_path / "cache"))
    calls = []

    def ends_with(code):
        def run(command, **options):
            calls.append(command)
            if isinstance(code, BaseException):
                raise code
            return subprocess.CompletedProcess(command, code)

        monkeypatch.setattr(trial.subprocess, "run", run)
        return calls

    return ends_with


def test_the_answer_is_remembered(child):
    calls = child(0)
    assert trial.cpu_computes("bf16") and trial.cpu_computes("bf16")
    assert len(calls) == 1 and calls[0][-1] == "bf16"
    child(-4)  # an illegal instruction
    assert not trial.cpu_computes("fp16")
    assert trial.cpu_computes("bf16")
    child(0)
    assert not trial.cpu_computes("fp16")


@pytest.mark.parametrize("end", [subprocess.TimeoutExpired("python", 1), OSError("no memory"), -9, 1])
def test_what_may_be_another_time_is_a_breakdown_for_now(child, end):
    """Too slow, no process, killed for its memory, an error: none of them is the processor's."""
    child(end)
    assert not trial.cpu_computes("bf16")
    child(0)
    assert trial.cpu_computes("bf16")


def test_a_cache_that_cannot_be_used_costs_time_only(child, tmp_path):
    (tmp_path / "cache").write_text("a file")
    calls = child(0)
    assert trial.cpu_computes("bf16") and trial.cpu_computes("bf16")
    assert len(calls) == 2


def test_other_instructions_are_another_answer(child, monkeypatch):
    child(-4)
    assert not trial.cpu_computes("int8")
    with pytest.raises(InputError, match=r"broke down when int8 was tried; .* ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16 and try"):
        trial.check_cpu_computes("int8", "--precision int8")
    monkeypatch.setenv(trial.ISA_VARIABLE, trial.SAFE_ISA)
    child(0)
    assert trial.cpu_computes("int8")
    monkeypatch.delenv(trial.ISA_VARIABLE)
    assert not trial.cpu_computes("int8")


def test_a_real_process_answers(tmp_path, monkeypatch):
    """What int8 does on this machine is found without an end of this process; a wrong program is a breakdown."""
    monkeypatch.setenv("SELFGUIDE_CACHE", str(tmp_path))
    found = trial.cpu_computes("int8")
    (kept,) = json.loads((tmp_path / "precision.json").read_text()).items()
    assert "openvino" in kept[0] and kept[1] == found
    monkeypatch.setitem(trial._TRIALS, "fp16", ("torch", "import os, signal; os.kill(os.getpid(), signal.SIGILL)"))
    assert not trial.cpu_computes("fp16")
