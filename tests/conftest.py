"""What all tests share: no network, the one place that reads SELFGUIDE_SHARED, and a skip that CI does not forgive."""

import functools
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # several threads wait for each other where workers share the cores

# a shell that starts tests in the background lets them, and all that they start, ignore Ctrl-C, which some of them are about
signal.signal(signal.SIGINT, signal.default_int_handler)

SHARED = Path(os.environ.get("SELFGUIDE_SHARED", Path(__file__).parents[2] / "shared")).resolve()
SHARED_IS_MISSING = "needs the folder of SELFGUIDE_SHARED"
APERTIUM_IS_MISSING = "needs apertium (apt-get install apertium-eng-spa)"
CHROMIUM_IS_MISSING = "needs chromium (apt-get install chromium)"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder with evaluation data and encoders; a test that asks for it is skipped where there is none."""
    if not SHARED.is_dir():
        pytest.skip(f"{SHARED_IS_MISSING} ({SHARED} is not there)")
    return SHARED


@pytest.fixture(scope="session")
def apertium() -> str:
    """The program apertium; a test that asks for it is skipped where there is none, but not in CI, which installs it."""
    program = shutil.which("apertium")
    if program is None:
        pytest.skip(APERTIUM_IS_MISSING)
    return program


@pytest.fixture(scope="session")
def chromium() -> str:
    """The program chromium; a test that asks for it is skipped where there is none, but not in CI, which installs it."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip(CHROMIUM_IS_MISSING)
    return program


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory) -> Callable[[str], Path]:
    """Gives the folder of a tiny model by its family (``tiny_models``), built once; to be read, never written to."""
    from tiny_models import save_tiny_model

    @functools.cache
    def folder_of(family: str) -> Path:
        folder = tmp_path_factory.mktemp(f"tiny-{family}")
        save_tiny_model(family, folder)
        return folder

    return folder_of


@pytest.fixture
def tiny_bert(tiny_folder) -> Path:
    """The folder of a tiny BERT; to be read, never written to."""
    return tiny_folder("bert")


def pytest_terminal_summary(terminalreporter, exitstatus, config):
    reasons = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    skipped = sum(SHARED_IS_MISSING in reason for reason in reasons)
    if os.environ.get("CI") and SHARED.is_dir() and skipped:
        raise pytest.UsageError(f"{skipped} tests were skipped for want of {SHARED}, which is there")
    for missing in (APERTIUM_IS_MISSING, CHROMIUM_IS_MISSING):
        if os.environ.get("CI") and any(missing in reason for reason in reasons):
            raise pytest.UsageError(f"tests were skipped, and .ci/run installs what was missing: {missing}")
