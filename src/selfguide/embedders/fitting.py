"""``selfguide fit``: an embedder learns from text and is saved."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from selfguide.data.sentences import read_sentences
from selfguide.data.texts import Texts
from selfguide.embedders.base import BaseEmbedder
from selfguide.embedders.config import FitConfig
from selfguide.embedders.folder import is_embedder_folder
from selfguide.embedders.loading import load_embedder
from selfguide.errors import InputError
from selfguide.files import check_can_write
from selfguide.settings import as_setting, unknown_names

logger = logging.getLogger(__name__)


def fit(
    model: str | Path = "mini",
    data: str | Path | Sequence[str | Path] | None = None,
    output: str | Path = "",
    *,
    overwrite: bool = False,
    **settings: Any,  # noqa: ANN401 - the fields of FitConfig, checked by name
) -> BaseEmbedder:
    """Fit an embedder that learns from text, and save it.

    Args:
        model: Encoder: a hub name, a local folder, or ``mini`` (the bundled one).
        data: A path, a list of paths, or a hub dataset name. For sentences in memory, use the class itself, such as
            :class:`selfguide.embedders.whitening.WhiteningEmbedder`.
        output: Folder for the fitted embedder.
        overwrite: Replace an embedder in ``output``.
        settings: Any other field of :class:`selfguide.embedders.config.FitConfig`, such as ``embedder="flow"``.

    Returns:
        The fitted embedder.

    Raises:
        InputError: when something in the input or the settings is wrong.
    """
    problems = unknown_names(settings, FitConfig, "in the arguments")
    if problems:
        raise InputError("; ".join(problems))
    given = {name: as_setting(value) for name, value in settings.items()}
    paths = [] if data is None else [data] if isinstance(data, str | Path) else data
    config = FitConfig(model=str(model), data=tuple(map(str, paths)), output=str(output), **given)
    return run_fit(config, overwrite=overwrite)


def run_fit(config: FitConfig, *, overwrite: bool = False) -> BaseEmbedder:
    """Read the sentences, fit and save; the command line and :func:`fit` both come here."""
    output = Path(config.output).expanduser()
    _check_output(output, overwrite=overwrite)
    paths = [Path(name) for name in config.data]

    def read_text() -> Texts:
        source = paths[0] if len(paths) == 1 else paths
        sentences = read_sentences(source, columns=config.column, split=config.split, deduplicate=config.deduplicate)
        logger.info("%s", sentences.counts.summary())
        return sentences

    embedder = load_embedder(
        config.model,
        embedder=config.embedder,
        parameters=config.parameters,
        read_text=read_text,
        device=config.device,
        max_length=config.max_length,
        revision=config.revision,
        trust_remote_code=config.trust_remote_code,
    )
    assert isinstance(embedder, BaseEmbedder)
    embedder.save(output)
    return embedder


def _check_output(output: Path, *, overwrite: bool) -> None:
    check_can_write(output)
    if not output.exists() or (output.is_dir() and not any(output.iterdir())):
        return
    if not is_embedder_folder(output):
        raise InputError(
            f"the output '{output}' exists already and is no saved embedder, so it is left alone; choose another folder"
        )
    if not overwrite:
        raise InputError(f"the output '{output}' holds an embedder already; choose another folder, or --overwrite it")
