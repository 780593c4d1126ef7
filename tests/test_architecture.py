"""Imports go down only. The levels are listed here once; planted violations show that the tests can fail."""

import ast
from pathlib import Path

import pytest

import selfguide

SOURCE = Path(selfguide.__file__).parent

LEVELS: tuple[tuple[str, ...], ...] = (
    ("__main__",),
    ("cli",),
    ("quickstart", "experiments", "benchmark"),
    ("training", "evaluation", "translation", "exporting", "integrations"),
    ("bulk",),
    ("embedders", "guidance", "report"),
    ("encoders", "objectives", "data"),
    (
        "bundled",
        "compact",
        "devices",
        "environment",
        "files",
        "hub",
        "pooling",
        "progress",
        "scores",
        "settings",
        "similarity",
        "table_formats",
        "tables",
    ),
    ("choices", "errors"),
)
"""From the top; units of one level do not import each other, but for those of ``NEIGHBOURS``."""

NEIGHBOURS = 7
"""The level of small modules without a model: these may import each other."""

FACADE = "__init__"
"""The package itself: names of all levels, resolved when they are first used."""

FOREIGN = {
    "choices": {"torch", "numpy", "transformers"},
    "errors": {"torch", "numpy", "transformers"},
    "settings": {"torch", "numpy", "transformers"},
    "compact": {"torch", "transformers", "sentence_transformers"},
    "pooling": {"transformers", "sentence_transformers"},
    "similarity": {"transformers", "sentence_transformers"},
    "objectives": {"transformers", "sentence_transformers"},
    "data": {"torch", "transformers", "sentence_transformers"},
    "encoders": {"sentence_transformers"},
    "report": {"torch", "transformers"},
}
"""Libraries that a unit must do without, also inside functions."""


def unit_of(file: Path, source: Path) -> str:
    return file.relative_to(source).parts[0].removesuffix(".py")


def imports_of(file: Path, source: Path) -> set[str]:
    """Dotted names of everything that a file imports, anywhere in it; relative ones resolved."""
    package = [source.name, *file.relative_to(source).parts[:-1]]
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parents = package[: len(package) + 1 - node.level] if node.level else []
            start = ".".join([*parents, *([node.module] if node.module else [])])
            names |= {f"{start}.{alias.name}" for alias in node.names}
    return names


LEVEL = {unit: number for number, units in enumerate(LEVELS) for unit in units}


def may_import(unit: str, other: str) -> bool:
    if unit in (other, FACADE):
        return True
    return LEVEL[unit] < LEVEL[other] or LEVEL[unit] == LEVEL[other] == NEIGHBOURS


def violations(source: Path) -> list[str]:
    """Every import that does not go down, as ``file -> unit``."""
    found = []
    for file in sorted(source.rglob("*.py")):
        for name in sorted(imports_of(file, source)):
            package, _, rest = name.partition(".")
            other = rest.split(".")[0]
            if package == source.name and not may_import(unit_of(file, source), other):
                found.append(f"{file.relative_to(source)} -> {other}")
    return found


def foreign_violations(source: Path) -> list[str]:
    return [
        f"{file.relative_to(source)} -> {name}"
        for file in sorted(source.rglob("*.py"))
        for name in sorted(imports_of(file, source))
        if name.split(".")[0] in FOREIGN.get(unit_of(file, source), set())
    ]


def prints_of(source: Path) -> list[str]:
    return [
        f"{file.relative_to(source)}:{node.lineno}"
        for file in sorted(source.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("print", "pprint")
    ]


def test_every_unit_has_a_level():
    units = {unit_of(file, SOURCE) for file in SOURCE.rglob("*.py")} - {FACADE}
    assert units - LEVEL.keys() == set()


def test_no_unit_has_two_levels():
    assert len(LEVEL) == sum(map(len, LEVELS))


def test_imports_go_down_only():
    assert violations(SOURCE) == []


def test_each_unit_does_without_what_it_must_not_need():
    assert foreign_violations(SOURCE) == []


def test_nothing_prints():
    assert prints_of(SOURCE) == []


@pytest.fixture
def planted(tmp_path):
    """Makes a package of the same name with one file of one line."""

    def plant(path, line):
        file = tmp_path / "selfguide" / path
        file.parent.mkdir(parents=True)
        file.write_text(line + "\n")
        return tmp_path / "selfguide"

    return plant


@pytest.mark.parametrize(
    ("path", "line", "found"),
    [
        ("objectives/sg.py", "from selfguide.encoders.guide import Guide", "objectives/sg.py -> encoders"),
        ("objectives/sg.py", "def f():\n    import selfguide.encoders", "objectives/sg.py -> encoders"),
        ("objectives/sg.py", "from selfguide import encoders", "objectives/sg.py -> encoders"),
        ("objectives/sg.py", "from ..encoders import guide", "objectives/sg.py -> encoders"),
        ("objectives/sg.py", "from .. import encoders", "objectives/sg.py -> encoders"),
        ("training/loop.py", "from selfguide.evaluation.sts import score", "training/loop.py -> evaluation"),
        ("data/lines.py", "from selfguide.training.config import TrainingConfig", "data/lines.py -> training"),
        ("files.py", "from selfguide.data import lines", "files.py -> data"),
        ("errors.py", "from selfguide.files import write_text", "errors.py -> files"),
        ("quickstart.py", "from selfguide.cli.main import main", "quickstart.py -> cli"),
    ],
)
def test_an_upward_import_is_found(planted, path, line, found):
    assert violations(planted(path, line)) == [found]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("cli/train.py", "from selfguide.training.train import run_training"),
        ("objectives/catalogue.py", "from selfguide.objectives.self_guided import sg"),
        ("objectives/catalogue.py", "from . import self_guided"),
        ("scores.py", "from selfguide.files import write_text"),
        ("__init__.py", "from selfguide.training.train import train"),
        ("data/lines.py", "import json"),
    ],
)
def test_a_downward_import_is_not(planted, path, line):
    assert violations(planted(path, line)) == []


def test_other_violations_are_found(planted):
    source = planted("data/lines.py", "def f():\n    from torch import nn\n    print(nn)")
    assert foreign_violations(source) == ["data/lines.py -> torch.nn"]
    assert prints_of(source) == ["data/lines.py:3"]
