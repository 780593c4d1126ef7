"""``selfguide evaluate``."""

import argparse
import sys
from typing import TYPE_CHECKING

from selfguide.choices import TABLE_FORMATS
from selfguide.cli.arguments import add_settings, given_settings
from selfguide.errors import IncompleteError
from selfguide.evaluation.config import EvaluationConfig

if TYPE_CHECKING:
    from selfguide.tables import Table

HELP = "score any embedder on STS and other tasks, by a protocol that is named"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    add_settings(parser, EvaluationConfig)
    parser.add_argument("--format", choices=TABLE_FORMATS, default="text", help="of the table on stdout (default: text)")
    parser.add_argument("--pearson", action="store_true", help="show Pearson's correlation on the seven STS sets")


def run(arguments: argparse.Namespace) -> None:
    """Score, and write the table to stdout."""
    config = EvaluationConfig(**given_settings(arguments, EvaluationConfig))

    from selfguide.cli.quiet import quiet_libraries
    from selfguide.evaluation.evaluate import run_evaluation
    from selfguide.table_formats import write_tables
    from selfguide.tables import score_tables, sweep_tables

    quiet_libraries()
    evaluation = run_evaluation(config)
    tables: list[Table] = (
        sweep_tables(evaluation.rows, metric="pearson" if arguments.pearson else "spearman")
        if config.sweep
        else score_tables(evaluation.rows, missing=evaluation.missing, pearson=arguments.pearson)
    )
    sys.stdout.write(write_tables(tables, arguments.format))
    if evaluation.missing:
        raise IncompleteError(f"done in part; not scored: {'; '.join(evaluation.missing.values())}")
