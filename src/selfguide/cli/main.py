"""``selfguide``: finds the command, runs it, and turns errors into one line and an exit code."""

import argparse
import logging
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version

from selfguide.cli import (
    backtranslate,
    benchmark,
    compare,
    encode,
    evaluate,
    export,
    fit,
    quickstart,
    report,
    reproduce,
    train,
)
from selfguide.cli.arguments import Parser
from selfguide.errors import SelfguideError
from selfguide.files import is_disk_full

COMMANDS = {
    "quickstart": quickstart,
    "train": train,
    "evaluate": evaluate,
    "compare": compare,
    "fit": fit,
    "reproduce": reproduce,
    "report": report,
    "backtranslate": backtranslate,
    "encode": encode,
    "export": export,
    "benchmark": benchmark,
}


def build_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = Parser(
        prog="selfguide", description="Raw sentences and any pretrained encoder in, a better sentence encoder out."
    )
    parser.add_argument("--version", action="version", version=f"selfguide {version('selfguide')}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True, parser_class=Parser)
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.HELP, description=module.HELP, allow_abbrev=False)
        command.add_argument("--traceback", action="store_true", help="show where an error came from")
        module.add_arguments(command)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; gives the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    show_traceback = "--traceback" in given
    try:
        parsed = build_parser().parse_args(given)
        with _log_on_stderr():
            COMMANDS[parsed.command].run(parsed)
    except KeyboardInterrupt as interruption:
        return _fail(str(interruption) or "interrupted", 130, show_traceback)
    except SelfguideError as error:
        return _fail(str(error), error.exit_code, show_traceback)
    except Exception as error:
        if is_disk_full(error):
            return _fail(f"the disk is full, or a file reached the size limit: {error}", 1, show_traceback)
        return _fail(f"{type(error).__name__}: {error} (--traceback shows where)", 1, show_traceback)
    return 0


def entry_point() -> None:
    """The console script."""
    sys.exit(main())


def _fail(message: str, code: int, show_traceback: bool) -> int:
    if show_traceback:
        traceback.print_exc()
    line = " ".join(message.split())
    sys.stderr.write(f"selfguide: {line}\n")
    return code


@contextmanager
def _log_on_stderr() -> Iterator[None]:
    """Our own log on stderr while a command runs; the logger is as before afterwards."""
    logger, handler = logging.getLogger("selfguide"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
