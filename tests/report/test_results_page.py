"""The page of a folder of results: every line of every table, verdicts in words, where numbers come from."""

import math
import re
from statistics import fmean, stdev

import pytest
from made_results import write_results, write_values

from selfguide.errors import InputError
from selfguide.experiments.page import is_result_folder, results_page
from selfguide.experiments.specs import read_spec, spec_names
from selfguide.report.page import ChartRow, DataTable, Folded


def section_of(page, name):
    [section] = [section for section in page.sections if section.title == read_spec(name).title]
    return section


def block_of(section, kind):
    return next((block for block in section.blocks if isinstance(block, kind)), None)


def line_of(page, name, label, encoder):
    """Cells by column, and what is told below the name of a system."""
    table = block_of(section_of(page, name), DataTable)
    [line] = [line for line in table.lines if (line[0].text, line[0].details[:-1]) == (label, (encoder,) if encoder else ())]
    return {**dict(zip(table.header, line, strict=True)), "state": line[0].details[-1]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    write_results(folder, ("table2", "table6", "figure1", "figure5", "table5"))
    return folder


@pytest.fixture(scope="module")
def page(folder):
    return results_page(folder)


def test_sections_are_in_the_order_of_the_paper(page):
    assert [section.title for section in page.sections[1:]] == [read_spec(name).title for name in spec_names()]
    assert [section.short for section in page.sections[1:4]] == ["Table 1", "Table 2", "Table 3"]


@pytest.mark.parametrize("name", spec_names())
def test_every_line_of_a_table_is_there_in_its_order(page, name):
    table = block_of(section_of(page, name), DataTable)
    rows = [(row.label, (row.encoder,) if row.encoder else ()) for row in read_spec(name).rows]
    assert [(line[0].text, line[0].details[:-1]) for line in table.lines] == rows
    assert all(re.match(r"n = \d|quoted|not run", line[0].details[-1]) for line in table.lines)


def test_lines_without_numbers_say_why(folder, page):
    assert line_of(page, "table1", "No tuning, CLS", "BERT-base")["state"] == "not run yet"
    quoted = line_of(page, "table2", "UMCC-DLSI-run2 (Rank #1)", "")
    assert quoted["state"] == "quoted"
    assert quoted["SemEval2014-es"].text == "-" and quoted["SemEval2014-es"].details == ("paper 80.69",)
    assert quoted["SemEval2014-es"].value is None, "sorted behind what was measured"


def test_a_line_that_could_not_be_run(tmp_path):
    write_results(tmp_path, ("table2",), encoders=())
    line = line_of(results_page(tmp_path), "table2", "No tuning, CLS", "MBERT")
    assert line["state"] == "not run: no model 'bert-base-multilingual-cased' here"
    assert line["SemEval2014-es"].details == ("paper 12.60",)


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ((82.64, 82.84, 82.94), "within"),
        ((82.0, 82.1, 82.2), "beyond"),
        ((80.0, 82.0, 86.0, 82.0), "within"),
        ((83.4,), ""),
    ],
)
def test_verdicts(tmp_path, values, verdict):
    """The paper prints 82.74; counted here once more."""
    write_values(tmp_path, "table2", "MBERT", "sg-opt", values)
    line = line_of(results_page(tmp_path), "table2", "Contrastive (SG-OPT)", "MBERT")
    cell, mean = line["SemEval2014-es"], fmean(values)
    if len(values) > 1:
        error = stdev(values) / math.sqrt(len(values))
        assert (abs(mean - 82.74) <= 2 * error) == (verdict == "within")
        assert cell.text == f"{mean:.2f} ±{stdev(values):.2f}"
    else:
        assert cell.text == f"{mean:.2f}"
    assert cell.details == ("paper 82.74", f"{mean - 82.74:+.2f} {verdict}".strip())
    assert cell.mark == verdict and cell.value == mean
    judged = {"within": ", 1 of 1 within", "beyond": ", 0 of 1 within", "": ""}[verdict]
    assert line["state"] == f"n = {len(values)}{judged}"


def test_a_difference_of_nothing_has_no_minus(tmp_path):
    write_values(tmp_path, "table2", "MBERT", "cls", (12.5999,))
    line = line_of(results_page(tmp_path), "table2", "No tuning, CLS", "MBERT")
    assert line["SemEval2014-es"].details[1] == "+0.00"


def test_seconds_are_not_judged(page):
    line = line_of(page, "table6", "Contrastive (SG-OPT)", "BERT-base")
    assert re.fullmatch(r"n = [2-8]", line["state"])
    assert line["training"].mark == "" and "paper 455.02" in line["training"].details[0]


def test_overview_counts(page):
    table = block_of(page.sections[0], DataTable)
    lines = {line[0].text: [cell.text for cell in line[1:]] for line in table.lines}
    assert lines["Table 2"][0] == "6 of 6"
    assert not lines["Table 1"][0].startswith("0 of "), "jobs of table 5 are of table 1 too"
    assert lines["Table 10"] == [f"0 of {len(read_spec('table10').rows)}", ""]
    assert page.subtitle.split()[1:3] == [
        "of",
        str(sum(not row.is_quoted for name in spec_names() for row in read_spec(name).rows)),
    ]


def test_figures_are_drawn(page):
    layers = block_of(section_of(page, "figure1"), ChartRow).charts
    assert [chart.figure["data"][0]["type"] for chart in layers] == ["scatter", "heatmap"] * 2
    assert block_of(section_of(page, "figure1"), DataTable).header == ("system",)
    maps = block_of(section_of(page, "figure5"), ChartRow).charts
    assert [chart.title for chart in maps][:2] == ["BERT-base: No tuning, CLS", "BERT-base: Contrastive (SG-OPT)"]


def test_trained_encoders_are_level_lines_among_the_layers(tmp_path):
    write_results(tmp_path, ("figure1", "table1"))
    lines = block_of(section_of(results_page(tmp_path), "figure1"), ChartRow).charts[0].figure["data"]
    level = {line["name"]: line["y"] for line in lines if line["name"].startswith("Contrastive")}
    sg = line_of(results_page(tmp_path), "table1", "Contrastive (SG)", "BERT-base")["STS-B"].value
    assert level["Contrastive (SG)"] == pytest.approx([sg, sg], abs=0.01)
    assert set(level) == {"Contrastive (SG)", "Contrastive (SG-OPT)"}
    assert len(lines) == 3 + 3


def test_sentences_of_the_maps_come_from_the_data(folder, tmp_path):
    """Results name the lines of STS-B dev alone."""
    stsb = tmp_path / "sts" / "STS-B"
    stsb.mkdir(parents=True)
    (stsb / "dev.tsv").write_text("".join(f"{n % 6}\tfirst of {n}\tsecond of {n}\n" for n in range(1, 13)))
    chart = block_of(section_of(results_page(folder, data=tmp_path), "figure5"), ChartRow).charts[0]
    assert [cell.text for cell in chart.data.lines[2]][2:] == ["first of 3", "second of 3"]
    with pytest.raises(InputError, match=r"dev\.tsv"):
        results_page(folder, data=tmp_path / "nowhere")


def test_training_curves_are_drawn_once(page):
    titles = [chart.title for section in page.sections for block in section.blocks if isinstance(block, ChartRow)
              for chart in block.charts if "while training" in chart.title]  # fmt: skip
    of_table5 = [chart for chart in block_of(section_of(page, "table5"), ChartRow).charts if "dev score" in chart.title]
    names = [trace["name"] for trace in of_table5[0].figure["data"]]
    shown_before = {
        trace["name"] for chart in block_of(section_of(page, "table1"), ChartRow).charts for trace in chart.figure["data"]
    }
    assert titles and not shown_before & set(names)


def test_where_numbers_come_from_is_told(page):
    [table] = block_of(section_of(page, "table2"), Folded).blocks
    line = dict(zip(table.header, table.lines[-1], strict=True))
    assert line["commit"].text == "0123456789"
    assert line["hardware"].text == "NVIDIA Example"
    assert line["versions"].text == "Python 3.11.9, selfguide 0.1.0, torch 2.13.0, transformers 5.22.2"
    assert line["total s"].text == "20.0"
    assert block_of(section_of(page, "table10"), Folded) is None


def test_a_folder_of_results_is_told_from_others(folder, tmp_path):
    assert is_result_folder(folder)
    assert not is_result_folder(tmp_path)


def test_a_broken_result(tmp_path):
    write_values(tmp_path, "table2", "MBERT", "cls", (12.6,))
    [file] = tmp_path.rglob("*.json")
    file.write_text("{")
    with pytest.raises(InputError, match="not a result file"):
        results_page(tmp_path)
