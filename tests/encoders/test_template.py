"""Templates inside the tokenizer: the ids are those of the text written out, in every family and for every reader."""

import dataclasses
import json
import re

import numpy as np
import pytest
import torch
import transformers
from sentence_transformers import SentenceTransformer
from tokenizers import Tokenizer
from transformers import AutoModel, AutoTokenizer, PreTrainedTokenizerFast

from selfguide.choices import MEANING_TEMPLATE
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.saving import save_encoder
from selfguide.encoders.template import split_template, template_of, template_text, with_template, without_template
from selfguide.errors import InputError
from selfguide.files import read_json
from tiny_models import ENCODERS, POSITIONS, SENTENCES

AFTER_MASK = '{cls} this sentence : " {sentence} " means {mask} .'
TEMPLATES = (
    MEANING_TEMPLATE,
    AFTER_MASK,
    "{mask} the old cat , the old cat {sentence} near the old cat",
    "the {sentence}{mask}",
)
BYTE_LEVEL = ("roberta", "modernbert")
LONG = "the cat " * POSITIONS


@pytest.fixture
def encoder_of(tiny_folder):
    return lambda family: load_encoder(tiny_folder(family))


@pytest.fixture(scope="module")
def mini():
    return load_encoder("mini")


def by_hand(encoder, template, sentence):
    """The whole text tokenised at once, and the closing token of the family."""
    tokenizer = encoder.tokenizer
    text = template.replace("{mask}", tokenizer.mask_token).replace("{cls}", tokenizer.cls_token)
    return [*tokenizer(text.replace("{sentence}", sentence), add_special_tokens=False)["input_ids"], tokenizer.sep_token_id]


# Token ids


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("family", ENCODERS)
def test_ids_are_those_of_the_text_written_out(family, template, encoder_of):
    encoder = encoder_of(family)
    # byte-level pieces hold the space before them, and the tokenizer has seen none before a sentence
    written = template.replace(" {sentence}", "{sentence}") if family in BYTE_LEVEL else template
    expected = [by_hand(encoder, written, sentence) for sentence in SENTENCES]
    assert with_template(encoder, template).tokenizer(list(SENTENCES))["input_ids"] == expected
    assert len({tuple(row) for row in expected}) == len(SENTENCES)


def test_pieces_that_mean_something_to_the_template_parser(mini):
    template = '{mask} $ $A $B $0 : :1 a:b [ ] " \' {sentence} : $ " : ~ # .'
    rows = with_template(mini, template).tokenize(["A cat.", ""])
    assert rows == [by_hand(mini, template, sentence) for sentence in ("A cat.", "")]
    assert mini.tokenizer.unk_token_id not in rows[0]
    assert with_template(mini, MEANING_TEMPLATE).tokenizer.convert_ids_to_tokens(rows[0][:1]) == ["[MASK]"]


def test_a_template_is_one_segment(mini):
    encoded = with_template(mini, MEANING_TEMPLATE).tokenizer("A cat.")
    assert set(encoded["token_type_ids"]) == {0} and set(encoded["attention_mask"]) == {1}


def test_the_second_text_of_a_pair_follows_the_template(mini):
    templated = with_template(mini, MEANING_TEMPLATE)
    first, second = templated.tokenize(["A cat."])[0], mini.tokenize(["Two dogs."])[0][1:]
    encoded = templated.tokenizer("A cat.", "Two dogs.")
    assert encoded["input_ids"] == [*first, *second]
    assert encoded["token_type_ids"] == [0] * len(first) + [1] * len(second)


def test_the_tokenizer_that_was_given_stays_as_it_was(mini):
    def state():
        return json.loads(mini.tokenizer.backend_tokenizer.to_str())

    rows, before = mini.tokenize(SENTENCES), state()
    templated = with_template(mini, MEANING_TEMPLATE)
    assert templated.tokenize(SENTENCES) != rows
    assert templated.model is mini.model
    assert state() == before and mini.tokenize(SENTENCES) == rows


# Where the mask is


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("family", ENCODERS)
def test_the_position_of_the_mask_is_that_of_the_template(family, template, encoder_of):
    """Also when the sentence holds a mask token itself, and when it is cut."""
    plain = encoder_of(family)
    encoder = with_template(plain, template)
    mask = plain.tokenizer.mask_token_id
    position = template_of(encoder).mask_position
    rows = encoder.tokenize([*SENTENCES, LONG, f"{plain.tokenizer.mask_token} cat {plain.tokenizer.mask_token}"])
    assert all(row[position] == mask for row in rows)
    assert [row.count(mask) for row in rows] == [1] * (len(rows) - 1) + [3]
    assert (position >= 0) == (template.index("{mask}") < template.index("{sentence}"))


def test_before_and_after_are_all_that_is_around_a_sentence(mini):
    encoder = with_template(mini, AFTER_MASK)
    template, row = template_of(encoder), encoder.tokenize(["A cat."])[0]
    assert row == [*template.before, *mini.tokenize(["A cat."])[0][1:-1], *template.after]
    assert template_of(with_template(mini, 'about " {sentence} "')).mask_position is None


@pytest.mark.parametrize("family", ENCODERS)
def test_a_plain_tokenizer_has_no_template(family, encoder_of):
    encoder = encoder_of(family)
    assert template_of(encoder) is None and template_text(encoder) is None
    assert without_template(encoder) is encoder


@pytest.mark.parametrize("family", ENCODERS)
def test_a_template_can_be_replaced_and_taken_out(family, encoder_of):
    encoder = encoder_of(family)
    templated = with_template(encoder, MEANING_TEMPLATE)
    assert without_template(templated).tokenize([*SENTENCES, LONG]) == encoder.tokenize([*SENTENCES, LONG])
    assert with_template(templated, AFTER_MASK).tokenize(SENTENCES) == with_template(encoder, AFTER_MASK).tokenize(SENTENCES)
    assert templated.tokenize(SENTENCES) == with_template(encoder, MEANING_TEMPLATE).tokenize(SENTENCES)


def test_text_and_first_token(mini, encoder_of):
    templated = with_template(mini, MEANING_TEMPLATE)
    assert template_text(templated) == '[MASK] is the meaning of " {sentence} ". [SEP]'
    assert (mini.first_token, templated.first_token) == ("[CLS]", "[MASK]")
    roberta = encoder_of("roberta")
    assert (roberta.first_token, with_template(roberta, MEANING_TEMPLATE).first_token) == ("<s>", "<mask>")
    assert with_template(mini, AFTER_MASK).first_token == "[CLS]"


# Truncation


@pytest.mark.parametrize("family", ENCODERS)
def test_the_sentence_is_cut_never_the_template(family, encoder_of):
    encoder = with_template(encoder_of(family), AFTER_MASK)
    template, whole = template_of(encoder), encoder.tokenizer(LONG)["input_ids"]
    words = whole[len(template.before) : -len(template.after)]
    for length in (POSITIONS, 40, len(template.before) + len(template.after) + 1):
        room = length - len(template.before) - len(template.after)
        expected = [*template.before, *words[:room], *template.after]
        assert encoder.tokenizer(LONG, truncation=True, max_length=length)["input_ids"] == expected
        assert dataclasses.replace(encoder, max_length=length).tokenize([LONG]) == [expected]
        alone = Tokenizer.from_str(encoder.tokenizer.backend_tokenizer.to_str())
        alone.enable_truncation(length)
        assert alone.encode(LONG).ids == expected


# Saved folders; tests/encoders/test_second_environment.py reads them with older versions


@pytest.mark.parametrize("template", [MEANING_TEMPLATE, AFTER_MASK], ids=["mask first", "mask after"])
@pytest.mark.parametrize("family", ENCODERS)
@torch.no_grad()
def test_every_reader_of_a_saved_folder_has_the_template(family, template, encoder_of, tmp_path):
    encoder, texts = with_template(encoder_of(family), template), [*SENTENCES, "", LONG.strip()]
    save_encoder(encoder, tmp_path)
    rows, vectors = encoder.tokenize(texts), PooledEmbedder(encoder).encode(texts)
    assert not np.allclose(vectors, PooledEmbedder(encoder_of(family)).encode(texts), atol=1e-2)

    again = load_encoder(tmp_path)
    assert again.tokenize(texts) == rows and template_of(again) == template_of(encoder)
    assert PooledEmbedder(again).encode(texts) == pytest.approx(vectors, abs=1e-6)

    tokenizer, model = AutoTokenizer.from_pretrained(tmp_path), AutoModel.from_pretrained(tmp_path).eval()
    inputs = tokenizer(texts, padding=True, truncation=True, max_length=encoder.max_length, return_tensors="pt")
    assert model(**inputs).last_hidden_state[:, 0].numpy() == pytest.approx(vectors, abs=1e-5)

    whole = SentenceTransformer(str(tmp_path), device="cpu")
    assert whole.max_seq_length == encoder.max_length
    assert whole.encode(texts) == pytest.approx(vectors, abs=1e-5)

    alone = Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    assert alone.truncation is None and alone.padding is None
    alone.enable_truncation(read_json(tmp_path / "sentence_bert_config.json")["max_seq_length"])
    assert [encoding.ids for encoding in alone.encode_batch(texts)] == rows


@pytest.mark.parametrize("family", ENCODERS)
def test_saved_again_and_without_the_template(family, encoder_of, tmp_path):
    """A folder may be trained on from: nothing of the tokenizer may wear off."""
    plain, encoder = encoder_of(family), with_template(encoder_of(family), MEANING_TEMPLATE)
    for number in range(2):
        save_encoder(encoder, tmp_path / str(number))
        encoder = load_encoder(tmp_path / str(number))
        config = read_json(tmp_path / str(number) / "tokenizer_config.json")
        assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
        assert config["model_input_names"] == list(plain.tokenizer.model_input_names)
        names = [f"{kind}_token" for kind in ("mask", "cls", "sep", "pad", "unk")]
        assert {name: config.get(name) for name in names} == {name: getattr(plain.tokenizer, name) for name in names}
    assert encoder.tokenize(SENTENCES) == with_template(plain, MEANING_TEMPLATE).tokenize(SENTENCES)
    assert without_template(encoder).tokenize(SENTENCES) == plain.tokenize(SENTENCES)


def test_a_class_of_the_family_would_drop_the_template(encoder_of, tmp_path):
    """Why the class is another one; when this fails, transformers has changed."""
    encoder = with_template(encoder_of("bert"), MEANING_TEMPLATE)
    save_encoder(encoder, tmp_path)
    config = read_json(tmp_path / "tokenizer_config.json")
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({**config, "tokenizer_class": "BertTokenizer"}))
    assert AutoTokenizer.from_pretrained(tmp_path)("a cat")["input_ids"] != encoder.tokenize(["a cat"])[0]


# Wrong templates


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{mask} means", "the template '{mask} means' holds {sentence} 0 times; it must be there exactly once"),
        ("{sentence} is {sentence}", "the template '{sentence} is {sentence}' holds {sentence} 2 times; it must be there"),
        ("{mask} {sentence} {mask}", "holds {mask} 2 times; it may be there once"),
        ("{msk} {sentence}", "the template '{msk} {sentence}' holds {msk}; its placeholders are: {sentence}, {mask}, {cls}"),
        ("{} {sentence}", "holds {}; its placeholders are: {sentence}, {mask}, {cls}"),
    ],
)
def test_texts_that_are_no_templates(template, message, mini):
    for attempt in (lambda: split_template(template), lambda: with_template(mini, template)):
        with pytest.raises(InputError, match=re.escape(message)):
            attempt()


def test_a_mask_token_as_text_beside_the_one_that_is_read(mini):
    message = "the template '[MASK] {sentence} {mask}' holds the mask token [MASK] more than once; write {mask} once"
    with pytest.raises(InputError, match=re.escape(message)):
        with_template(mini, "[MASK] {sentence} {mask}")


def test_spaces_around_a_template_do_not_count(mini):
    assert split_template(' {mask} :  {sentence} " ') == ("{mask} :", ' "')
    spaced, plain = (with_template(mini, template) for template in (f"  {MEANING_TEMPLATE} ", MEANING_TEMPLATE))
    assert spaced.tokenize(["a"]) == plain.tokenize(["a"])


@pytest.mark.parametrize(("kind", "template"), [("mask", "{mask} {sentence}"), ("first", "{cls} {sentence}")])
def test_an_encoder_without_the_token(kind, template, mini):
    backend = Tokenizer.from_str(mini.tokenizer.backend_tokenizer.to_str())
    bare = dataclasses.replace(mini, tokenizer=PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]"))
    placeholder = template.split()[0]
    with pytest.raises(InputError, match=f"asks for {placeholder}, and the tokenizer of 'mini' has no {kind} token; use"):
        with_template(bare, template)
    assert template_of(with_template(bare, "about {sentence}")).mask_position is None


def test_a_tokenizer_written_in_python(mini):
    slow = dataclasses.replace(mini, tokenizer=transformers.ByT5Tokenizer())
    with pytest.raises(InputError, match=r"the tokenizer of 'mini' is written in Python, .* comes with a tokenizer\.json"):
        with_template(slow, MEANING_TEMPLATE)
    assert template_of(slow) is None


def test_no_room_for_a_sentence(mini):
    taken = len(with_template(mini, MEANING_TEMPLATE).tokenize([""])[0])
    assert taken == 9
    least = with_template(dataclasses.replace(mini, max_length=10), MEANING_TEMPLATE)
    assert len(least.tokenize(["a cat and a dog"])[0]) == 10
    with pytest.raises(InputError, match=r"max length 9 leaves no room for a sentence: .* takes 9 tokens; .* at least 10"):
        with_template(dataclasses.replace(mini, max_length=9), MEANING_TEMPLATE)
