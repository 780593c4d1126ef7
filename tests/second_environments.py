"""Other virtual environments for the tests, made once in ``.venvs`` and kept until their lock file changes.

pip takes what is in ``PIP_ARGS`` (see the Makefile) besides its own configuration. Where it fails, the test fails.
"""

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

TESTS = Path(__file__).parent
REPOSITORY = TESTS.parent
FOLDER = REPOSITORY / ".venvs"
PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check")


def old_environment() -> dict[str, str]:
    """The variables with which ``old_python`` reads our folders with the packages of its own lock file."""
    return {**clean_variables(), "HF_HUB_OFFLINE": "1"}


def old_python() -> Path:
    """The Python of sentence-transformers 3.4 and transformers 4.46."""
    return _python_of("st3")


def newest_transformers_4() -> Path:
    """A folder that, put on the path of ``old_python``, gives it the newest transformers 4."""
    lock = TESTS / "requirements-transformers4.lock"

    def build(folder: Path) -> None:
        command = ("install", "--quiet", *pip_arguments(), "--no-deps", "--target", folder, "--requirement", lock)
        run(*PIP, "--python", old_python(), *command)

    return _kept("transformers4", lock, build)


def fastembed_python() -> Path:
    """The Python of fastembed, which is without torch and transformers."""
    return _python_of("fastembed")


def _python_of(name: str) -> Path:
    """The Python of an environment with what its lock file names."""
    lock = TESTS / f"requirements-{name}.lock"

    def build(folder: Path) -> None:
        run(sys.executable, "-m", "venv", "--without-pip", folder)
        run(*PIP, "--python", folder, "install", "--quiet", *pip_arguments(), "--requirement", lock)

    return _kept(name, lock, build) / "bin" / "python"


def pip_arguments() -> list[str]:
    """What the user of ``make`` wants to give to pip."""
    return shlex.split(os.environ.get("PIP_ARGS", ""))


def clean_variables() -> dict[str, str]:
    """The environment variables, without those that would let our own packages into another Python."""
    return {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}


def run(*command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command and show all of its output when it fails."""
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, (
        f"{shlex.join(map(str, command))}\nexit code {done.returncode}\n{done.stdout}\n{done.stderr}"
    )
    return done


def _kept(name: str, lock: Path, build: Callable[[Path], None]) -> Path:
    """The folder of an environment; built anew unless its stamp says that it was finished from the same lock file."""
    folder, stamp = FOLDER / name, FOLDER / f"{name}.stamp"
    expected = hashlib.sha256(lock.read_bytes() + sys.version.encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != expected or not folder.is_dir():
        stamp.unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)
        FOLDER.mkdir(exist_ok=True)
        build(folder)
        stamp.write_text(expected)
    return folder
