"""The tiny data sets of ``tiny_sts`` in place of the real ones."""

import pytest

from tiny_sts import use_tiny_sts


@pytest.fixture
def tiny_sts(monkeypatch, tmp_path):
    """A data folder with tiny data sets under the real names, which the evaluation takes for the real ones."""
    folder = tmp_path / "data"
    use_tiny_sts(monkeypatch, folder)
    return folder
