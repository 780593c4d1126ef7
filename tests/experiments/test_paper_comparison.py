"""Cells of a table: mean, spread, difference and verdict by hand, and what a table shows of them."""

import dataclasses

import pytest

from selfguide.experiments.comparison import ComparedCell, compare_with_paper, comparison_table
from selfguide.experiments.jobs import jobs_of
from selfguide.experiments.results import MEASURED, Result, ResultFolder, not_run
from selfguide.experiments.specs import Printed, parse_spec
from selfguide.table_formats import as_text

SPEC = parse_spec(
    "small",
    {
        "title": "A table",
        "measure": "sts",
        "columns": ["STS-B", "Avg"],
        "metric": "spearman",
        "note": "A note.",
        "rows": {"": ["Someone's"], "BERT-base": ["cls", "sg-opt", "sg"]},
        "seeds": {"sg-opt": 2},
        "paper": {
            "": {"Someone's": [50.0, 51.0]},
            "BERT-base": {"cls": [20.0, 31.4], "sg-opt": [77.23, 74.62]},
        },
        "spread": {"BERT-base": {"sg-opt": [0.43, 0.25]}},
    },
)


def row(dataset, value, seed):
    return {
        "embedder": "BERT-base/sg-opt",
        "dataset": dataset,
        "revision": "",
        "split": "test",
        "metric": "spearman",
        "value": value,
        "seed": seed,
        "run_id": "",
        "protocol": {},
    }


def measured(job, *values):
    rows = [row(dataset, value, job.seed) for dataset, value in zip(("STS-B", "Avg"), values, strict=False)]
    return Result(job.recipe, job.fingerprint, MEASURED, rows=rows)


@pytest.fixture
def results(tmp_path):
    folder = ResultFolder(tmp_path)
    quoted, cls, sg_opt, sg = SPEC.rows
    assert jobs_of(quoted, "sts") == []
    folder.write(jobs_of(cls, "sts")[0], measured(jobs_of(cls, "sts")[0], 20.3, 31.4))
    first, second = jobs_of(sg_opt, "sts")
    folder.write(first, measured(first, 77.0, 74.0))
    folder.write(second, measured(second, 78.0, 75.0))
    folder.write(jobs_of(sg, "sts")[0], not_run(jobs_of(sg, "sts")[0], "no such model"))
    return folder


def test_verdicts_by_hand():
    cell = ComparedCell(Printed(74.62), (74.0, 75.0))
    assert cell.mean == 74.5
    assert cell.spread == pytest.approx(0.5**0.5)  # each 0.5 from the mean; one degree of freedom
    assert cell.difference == pytest.approx(-0.12)
    assert cell.is_within  # the standard error is 0.5
    assert ComparedCell(Printed(75.49), (74.0, 75.0)).is_within
    assert not ComparedCell(Printed(75.51), (74.0, 75.0)).is_within
    assert not ComparedCell(Printed(73.49), (74.0, 75.0)).is_within


def test_no_verdict_without_spread():
    assert ComparedCell(Printed(74.62), (74.62,)).is_within is None
    assert ComparedCell(None, (74.0, 75.0)).is_within is None
    assert ComparedCell(Printed(74.62), ()).difference is None


def test_rows_and_states(results):
    compared = compare_with_paper(SPEC, results)
    assert [line.state for line in compared] == ["quoted", "measured", "measured", "not run: no such model"]
    assert compared[2].cells["Avg"] == ComparedCell(Printed(74.62, 0.25), (74.0, 75.0))


def test_a_stale_result_is_not_shown(results, tmp_path):
    job = jobs_of(SPEC.rows[1], "sts")[0]
    results.write(job, dataclasses.replace(measured(job, 20.3, 31.4), fingerprint="of another recipe"))
    assert compare_with_paper(SPEC, results)[1].state == "not run yet"


def test_table(results):
    text = as_text(comparison_table(SPEC, results))
    assert "BERT-base  Contrastive (SG-OPT), ours (n = 2)  77.50 ±0.71  74.50 ±0.71" in text
    assert "BERT-base  Contrastive (SG-OPT), paper         77.23 ±0.43  74.62 ±0.25" in text
    assert "BERT-base  Contrastive (SG): not run: no such model" in text
    assert "A note." in text
