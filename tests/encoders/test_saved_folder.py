"""The folder of a finished run, as its readers take it: sentence-transformers, transformers, serving tools and people."""

import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from safetensors import safe_open
from safetensors.torch import load_file
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from transformers import AutoModel, AutoTokenizer

import selfguide
from model_variants import with_rotary_bases, with_template
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.saving import save_encoder
from selfguide.files import read_json, write_json
from tiny_models import DIM, POSITIONS, SENTENCES, WORDS

TEXTS = [
    *SENTENCES,
    "",
    'The CAT, the Dog: "old" -- it\'s 3.50!',
    "  the   cat\tand\nthe dog  ",
    "café naïve Ünder Straße",
    "猫 is 고양이 и кот",
    "[SEP] the [MASK]",
    "the cat " * POSITIONS,
]
"""Short and long, clean and not; the last one is cut."""

TRAINING_TEXTS = [f"the {first} {verb} near the {second}" for first in WORDS[1:7] for verb in WORDS[7:12] for second in "ab"]
PAIRS = "score\tsentence1\tsentence2\n" + "".join(
    f"{score}\tthe {left} sleeps\tthe {right} sleeps\n"
    for score, left, right in [
        (5, "cat", "cat"),
        (3, "cat", "dog"),
        (2, "man", "child"),
        (1, "bird", "house"),
        (0, "a", "tree"),
    ]
)


def train(folder, tiny, **settings):
    """A run of three steps in ``folder``, everything named relative to it, as a user would."""
    shutil.copytree(tiny, folder / "start")
    (folder / "texts.txt").write_text("\n".join([*TRAINING_TEXTS, "", TRAINING_TEXTS[0]]) + "\n")
    (folder / "pairs.tsv").write_text(PAIRS)
    small = {"steps": 3, "batch_size": 8, "projection_width": 64, "learning_rate": 1e-3, "device": "cpu"}
    selfguide.train("start", "texts.txt", "trained", progress=False, **small, **settings)
    return folder / "trained"


@pytest.fixture(scope="module")
def trained(tiny_folder, tmp_path_factory):
    """A finished run without labels; to be read, never written to."""
    place = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        patch.setattr(sys, "argv", ["/opt/tools/bin/selfguide", "train"])
        return train(place, tiny_folder("bert"))


@pytest.fixture(scope="module")
def vectors(trained):
    """What we ourselves make of the folder."""
    return PooledEmbedder(load_encoder(trained)).encode(TEXTS)


# Readers


def test_training_has_changed_the_vectors(trained, vectors, tiny_bert):
    assert not np.allclose(vectors, PooledEmbedder(load_encoder(tiny_bert)).encode(TEXTS), atol=1e-2)


def test_sentence_transformers_gives_our_vectors(trained, vectors):
    model = SentenceTransformer(str(trained), device="cpu")
    assert [type(module).__name__ for module in model] == ["Transformer", "Pooling"]
    assert model[1].pooling_mode == "cls"
    assert model.max_seq_length == load_encoder(trained).max_length == POSITIONS
    assert model.get_embedding_dimension() == DIM
    assert model.encode(TEXTS) == pytest.approx(vectors, abs=1e-5)
    assert model.encode(TEXTS, batch_size=1) == pytest.approx(vectors, abs=1e-5)


@torch.no_grad()
def test_transformers_gives_our_vectors(trained, vectors):
    tokenizer, model = AutoTokenizer.from_pretrained(trained), AutoModel.from_pretrained(trained)
    inputs = tokenizer(TEXTS, padding=True, truncation=True, max_length=POSITIONS, return_tensors="pt")
    assert not model.training and model.dtype == torch.float32
    assert model(**inputs).last_hidden_state[:, 0].numpy() == pytest.approx(vectors, abs=1e-5)


def test_tokenizers_alone_gives_our_tokens(trained):
    """What text-embeddings-inference does; it sets the length itself, from what sentence_bert_config.json says."""
    alone = Tokenizer.from_file(str(trained / "tokenizer.json"))
    assert alone.truncation is None and alone.padding is None
    alone.enable_truncation(read_json(trained / "sentence_bert_config.json")["max_seq_length"])
    rows = [encoding.ids for encoding in alone.encode_batch(TEXTS)]
    assert rows == load_encoder(trained).tokenize(TEXTS)
    first, last = alone.token_to_id("[CLS]"), alone.token_to_id("[SEP]")
    assert all(row[0] == first and row[-1] == last for row in rows)
    assert max(len(row) for row in rows) == POSITIONS


@pytest.mark.parametrize("anchor", ["mean", "max"])
def test_another_anchor_is_in_the_folder_too(anchor, tiny_bert, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = train(tmp_path, tiny_bert, anchor=anchor)
    model = SentenceTransformer(str(folder), device="cpu")
    assert model[1].pooling_mode == anchor
    ours = PooledEmbedder(load_encoder(folder), pooling=anchor).encode(TEXTS)
    assert model.encode(TEXTS) == pytest.approx(ours, abs=1e-5)
    assert f"the {anchor} of the tokens of the last layer" in " ".join((folder / "README.md").read_text().split())


# Files


def test_pooling_is_spelt_as_every_reader_knows(trained):
    """text-embeddings-inference and infinity read the booleans; sentence-transformers 6 would write one name instead."""
    modes = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    expected = {"word_embedding_dimension": DIM} | {f"pooling_mode_{mode}": mode == "cls_token" for mode in modes}
    assert read_json(trained / "1_Pooling" / "config.json") == expected


def test_modules_are_named_as_every_reader_knows(trained):
    modules = [(module["idx"], module["path"], module["type"]) for module in read_json(trained / "modules.json")]
    assert modules == [
        (0, "", "sentence_transformers.models.Transformer"),
        (1, "1_Pooling", "sentence_transformers.models.Pooling"),
    ]


def test_files_of_the_folder(trained):
    """Weights are in safetensors only: loading runs no code."""
    files = {str(path.relative_to(trained)) for path in trained.rglob("*") if path.is_file()}
    assert files == {
        "1_Pooling/config.json",
        "README.md",
        "config.json",
        "config_sentence_transformers.json",
        "model.safetensors",
        "modules.json",
        "sentence_bert_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        *(f"selfguide/{name}" for name in ("config.json", "environment.json", "metrics.jsonl", "scores.jsonl")),
        *(f"selfguide/{name}" for name in ("summary.json", "neighbours.json", "map.json", "report.html")),
    }


def check_float32(folder):
    with safe_open(folder / "model.safetensors", framework="pt") as weights:
        assert {weights.get_slice(name).get_dtype() for name in weights.keys()} == {"F32"}


def test_weights_are_float32(trained):
    check_float32(trained)


def test_weights_from_half_precision_are_float32(tiny_bert, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    half = tmp_path / "half"
    AutoModel.from_pretrained(tiny_bert, dtype=torch.float16).save_pretrained(half)
    AutoTokenizer.from_pretrained(tiny_bert).save_pretrained(half)
    check_float32(train(tmp_path, half))


def test_a_file_in_half_precision_is_noticed(tiny_bert, tmp_path):
    AutoModel.from_pretrained(tiny_bert, dtype=torch.float16).save_pretrained(tmp_path)
    with pytest.raises(AssertionError):
        check_float32(tmp_path)


def test_layer_zero_and_pooler_are_as_they_were(trained, tiny_bert):
    before, after = load_file(tiny_bert / "model.safetensors"), load_file(trained / "model.safetensors")
    assert set(before) == set(after)
    still = {name for name in before if torch.equal(before[name], after[name])}
    assert {name for name in before if name.startswith(("embeddings.", "pooler."))} == still


def leaks(folder, secrets):
    """Files, and strings in them, that should not be there."""
    found = [(path, path.read_bytes()) for path in folder.rglob("*") if path.is_file()]
    return [(str(path.relative_to(folder)), secret) for path, data in found for secret in secrets if secret.encode() in data]


def test_no_path_of_this_machine_is_in_the_folder(trained):
    """The folder goes to the hub as it stands; what the user typed (``start``, ``texts.txt``) is all it says of places."""
    machine = [str(trained.parent), "/opt/tools", f"{Path.home()}/", sys.prefix, str(Path(__file__).parents[2])]
    assert leaks(trained, machine) == []
    assert read_json(trained / "selfguide" / "environment.json")["command"] == ["selfguide", "train"]


def test_a_leak_is_noticed(trained, tmp_path):
    copy = shutil.copytree(trained, tmp_path / "copy")
    write_json(copy / "config.json", {**read_json(copy / "config.json"), "_name_or_path": "/home/someone/model"})
    assert leaks(copy, ["/home/someone"]) == [("config.json", "/home/someone")]


# Names that transformers 4 and 5 have for the same thing; tests/encoders/test_second_environment.py reads them with 4


def test_extra_special_tokens_have_the_name_that_both_know(tiny_folder, tmp_path):
    encoder = load_encoder(tiny_folder("camembert"))
    save_encoder(encoder, tmp_path)
    config = read_json(tmp_path / "tokenizer_config.json")
    assert config["additional_special_tokens"] == ["<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"]
    assert "extra_special_tokens" not in config
    assert load_encoder(tmp_path).tokenizer.all_special_tokens == encoder.tokenizer.all_special_tokens


def test_bases_of_rotary_positions_have_the_names_of_both(tiny_folder, tmp_path):
    start = with_rotary_bases(tiny_folder("modernbert"), tmp_path / "start", full=777.0, sliding=888.0)
    encoder = load_encoder(start)
    save_encoder(encoder, tmp_path / "saved")
    saved = read_json(tmp_path / "saved" / "config.json")
    assert (saved["global_rope_theta"], saved["local_rope_theta"]) == (777.0, 888.0)
    again = load_encoder(tmp_path / "saved")
    assert again.model.config.rope_parameters == encoder.model.config.rope_parameters


SIZES = ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "pad_token_id")
ATTENTION = ("attention_bias", "attention_dropout", "global_attn_every_n_layers", "local_attention")
ROTARY = ("global_rope_theta", "local_rope_theta")
WHAT_SERVING_NEEDS = {
    "bert": (*SIZES, "hidden_act", "hidden_dropout_prob", "max_position_embeddings", "type_vocab_size", "layer_norm_eps"),
    "modernbert": (*SIZES, *ATTENTION, *ROTARY, "hidden_activation", "norm_eps", "norm_bias", "classifier_activation"),
}


@pytest.mark.parametrize("family", WHAT_SERVING_NEEDS)
def test_config_has_what_text_embeddings_inference_needs(family, tiny_folder, tmp_path):
    """What its readers of ``config.json`` have no default for."""
    save_encoder(load_encoder(tiny_folder(family)), tmp_path)
    config = read_json(tmp_path / "config.json")
    assert [name for name in ("architectures", "model_type", *WHAT_SERVING_NEEDS[family]) if config.get(name) is None] == []


def test_a_template_in_the_tokenizer_is_kept(tiny_bert, tmp_path):
    """A prompt goes into the post-processor of tokenizer.json; a class name such as BertTokenizer would drop it."""
    start = with_template(tiny_bert, tmp_path / "start")
    encoder = load_encoder(start)
    save_encoder(encoder, tmp_path / "saved")
    rows = encoder.tokenize(["the cat", "the cat " * POSITIONS])
    words = [encoder.tokenizer.convert_ids_to_tokens(row) for row in rows]
    assert words[0] == ["[MASK]", "the", "cat", "near", "the", "park", "[SEP]"]
    assert words[1][0] == "[MASK]" and words[1][-4:] == words[0][-4:] and len(words[1]) == POSITIONS
    assert read_json(tmp_path / "saved" / "tokenizer_config.json")["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert load_encoder(tmp_path / "saved").tokenize(["the cat", "the cat " * POSITIONS]) == rows
    alone = Tokenizer.from_file(str(tmp_path / "saved" / "tokenizer.json"))
    assert alone.encode("the cat").ids == rows[0]


# The card


def parts_of(card):
    """Front matter, and the text with spaces and line ends made one."""
    _, front, body = card.split("---\n", 2)
    return yaml.safe_load(front), " ".join(body.split())


def test_card_without_labels(trained):
    front, body = parts_of((trained / "README.md").read_text(encoding="utf-8"))
    assert front["library_name"] == "sentence-transformers" and front["pipeline_tag"] == "sentence-similarity"
    assert {"selfguide", "sentence-transformers", "unsupervised"} <= set(front["tags"])
    assert "base_model" not in front, "a local folder is no model of the hub"
    assert f"a vector of {DIM} numbers" in body and "Trained from `start`" in body and "objective `sg-opt`" in body
    assert "60 sentences kept of 62 read (1 blank, 1 duplicate dropped)" in body
    assert "3 of 3 steps of 8 sentences" in body and "the weights of step 3 were kept" in body
    assert "`learning_rate`: `0.001`" in body and "`projection_width`: `64`" in body
    assert "No labelled pairs were given: the number of steps was fixed beforehand and no score chose the checkpoint" in body
    assert "loss" in body and "The labels of these pairs" not in body


def test_card_with_labels(tiny_bert, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = train(tmp_path, tiny_bert, dev="pairs.tsv", score_every=1)
    _, body = parts_of((folder / "README.md").read_text(encoding="utf-8"))
    kept = read_json(folder / "selfguide" / "summary.json")
    assert f"| `pairs.tsv` (cosine Spearman x100) | {kept['before']:.2f} | {kept['after']:.2f} |" in body
    assert "**The labels of these pairs chose the checkpoint**" in body and "No labelled pairs" not in body
    assert f"the weights of step {kept['kept_step']} were kept" in body


def test_code_of_the_card_runs(trained, capsys, monkeypatch):
    """As it stands, but for the name of the model, which is the reader's to fill in."""
    [code] = re.findall(r"```python\n(.*?)```", (trained / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    code, filled_in = re.subn(r'"path/or/name[^"]*"', repr(str(trained)), code)
    assert filled_in == 1
    names = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names["vectors"].shape == (2, DIM)
    assert "tensor([[1.0000" in capsys.readouterr().out
