"""``selfguide benchmark``."""

import argparse
import sys

from selfguide.benchmark.config import MEASURES, BenchmarkConfig
from selfguide.cli.arguments import add_settings, given_settings

HELP = "how fast encoding and training are on this machine, against sentence-transformers and plain PyTorch"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("measures", nargs="*", metavar="MEASURE", help=f"any of {', '.join(MEASURES)} (default: all)")
    add_settings(parser, BenchmarkConfig, without=("measures",))


def run(arguments: argparse.Namespace) -> None:
    """Measure, and write a table to stdout."""
    config = BenchmarkConfig(**{**given_settings(arguments, BenchmarkConfig), "measures": tuple(arguments.measures)})

    from selfguide.benchmark.benchmark import as_text, run_benchmark
    from selfguide.cli.quiet import quiet_libraries

    quiet_libraries()
    sys.stdout.write(as_text(run_benchmark(config)))
