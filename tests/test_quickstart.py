"""The quickstart, run for real: what it prints, what it leaves, and that its gain is no artefact of its own pairs."""

import re
from html import escape
from pathlib import Path

import pytest
from sentence_transformers import SentenceTransformer

from selfguide import bundled
from selfguide.cli.main import main
from selfguide.data.pairs import read_pairs
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.encoders.loading import load_encoder
from selfguide.files import read_json
from selfguide.quickstart import SHOWN, fresh_folder, measure
from selfguide.scores import read_scores
from selfguide.similarity import bootstrap_interval


@pytest.fixture(scope="module")
def quickstart(tmp_path_factory) -> tuple[str, Path]:
    """Output of the command and the folder it wrote."""
    import contextlib
    import io

    folder = tmp_path_factory.mktemp("quickstart") / "encoder"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["quickstart", "--output", str(folder)]) == 0
    return printed.getvalue(), folder


def _gain(text: str) -> tuple[float, float, float]:
    found = re.search(r"gain +([+-][\d.]+) +\(([+-][\d.]+) to ([+-][\d.]+)\)", text)
    assert found, text
    return tuple(float(value) for value in found.groups())


def test_the_gain_is_large_and_its_interval_is_above_zero(quickstart):
    gain, low, high = _gain(quickstart[0])
    assert gain >= 20
    assert 0 < low < gain < high


def test_what_it_says_is_what_the_folder_scores(quickstart):
    text, folder = quickstart
    after = measure(PooledEmbedder(load_encoder(folder)), read_pairs(bundled.TEST_PAIRS)).score
    assert f"after, [MASK]   {after:.1f}" in text


def test_neighbours_and_the_next_command_are_shown(quickstart):
    text, folder = quickstart
    assert all(sentence in text for sentence in SHOWN)
    assert "selfguide train --model mini --data your-sentences.txt --preset prompted --output" in text
    assert SentenceTransformer(str(folder)).encode(["A sentence."]).shape == (1, 384)


def test_a_page_is_left_with_scores_neighbours_and_a_map_of_the_test_pairs(quickstart):
    text, folder = quickstart
    record = folder / "selfguide"
    assert str(record / "report.html") in text
    before, after = read_scores(record / "scores.jsonl")
    assert f"before, [CLS]   {before.value:.1f}" in text and f"after, [MASK]   {after.value:.1f}" in text
    page = (record / "report.html").read_text("utf-8")
    assert f"{after.value - before.value:+.2f}" in page and "no label chose it" in page
    assert all(escape(sentence) in page for sentence in SHOWN)
    assert {group["kind"] for group in read_json(record / "map.json")["after"]} == {"alike", "not alike"}


def test_sts_b_tells_the_same_gain(quickstart, shared):
    """The gain on STS-B test, which has nothing to do with our pairs: the two 95% intervals overlap, above 0."""
    text, folder = quickstart
    pairs = read_pairs(shared / "data" / "sts" / "STS-B" / "test.tsv")
    before, after = (measure(PooledEmbedder(load_encoder(model)), pairs) for model in ("mini", folder))
    low, high = bootstrap_interval(after.cosines, pairs.scores, other=before.cosines)
    _, said_low, said_high = _gain(text)
    assert low > 0
    assert max(low, said_low) <= min(high, said_high)


def test_a_second_run_takes_a_fresh_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert fresh_folder("demo") == Path("demo")
    Path("demo").mkdir()
    Path("demo-2.checkpoints").mkdir()
    assert fresh_folder("demo") == Path("demo-3")
