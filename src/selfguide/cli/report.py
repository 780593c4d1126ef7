"""``selfguide report``."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from selfguide.errors import InputError

if TYPE_CHECKING:
    from selfguide.report.page import Page

HELP = "one HTML page of results, a run or scores: tables, curves, maps; opens without a network"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of the command."""
    parser.add_argument(
        "path",
        metavar="PATH",
        help="results of 'selfguide reproduce', the folder of a trained encoder, or a score file of 'selfguide evaluate'",
    )
    parser.add_argument("--data", metavar="DIR", help="data folder, for the sentences on the maps of results")
    parser.add_argument("--output", "-o", metavar="F.html", help="the page (default: beside PATH, with its name)")


def run(arguments: argparse.Namespace) -> None:
    """Write the page."""
    from selfguide.files import write_text
    from selfguide.report.html import render

    path = Path(arguments.path).expanduser()
    page = _page_of(path, Path(arguments.data).expanduser() if arguments.data else None)
    output = Path(arguments.output).expanduser() if arguments.output else _beside(path)
    if output.is_dir():
        raise InputError(f"the output '{output}' is a folder; give the name of a file, such as '{output / 'page.html'}'")
    output.parent.mkdir(parents=True, exist_ok=True)
    write_text(output, render(page))
    sys.stdout.write(f"report: {output}\n")


def _page_of(path: Path, data: Path | None) -> "Page":
    from selfguide.experiments.page import is_result_folder, results_page
    from selfguide.report.rows import scores_page
    from selfguide.report.run import run_page

    if not path.exists():
        raise InputError(f"'{path}' does not exist; give a folder of results, a trained encoder or a score file")
    if path.is_file():
        return scores_page(path)
    if (path / "selfguide" / "config.json").is_file():
        return run_page(path / "selfguide")
    if is_result_folder(path):
        return results_page(path, data=data)
    raise InputError(
        f"'{path}' holds neither results of 'selfguide reproduce' nor an encoder of 'selfguide train'; "
        "give one of these, or a score file of 'selfguide evaluate'"
    )


def _beside(path: Path) -> Path:
    """``scores.jsonl`` -> ``scores.html``, ``results`` -> ``results.html``."""
    if path.is_file():
        return path.with_suffix(".html")
    named = path if path.name not in ("", "..") else path.resolve()
    return named.with_name(f"{named.name}.html")
