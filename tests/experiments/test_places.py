"""Where texts come from: a data folder, or the hub's copy of STS-B."""

import datasets
import pytest

from selfguide.data.pairs import read_pairs
from selfguide.data.records import SEVEN
from selfguide.errors import MissingDataError
from selfguide.experiments.places import Places
from selfguide.experiments.texts import training_settings

ROWS = {"score": [4.0, 1.5], "sentence1": ["A cat\tsits.", "Dogs run."], "sentence2": ["One sits.", "It  rains. "]}


@pytest.fixture
def hub(monkeypatch):
    """Rows where the hub's STS-B would be; gives what was asked for."""
    asked = []

    def load_dataset(path, config, *, split, revision):
        asked.append((path, split, revision))
        return datasets.Dataset.from_dict(ROWS)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return asked


def test_a_data_folder_is_used_as_it_is(tmp_path, hub):
    assert Places(tmp_path, tmp_path / "work").text_folder() == tmp_path
    assert hub == []


def test_without_one_stsb_is_fetched_once(tmp_path, hub):
    places = Places(None, tmp_path / "work")
    folder = places.text_folder()
    copy = next(record.hub for record in SEVEN if record.name == "STS-B")
    assert hub == [(copy.path, split, copy.revision) for split in ("train", "validation", "test")]
    pairs = read_pairs(folder / "sts" / "STS-B" / "dev.tsv")
    assert (pairs.scores, pairs.sentences1, pairs.sentences2) == (
        (4.0, 1.5),
        ("A cat sits.", "Dogs run."),
        ("One sits.", "It rains."),
    )
    assert places.text_folder() == folder
    assert len(hub) == 3
    assert training_settings("sts-b", folder, tmp_path)["data"] == (str(folder / "sts" / "STS-B"),)


def test_texts_that_the_hub_copy_does_not_have(tmp_path, hub):
    with pytest.raises(MissingDataError, match="sentences of SNLI and MultiNLI train"):
        training_settings("nli", Places(None, tmp_path / "work").text_folder(), tmp_path)


def test_no_data_and_no_hub(tmp_path):
    with pytest.raises(MissingDataError, match=r"STS-B: could not be had from the hub"):
        Places(None, tmp_path / "work").text_folder()
