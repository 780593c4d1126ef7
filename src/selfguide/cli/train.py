"""``selfguide train``."""

import argparse
import sys
from pathlib import Path

from selfguide.cli.arguments import add_settings, given_settings
from selfguide.settings import read_toml
from selfguide.training.config import TrainingConfig

HELP = "train an encoder on raw sentences, without labels"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument("--config", metavar="F.toml", help="settings in a TOML file, by the same names; flags go first")
    parser.add_argument("--resume", action="store_true", help="go on with the interrupted run of --output")
    parser.add_argument("--overwrite", action="store_true", help="replace an earlier run in --output")
    parser.add_argument("--push-to-hub", metavar="USER/NAME", help="upload the folder to the Hugging Face hub afterwards")
    parser.add_argument("--private", action="store_true", help="make the hub repository private")
    add_settings(parser, TrainingConfig)


def run(arguments: argparse.Namespace) -> None:
    """Train."""
    given = given_settings(arguments, TrainingConfig)
    from_file = read_toml(Path(arguments.config), TrainingConfig) if arguments.config else {}

    from selfguide.cli.quiet import quiet_libraries
    from selfguide.training.progress import progress_for
    from selfguide.training.train import run_training

    quiet_libraries()
    summary = run_training(
        given,
        from_file=from_file,
        resume=arguments.resume,
        overwrite=arguments.overwrite,
        progress=progress_for(sys.stderr),
    )
    if summary.before is not None and summary.after is not None:
        chosen = f"step {summary.kept_step}, chosen by these labels"
        _say(f"dev score before {summary.before:.2f}, after {summary.after:.2f} ({chosen})")
    if summary.after_cut is not None:
        _say(f"dev score of the {summary.dim} dimensions that are saved {summary.after_cut:.2f}")
    _say(f"encoder: {summary.config.output}")
    if arguments.push_to_hub:
        from selfguide.hub import push

        _say(f"hub: {push(Path(summary.config.output).expanduser(), arguments.push_to_hub, private=arguments.private)}")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
