"""What ships with the package: the encoder ``mini``, training sentences, and graded pairs for development and testing."""

from importlib.resources import files
from pathlib import Path

_HERE = Path(str(files("selfguide") / "bundled"))

ENCODER = _HERE / "mini"
SENTENCES = _HERE / "sentences.txt"
DEV_PAIRS = _HERE / "pairs.dev.tsv"
TEST_PAIRS = _HERE / "pairs.test.tsv"
