"""Runs the jobs that have no result yet, several at a time where asked; each result is written as soon as it is there."""

import logging
import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from typing import final

from selfguide.errors import SelfguideError
from selfguide.experiments.jobs import Job
from selfguide.experiments.measures import run_job
from selfguide.experiments.places import Places
from selfguide.experiments.results import Result, ResultFolder

logger = logging.getLogger(__name__)

Run = Callable[[Job, Places], Result]
OnResult = Callable[[Job, Result], None]


@final
@dataclass(frozen=True)
class Plan:
    """Which jobs have a result, and which are to be run."""

    known: dict[Job, Result]
    left: list[Job]
    seconds_before: dict[Job, float]
    """What those that are to be run took the last time, where there was one."""


def plan_jobs(jobs: Sequence[Job], results: ResultFolder, *, rerun: bool = False) -> Plan:
    """Look for results: a job is left when there is none, it is stale, or it could not be run the last time."""
    known = {} if rerun else {job: result for job in jobs if (result := results.read(job)) and result.is_measured}
    left = [job for job in jobs if job not in known]
    return Plan(known, left, {job: seconds for job in left if (seconds := results.seconds_before(job)) is not None})


def run_jobs(
    jobs: Sequence[Job],
    results: ResultFolder,
    places: Places,
    *,
    at_once: int = 1,
    on_result: OnResult = lambda job, result: None,
    prepare: Callable[[], None] | None = None,
    run: Run = run_job,
) -> dict[Job, Result]:
    """Run jobs and write their results; what was written stays when this is interrupted.

    Args:
        jobs: What to run.
        results: Where results go. One that has numbers is not replaced by one that could not be run.
        places: Where data and models are.
        at_once: Jobs in processes of their own, side by side on the same device.
        on_result: Told of each result.
        prepare: Called first in every process of its own.
        run: Runs one job.
    """
    found: dict[Job, Result] = {}
    for job, result in _outcomes(jobs, partial(_run, run, places), at_once, prepare):
        found[job] = result
        before = results.read(job)
        if result.is_measured or before is None or not before.is_measured:
            results.write(job, result)
        on_result(job, result)
    return found


def _run(run: Run, places: Places, job: Job) -> Result:
    return run(job, places)


def _outcomes(
    jobs: Sequence[Job], run: Callable[[Job], Result], at_once: int, prepare: Callable[[], None] | None
) -> Iterator[tuple[Job, Result]]:
    """Jobs and their results, in the order in which they are done."""
    if at_once == 1:
        yield from ((job, run(job)) for job in jobs)
        return
    with ProcessPoolExecutor(at_once, mp_context=multiprocessing.get_context("spawn"), initializer=prepare) as pool:
        running = {pool.submit(run, job): job for job in jobs}
        try:
            for done in as_completed(running):
                yield running[done], done.result()
        except BrokenProcessPool as error:
            raise SelfguideError(
                "a process that ran jobs was killed, perhaps for want of memory; what was done before is kept: run the same "
                "command again, with fewer --jobs"
            ) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            # a training goes on after Ctrl-C until it has a checkpoint, and the pool would wait for it
            for worker in multiprocessing.active_children():
                worker.kill()
            raise
