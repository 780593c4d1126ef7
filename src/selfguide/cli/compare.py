"""``selfguide compare``."""

import argparse
import sys
from typing import TYPE_CHECKING

from selfguide.choices import TABLE_FORMATS
from selfguide.cli.arguments import add_settings, given_settings
from selfguide.errors import IncompleteError
from selfguide.evaluation.config import EvaluationConfig

if TYPE_CHECKING:
    from collections.abc import Sequence

    from selfguide.evaluation.comparison import Difference

HELP = "score several embedders on the same tasks, and tell which differences are more than chance"

_OF_ONE_MODEL = ("model", "embedder", "layer", "pooling", "dimensions", "template", "name", "sweep", "analyses")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument(
        "models",
        nargs="+",
        metavar="MODEL[:EMBEDDER]",
        help="what to compare, as in evaluate; folders of one name that were trained with several seeds are one line",
    )
    add_settings(parser, EvaluationConfig, without=_OF_ONE_MODEL)
    parser.add_argument("--draws", type=int, default=1000, metavar="N", help="resamples of the pairs (default: 1000)")
    parser.add_argument("--format", choices=TABLE_FORMATS, default="text", help="of the tables on stdout (default: text)")
    parser.add_argument("--pearson", action="store_true", help="show Pearson's correlation on the seven STS sets")


def run(arguments: argparse.Namespace) -> None:
    """Score all, and write the tables to stdout."""
    config = EvaluationConfig(**given_settings(arguments, EvaluationConfig))

    from selfguide.cli.quiet import quiet_libraries
    from selfguide.evaluation.compare import run_comparison
    from selfguide.table_formats import write_tables
    from selfguide.tables import score_tables

    quiet_libraries()
    comparison = run_comparison(arguments.models, config, draws=arguments.draws)
    tables = score_tables(comparison.rows, missing=comparison.missing, pearson=arguments.pearson)
    sys.stdout.write(write_tables(tables, arguments.format))
    sys.stdout.write(_differences(comparison.differences, arguments.draws))
    sys.stdout.write("".join(f"\n{model}: not run: {reason}\n" for model, reason in comparison.failed.items()))
    left_out = [*comparison.missing.values(), *(f"{model}: {reason}" for model, reason in comparison.failed.items())]
    if left_out:
        raise IncompleteError(f"done in part; not scored: {'; '.join(left_out)}")


def _differences(differences: "Sequence[Difference]", draws: int) -> str:
    if not differences:
        return ""
    lines = [
        f"\nDifferences in Spearman x100, 95% interval of a paired bootstrap over pairs ({draws} draws; *: leaves 0 out)"
    ]
    for found in differences:
        interval = f"({found.low:+.2f} to {found.high:+.2f})"
        star = "*" if found.is_clear else " "
        lines.append(f"  {found.first} - {found.second}  {found.dataset:8} {found.value:+7.2f}{star} {interval}")
    return "\n".join(lines) + "\n"
