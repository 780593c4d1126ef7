"""``selfguide fit``."""

import argparse
import sys

from selfguide.cli.arguments import add_settings, given_settings
from selfguide.embedders.config import FitConfig

HELP = "fit an embedder that learns from text (flow, whitening, pca), and save it"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--overwrite", action="store_true", help="replace an embedder in --output")
    add_settings(parser, FitConfig)


def run(arguments: argparse.Namespace) -> None:
    """Fit and save."""
    given = given_settings(arguments, FitConfig)
    config = FitConfig(**given)

    from selfguide.cli.quiet import quiet_libraries
    from selfguide.embedders.fitting import run_fit

    quiet_libraries()
    embedder = run_fit(config, overwrite=arguments.overwrite)
    sys.stdout.write(f"{embedder.name}: {config.output}\n")
