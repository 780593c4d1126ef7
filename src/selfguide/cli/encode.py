"""``selfguide encode``."""

import argparse
import sys

from selfguide.bulk.config import EncodeConfig
from selfguide.cli.arguments import add_settings, given_settings

HELP = "encode files of sentences into one file of vectors"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument(
        "--overwrite", action="store_true", help="replace --output, and shards of other sentences or settings"
    )
    add_settings(parser, EncodeConfig)


def run(arguments: argparse.Namespace) -> None:
    """Encode, and write a summary to stdout."""
    given = given_settings(arguments, EncodeConfig)
    config = EncodeConfig(**given)

    from selfguide.bulk.encode import run_encoding
    from selfguide.cli.quiet import quiet_libraries

    quiet_libraries()
    done = run_encoding(config, overwrite=arguments.overwrite)
    before = done.count - done.encoded
    sys.stdout.write(
        f"{done.count:,} {config.vectors} vectors of {done.dimension} dimensions: {done.output}\n"
        f"{done.encoded:,} encoded now, {done.sentences_a_second:,.0f} a second"
        + (f"; {before:,} had been before" if before else "")
        + "\n"
    )
