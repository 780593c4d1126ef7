"""Loading: what is found under which name, what is refused in which words, and whose code runs."""

import logging
import shutil
import sys

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModel, AutoTokenizer

from selfguide.encoders.encoder import embed_rows
from selfguide.encoders.loading import LONGEST, load_encoder
from selfguide.encoders.saving import save_encoder
from selfguide.errors import InputError
from selfguide.files import read_json, write_json
from tiny_models import DIM, ENCODERS, LAYERS, POSITIONS, SENTENCES


@pytest.fixture
def copy_of_bert(tiny_bert, tmp_path):
    """A tiny BERT that a test may spoil."""
    return shutil.copytree(tiny_bert, tmp_path / "copy")


def change_json(path, **changes):
    write_json(path, {**read_json(path), **changes})


def write_weights(folder, tensors):
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


# The bundled encoder


def test_mini_is_as_documented():
    encoder = load_encoder("mini")
    count = sum(parameter.numel() for part in (encoder.model, encoder.pooler) for parameter in part.parameters())
    assert round(count / 1e6, 1) == 17.3
    assert (encoder.layer_count, encoder.dim, encoder.positions, encoder.max_length) == (6, 384, 512, LONGEST)
    assert encoder.model.config.num_attention_heads == 12 and len(encoder.tokenizer) == 16384
    assert {parameter.dtype for parameter in encoder.model.parameters()} == {torch.float32}
    pooler = encoder.pooler.dense
    assert torch.equal(pooler.weight, torch.eye(384)) and not pooler.bias.any()


def test_mini_reads_sentences():
    encoder = load_encoder("mini")
    near, far, cat = embed_rows(encoder, encoder.tokenize(["A cat sleeps.", "Stocks fell.", "A kitten is asleep."]))
    cosine = torch.nn.functional.cosine_similarity
    assert cosine(near, cat, dim=0) > cosine(far, cat, dim=0)


# Names, files and folders


@pytest.mark.parametrize("name", ["bert-base-uncased", "nobody/nothing", "./no/such/folder"])
def test_hub_name_that_cannot_be_had(name):
    expected = f"the model '{name}' is not a local folder and could not be had from the Hugging Face hub; give a folder"
    with pytest.raises(InputError, match=expected):
        load_encoder(name)


def test_file_in_place_of_a_folder(tiny_bert):
    with pytest.raises(InputError, match=r"config.json' is a file; give the folder that holds config.json"):
        load_encoder(tiny_bert / "config.json")


def test_folder_without_config(tmp_path):
    with pytest.raises(InputError, match=r"holds no config.json, so it is no saved encoder; give the folder that does"):
        load_encoder(tmp_path)


def test_home_folder_is_understood(tiny_bert, monkeypatch):
    monkeypatch.setenv("HOME", str(tiny_bert.parent))
    assert load_encoder(f"~/{tiny_bert.name}").layer_count == LAYERS


@pytest.mark.parametrize("text", ["{", "{}", "[]", '{"model_type": "nonsense"}'])
def test_spoilt_config(copy_of_bert, text):
    (copy_of_bert / "config.json").write_text(text)
    with pytest.raises(InputError, match=f"the model folder '{copy_of_bert}' cannot be loaded: "):
        load_encoder(copy_of_bert)


# Weights


def test_corrupted_weights(copy_of_bert):
    (copy_of_bert / "model.safetensors").write_bytes(b"\xff" * 500)
    with pytest.raises(InputError, match=f"'{copy_of_bert}' cannot be loaded: .*header"):
        load_encoder(copy_of_bert)


def test_weights_cut_short(copy_of_bert):
    whole = (copy_of_bert / "model.safetensors").read_bytes()
    (copy_of_bert / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cannot be loaded: .*incomplete"):
        load_encoder(copy_of_bert)


def test_no_weights(copy_of_bert):
    (copy_of_bert / "model.safetensors").unlink()
    with pytest.raises(InputError, match=r"cannot be loaded: .*no file named model.safetensors"):
        load_encoder(copy_of_bert)


def test_missing_tensors_are_not_made_up(copy_of_bert):
    tensors = load_file(copy_of_bert / "model.safetensors")
    for name in ("encoder.layer.2.output.dense.weight", "embeddings.LayerNorm.bias"):
        del tensors[name]
    write_weights(copy_of_bert, tensors)
    expected = r"lack 2 tensors of BertModel, or have .* \(first: embeddings.LayerNorm.bias\); the checkpoint is incomplete"
    with pytest.raises(InputError, match=expected):
        load_encoder(copy_of_bert)


def test_tensors_of_another_shape_are_not_made_up(copy_of_bert):
    change_json(copy_of_bert / "config.json", intermediate_size=96)
    with pytest.raises(
        InputError, match=r"lack 12 tensors .* another shape \(first: encoder.layer.0.intermediate.dense.bias"
    ):
        load_encoder(copy_of_bert)


def test_weights_of_a_language_model_are_read(tiny_bert, tmp_path):
    """Checkpoints from pretraining have a head, a prefix on every name, and no pooler."""
    model = transformers.BertForMaskedLM(AutoConfig.from_pretrained(tiny_bert))
    model.bert.load_state_dict(AutoModel.from_pretrained(tiny_bert).state_dict(), strict=False)
    model.save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(tmp_path)
    headless, plain = load_encoder(tmp_path), load_encoder(tiny_bert)
    rows = plain.tokenize(SENTENCES)
    assert headless.pooler is None
    assert torch.equal(embed_rows(headless, rows), embed_rows(plain, rows))


# Tokenizers


@pytest.mark.parametrize("family", ENCODERS)
def test_missing_tokenizer_is_not_made_up(family, tiny_folder, tmp_path):
    for file in ("config.json", "model.safetensors"):
        shutil.copy(tiny_folder(family) / file, tmp_path)
    with pytest.raises(InputError, match=r"has no vocabulary, only special tokens; the model must|cannot be loaded"):
        load_encoder(tmp_path)


def test_spoilt_tokenizer(copy_of_bert):
    (copy_of_bert / "tokenizer.json").write_text("{")
    with pytest.raises(InputError, match="cannot be loaded: Expecting property name"):
        load_encoder(copy_of_bert)


# Families


@pytest.mark.parametrize(("family", "kind"), [("gpt2", "a decoder"), ("t5", "an encoder-decoder model")])
def test_models_that_are_no_encoders_are_refused(family, kind, tiny_folder):
    expected = f"a model of type '{family}' is {kind}: self-guidance needs an encoder; choose one of these families: bert"
    with pytest.raises(InputError, match=expected):
        load_encoder(tiny_folder(family))


def test_bert_set_up_as_a_decoder_is_refused(copy_of_bert):
    change_json(copy_of_bert / "config.json", is_decoder=True)
    with pytest.raises(InputError, match="a model of type 'bert' is a decoder"):
        load_encoder(copy_of_bert)


def test_unknown_family_is_taken_with_a_warning(tiny_folder, caplog):
    with caplog.at_level(logging.WARNING, logger="selfguide"):
        encoder = load_encoder(tiny_folder("ernie"))
    assert "the family 'ernie' is not among the tested ones (bert, " in caplog.text
    assert encoder.frozen_parameters()


def test_known_family_is_taken_without_a_warning(tiny_bert, caplog):
    with caplog.at_level(logging.WARNING, logger="selfguide"):
        load_encoder(tiny_bert)
    assert not [record for record in caplog.records if record.name.startswith("selfguide")]


# Lengths


def test_length_is_128_or_what_the_encoder_has(tiny_bert):
    assert LONGEST == 128 > POSITIONS
    assert load_encoder(tiny_bert).max_length == POSITIONS
    assert load_encoder("mini", max_length=512).max_length == 512


@pytest.mark.parametrize("length", [3, 7, POSITIONS])
def test_sentences_are_cut_at_the_length_asked_for(tiny_bert, length):
    encoder = load_encoder(tiny_bert, max_length=length)
    rows = encoder.tokenize(["the cat " * POSITIONS])
    assert encoder.max_length == length == len(rows[0])
    assert rows[0][-1] == encoder.tokenizer.sep_token_id


@pytest.mark.parametrize("family", ["bert", "roberta", "mpnet", "modernbert"])
@pytest.mark.parametrize("length", [-1, 0, 2, POSITIONS + 1])
def test_length_that_cannot_be(family, length, tiny_folder):
    expected = (
        f"max length {length} was asked for; .* has positions for {POSITIONS} tokens and needs 3: give a number from 3"
    )
    with pytest.raises(InputError, match=expected):
        load_encoder(tiny_folder(family), max_length=length)


# Folders of sentence-transformers


def save_with_sentence_transformers(transformer, folder, max_length):
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    modules = [Transformer(str(transformer), max_seq_length=max_length), Pooling(DIM, "mean"), Normalize()]
    SentenceTransformer(modules=modules, device="cpu").save(str(folder))


@pytest.mark.parametrize("max_length", [11, None])
def test_folder_of_sentence_transformers(tiny_bert, tmp_path, caplog, max_length):
    save_with_sentence_transformers(tiny_bert, tmp_path, max_length)
    with caplog.at_level(logging.WARNING, logger="selfguide"):
        encoder = load_encoder(tmp_path)
    assert "only the transformer is used (left out: Normalize)" in caplog.text
    assert encoder.max_length == (max_length or POSITIONS)
    assert load_encoder(tmp_path, max_length=20).max_length == 20
    plain = load_encoder(tiny_bert, max_length=max_length)
    rows = plain.tokenize(SENTENCES)
    assert encoder.tokenize(SENTENCES) == rows
    assert torch.equal(embed_rows(encoder, rows), embed_rows(plain, rows))


def test_folder_of_older_sentence_transformers(tiny_bert, tmp_path):
    """The transformer in a folder of its own, the length in a file of its own, which counts."""
    transformer = shutil.copytree(tiny_bert, tmp_path / "0_Transformer")
    change_json(transformer / "tokenizer_config.json", model_max_length=30)
    write_json(transformer / "sentence_bert_config.json", {"max_seq_length": 9, "do_lower_case": False})
    modules = [{"idx": 0, "name": "0", "path": "0_Transformer", "type": "sentence_transformers.models.Transformer"}]
    write_json(tmp_path / "modules.json", modules)
    assert load_encoder(tmp_path).max_length == 9
    change_json(transformer / "sentence_bert_config.json", max_seq_length=None)
    assert load_encoder(tmp_path).max_length == 30


def test_own_folder_keeps_its_length_and_drops_nothing(tiny_bert, tmp_path, caplog):
    save_encoder(load_encoder(tiny_bert, max_length=10), tmp_path)
    with caplog.at_level(logging.WARNING, logger="selfguide"):
        assert load_encoder(tmp_path).max_length == 10
    assert "left out" not in caplog.text


def test_folder_that_starts_with_no_transformer(copy_of_bert):
    write_json(copy_of_bert / "modules.json", [{"path": "", "type": "sentence_transformers.models.StaticEmbedding"}])
    with pytest.raises(InputError, match=r"the first module of .* is StaticEmbedding, not a transformer: there are no"):
        load_encoder(copy_of_bert)


@pytest.mark.parametrize("text", ["{", "[]", "[{}]", "3"])
def test_spoilt_list_of_modules(copy_of_bert, text):
    (copy_of_bert / "modules.json").write_text(text)
    with pytest.raises(InputError, match=r"its JSON files are not those of sentence-transformers: .*; save it again, or"):
        load_encoder(copy_of_bert)


# Code that comes with a model

CONFIGURATION = """
from pathlib import Path
from transformers import BertConfig
Path({marker!r}).touch()
class MarkedConfig(BertConfig):
    model_type = "marked"
"""
MODELING = """
from transformers import BertModel
from .configuration_marked import MarkedConfig
class MarkedModel(BertModel):
    config_class = MarkedConfig
"""


@pytest.fixture
def model_with_code(copy_of_bert, tmp_path, monkeypatch):
    """A model with code of its own, and the file that appears when that code runs."""
    monkeypatch.setattr(transformers.dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.setattr(sys, "path", sys.path.copy())
    marker = tmp_path / "code-was-run"
    (copy_of_bert / "configuration_marked.py").write_text(CONFIGURATION.format(marker=str(marker)))
    (copy_of_bert / "modeling_marked.py").write_text(MODELING)
    code = {"AutoConfig": "configuration_marked.MarkedConfig", "AutoModel": "modeling_marked.MarkedModel"}
    change_json(copy_of_bert / "config.json", model_type="marked", auto_map=code)
    return copy_of_bert, marker


def test_code_is_not_run_unasked(model_with_code):
    folder, marker = model_with_code
    with pytest.raises(InputError, match=r"code that comes with it, and that code was not run; .*--trust-remote-code"):
        load_encoder(folder)
    assert not marker.exists()


def test_code_of_a_known_type_is_not_run_unasked(model_with_code):
    folder, marker = model_with_code
    change_json(folder / "config.json", model_type="bert")
    assert type(load_encoder(folder).model) is transformers.BertModel
    assert not marker.exists()


def test_code_is_run_when_asked_and_saved_with_the_encoder(model_with_code, tmp_path, tiny_bert):
    folder, marker = model_with_code
    encoder = load_encoder(folder, trust_remote_code=True)
    assert marker.exists() and type(encoder.model).__name__ == "MarkedModel"
    rows = encoder.tokenize(SENTENCES)
    assert torch.equal(embed_rows(encoder, rows), embed_rows(load_encoder(tiny_bert), rows))
    save_encoder(encoder, tmp_path / "saved")
    again = load_encoder(tmp_path / "saved", trust_remote_code=True)
    assert torch.equal(embed_rows(again, rows), embed_rows(encoder, rows))


@pytest.mark.parametrize("loader", [AutoConfig, AutoTokenizer, AutoModel], ids=lambda loader: loader.__name__)
@pytest.mark.parametrize(("revision", "trusted"), [(None, False), ("v2", True)])
def test_revision_and_trust_reach_every_loader(loader, revision, trusted, tiny_bert, monkeypatch):
    original, asked = loader.from_pretrained, {}

    def capture(name, **options):
        asked.update(options)
        return original(name, **options)

    monkeypatch.setattr(loader, "from_pretrained", capture)
    load_encoder(tiny_bert, revision=revision, trust_remote_code=trusted)
    assert (asked["revision"], asked["trust_remote_code"]) == (revision, trusted)
