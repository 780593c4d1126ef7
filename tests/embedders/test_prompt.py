import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from selfguide.choices import READOUT_TEMPLATE
from selfguide.embedders.loading import load_embedder
from selfguide.embedders.prompt import PromptEmbedder
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.template import with_template
from selfguide.errors import InputError
from tiny_models import ENCODERS, SENTENCES

TEXTS = [*SENTENCES, "is the cat old?", "the [MASK] eats", 'the "dog"', "the dog.", "", " a bird "]


@pytest.fixture(scope="module")
def encoder(tiny_folder):
    return load_encoder(tiny_folder("bert"))


def by_hand(folder, sentence, *, full_stop=True):
    """The template as text, one sentence at a time; the mask token that is read is the last one, as none follows it."""
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = sentence.strip()
    if full_stop and text and text[-1] not in ".?\"'":
        text += "."
    inputs = tokenizer(f'This sentence : " {text} " means {tokenizer.mask_token} .', return_tensors="pt")
    place = inputs["input_ids"][0].tolist()[::-1].index(tokenizer.mask_token_id)
    with torch.no_grad():
        return model(**inputs).last_hidden_state[0, -1 - place].numpy()


@pytest.mark.parametrize("full_stop", [True, False])
def test_the_state_of_the_mask_token(tiny_folder, encoder, full_stop):
    found = PromptEmbedder(encoder, full_stop=full_stop).encode(TEXTS)
    expected = [by_hand(tiny_folder("bert"), text, full_stop=full_stop) for text in TEXTS]
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_which_sentences_get_a_full_stop(encoder):
    embedder = PromptEmbedder(encoder)
    for ended in ("the cat.", "the cat?", 'the "cat"', "the 'cat'", ""):
        plain = PromptEmbedder(encoder, full_stop=False).encode([ended])
        np.testing.assert_array_equal(embedder.encode([ended]), plain)
    np.testing.assert_array_equal(
        embedder.encode(["the cat", "the cat! ", "a"]), embedder.encode(["the cat.", "the cat!.", "a."])
    )


def test_a_mask_token_in_the_sentence_is_not_the_one_that_is_read(encoder):
    for template in (READOUT_TEMPLATE, '{mask} means " {sentence} "'):
        embedder = PromptEmbedder(encoder, template=template)
        one, two = embedder.encode(["the [MASK] eats", "the [MASK] [MASK] eats"])
        assert np.isfinite(one).all() and not np.allclose(one, two)


def test_truncation_cuts_the_sentence_not_the_template(tiny_folder, encoder):
    long = PromptEmbedder(encoder, full_stop=False)
    np.testing.assert_array_equal(long.encode(["the cat " * 100]), long.encode(["the cat " * 200]))
    short = PromptEmbedder(load_encoder(tiny_folder("bert"), max_length=5))
    with pytest.raises(InputError, match="max length 5 leaves no room for a sentence"):
        short.encode(["the cat"])


@pytest.mark.parametrize("family", ENCODERS)
def test_every_family(tiny_folder, family):
    embedder = load_embedder(
        tiny_folder(family), embedder="prompt", parameters={"template": "{sentence} {mask}"}, device="cpu"
    )
    vectors = embedder.encode(SENTENCES)
    assert np.isfinite(vectors).all()
    assert len({tuple(row) for row in vectors.round(3).tolist()}) == len(SENTENCES)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ("{sentence} means .", "holds no {mask}, whose state is the vector"),
        ("means {mask} .", r"holds {sentence} 0 times"),
        ("{sentence} {mask} {mask}", "holds {mask} 2 times"),
        ("{sentence} {word} {mask}", "holds {word}; its placeholders are"),
    ],
)
def test_wrong_templates(encoder, template, words):
    with pytest.raises(InputError, match=words):
        PromptEmbedder(encoder, template=template)
    with pytest.raises(InputError, match=words):
        PromptEmbedder(encoder).set_params(template=template).encode(["the cat"])


def test_another_template_is_used_at_once(encoder):
    embedder = PromptEmbedder(encoder)
    first = embedder.encode(SENTENCES)
    other = embedder.set_params(template="the {sentence} near {mask}").encode(SENTENCES)
    assert not np.allclose(first, other)
    assert embedder.protocol["template"] == "the {sentence} near {mask}"
    fresh = PromptEmbedder(encoder, template="the {sentence} near {mask}").encode(SENTENCES)
    np.testing.assert_array_equal(other, fresh)


@pytest.mark.slow
def test_published_number(shared):
    """Jiang et al. (2022), table 2: BERT-base, untrained, on text as SentEval tokenises it."""
    import selfguide

    model = shared / "encoders" / "bert-base-uncased"
    settings = {"tasks": "STS-B", "text": "senteval", "data": str(shared / "data"), "device": "cpu"}
    rows = selfguide.evaluate(model, embedder="prompt", progress=False, **settings)
    (found,) = (row.value for row in rows if (row.dataset, row.metric) == ("STS-B", "spearman"))
    assert found == pytest.approx(70.60, abs=0.05)


def test_the_protocol_names_the_template_that_is_read_alone(tiny_bert):
    inside = with_template(load_encoder(tiny_bert), "{mask} : {sentence}")
    assert "reads" not in PromptEmbedder(inside).protocol
