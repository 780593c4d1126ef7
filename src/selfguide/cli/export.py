"""``selfguide export``."""

import argparse
import sys

from selfguide.cli.arguments import add_settings, given_settings
from selfguide.exporting.config import ExportConfig

HELP = "write a model as ONNX or OpenVINO, float32 or int8, with its pooling inside"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--overwrite", action="store_true", help="replace an export in --output")
    add_settings(parser, ExportConfig)


def run(arguments: argparse.Namespace) -> None:
    """Export, and write what was measured to stdout."""
    config = ExportConfig(**given_settings(arguments, ExportConfig))

    from selfguide.cli.quiet import quiet_libraries
    from selfguide.exporting.export import run_export

    quiet_libraries()
    done = run_export(config, overwrite=arguments.overwrite)
    found = done.agreement
    allowed = "largest difference" if config.precision == "float32" else "1 - mean cosine"
    sys.stdout.write(
        f"{config.format} {config.precision}, vectors of {done.dimension} dimensions: {done.output / done.graph}\n"
        f"against PyTorch, {found.sentences} sentences: largest difference {found.max_difference:.1e}, mean cosine "
        f"{found.mean_cosine:.6f}, lowest {found.lowest_cosine:.6f}; allowed: {allowed} {done.tolerance:g}\n"
    )
