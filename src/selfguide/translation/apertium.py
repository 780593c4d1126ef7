"""The rule-based engine apertium: quick, needs no model and no GPU, and knows few pairs of languages.

``apertium -z`` loses the NUL that ends a record in its text reader. So the pipeline of a mode is run without that reader,
and what it does to a text (escape signs, mark the end) is done here.

Each batch has a pipeline of its own. A long-lived one would not do: its tagger remembers combinations of tags that it meets
for the first time, and then reads some later words differently. So a translation can depend on the other sentences of its
batch, but not on earlier batches, and an interrupted job comes to the same end.
"""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, final

from selfguide.errors import InputError, MissingExtraError, SelfguideError
from selfguide.translation.engines import Translator

_SIGNS = re.compile(r"[][\\/@<>^${}]")
_TILDES = re.compile(r" ?~[ ~]*")  # inside the pipeline a tilde wakes the post-generator
_WRITTEN = re.compile(r"\\(.)|[][]", re.DOTALL)
_END = ".[]"
_LAST = "0"
"""A number comes out as it went in: found where it is due, no record was lost or split on the way."""


@final
class ApertiumTranslator(Translator):
    """A mode of apertium, such as ``eng-spa``."""

    def __init__(self, mode: str) -> None:
        """Find the mode.

        Raises:
            InputError: when apertium is not installed, or has no such mode.
        """
        self.mode = mode
        self._file = _mode_file(mode)

    @cached_property
    def identity(self) -> dict[str, Any]:
        """The mode, and a hash of its rules and dictionaries."""
        text = self._file.read_text(encoding="utf-8")
        digest = hashlib.sha256(text.encode())
        for name in sorted(set(re.findall(r"'([^']+)'", text))):
            digest.update(Path(name).read_bytes())
        return {"engine": "apertium", "mode": self.mode, "rules": digest.hexdigest()}

    def translate(self, sentences: Sequence[str]) -> list[str]:
        """Send all sentences down a pipeline."""
        done = subprocess.run(
            # -n: unknown words without an asterisk
            ["bash", "-c", f"set -o pipefail; {self._pipeline}", "apertium", "-n", ""],
            input="".join(f"{_written(sentence)}\0" for sentence in (*sentences, _LAST)).encode(),
            capture_output=True,
            env={**os.environ, "LC_ALL": "C.UTF-8"},
            start_new_session=True,  # Ctrl-C is for us; the pipeline ends when its input does
            check=False,
        )
        records = [_read(record) for record in done.stdout.decode("utf-8", errors="replace").split("\0")]
        if done.returncode or records[len(sentences) : len(sentences) + 1] != [_LAST]:
            said = " ".join(done.stderr.decode("utf-8", errors="replace").split())[-300:]
            raise SelfguideError(
                f"apertium {self.mode} broke down (exit code {done.returncode}{f': {said}' if said else ''}); what was "
                "translated before is stored, and the same command goes on from there"
            )
        return records[: len(sentences)]

    @cached_property
    def _pipeline(self) -> str:
        """The programs of the mode as a shell has them, told to keep records apart."""
        command = ["apertium-wblank-mode", "-z", str(self._file)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _mode_file(mode: str) -> Path:
    program = shutil.which("apertium")
    if program is None or shutil.which("apertium-wblank-mode") is None:
        raise MissingExtraError(
            "--engine apertium needs the program apertium 3.8 or later, which is not installed: "
            "apt-get install apertium-eng-spa (Debian, Ubuntu), or see https://www.apertium.org"
        )
    folder = Path(os.environ.get("APERTIUM_DATADIR") or Path(program).resolve().parents[1] / "share" / "apertium") / "modes"
    file = folder / f"{mode}.mode"
    if "/" in mode or not file.is_file():
        modes = ", ".join(sorted(path.stem for path in folder.glob("*.mode"))) or "none"
        raise InputError(
            f"apertium has no mode '{mode}' in '{folder}'; there are: {modes}; install its language pair, as in "
            "apt-get install apertium-eng-spa"
        )
    return file


def _written(sentence: str) -> str:
    """A sentence as the pipeline takes it; without the mark the last word would be read as if more came."""
    escaped = _SIGNS.sub(r"\\\g<0>", " ".join(sentence.split()))
    return _TILDES.sub(r"[\g<0>]", escaped) + _END


def _read(record: str) -> str:
    """The text of a record that came out; a word that was left out leaves two blanks."""
    return " ".join(_WRITTEN.sub(r"\1", record.replace(_END, "")).split())
