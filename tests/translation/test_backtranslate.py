"""The whole job: order, the file that training reads, the cache, and what is dropped."""

import json
import os
import shutil
import signal

import pytest
import torch
from safetensors.torch import load_file, save_file

import selfguide
from selfguide.data.pairs import Paraphrases, read_paraphrases
from selfguide.errors import InputError, SelfguideError
from selfguide.files import read_json, read_json_lines, write_json
from selfguide.translation.backtranslate import Backtranslation, _collect, run_backtranslation, word_overlap
from selfguide.translation.cache import Cache
from selfguide.translation.config import BacktranslationConfig
from tiny_models import SENTENCES

MODELS = {"MarianMTModel", "FSMTForConditionalGeneration"}


@pytest.fixture
def settings(translator_folder):
    """A small job with a Marian model there and an FSMT model back."""
    there, back = (str(translator_folder(family)) for family in ("marian", "fsmt"))
    return {"forward": there, "backward": back, "beam": 2, "max_length": 10, "batch_size": 2, "device": "cpu"}


@pytest.fixture
def model_calls():
    """Counts how often any translation model runs."""
    calls = []

    def count(module, arguments, output):
        if type(module).__name__ in MODELS:
            calls.append(type(module).__name__)

    handle = torch.nn.modules.module.register_module_forward_hook(count)
    yield calls
    handle.remove()


def test_the_file_is_what_training_reads(settings, tmp_path):
    output = tmp_path / "out.tsv"
    found = selfguide.backtranslate(SENTENCES, output, progress=False, **settings)
    assert found.sentences == SENTENCES
    assert read_paraphrases(output) == found
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.tsv", "out.tsv.cache"]


def test_json_lines(settings, tmp_path):
    selfguide.backtranslate(SENTENCES, tmp_path / "out.tsv", progress=False, **settings)
    selfguide.backtranslate(SENTENCES, tmp_path / "out.jsonl", progress=False, **settings)
    assert list(read_json_lines(tmp_path / "out.jsonl")[0]) == ["sentence", "paraphrase"]
    assert read_paraphrases(tmp_path / "out.jsonl") == read_paraphrases(tmp_path / "out.tsv")


def test_the_batches_do_not_matter(settings, tmp_path):
    files = [tmp_path / "small.tsv", tmp_path / "large.tsv"]
    for file, batch_size in zip(files, (1, 100), strict=True):
        selfguide.backtranslate(SENTENCES, file, progress=False, **{**settings, "batch_size": batch_size})
    assert files[0].read_text() == files[1].read_text()


def test_what_is_known_is_not_translated_again(settings, tmp_path, model_calls):
    def run(sentences, output="out.tsv", **more):
        model_calls.clear()
        config = BacktranslationConfig(output=str(tmp_path / output), cache=str(tmp_path / "cache"), **{**settings, **more})
        return run_backtranslation(config, source=sentences, overwrite=True, progress=False)

    first = run(SENTENCES[:4])
    assert first.cached == 0 and set(model_calls) == MODELS
    again = run(SENTENCES[:4], "again.tsv")
    assert again.cached == 4 and model_calls == []
    assert again.paraphrases == first.paraphrases
    more = run(SENTENCES)
    assert more.cached == 4 and model_calls
    assert more.paraphrases.sentences == SENTENCES
    assert run(SENTENCES, beam=3).cached == 0
    assert model_calls


def test_repeated_sentences_and_breaks_inside(settings, tmp_path):
    data = tmp_path / "data.jsonl"
    texts = ["the cat\tsits\non the tree", "a dog runs", "a dog runs"]
    data.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    found = selfguide.backtranslate(data, tmp_path / "out.tsv", progress=False, **settings)
    assert found.sentences == ("the cat sits on the tree", "a dog runs")
    assert read_paraphrases(tmp_path / "out.tsv") == found


def test_a_finished_file_is_replaced_only_when_asked(settings, tmp_path):
    output = tmp_path / "out.tsv"
    selfguide.backtranslate(SENTENCES[:2], output, progress=False, **settings)
    with pytest.raises(InputError, match=r"out.tsv' exists already; choose another file, or --overwrite to replace it"):
        selfguide.backtranslate(SENTENCES[:3], output, progress=False, **settings)
    selfguide.backtranslate(SENTENCES[:3], output, progress=False, overwrite=True, **settings)
    assert len(read_paraphrases(output)) == 3


def test_an_interrupted_job_goes_on(settings, tmp_path, model_calls):
    """Also where an earlier file is in the place of the output: the second call need not be asked to overwrite."""
    output = tmp_path / "out.tsv"
    output.write_text("a cat\tone cat\n")
    handle = torch.nn.modules.module.register_module_forward_hook(
        lambda *_: os.kill(os.getpid(), signal.SIGINT) if len(model_calls) > 25 else None
    )
    config = BacktranslationConfig(output=str(output), **settings)
    try:
        with pytest.raises(KeyboardInterrupt, match=r"interrupted after 2 of 6 sentences; the same command goes on"):
            run_backtranslation(config, source=SENTENCES, overwrite=True, progress=False)
    finally:
        handle.remove()
    assert output.read_text() == "a cat\tone cat\n"
    done = run_backtranslation(config, source=SENTENCES, progress=False)
    assert done.cached == 2
    whole = selfguide.backtranslate(SENTENCES, tmp_path / "whole.tsv", progress=False, **settings)
    assert read_paraphrases(output) == whole


def test_what_comes_back_empty_is_dropped_and_counted(tmp_path):
    with Cache(tmp_path, {}) as cache:
        cache.add([("a cat", "one cat"), ("a dog", ""), ("a bird", "a bird")])
        found = _collect(["a bird", "a dog", "a cat"], cache)
    assert found == Paraphrases(("a bird", "a cat"), ("a bird", "one cat"), dropped=1)
    done = Backtranslation(tmp_path / "out.tsv", found, cached=0)
    assert (done.unchanged, done.overlap) == (1, (1 + 1 / 3) / 2)


def test_nothing_at_all_comes_back(settings, translator_folder, tmp_path, model_calls):
    """A model that ends every translation at once; its empty texts do not go to the other model."""
    shutil.copytree(translator_folder("marian"), tmp_path / "mute")
    weights = load_file(tmp_path / "mute" / "model.safetensors")
    weights["final_logits_bias"][0, 0] = 1e4  # of the end of a sentence
    save_file(weights, tmp_path / "mute" / "model.safetensors", metadata={"format": "pt"})
    search = read_json(tmp_path / "mute" / "generation_config.json")
    write_json(tmp_path / "mute" / "generation_config.json", search | {"min_length": 0})
    mute = {**settings, "forward": str(tmp_path / "mute")}
    with pytest.raises(SelfguideError, match="nothing came back of any of 6 sentences; are they in the right language"):
        selfguide.backtranslate(SENTENCES, tmp_path / "out.tsv", progress=False, **mute)
    assert set(model_calls) == {"MarianMTModel"}
    assert not (tmp_path / "out.tsv").exists()


@pytest.mark.parametrize(
    ("left", "right", "overlap"),
    [("The cat, sits.", "the CAT sits", 1), ("a b", "c d", 0), ("a b c", "b c d", 0.5), ("...", "!", 1)],
)
def test_word_overlap(left, right, overlap):
    assert word_overlap(left, right) == overlap


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"beams": 3}, r"unknown setting 'beams' \(did you mean 'beam'\?\)"),
        ({"beam": 0}, "--beam is 0; it must be 1 or more"),
        ({"engine": "google"}, "--engine 'google' is not known; choose one of: neural, apertium"),
        ({"forward": "a"}, "--forward and --backward go together"),
        ({"forward": "a", "backward": "b", "pivot": "de"}, "give the one or the others"),
        ({"output": "out.txt"}, "the output 'out.txt' ends in '.txt'; paraphrases are written to .tsv or .jsonl"),
        ({"output": "no/such/folder/out.tsv"}, "cannot be written: 'no/such/folder' is no folder that allows it"),
        ({"output": ""}, "no output file was given; name one with --output F.tsv"),
    ],
    ids=str,
)
def test_wrong_settings(tmp_path, monkeypatch, given, told):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=told):
        selfguide.backtranslate(["a cat"], **{"output": "out.tsv", **given})
    assert list(tmp_path.iterdir()) == []


def test_the_default_translators():
    assert BacktranslationConfig().translators == ("facebook/wmt19-en-de", "facebook/wmt19-de-en")
    assert BacktranslationConfig(pivot="ru").translators == ("facebook/wmt19-en-ru", "facebook/wmt19-ru-en")
    assert BacktranslationConfig(engine="apertium").translators == ("eng-spa", "spa-eng")
    assert BacktranslationConfig(forward="a", backward="b").translators == ("a", "b")
