"""The spec files: which systems a table of the paper shows, how each is made, and what the paper prints for it."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, final

from selfguide.errors import InputError
from selfguide.settings import with_hint

MEASURES = ("sts", "sts-multilingual", "senteval", "glue", "sweep", "map", "cost")
SEEDS = (1, 2, 3, 4, 1234, 2345, 3456, 7890)
"""The paper's seeds (its table 8), in its order; a row with fewer takes the first ones."""
SHARED = ("encoders", "methods", "texts")
"""Files that all tables refer to."""


@final
@dataclass(frozen=True)
class Method:
    """How a system is made of an encoder."""

    name: str
    label: str
    model: str | None = None
    """Instead of an encoder, for a system that has none."""
    embedder: Mapping[str, Any] = field(default_factory=dict)
    """Settings of ``selfguide evaluate``, for an encoder that is used as it is or fitted."""
    train: Mapping[str, Any] | None = None
    """Settings of ``selfguide train``, for one that is trained."""
    text: str | None = None
    """Name of the text that it learns from."""

    @property
    def is_seeded(self) -> bool:
        """Whether chance plays a part in making it."""
        return self.train is not None or self.embedder.get("embedder") == "flow"


@final
@dataclass(frozen=True)
class Printed:
    """What the paper prints in a cell."""

    value: float
    spread: float | None = None


@final
@dataclass(frozen=True)
class Row:
    """A line of a table: an encoder and a method, or a published system that the paper quotes."""

    encoder: str
    """Label; empty for a system without one of our encoders."""
    method: str
    label: str
    model: str | None
    """None for a quoted system."""
    seeds: tuple[int, ...]
    """Of the runs; empty where chance plays no part."""
    paper: Mapping[str, Printed]
    """By column; empty for a system that the paper does not have."""

    @property
    def is_quoted(self) -> bool:
        """Whether the paper took the figures from elsewhere, and there is nothing to run."""
        return self.model is None


@final
@dataclass(frozen=True)
class Spec:
    """A table or figure."""

    name: str
    title: str
    measure: str
    columns: tuple[str, ...]
    """Data sets, or for costs the two kinds of seconds."""
    metrics: tuple[str, ...]
    """Of each column."""
    rows: tuple[Row, ...]
    note: str


def spec_names() -> list[str]:
    """Names of all tables and figures, in the paper's order."""
    names = [item.name.removesuffix(".toml") for item in _folder().iterdir() if item.name.endswith(".toml")]
    return sorted((name for name in names if name not in SHARED), key=_paper_order)


@cache
def methods() -> dict[str, Method]:
    """All methods, by name."""
    return {name: Method(name=name, **values) for name, values in _read("methods").items()}


@cache
def encoders() -> dict[str, str]:
    """Label of each encoder -> its model."""
    return {label: str(model) for label, model in _read("encoders").items()}


def known_models() -> list[str]:
    """Models of all encoders, and of the systems that have none."""
    return [*encoders().values(), *(method.model for method in methods().values() if method.model)]


@cache
def texts() -> dict[str, dict[str, Any]]:
    """The training texts, by name."""
    return _read("texts")


@cache
def read_spec(name: str) -> Spec:
    """Read a spec and check that all its parts fit together.

    Raises:
        InputError: when there is none of that name.
    """
    if name not in spec_names():
        raise InputError(f"{with_hint(name, spec_names())} is no table or figure; there are: {', '.join(spec_names())}")
    return parse_spec(name, _read(name))


def parse_spec(name: str, values: Mapping[str, Any]) -> Spec:
    """Put a spec together from the values of its file.

    Raises:
        InputError: when a part is missing, or refers to something that does not exist.
    """
    lacking = {"title", "measure", "columns", "rows", "note"} - set(values)
    unknown = set(values) - {"title", "measure", "columns", "rows", "note", "metric", "metrics", "seeds", "paper", "spread"}
    if lacking or unknown:
        raise InputError(f"{name}: missing: {sorted(lacking) or 'nothing'}; not known: {sorted(unknown) or 'nothing'}")
    columns = tuple(values["columns"])
    metrics = tuple(values.get("metrics") or [values["metric"]] * len(columns))
    if values["measure"] not in MEASURES or len(metrics) != len(columns):
        raise InputError(f"{name}: the measure is one of {', '.join(MEASURES)}, and each column has a metric")
    rows = [_row(name, values, encoder, method, columns) for encoder, listed in values["rows"].items() for method in listed]
    _check_printed(name, values, rows)
    return Spec(name, values["title"], values["measure"], columns, metrics, tuple(rows), " ".join(values["note"].split()))


def _row(name: str, values: Mapping[str, Any], encoder: str, method: str, columns: Sequence[str]) -> Row:
    paper = _printed(name, values, encoder, method, columns)
    known = methods().get(method)
    if known is None:
        if encoder or not paper:
            raise InputError(f"{name}: method {with_hint(method, methods())} of '{encoder}' is not in methods.toml")
        return Row(encoder, method, method, None, (), paper)
    if encoder and encoder not in encoders():
        raise InputError(f"{name}: encoder {with_hint(encoder, encoders())} is not in encoders.toml")
    if known.text is not None and known.text not in texts():
        raise InputError(f"{name}: text {with_hint(known.text, texts())} of '{method}' is not in texts.toml")
    is_seeded = known.is_seeded or values["measure"] in ("senteval", "glue")
    count = values.get("seeds", {}).get(method, len(SEEDS))
    model = known.model or encoders()[encoder]
    return Row(encoder, method, known.label, model, SEEDS[:count] if is_seeded else (), paper)


def _printed(name: str, values: Mapping[str, Any], encoder: str, method: str, columns: Sequence[str]) -> dict[str, Printed]:
    figures = values.get("paper", {}).get(encoder, {}).get(method)
    if figures is None:
        return {}
    spread = values.get("spread", {}).get(encoder, {}).get(method, [None] * len(columns))
    if not len(figures) == len(spread) == len(columns):
        raise InputError(f"{name}: '{method}' of '{encoder}' has {len(figures)} figures for {len(columns)} columns")
    cells = zip(columns, figures, spread, strict=True)
    return {column: Printed(value, deviation) for column, value, deviation in cells if value != "-"}


def _check_printed(name: str, values: Mapping[str, Any], rows: Sequence[Row]) -> None:
    """Refuse figures and numbers of seeds that belong to no row: a slip of the pen would hide them."""
    shown = {(row.encoder, row.method) for row in rows}
    tables = [
        (encoder, method) for part in ("paper", "spread") for encoder, of in values.get(part, {}).items() for method in of
    ]
    lost = [f"{encoder}/{method}" for encoder, method in tables if (encoder, method) not in shown]
    lost += [method for method in values.get("seeds", {}) if method not in {row.method for row in rows}]
    if lost:
        raise InputError(f"{name}: figures or seeds without a row: {', '.join(lost)}")


def _paper_order(name: str) -> tuple[int, int, str]:
    """Tables, then figures, then the rest; 2 before 10."""
    kind = name.rstrip("0123456789")
    return ("table", "figure").index(kind) if kind in ("table", "figure") else 2, int(name[len(kind) :] or 0), name


def _folder() -> Any:  # noqa: ANN401 - a Traversable, whose module moved between Python versions
    return files("selfguide") / "experiments" / "paper"


def _read(name: str) -> dict[str, Any]:
    return tomllib.loads((_folder() / f"{name}.toml").read_text(encoding="utf-8"))
