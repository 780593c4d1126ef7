"""``selfguide reproduce``: runs what is missing of tables and figures, and shows them beside the paper's."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from selfguide.errors import InputError
from selfguide.experiments.comparison import comparison_table
from selfguide.experiments.config import ReproduceConfig
from selfguide.experiments.jobs import Job, jobs_of, jobs_of_specs
from selfguide.experiments.places import Places
from selfguide.experiments.results import Result, ResultFolder
from selfguide.experiments.runner import Plan, plan_jobs, run_jobs
from selfguide.experiments.specs import Spec, encoders, known_models, methods, read_spec, spec_names
from selfguide.files import check_can_write
from selfguide.settings import with_hint
from selfguide.tables import Table, sweep_tables

logger = logging.getLogger(__name__)


@final
@dataclass(frozen=True)
class Reproduction:
    """What came of it."""

    tables: list[Table]
    plan: Plan
    outcomes: dict[Job, Result]

    @property
    def not_run(self) -> dict[Job, str]:
        """Jobs without numbers, each with the reason."""
        return {job: result.state for job, result in self.outcomes.items() if not result.is_measured}


def reproduce(names: Sequence[str], config: ReproduceConfig, *, prepare: Callable[[], None] | None = None) -> Reproduction:
    """Run what is missing or stale of tables and figures; what was begun before goes on.

    Args:
        names: Tables and figures, such as ``table1``; ``all`` for all.
        config: What is run, and with what.
        prepare: Called first in every process that runs jobs beside others.

    Raises:
        InputError: when a name is not known, or a folder is not there.
    """
    specs = [read_spec(name) for name in (spec_names() if "all" in names else names)]
    places = _places(config)
    jobs = jobs_of_specs(
        specs,
        encoders=_checked_encoders(config),
        models=places.models,
        methods=_checked_methods(config),
        seeds=config.seed_numbers,
    )
    if not jobs:
        raise InputError(f"nothing of {', '.join(names)} is asked for: no line has such an encoder and method")
    results = ResultFolder(Path(config.results).expanduser())
    plan = plan_jobs(jobs, results, rerun=config.rerun)
    outcomes: dict[Job, Result] = {}
    if not config.dry_run:
        check_can_write(results.folder / "sts")
        count = len(plan.left)

        def tell(job: Job, result: Result) -> None:
            outcomes[job] = result
            seconds = f" ({result.seconds['total']:.0f} s)" if result.is_measured else ""
            logger.info("%d of %d: %s: %s%s", len(outcomes), count, job, result.state, seconds)

        run_jobs(plan.left, results, places, at_once=config.jobs, on_result=tell, prepare=prepare)
    tables = [table for spec in specs for table in _tables(spec, results, config.seed_numbers)]
    return Reproduction(tables, plan, outcomes)


def _tables(spec: Spec, results: ResultFolder, seeds: tuple[int, ...] | None) -> list[Table]:
    """What a terminal shows of a table or figure; of a map nothing."""
    if spec.measure == "sweep":
        found = [(row.encoder, results.read(job)) for row in spec.rows for job in jobs_of(row, "sweep")]
        return [
            replace(table, title=f"{encoder}: {table.title}")
            for encoder, result in found
            if result is not None and result.is_measured
            for table in sweep_tables(result.score_rows)
        ]
    return [comparison_table(spec, results, seeds)] if spec.columns else []


def _places(config: ReproduceConfig) -> Places:
    data = Path(config.data).expanduser() if config.data else None
    if data is not None and not data.is_dir():
        raise InputError(f"the data folder '{config.data}' does not exist; give the folder that holds 'sts' and 'nli'")
    work = Path(config.results).expanduser() / ".work"
    return Places(data, work, config.device, config.models(known_models()))


def _checked_encoders(config: ReproduceConfig) -> set[str]:
    """Labels of the encoders that are asked for, as the tables write them."""
    labels = {label.lower(): label for label in encoders()}
    unknown = [name for name in config.encoder if name.lower() not in labels]
    if unknown:
        raise InputError(f"encoder {with_hint(unknown[0], encoders())} is not in the tables: {', '.join(encoders())}")
    return {labels[name.lower()] for name in config.encoder}


def _checked_methods(config: ReproduceConfig) -> tuple[str, ...]:
    for name in config.method:
        if name not in methods():
            raise InputError(f"method {with_hint(name, methods())} is not in the tables: {', '.join(methods())}")
    return config.method
