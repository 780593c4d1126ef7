"""Figures: few and finite points, names told apart, the same in words and numbers."""

import math

import pytest
from made_results import NASTY, mapped_pairs

from selfguide.report.charts import STRETCHES, Line, heat_map, line_chart, path_chart, plane
from selfguide.report.figures import COLOURS, MOST_POINTS
from selfguide.report.sentence_map import LONGEST_SENTENCE, sentence_map, shortened


def curve(name, *values, run=""):
    return Line(name, tuple(enumerate(values)), run)


def test_lines_of_one_name_share_a_colour_and_a_place_in_the_legend():
    lines = [curve("a", 1, 2, run="seed 1"), curve("a", 2, 3, run="seed 2"), curve("b", 3)]
    chart = line_chart("dev", lines, x="step", y="dev")
    traces = chart.figure["data"]
    assert [trace["line"]["color"] for trace in traces] == [COLOURS[0], COLOURS[0], COLOURS[1]]
    assert [trace["legendgroup"] for trace in traces] == ["0", "0", "1"]
    assert [key.name for key in chart.legend] == ["a", "b"]
    assert chart.description.endswith("a: 1.50 to 2.50 (means of 2 runs); b: 3.00.")
    assert chart.data.header == ("step", "a, seed 1", "a, seed 2", "b")
    assert [cell.text for cell in chart.data.lines[1]] == ["1", "2.00", "3.00", ""]


def test_a_single_line_needs_no_legend():
    assert line_chart("loss", [curve("loss", 1, 2)], x="step", y="loss").legend == ()


def test_more_names_than_colours():
    names = [f"method {number}" for number in range(len(COLOURS) + 1)]
    chart = line_chart("dev", [curve(name, 1, 2) for name in names], x="step", y="dev")
    assert len({(trace["line"]["color"], trace["line"]["dash"]) for trace in chart.figure["data"]}) == len(names)
    assert [key.mark for key in chart.legend[-2:]] == ["solid", "dashed"]


def test_a_long_line_is_thinned_and_keeps_its_end():
    [trace] = line_chart("loss", [curve("loss", *range(10_001))], x="step", y="loss").figure["data"]
    assert MOST_POINTS / 2 < len(trace["x"]) <= MOST_POINTS
    assert (trace["x"][-1], trace["y"][-1]) == (10_000, 10_000)


def test_what_is_no_number_is_left_out():
    [trace] = line_chart("loss", [curve("loss", 1.0, math.nan, math.inf, 2.0)], x="step", y="loss").figure["data"]
    assert trace["y"] == [1.0, 2.0]
    assert line_chart("loss", [curve("loss", math.nan)], x="step", y="loss") is None
    assert path_chart("plane", [], x="x", y="y") is None


def test_a_way_begins_open_and_ends_full():
    [way, point] = path_chart("plane", [curve("way", 1, 2, 3), curve("point", 1)], x="x", y="y").figure["data"]
    assert way["marker"]["symbol"] == ["circle-open", "circle", "circle"]
    assert way["marker"]["size"] == [9, 3, 9]
    assert point["marker"]["size"] == 9


def test_the_plane_shows_means_of_stretches():
    rows = [{"step": step, "uniformity": -float(step), "alignment": step % 2} for step in range(10 * STRETCHES)]
    [trace] = plane("plane", {"run": [*rows, {"step": 1, "dev": 3.0}]}).figure["data"]
    assert len(trace["x"]) == STRETCHES
    assert trace["x"][0] == -4.5 and set(trace["y"]) == {0.5}
    assert plane("plane", {"run": [{"step": 1, "dev": 3.0}]}) is None


def test_a_heat_map_tells_its_ends_and_leaves_holes():
    chart = heat_map("layers", ["cls", "mean"], ["0", "1"], [[None, 20.0], [10.0, 40.0]], x="layer", y="pooling")
    assert chart.figure["data"][0]["z"] == [[None, 20.0], [10.0, 40.0]]
    assert "Highest: 40.00 (mean, layer 1); lowest: 10.00 (mean, layer 0)." in chart.description
    assert [cell.text for cell in chart.data.lines[0]] == ["cls", "", "20.00"]


def test_a_map_joins_pairs_and_shows_sentences_on_hover(draws):
    groups = mapped_pairs(draws)
    chart = sentence_map("after", groups)
    positive, negative = chart.figure["data"]
    assert (positive["name"], negative["name"]) == ("positive", "negative")
    assert positive["marker"]["symbol"] != negative["marker"]["symbol"], "not by colour alone"
    assert positive["x"][2] is None and positive["x"][3] is not None, "a gap after each pair"
    assert "&lt;script&gt;" in positive["text"][0] and "<script>" not in positive["text"][0]
    assert positive["text"][0].endswith("positive, cosine 0.900")
    assert "Mean cosine of 6 positive pairs: 0.900." in chart.description
    assert chart.data.lines[0][2].text == NASTY


def test_a_map_of_single_sentences():
    groups = [{"kind": "sentence", "cosine": None, "sentences": [f"Sentence {n}"], "points": [[n, -n]]} for n in range(3)]
    chart = sentence_map("before", groups)
    [trace] = chart.figure["data"]
    assert trace["mode"] == "markers"
    assert trace["text"][0] == "<b>Sentence 0</b>"
    assert [cell.text for cell in chart.data.lines[0]] == ["sentence", "", "Sentence 0", ""]


@pytest.mark.parametrize("text", ["word " * 100, "字" * 500])
def test_a_long_sentence_is_cut(text):
    assert len(shortened(text)) == LONGEST_SENTENCE and shortened(text).endswith("…")
    assert shortened("short") == "short"
