"""What the paper prints against what was measured, cell by cell."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import final

from selfguide.experiments.jobs import jobs_of
from selfguide.experiments.results import Result, ResultFolder
from selfguide.experiments.specs import Printed, Row, Spec
from selfguide.tables import Cell, Table

WITHIN = 2.0
"""Standard errors of ours that a difference may have and still be called chance."""


@final
@dataclass(frozen=True)
class ComparedCell:
    """A cell: the paper's figure and ours, where there are any."""

    paper: Printed | None
    values: tuple[float, ...]
    """Ours, one a seed."""

    @property
    def mean(self) -> float | None:
        """Mean of ours."""
        return fmean(self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        """Standard deviation of ours over seeds."""
        return stdev(self.values) if len(self.values) > 1 else None

    @property
    def difference(self) -> float | None:
        """Ours less the paper's."""
        return None if self.paper is None or self.mean is None else self.mean - self.paper.value

    @property
    def is_within(self) -> bool | None:
        """Whether the paper's figure lies within two standard errors of ours; None where nothing can be said."""
        if self.difference is None or self.spread is None:
            return None
        return abs(self.difference) <= WITHIN * self.spread / math.sqrt(len(self.values))


@final
@dataclass(frozen=True)
class ComparedRow:
    """A line with its cells, and what became of its runs."""

    row: Row
    cells: dict[str, ComparedCell]
    results: tuple[Result, ...]

    @property
    def state(self) -> str:
        """``measured``, ``quoted``, or why there are no numbers."""
        if self.row.is_quoted:
            return "quoted"
        if any(result.is_measured for result in self.results):
            return "measured"
        return self.results[0].state if self.results else "not run yet"


def compare_with_paper(spec: Spec, results: ResultFolder, seeds: Collection[int] | None = None) -> list[ComparedRow]:
    """The lines of a table with all results that there are for them, of the spec's seeds or of others in their place."""
    return [_compared(row, spec, results, seeds) for row in spec.rows]


def _compared(row: Row, spec: Spec, results: ResultFolder, seeds: Collection[int] | None) -> ComparedRow:
    found = [result for job in jobs_of(row, spec.measure, seeds) if (result := results.read(job))]
    columns = zip(spec.columns, spec.metrics, strict=True)
    cells = {column: ComparedCell(row.paper.get(column), _values(found, column, metric)) for column, metric in columns}
    return ComparedRow(row, cells, tuple(found))


def _values(results: Sequence[Result], column: str, metric: str) -> tuple[float, ...]:
    values = (result.value_of(column, metric) for result in results if result.is_measured)
    return tuple(value for value in values if value is not None)


def comparison_table(spec: Spec, results: ResultFolder, seeds: Collection[int] | None = None) -> Table:
    """A table with two lines for each system: the paper's figures, and ours; of these seeds, where given."""
    lines: list[tuple[str, tuple[Cell, ...]]] = []
    notes = [spec.note] if spec.note else []
    for compared in compare_with_paper(spec, results, seeds):
        name = f"{compared.row.encoder}  {compared.row.label}".strip()
        cells = compared.cells.values()
        if compared.row.paper:
            lines.append((f"{name}, paper", tuple(_paper_cell(cell) for cell in cells)))
        if compared.state == "measured":
            count = max(len(cell.values) for cell in cells) if compared.cells else 0
            lines.append((f"{name}, ours" + (f" (n = {count})" if count > 1 else ""), tuple(map(_our_cell, cells))))
        elif not compared.row.is_quoted:
            notes.append(f"{name}: {compared.state}")
    return Table(spec.title, ("", *spec.columns), tuple(lines), tuple(notes))


def _paper_cell(cell: ComparedCell) -> Cell:
    return Cell() if cell.paper is None else Cell(cell.paper.value, cell.paper.spread)


def _our_cell(cell: ComparedCell) -> Cell:
    return Cell(cell.mean, cell.spread)
