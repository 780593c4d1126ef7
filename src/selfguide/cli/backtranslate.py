"""``selfguide backtranslate``."""

import argparse
import sys
from typing import TYPE_CHECKING

from selfguide.cli.arguments import add_settings, given_settings
from selfguide.translation.config import BacktranslationConfig

if TYPE_CHECKING:
    from selfguide.translation.backtranslate import Backtranslation

HELP = "paraphrase sentences by translating them to another language and back"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--overwrite", action="store_true", help="replace --output; what is in the cache is used again")
    add_settings(parser, BacktranslationConfig)


def run(arguments: argparse.Namespace) -> None:
    """Translate there and back, and write a summary to stdout."""
    given = given_settings(arguments, BacktranslationConfig)
    config = BacktranslationConfig(**given)

    from selfguide.translation.backtranslate import run_backtranslation

    if config.engine == "neural":
        from selfguide.cli.quiet import quiet_libraries

        quiet_libraries()
    sys.stdout.write(_summary(run_backtranslation(config, overwrite=arguments.overwrite)))


def _summary(done: "Backtranslation") -> str:
    count = len(done.paraphrases)
    return (
        f"{count:,} sentences with a paraphrase: {done.unchanged:,} unchanged ({done.unchanged / count:.1%}), "
        f"mean word overlap {done.overlap:.2f}\n"
        f"{done.cached:,} were in the cache, {done.paraphrases.dropped:,} dropped as nothing came back\n"
        f"paraphrases: {done.output}\n"
    )
