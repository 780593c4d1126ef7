"""The pages of a run and of a score file: what they show, and what they leave out when it is not there."""

import json

import pytest
from made_results import NASTY, write_run, write_score_file

from selfguide.errors import InputError
from selfguide.report.page import ChartRow, DataTable, Folded
from selfguide.report.rows import scores_page
from selfguide.report.run import run_page, write_run_page
from selfguide.scores import ScoreRow, write_scores


@pytest.fixture
def record(tmp_path):
    return write_run(tmp_path / "my-encoder") / "selfguide"


def sections_of(page):
    return {section.title: section.blocks for section in page.sections}


def titles(blocks):
    return [chart.title for block in blocks if isinstance(block, ChartRow) for chart in block.charts]


def texts(table):
    return [[cell.text for cell in line] for line in table.lines]


def test_a_run(record):
    page = run_page(record)
    assert page.title == "mini, trained by sg-opt"
    assert page.subtitle == "40 sentences kept of 41 read; 400 of 500 steps in 61 s; the weights of step 300 were kept"
    sections = sections_of(page)
    assert list(sections) == [
        "Before and after", "Training", "Nearest sentences before and after", "Map before and after", "How it was made",
    ]  # fmt: skip
    assert [title.split()[0] for title in titles(sections["Training"])] == [
        "Dev", "Loss", "In-batch", "Spread", "Alignment",
    ]  # fmt: skip
    assert titles(sections["Map before and after"]) == ["Before", "After"]
    assert [block.summary for block in sections["How it was made"]] == ["Settings", "Summary", "Environment"]
    assert all(isinstance(block, Folded) for block in sections["How it was made"])


def test_scores_before_and_after(record):
    [table] = sections_of(run_page(record))["Before and after"]
    assert texts(table) == [
        ["mini/cls", "pairs (dev)", "42.80", "", "untrained"],
        ["mini/sg-opt", "pairs (dev)", "64.50", "+21.70", "step 300, chosen by these labels"],
    ]
    assert table.lines[0][2].details == ("29.1 to 55.6 (95%, over pairs)",)


def test_the_score_before_training_begins_the_curve(record):
    summary = json.loads((record / "summary.json").read_text())
    (record / "summary.json").write_text(json.dumps({**summary, "before": 42.8}))
    [row] = sections_of(run_page(record))["Training"]
    trace = row.charts[0].figure["data"][0]
    assert (trace["x"][0], trace["y"][0]) == (0, 42.8)


def test_neighbours(record):
    [table] = sections_of(run_page(record))["Nearest sentences before and after"]
    assert texts(table) == [[NASTY, "The train is late.", "A child feeds the ducks."]]
    assert table.lines[0][2].details == ("Ducks are fed by a child.",)


def test_a_run_without_pairs_says_so(record):
    write_scores(record / "scores.jsonl", [])
    [text] = sections_of(run_page(record))["Before and after"]
    assert text == "No graded pairs were given, so there is no score; no label had a part in this encoder."


def test_what_is_not_there_is_not_shown(record):
    for path in record.iterdir():
        if path.name != "config.json":
            path.unlink()
    assert [section.title for section in run_page(record).sections] == ["How it was made"]


def test_a_damaged_record(record):
    (record / "map.json").write_text("{")
    with pytest.raises(InputError, match=r"the record of a run in .* cannot be read"):
        run_page(record)


@pytest.mark.parametrize(("name", "content"), [("config.json", "{}"), ("config.json", "[1]"), ("summary.json", "[1]")])
def test_a_record_of_something_else(record, name, content):
    (record / name).write_text(content)
    with pytest.raises(InputError, match=r"the record of a run in .* is damaged"):
        run_page(record)


def test_the_page_lies_in_the_record(record):
    write_run_page(record)
    html = (record / "report.html").read_text("utf-8")
    assert html.startswith("<!DOCTYPE html>") and "mini, trained by sg-opt" in html


def test_a_score_file(tmp_path):
    page = scores_page(write_score_file(tmp_path / "scores.jsonl"))
    assert page.subtitle == "13 numbers of 3 embedders"
    sections = sections_of(page)
    assert list(sections) == [
        "STS: cosine, Spearman x100", "Geometry on STS-B", "Layers and poolings", "Alignment and uniformity",
    ]  # fmt: skip
    [table] = sections["STS: cosine, Spearman x100"]
    assert isinstance(table, DataTable) and texts(table) == [["bert/mean", "50.00"], ["bert/sg-opt", "70.00"]]
    [layers] = sections["Layers and poolings"]
    assert layers.charts[0].figure["data"][0]["z"] == [[30.0, 31.0, 32.0, 33.0], [None, 31.0, 32.0, 33.0]]
    [plane] = sections["Alignment and uniformity"]
    assert [trace["name"] for trace in plane.charts[0].figure["data"]] == ["bert/mean", "bert/sg-opt"]


def test_rows_of_several_layers_are_no_sweep(tmp_path):
    protocol = {"pooling": "cls", "layers": [6]}
    rows = [
        ScoreRow(name, "STS-B", "0", "test", "spearman", 30.0, None, "r", protocol | {"layers": [layer]})
        for name, layer in (("small", 6), ("base", 12), ("large", 24))
    ]
    write_scores(tmp_path / "scores.jsonl", rows)
    page = scores_page(tmp_path / "scores.jsonl")
    assert page.subtitle == "3 numbers of 3 embedders"
    [table] = sections_of(page)["STS: cosine, Spearman x100"]
    assert [line[0] for line in texts(table)] == ["small", "base", "large"]


def test_models_of_one_name_are_told_apart(tmp_path):
    rows = []
    for weights, value in (("aaaaaaaa", 1.0), ("bbbbbbbb", 2.0)):
        geometry = {"alignment": value, "uniformity": -value}
        rows += [ScoreRow("e/cls", "STS-B", "0", "test", m, v, None, "r", {"weights": weights}) for m, v in geometry.items()]
        swept = {"weights": weights, "swept": True, "pooling": "cls", "layers": [1]}
        rows.append(ScoreRow("e/cls@1", "STS-B", "0", "test", "spearman", value, None, "r", swept))
    write_scores(tmp_path / "scores.jsonl", rows)
    sections = sections_of(scores_page(tmp_path / "scores.jsonl"))
    [maps], [plane] = sections["Layers and poolings"], sections["Alignment and uniformity"]
    assert [chart.figure["data"][0]["z"] for chart in maps.charts] == [[[None, 1.0]], [[None, 2.0]]]
    names = [trace["name"] for trace in plane.charts[0].figure["data"]]
    assert names == ["e/cls (system aaaaaa)", "e/cls (system bbbbbb)"]
