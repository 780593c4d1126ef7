"""Documentation that runs: every Python block, every command, every flag named, every file linked."""

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

import readme_results
import selfguide
from doc_pages import PAGES, ROOT, blocks, commands, name_of, write_workplace
from selfguide.cli.main import COMMANDS, build_parser, main
from tiny_sts import use_tiny_sts

NOT_RUN = {
    r"--revision 1f2e3d4": "a made-up hub model",
    r"--push-to-hub": "writes to the hub",
    r"--resume": "needs an interrupted run; tests/training/test_resume.py",
    r"evaluate --model bert-base-uncased --embedder mean --tasks sts$": "reads data sets of the hub",
    r"--peer-python": "needs an environment of its own, with other versions",
}
"""Commands that are parsed, but not run -> why."""

PLANNED = r"reproduce (all|table11|table7|.*--encoder (BERT-large|MBERT)|.*--model files)"
"""Runs that need models of the hub, or hours: for these ``--dry-run`` looks up all names."""

FOREIGN = {"make", "pip"}
"""Programs of others that pages call."""

OF_ALL_PAGES = pytest.mark.parametrize("page", PAGES, ids=name_of)
WITH_PYTHON = [
    pytest.param(block, id=f"{name_of(page)}-{number}")
    for page in PAGES
    for number, block in enumerate(blocks(page, "python"))
]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """A folder with everything that pages name, an encoder that was trained among it; to be copied."""
    folder = tmp_path_factory.mktemp("documentation") / "files"
    write_workplace(folder)
    selfguide.train(
        folder / "bert-base-uncased", folder / "sentences.txt", folder / "my-encoder", steps=2, progress=False, device="cpu"
    )
    return folder


@pytest.fixture
def workplace(files, tmp_path, monkeypatch) -> Path:
    """A copy of these files, as the folder in which a user works."""
    place = tmp_path / "work"
    shutil.copytree(files, place)
    use_tiny_sts(monkeypatch, place / "DIR")
    monkeypatch.chdir(place)
    return place


@pytest.mark.parametrize("block", WITH_PYTHON)
def test_python_blocks_run(block, workplace):
    if re.search(r'train\([^)]*"my-encoder"', block):
        shutil.rmtree("my-encoder")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        exec(compile(block, "a block of the documentation", "exec"), {"__name__": "__main__"})


def arguments_of(command: str) -> list[str]:
    """What stands behind ``selfguide`` in a command line, up to a redirection; nothing for another program."""
    words = shlex.split(command.partition(" < ")[0])
    if words[0] == "torchrun":
        words = words[words.index("selfguide") :]
    assert words[0] in {"selfguide", *FOREIGN}, command
    return words[1:] if words[0] == "selfguide" else []


@OF_ALL_PAGES
def test_commands_are_understood(page):
    """All flags of all commands exist; commands stand in console blocks, where this test finds them."""
    for command in commands(page):
        arguments = arguments_of(command)
        if arguments:
            build_parser().parse_args(arguments)
        elif command.startswith("make "):
            assert re.search(rf"^{command.split()[1]}:", (ROOT / "Makefile").read_text(), flags=re.M), command
    astray = [line for block in blocks(page) for line in block.splitlines() if line.startswith("selfguide ")]
    assert not astray, "put commands in a console block, behind '$ '"


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if any(map(arguments_of, commands(page)))], ids=name_of)
def test_commands_run(page, workplace, monkeypatch):
    """One after the other, as a reader types them; of a training, the first two steps."""
    for block in blocks(page, "toml"):
        Path("run.toml").write_text(block)
    for command in commands(page):
        arguments = arguments_of(command)
        if not arguments or any(re.search(pattern, command) for pattern in NOT_RUN):
            continue
        if re.search(PLANNED, command):
            arguments.append("--dry-run")
        arguments = shortened(arguments)
        parsed = build_parser().parse_args(arguments)
        make_room(parsed)
        if command.startswith("torchrun"):
            launch(command, arguments)
            continue
        with Path(command.partition(" < ")[2] or os.devnull).open() as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            assert main([*arguments, "--traceback"]) == 0, command


def shortened(arguments: list[str]) -> list[str]:
    """The same command with less work: a training of two steps, short translations, a part of the benchmarks."""
    if arguments[0] == "backtranslate":
        return [*arguments, "--beam", "2", "--max-length", "8"]
    if arguments[0] == "benchmark":
        return [*(arguments if len(arguments) > 1 else ["benchmark", "start"]), "--sentences", "8", "--steps", "2"]
    if arguments[0] != "train":
        return arguments
    if "--epochs" in arguments:
        place = arguments.index("--epochs")
        arguments = arguments[:place] + arguments[place + 2 :]
    return [*arguments, "--steps", "2", "--device", "cpu"]


def make_room(parsed: argparse.Namespace) -> None:
    """A page may write to one place twice, where a reader would choose one of the commands."""
    if parsed.command in ("train", "fit", "backtranslate"):
        output = Path(parsed.output)
        shutil.rmtree(output, ignore_errors=True) if output.is_dir() else output.unlink(missing_ok=True)


def launch(command: str, arguments: list[str]) -> None:
    """Run a command in several processes, with the programs of this environment."""
    programs = str(Path(sys.executable).parent)
    words = shlex.split(command)
    words = [*words[: words.index("selfguide") + 1], *arguments]
    environment = {**os.environ, "PATH": programs + os.pathsep + os.environ["PATH"]}
    done = subprocess.run(
        [f"{programs}/{words[0]}", *words[1:]], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def test_every_exception_is_needed():
    everything = [command for page in PAGES for command in commands(page)]
    for pattern in (*NOT_RUN, PLANNED):
        assert any(re.search(pattern, command) for command in everything), pattern


@OF_ALL_PAGES
def test_flags_and_commands_exist(page):
    text = page.read_text("utf-8")
    named = set(re.findall(r"selfguide ([a-z]+)\b(?= |`|\n)", " ".join(re.findall(r"`[^`]*`|```.*?```", text, flags=re.S))))
    assert named <= {*COMMANDS, "import"}
    known = {
        flag
        for command in build_parser()._subparsers._group_actions[0].choices.values()
        for flag in command._option_string_actions
    }
    scripts = "".join(path.read_text("utf-8") for path in (ROOT / "benchmarks").glob("*.py"))
    of_others = {"--extra-index-url", "--find-links", "--help", "--nproc-per-node", "--no-python", "--model-id"}
    for flag in re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", text):
        assert flag in known or f'"{flag}"' in scripts or flag in of_others, flag


@OF_ALL_PAGES
def test_linked_files_and_headings_are_there(page):
    for target, heading in re.findall(r"\]\((?!https?:)([^)#]*)(?:#([^)]+))?\)", page.read_text("utf-8")):
        linked = page.parent / target if target else page
        assert linked.exists(), target
        if heading:
            assert heading in headings(linked), f"{target}#{heading}"


def headings(page: Path) -> list[str]:
    """The headings of a page as GitHub and the site name them in links."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.M | re.S), flags=re.M)
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]


def test_readme_shows_the_results():
    """``make readme`` was run after the last change of ``results/``."""
    rows = readme_results.shown_rows(ROOT / "results")
    readme = (ROOT / "README.md").read_text("utf-8")
    assert readme_results.with_results(readme, ROOT / "results") == readme
    assert (ROOT / readme_results.PICTURE).read_text("utf-8") == readme_results.picture(rows)


def test_a_stale_readme_is_noticed(tmp_path):
    readme = (ROOT / "README.md").read_text("utf-8")
    assert readme_results.with_results(readme, tmp_path / "no results") != readme
