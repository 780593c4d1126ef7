"""Documentation that runs: every Python block, every flag named, every file linked."""

import json
import re
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from selfguide.cli.main import COMMANDS, build_parser

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "benchmarks" / "README.md"]
BLOCKS = [
    pytest.param(block, id=f"{page.name}-{number}")
    for page in PAGES
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), flags=re.S))
]


@pytest.mark.parametrize("block", BLOCKS)
def test_python_blocks_run(block, tmp_path):
    done = subprocess.run([sys.executable, "-c", block], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_flags_and_commands_exist(page):
    text = page.read_text("utf-8")
    commands = set(
        re.findall(r"selfguide ([a-z]+)\b(?= |`|\n)", " ".join(re.findall(r"`[^`]*`|```.*?```", text, flags=re.S)))
    )
    assert commands <= {*COMMANDS, "import"}
    known = {
        flag
        for command in build_parser()._subparsers._group_actions[0].choices.values()
        for flag in command._option_string_actions
    }
    scripts = "".join(path.read_text("utf-8") for path in (ROOT / "benchmarks").glob("*.py"))
    for flag in re.findall(r"(?<![\w-])(--[a-z][a-z-]+)", text):
        assert flag in known or f'"{flag}"' in scripts or flag in ("--extra-index-url", "--find-links", "--help"), flag


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_linked_files_are_there(page):
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), target


def test_the_result_row_of_the_readme_is_what_was_measured():
    """Mean and standard deviation of the committed runs, as they stand in the table."""
    runs = json.loads((ROOT / "benchmarks" / "results" / "h200-paper-sg-opt.json").read_text("utf-8"))["runs"]
    columns = ("STS-B", "SICK-R", "STS12", "STS13", "STS14", "STS15", "STS16", "Avg")
    values = {column: [run["scores"][column] for run in runs] for column in columns}
    cells = " | ".join(f"{statistics.mean(values[column]):.2f}" for column in columns)
    row = f"| ours, SG-OPT | {len(runs)} | {cells} ± {statistics.stdev(values['Avg']):.2f} |"
    assert row in (ROOT / "README.md").read_text("utf-8")
