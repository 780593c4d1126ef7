"""Comparing embedders: the paired bootstrap against a plain loop, and the command end to end."""

import shutil

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import selfguide
from selfguide.cli.main import main
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.saving import save_encoder
from selfguide.evaluation.comparison import compare_embedders
from selfguide.evaluation.predictions import Predictions
from selfguide.files import write_json
from selfguide.similarity import spearman
from tiny_runs import SENTENCES


def predictions(noise: float, *, seed: int = 0, groups: int = 1, pairs: int = 120) -> Predictions:
    """Cosines that follow the gold scores with some noise; the gold scores are the same for every seed."""
    gold = [np.random.default_rng(100 + group).uniform(0, 5, pairs) for group in range(groups)]
    rng = np.random.default_rng(seed)
    cosines = tuple(values + noise * rng.standard_normal(pairs) for values in gold)
    return Predictions(cosines=cosines, gold=tuple(gold), weights=(1.0,) * groups)


def test_correlation_is_the_weighted_mean_of_the_groups():
    both = predictions(2.0, groups=2)
    weighted = Predictions(both.cosines, both.gold, (3.0, 1.0))
    parts = [100 * spearmanr(c, g).statistic for c, g in zip(both.cosines, both.gold, strict=True)]
    assert weighted.correlation(spearman) == pytest.approx((3 * parts[0] + parts[1]) / 4)


def test_interval_equals_a_plain_loop():
    good, bad = predictions(1.0, seed=1), predictions(4.0, seed=2)
    (found,) = compare_embedders({"A": {"good": [good], "bad": [bad]}}, draws=50, seed=7)
    rng, values = np.random.default_rng([7, 0]), []
    for _ in range(50):
        rows = rng.integers(120, size=120)
        scores = [100 * spearmanr(one.cosines[0][rows], one.gold[0][rows]).statistic for one in (good, bad)]
        values.append(scores[0] - scores[1])
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(values, [0.025, 0.975])))
    assert found.value == pytest.approx(good.correlation(spearman) - bad.correlation(spearman))
    assert found.is_clear and found.low < found.value < found.high


def test_an_embedder_does_not_differ_from_itself():
    one = predictions(2.0)
    (found,) = compare_embedders({"A": {"first": [one], "second": [one]}}, draws=20)
    assert (found.value, found.low, found.high) == (0, 0, 0)
    assert not found.is_clear


def test_seeds_are_averaged_and_sets_too():
    sets = {name: {"seeds": [predictions(2.0, seed=s) for s in (1, 2)], "one": [predictions(3.0, seed=3)]} for name in "AB"}
    differences = {found.dataset: found for found in compare_embedders(sets, draws=30)}
    assert set(differences) == {"A", "B", "Avg"}
    expected = np.mean([predictions(2.0, seed=s).correlation(spearman) for s in (1, 2)]) - predictions(
        3.0, seed=3
    ).correlation(spearman)
    assert differences["A"].value == pytest.approx(expected)
    assert differences["Avg"].value == pytest.approx((differences["A"].value + differences["B"].value) / 2)
    # two sets tell more than one
    assert differences["Avg"].high - differences["Avg"].low < differences["A"].high - differences["A"].low


def test_a_resample_without_a_correlation_is_drawn_again():
    gold = np.array([0.0] * 5 + [1.0])
    one = Predictions((np.arange(6.0),), (gold,), (1.0,))
    rng = np.random.default_rng(0)
    assert all(np.ptp(gold[one.draw(rng)[0]]) > 0 for _ in range(50))


def test_a_resample_in_which_an_embedder_has_equal_cosines_is_drawn_again():
    """Half of the pairs have a word that it does not know, and a cosine of 0."""
    gold = np.arange(6.0)
    sparse = Predictions((np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0]),), (gold,), (1.0,))
    whole = Predictions((gold[::-1],), (gold,), (1.0,))
    (found,) = compare_embedders({"A": {"sparse": [sparse], "whole": [whole]}}, draws=100)
    assert found.value > 100 and found.low > 0


@pytest.fixture
def pairs_file(tmp_path):
    path = tmp_path / "mine.tsv"
    rows = [(5, "the cat sat", "the cat sat down"), (4, "a dog ran", "the dog ran"), (1, "a bird", "the sea is big")]
    rows += [(0, "red blue", "one two three"), (3, "the cat ran", "a cat sat"), (2, "big dog", "big sea")]
    path.write_text("".join(f"{score}\t{left}\t{right}\n" for score, left, right in rows), encoding="utf-8")
    return path


def test_the_command(tiny_bert, pairs_file, tmp_path, capsys):
    scores = tmp_path / "scores.jsonl"
    given = ["compare", f"{tiny_bert}:mean", f"{tiny_bert}:max", "--pairs", str(pairs_file), "--draws", "20"]
    assert main([*given, "--output", str(scores)]) == 0
    printed = capsys.readouterr().out
    assert "/mean - " in printed and "/max" in printed and "paired bootstrap" in printed
    assert len(scores.read_text("utf-8").splitlines()) == 4


@pytest.fixture
def trained(tiny_bert, tmp_path):
    """Gives the folder of an encoder that says it was trained so."""

    def folder_of(name, **config):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        encoder = load_encoder(tiny_bert)
        torch.nn.init.normal_(encoder.model.encoder.layer[0].output.dense.weight)  # another one each time
        save_encoder(encoder, folder)
        (folder / "selfguide").mkdir()
        config = {"model": "tiny", "objective": "sg-opt", "dev": None, "output": name, **config}
        write_json(folder / "selfguide" / "config.json", config)
        return str(folder)

    return folder_of


def test_what_differs_in_the_seed_alone_is_one_line(trained, pairs_file, capsys):
    """And what was trained otherwise is not, whatever its name and seed."""
    plain = [trained(f"plain-{seed}", seed=seed, template=None) for seed in (1, 2)]
    other = trained("other", seed=1, template="{mask} is {sentence}")
    assert main(["compare", *plain, other, "--pairs", str(pairs_file), "--draws", "20"]) == 0
    printed = capsys.readouterr().out
    assert f"tiny/sg-opt ({plain[0]})" in printed and f"tiny/sg-opt ({other})" in printed
    assert plain[1] not in printed and "±" in printed and "paired bootstrap" in printed
    assert main(["compare", *plain, f"{plain[0]}:mean", "--pairs", str(pairs_file), "--draws", "20"]) == 0
    assert "tiny/sg-opt (" not in capsys.readouterr().out


def test_the_seeds_of_a_flow_are_one_line(tiny_bert, tmp_path, pairs_file, capsys):
    (tmp_path / "text.txt").write_text("".join(f"{sentence}\n" for sentence in SENTENCES))
    folders = [str(tmp_path / f"flow-{seed}") for seed in (1, 2)]
    for seed, folder in enumerate(folders, start=1):
        selfguide.fit(tiny_bert, tmp_path / "text.txt", folder, embedder="flow", seed=seed, device="cpu")
    assert main(["compare", *folders, f"{tiny_bert}:mean", "--pairs", str(pairs_file), "--draws", "20"]) == 0
    printed = capsys.readouterr().out
    assert "/flow (" not in printed and "±" in printed


def test_folders_of_one_name_are_told_apart(tiny_bert, tmp_path, pairs_file, capsys):
    folders = [tmp_path / parent / "encoder" for parent in ("a", "b")]
    for folder in folders:
        shutil.copytree(tiny_bert, folder)
    assert main(["compare", *map(str, folders), "--pairs", str(pairs_file), "--draws", "20"]) == 0
    printed = capsys.readouterr().out
    assert all(f"encoder/cls ({folder})" in printed for folder in folders)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["compare", "mini:cls", "mini:mean", "--tasks", "STS-B,RTE"], "RTE fine-tunes an encoder"),
        (["compare", "mini"], "two or more"),
        (["compare", "mini:avg", "mini:sum"], "avg"),
        (["compare"], "MODEL"),
    ],
)
def test_wrong_use(given, told, pairs_file, capsys):
    assert main([*given, *(["--pairs", str(pairs_file)] if len(given) > 1 else [])]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert told in lines[-1]
