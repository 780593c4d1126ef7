import csv
import io

import pytest

from selfguide.choices import TABLE_FORMATS
from selfguide.errors import InputError
from selfguide.scores import ScoreRow
from selfguide.table_formats import FORMATS, write_tables
from selfguide.tables import score_tables, sweep_tables


def row(dataset, value, *, embedder="bert/cls", metric="spearman", seed=None, split="test", **protocol):
    return ScoreRow(embedder, dataset, "r", split, metric, value, seed, "id", {"text": "raw", **protocol})


ROWS = [row("Avg", 31.4), row("STS12", 21.55), row("STS-B", 20.301), row("STS-B", 19.99, metric="pearson")]


def test_the_order_is_the_papers_whatever_the_rows():
    (table,) = score_tables(ROWS)
    assert table.header == ("embedder", "STS-B", "STS12", "Avg")
    assert [[cell.value for cell in cells] for _, cells in table.lines] == [[20.301, 21.55, 31.4]]


def test_text():
    rows = [*ROWS, row("STS-B", 47.29, embedder="bert-base/mean")]
    assert write_tables(score_tables(rows, missing=["STS13"]), "text").splitlines() == [
        "STS: cosine, Spearman x100",
        "embedder        STS-B  STS12    STS13    Avg",
        "bert/cls        20.30  21.55  missing  31.40",
        "bert-base/mean  47.29      -  missing      -",
        "split test; text raw",
    ]


def test_markdown():
    assert write_tables(score_tables([row("STS-B", 20.3, embedder="a|b")]), "markdown").splitlines() == [
        "**STS: cosine, Spearman x100**",
        "",
        "| embedder | STS-B |",
        "| --- | ---: |",
        r"| a\|b | 20.30 |",
        "",
        "split test; text raw  ",
    ]


def test_csv():
    text = write_tables(score_tables([row("STS-B", 20.3, embedder='a,"b"'), row("STS12", 7.0, embedder="c")]), "csv")
    assert list(csv.reader(io.StringIO(text))) == [
        ["embedder", "STS-B", "STS12"],
        ['a,"b"', "20.30", "-"],
        ["c", "-", "7.00"],
    ]


def test_latex():
    text = write_tables(score_tables([row("STS-B", 20.3, embedder="a_b&c"), row("STS12", 7.0, embedder="c")]), "latex")
    assert r"\begin{tabular}{lrr}" in text
    assert r"embedder & STS-B & STS12 \\" in text
    assert r"a\_b\&c & 20.30 & -- \\" in text
    assert text.splitlines()[0] == "% STS: cosine, Spearman x100"


def test_several_seeds_have_mean_and_standard_deviation():
    rows = [row("STS-B", value, seed=seed) for seed, value in ((1, 70.0), (2, 72.0), (3, 74.0), (3, 75.0))]
    tables = score_tables(rows)
    (cell,) = tables[0].lines[0][1]
    assert (cell.value, cell.spread) == (pytest.approx(217 / 3), pytest.approx(2.5166, abs=1e-4))
    assert "72.33 ±2.52" in write_tables(tables, "text")
    assert r"72.33 $\pm$ 2.52" in write_tables(tables, "latex")
    assert write_tables(tables, "csv").splitlines() == ["embedder,STS-B,STS-B sd", "bert/cls,72.33,2.52"]


def test_numbers_of_different_protocols_are_never_averaged():
    rows = [row(name, 50.0, aggregation=way) for name, way in (("STS12", "all"), ("STS12", "mean"), ("STS-B", "all"))]
    (table,) = score_tables(rows)
    assert [label for label, _ in table.lines] == ["bert/cls (aggregation all)", "bert/cls (aggregation mean)"]
    assert table.notes == ("aggregation all (STS12, STS-B), mean (STS12); split test; text raw",)


def test_systems_of_one_name_are_never_averaged():
    """Nor does one take the place of another; what differs in the seed is one system."""
    trained = [
        row(
            "STS-B", value, embedder="mini/sg-opt", seed=seed, training_seed=seed, training_recipe=recipe, weights=str(value)
        )
        for value, seed, recipe in ((60.0, 1, "aaaaaaaa"), (62.0, 2, "aaaaaaaa"), (80.0, 1, "bbbbbbbb"))
    ]
    plain = [row("STS-B", value, embedder="enc/cls", weights=weights) for value, weights in ((10.0, "cccc"), (20.0, "dddd"))]
    (table,) = score_tables([*trained, *plain])
    assert [(label, cells[0].value, cells[0].spread is not None) for label, cells in table.lines] == [
        ("mini/sg-opt (system aaaaaa)", 61.0, True),
        ("mini/sg-opt (system bbbbbb)", 80.0, False),
        ("enc/cls (system cccc)", 10.0, False),
        ("enc/cls (system dddd)", 20.0, False),
    ]


def test_seeds_of_an_evaluation_count_for_a_trained_encoder_too():
    rows = [
        row("MR", value, metric="accuracy", split="cv", seed=1, training_seed=1, evaluation_seed=seed)
        for seed, value in ((1, 80.0), (2, 82.0), (2, 84.0))
    ]
    (table,) = score_tables(rows)
    assert table.lines[0][1][0].value == 82.0


def test_what_labels_selected_is_marked():
    (table,) = score_tables([row("STS-B", 74.0, seed=1, selected_by_labels=True)])
    assert table.lines[0][0] == "bert/cls*"
    assert table.notes[-1] == "*: labelled pairs selected the checkpoint"


def test_each_kind_of_task_has_its_own_table():
    rows = [
        row("SemEval2017-ar-ar", 50.2, metric="pearson"),
        row("SemEval2017-ar-ar", 50.9),
        row("MRPC", 70.0, metric="accuracy", seed=1),
        row("Avg", 80.0, metric="accuracy", seed=1),
        row("MRPC", 88.0, metric="f1", split="validation-last-90%", seed=1),
        row("MRPC", 83.0, metric="accuracy", split="validation-last-90%", seed=1),
        row("STS-B", -2.5, metric="uniformity"),
        row("mine", 61.0, split="all"),
        row("mine", 62.0, metric="pearson", split="all"),
        *ROWS,
    ]
    found = {table.title.partition(":")[0]: table for table in score_tables(rows)}
    assert {title: table.header[1:] for title, table in found.items()} == {
        "STS": ("STS-B", "STS12", "Avg"),
        "Multilingual STS": ("SemEval2017-ar-ar",),
        "GLUE": ("MRPC",),
        "SentEval": ("MRPC", "Avg"),
        "Geometry on STS-B": ("uniformity",),
        "Other pairs": ("mine spearman", "mine pearson"),
    }
    (glue,), (senteval,) = found["GLUE"].lines, found["SentEval"].lines  # a line each, although both have an MRPC
    assert [cell.value for cell in glue[1]] == [88.0] and [cell.value for cell in senteval[1]] == [70.0, 80.0]


def test_pearson_on_request():
    (table,) = score_tables(ROWS, pearson=True)
    assert (table.title, table.header) == ("STS: cosine, Pearson x100", ("embedder", "STS-B"))
    assert table.lines[0][1][0].value == 19.99


def test_sweep():
    rows = [
        row("STS-B", 10.0 * layer + len(pooling), embedder=f"b/{pooling}@{layer}", pooling=pooling, layers=[layer])
        for layer in range(3)
        for pooling in ("cls", "mean", "max")
        if (layer, pooling) != (0, "cls")
    ]
    (table,) = sweep_tables(rows)
    assert table.header == ("layer", "0", "1", "2")
    assert {label: [cell.value for cell in cells] for label, cells in table.lines} == {
        "mean": [4.0, 14.0, 24.0],
        "max": [3.0, 13.0, 23.0],
        "cls": [None, 13.0, 23.0],
    }
    assert "-: not defined" in write_tables([table], "text")
    assert sweep_tables([row("MR", 80.0, metric="accuracy")]) == []


def test_formats():
    assert tuple(FORMATS) == TABLE_FORMATS
    assert score_tables([]) == []
    with pytest.raises(InputError, match="table format 'html' is not known; choose one of: text, markdown, csv, latex"):
        write_tables([], "html")
