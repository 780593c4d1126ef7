"""Tiny translation models, built once."""

import functools

import pytest

from tiny_translators import TRANSLATORS


@pytest.fixture(scope="session")
def translator_folder(tmp_path_factory):
    """Gives the folder of a tiny translation model by its family; to be read, never written to."""

    @functools.cache
    def folder_of(family, seed=1):
        folder = tmp_path_factory.mktemp(f"tiny-{family}-{seed}")
        TRANSLATORS[family](folder, seed=seed)
        return folder

    return folder_of
