"""An exported folder in fastembed's custom models, in an environment without torch."""

from pathlib import Path

import numpy as np
import pytest
from sentence_transformers import SentenceTransformer

import selfguide
from second_environments import clean_variables, fastembed_python, run
from selfguide.choices import MEANING_TEMPLATE
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.saving import save_encoder
from selfguide.encoders.template import with_template
from selfguide.files import write_json
from tiny_models import POSITIONS
from tiny_runs import SENTENCES

pytestmark = pytest.mark.second_environment

TEXTS = [*SENTENCES, "", "ünïcödé 猫", "the cat " * POSITIONS]


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_the_same_vectors(tiny_folder, tmp_path, family):
    folder = tmp_path / "my-encoder"
    folder.mkdir()
    save_encoder(with_template(load_encoder(tiny_folder(family), max_length=30), MEANING_TEMPLATE), folder)
    selfguide.export(folder, tmp_path / "out", data=list(SENTENCES))
    write_json(tmp_path / "texts.json", TEXTS)
    reader = Path(__file__).with_name("fastembed_reader.py")
    run(fastembed_python(), reader, tmp_path / "out", "texts.json", "vectors.npy", env=clean_variables(), cwd=tmp_path)
    wanted = SentenceTransformer(str(folder), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(np.load(tmp_path / "vectors.npy"), wanted, atol=1e-5)
