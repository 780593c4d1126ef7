"""DeBERTa's buckets of distances as a table."""

import torch
from transformers import AutoModel

from selfguide.exporting.positions import looked_up_positions
from tiny_models import POSITIONS


def test_the_table_gives_the_buckets_of_the_model_at_every_length(tiny_folder):
    model = AutoModel.from_pretrained(tiny_folder("deberta-v2"))
    lengths = (1, 2, 7, POSITIONS)
    wanted = [model.encoder.get_rel_pos(torch.zeros(1, length, 1)) for length in lengths]
    with looked_up_positions(model):
        found = [model.encoder.get_rel_pos(torch.zeros(1, length, 1)) for length in lengths]
    after = model.encoder.get_rel_pos(torch.zeros(1, POSITIONS, 1))
    assert [rows.tolist() for rows in found] == [rows.tolist() for rows in wanted]
    assert after.tolist() == wanted[-1].tolist() and "get_rel_pos" not in vars(model.encoder)
    assert len({bucket for row in wanted[-1][0].tolist() for bucket in row}) < 2 * POSITIONS - 1  # some distances share one


def test_other_models_stay_as_they_are(tiny_folder):
    model = AutoModel.from_pretrained(tiny_folder("bert"))
    with looked_up_positions(model):
        assert "get_rel_pos" not in vars(model.encoder)
