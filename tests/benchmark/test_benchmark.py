"""Ratios are of what was done in turns; the yardstick is the method; the whole command runs on a tiny encoder."""

import json
import statistics
import subprocess
import sys

import numpy as np
import pytest
import torch

from selfguide.benchmark import yardstick as benchmark_yardstick
from selfguide.benchmark.benchmark import _MEASURES, as_text
from selfguide.benchmark.config import MEASURES, BenchmarkConfig
from selfguide.benchmark.rounds import Comparison, Timing, take_turns
from selfguide.benchmark.texts import dev_file, mixed_texts, repeated, short_texts
from selfguide.benchmark.yardstick import Yardstick
from selfguide.cli.main import main
from selfguide.data.pairs import read_pairs
from selfguide.errors import InputError
from selfguide.objectives import distance, sg_opt


def test_all_take_turns_after_a_warm_up():
    calls = []

    def way(name, costs):
        costs = iter(costs)
        return lambda: calls.append(name) or next(costs)

    comparison = Comparison("work", "seconds", {"ours": way("o", [9, 1, 3, 2]), "peer": way("p", [9, 4, 3, 8])})
    timing = take_turns(comparison, 3)
    assert calls == ["o", "p"] * 4
    assert timing.costs == {"ours": [1, 3, 2], "peer": [4, 3, 8]}
    assert timing.ours == "ours" and timing.median("peer") == 4
    assert timing.ratio("peer") == 2 and timing.ratio_range("peer") == (1, 4)


def test_a_table_names_every_way_and_fact():
    timing = Timing("work", "seconds", {"ours": [1.0, 3.0], "peer": [4.0, 8.0]}, {"sentences": 7})
    text = as_text([timing])
    assert "ours" in text and "3.00" in text and "2.67 to 4.00" in text and "sentences: 7" in text


def test_every_measure_is_known():
    assert tuple(_MEASURES) == MEASURES
    with pytest.raises(InputError, match=r"did you mean 'encode'"):
        BenchmarkConfig(measures=("encoed",))
    with pytest.raises(InputError, match="--rounds is 0"):
        BenchmarkConfig(rounds=0)


def test_texts_are_as_many_and_as_long_as_asked_for():
    texts = ["a b c", "d e"]
    assert repeated(texts, 5) == ["a b c", "d e", "a b c", "d e", "a b c"]
    lengths = [len(text.split()) for text in mixed_texts(texts, 2000)]
    assert min(lengths) == 2 and max(lengths) == 110 and abs(statistics.mean(lengths) - 56) < 3
    assert mixed_texts(texts, 3) == mixed_texts(texts, 3)
    words = " ".join(mixed_texts(texts, 3)).split()
    assert words == (list("abcde") * 100)[: len(words)]


def test_a_folder_without_stsb_is_told(tmp_path):
    with pytest.raises(InputError, match="STS-B"):
        short_texts(str(tmp_path))
    assert len(short_texts(None)) > 1000 and dev_file(None).is_file()


def test_the_yardsticks_loss_is_the_method(tiny_bert):
    """Written apart from the package's own, on the same numbers."""
    generator = torch.Generator().manual_seed(1)
    anchors, views = torch.randn(5, 8, generator=generator), torch.randn(5, 3, 8, generator=generator)
    yardstick = Yardstick(str(tiny_bert), "cpu", today=False)
    torch.testing.assert_close(yardstick._objective(anchors, views), sg_opt(anchors, views, temperature=0.01))
    with torch.no_grad():
        for parameter in yardstick.encoder.parameters():
            parameter += 0.01
    pairs = list(yardstick.encoder.parameters()), list(yardstick.guide.parameters())
    for today in (False, True):
        yardstick.today = today
        torch.testing.assert_close(yardstick._distance(), distance(*pairs), rtol=1e-4, atol=0)


def test_both_yardsticks_take_the_same_steps(tiny_bert):
    losses = {}
    for today in (False, True):
        torch.manual_seed(1)
        yardstick = Yardstick(str(tiny_bert), "cpu", today=today)
        yardstick.encoder.eval()  # without dropout
        batches = yardstick.batches(short_texts(None)[:40], 3)
        losses[today] = [yardstick.step(batch) for batch in batches]
        assert [len(batch) for batch in batches] == [16, 16, 16]
    np.testing.assert_allclose(losses[False], losses[True], rtol=1e-4)
    assert len(set(losses[False])) == 3


def test_a_run_the_papers_way_scores_and_trains(tiny_bert, monkeypatch):
    yardstick = Yardstick(str(tiny_bert), "cpu", today=False)
    dev = read_pairs(dev_file(None))
    weights = [parameter.clone() for parameter in yardstick.encoder.encoder.parameters()]
    found = []
    score = yardstick.score
    monkeypatch.setattr(yardstick, "score", lambda pairs: found.append(score(pairs)) or found[-1])
    monkeypatch.setattr(benchmark_yardstick, "SCORE_EVERY", 2)
    assert yardstick.run(short_texts(None)[:32], dev, steps=3) == max(found)
    assert len(set(found)) == 3  # before, after two steps, and at the end
    assert any((now != then).any() for now, then in zip(yardstick.encoder.encoder.parameters(), weights, strict=True))


@pytest.mark.parametrize("measure", ["encode", "encode-int8", "training-step", "run", "start"])
def test_the_command_measures_and_records(measure, tiny_bert, tmp_path, capsys, monkeypatch):
    record = tmp_path / "figures.json"
    few = ["--sentences", "20", "--steps", "2", "--rounds", "1", "--device", "cpu", "--output", str(record)]
    full = ["--full"] if measure == "run" else []
    assert main(["benchmark", measure, "--model", str(tiny_bert), *few, *full]) == 0
    shown = capsys.readouterr().out
    found = json.loads(record.read_text())
    assert found["comparisons"] and "torch" in found["environment"]["packages"]
    for comparison in found["comparisons"]:
        ours, *peers = comparison["costs"]
        assert comparison["what"] in shown and ours in shown and peers
        for peer in peers:
            ratio = comparison["costs"][peer][0] / comparison["costs"][ours][0]
            assert comparison["ratios"][peer] == pytest.approx(ratio, abs=1e-3)
    if measure == "encode":
        assert all(each["facts"]["largest difference"] < 1e-5 for each in found["comparisons"])


@pytest.mark.slow
def test_the_peak_of_a_process_is_its_own():
    """Not that of the process which started it, and no less than what it held for a moment."""
    own = "import sys; from selfguide.benchmark.peak_memory import *; b'1' * (int(sys.argv[1]) << 20); print(peak_mib())"
    code = """
import subprocess, sys
held = b"1" * (400 << 20)
for size in (0, 200):
    subprocess.run([sys.executable, "-c", sys.argv[1], str(size)], check=True)
"""
    done = subprocess.run([sys.executable, "-c", code, own], capture_output=True, text=True, check=True)
    small, large = map(float, done.stdout.split())
    assert small < 100 and 200 < large < 300


def test_memory_is_measured_in_processes_of_their_own(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["benchmark", "memory", "--rounds", "1", "--output", "figures.json"]) == 0
    (comparison,) = json.loads((tmp_path / "figures.json").read_text())["comparisons"]
    many, few = (costs[0] for costs in comparison["costs"].values())
    assert many < 1.1 * few and few > 50, "MiB"
