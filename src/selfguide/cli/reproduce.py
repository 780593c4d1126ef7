"""``selfguide reproduce``."""

import argparse
import sys
from typing import TYPE_CHECKING

from selfguide.choices import TABLE_FORMATS
from selfguide.cli.arguments import add_settings, given_settings
from selfguide.errors import IncompleteError
from selfguide.experiments.config import ReproduceConfig

if TYPE_CHECKING:
    from selfguide.experiments.reproduce import Reproduction

HELP = "run tables and figures of the paper, and show them beside what it prints"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("names", nargs="+", metavar="NAME", help="such as table1, figure4, extra, or all")
    add_settings(parser, ReproduceConfig)
    parser.add_argument("--format", choices=TABLE_FORMATS, default="text", help="of the tables on stdout (default: text)")


def run(arguments: argparse.Namespace) -> None:
    """Run what is missing, and write the tables to stdout."""
    config = ReproduceConfig(**given_settings(arguments, ReproduceConfig))

    from selfguide.cli.quiet import quiet_libraries
    from selfguide.experiments.reproduce import reproduce
    from selfguide.table_formats import write_tables

    quiet_libraries()
    reproduction = reproduce(arguments.names, config, prepare=quiet_libraries)
    if config.dry_run:
        sys.stdout.write(_plan(reproduction))
        return
    sys.stdout.write(write_tables(reproduction.tables, arguments.format))
    if reproduction.not_run:
        job, reason = next(iter(reproduction.not_run.items()))
        raise IncompleteError(f"done in part: {len(reproduction.not_run)} runs have no numbers; the first, {job}: {reason}")


def _plan(reproduction: "Reproduction") -> str:
    plan = reproduction.plan
    times = [result.seconds.get("total", 0.0) for result in plan.known.values()]
    lines = [f"{len(plan.known)} runs have a result; they took {sum(times):.0f} s"]
    for job in plan.left:
        before = plan.seconds_before.get(job)
        lines.append(f"to run: {job}" + (f" ({before:.0f} s before)" if before is not None else ""))
    return "\n".join(lines) + "\n"
