"""Translation models with random weights: what goes in comes out in order, whatever the batches; and what is refused."""

import shutil
import sys

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

from selfguide.errors import InputError, MissingExtraError
from selfguide.translation.neural import NeuralTranslator
from tiny_models import SENTENCES
from tiny_translators import TRANSLATORS

SMALL = {"beam": 3, "max_length": 12, "device": "cpu"}


@pytest.fixture(params=TRANSLATORS)
def folder(request, translator_folder):
    return translator_folder(request.param)


def by_hand(folder, sentence, **options):
    """The translation of one sentence by transformers alone."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    found = model.generate(**tokenizer(sentence, return_tensors="pt"), do_sample=False, **options)
    return tokenizer.decode(found[0], skip_special_tokens=True).strip()


def test_batches_and_single_sentences_agree(folder):
    translator = NeuralTranslator(str(folder), **SMALL)
    together = translator.translate(SENTENCES)
    assert len(set(together)) > 1
    assert together == [translator.translate([sentence])[0] for sentence in SENTENCES]
    assert together == NeuralTranslator(str(folder), **SMALL, batch_tokens=1).translate(SENTENCES)


@pytest.mark.parametrize("beam", [1, 4])
def test_it_is_what_transformers_gives(folder, beam):
    translator = NeuralTranslator(str(folder), beam=beam, max_length=30, device="cpu")
    for sentence in SENTENCES[:3]:
        assert translator.translate([sentence]) == [by_hand(folder, sentence, num_beams=beam, max_length=30)]


def test_the_beam_matters(folder):
    narrow, wide = (NeuralTranslator(str(folder), beam=beam, max_length=12, device="cpu") for beam in (1, 6))
    assert narrow.translate(SENTENCES) != wide.translate(SENTENCES)


def test_batches_keep_to_the_number_of_tokens(folder):
    translator = NeuralTranslator(str(folder), beam=2, max_length=12, batch_tokens=40, device="cpu")
    lengths = [3, 10, 5, 5, 30, 4]
    batches = list(translator._batches(lengths))
    assert sorted(position for batch in batches for position in batch) == list(range(6))
    assert all(len(batch) == 1 or 2 * len(batch) * max(lengths[p] for p in batch) <= 40 for batch in batches)
    assert [max(lengths[p] for p in batch) for batch in batches] == sorted(
        (max(lengths[p] for p in batch) for batch in batches), reverse=True
    )


def test_a_long_sentence_is_cut_and_that_is_told(folder, caplog):
    translator = NeuralTranslator(str(folder), beam=1, max_length=8, device="cpu")
    translator.translate([" ".join(["cat"] * 30), "a cat"])
    assert "1 of 2 sentences fill --max-length 8, or were cut there" in caplog.text


def test_the_identity_tells_models_and_settings_apart(translator_folder, tmp_path):
    folder = translator_folder("marian")
    shutil.copytree(folder, tmp_path / "moved")
    same = [NeuralTranslator(str(path), **SMALL).identity for path in (folder, tmp_path / "moved")]
    assert same[0] == same[1]
    (tmp_path / "moved" / "vocab.json").write_bytes((folder / "vocab.json").read_bytes() + b"\n")
    others = [
        NeuralTranslator(str(tmp_path / "moved"), **SMALL),
        NeuralTranslator(str(translator_folder("marian", 2)), **SMALL),
        NeuralTranslator(str(folder), **{**SMALL, "beam": 4}),
        NeuralTranslator(str(folder), **{**SMALL, "max_length": 13}),
    ]
    assert all(other.identity != same[0] for other in others)


def test_a_model_that_does_not_translate(tiny_bert, tiny_folder):
    for folder, kind in ((tiny_bert, "bert"), (tiny_folder("t5"), "t5")):
        with pytest.raises(InputError, match=f"type '{kind}', which is no translation model.* marian and fsmt, such as"):
            NeuralTranslator(str(folder))


def test_a_model_that_is_not_there(tmp_path):
    with pytest.raises(InputError, match=r"'nobody/nothing' is not a local folder and could not be had.*--engine apertium"):
        NeuralTranslator("nobody/nothing")
    with pytest.raises(InputError, match=r"holds no config.json, so it is no saved translation model"):
        NeuralTranslator(str(tmp_path))


def test_a_damaged_model(translator_folder, tmp_path):
    shutil.copytree(translator_folder("marian"), tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    with pytest.raises(InputError, match=r"the translation model in '.*' cannot be loaded"):
        NeuralTranslator(str(tmp_path / "model"), max_length=12).translate(["a cat"])


def test_weights_as_the_hub_has_them_of_old(folder, tmp_path):
    """Pickled, and without the positions, which are computed."""
    expected = NeuralTranslator(str(folder), **SMALL).translate(SENTENCES)
    shutil.copytree(folder, tmp_path / "model")
    weights = load_file(tmp_path / "model" / "model.safetensors")
    (tmp_path / "model" / "model.safetensors").unlink()
    kept = {name: tensor for name, tensor in weights.items() if "embed_positions" not in name}
    torch.save(kept, tmp_path / "model" / "pytorch_model.bin")
    assert NeuralTranslator(str(tmp_path / "model"), **SMALL).translate(SENTENCES) == expected


def test_incomplete_weights(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "model")
    weights = load_file(tmp_path / "model" / "model.safetensors")
    del weights["model.decoder.layers.0.fc1.weight"]
    save_file(weights, tmp_path / "model" / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"lack 1 tensors \(first: model\.decoder\.layers\.0\.fc1\.weight\)"):
        NeuralTranslator(str(tmp_path / "model"), **SMALL).translate(["a cat"])


def test_more_than_the_positions(folder):
    with pytest.raises(InputError, match=r"--max-length is 49, but '.*' has 48 positions"):
        NeuralTranslator(str(folder), max_length=49)


def test_a_missing_package(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)  # so that it is not found, also where it is installed
    with pytest.raises(MissingExtraError, match=r"needs sacremoses, not installed: pip install 'selfguide\[translate\]'"):
        NeuralTranslator(str(folder))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_half_precision(folder):
    translator = NeuralTranslator(str(folder), beam=3, max_length=12, device="cuda")
    assert translator.identity["dtype"] == "float16"
    assert len(translator.translate(SENTENCES)) == len(SENTENCES)
