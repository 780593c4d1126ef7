"""Vectors of int8 and of bits: against sentence-transformers' own function, loops, and what they are to keep."""

import numpy as np
import pytest
from sentence_transformers.util import quantize_embeddings

from selfguide.compact import Scale, bits, signs
from selfguide.errors import InputError

VECTORS = np.random.default_rng(0).normal(size=(200, 37)).astype(np.float32) * np.linspace(0.1, 3, 37, dtype=np.float32)


def cosines(vectors):
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit @ unit.T


def test_codes_are_those_of_sentence_transformers():
    scale = Scale.of(VECTORS[:50])
    theirs = quantize_embeddings(VECTORS, "int8", ranges=scale.ranges)
    assert scale.codes(VECTORS).dtype == theirs.dtype == np.int8
    np.testing.assert_array_equal(scale.codes(VECTORS), theirs)
    in_full = np.repeat(scale.ranges, VECTORS.shape[1], axis=1)  # the shape that their documentation has
    np.testing.assert_array_equal(scale.codes(VECTORS), quantize_embeddings(VECTORS, "int8", ranges=in_full))


def test_codes_are_rounded_steps():
    scale = Scale(0.5)
    values = [0, 0.24, 0.26, -0.24, -0.26, 1, 63.1, 63.5, 900, -64, -64.5, -900]
    wanted = [max(-128, min(127, round(value / 0.5))) for value in values]
    assert wanted == [0, 0, 1, 0, -1, 2, 126, 127, 127, -128, -128, -128]
    assert scale.codes(np.array([values], np.float32)).tolist() == [wanted]


def test_codes_go_up_to_127_and_keep_the_cosines():
    scale = Scale.of(VECTORS)
    codes = scale.codes(VECTORS).astype(np.float64)
    assert np.abs(codes).max() == 127
    assert np.abs(codes * scale.step - VECTORS).max() <= 0.5001 * scale.step
    np.testing.assert_allclose(cosines(codes), cosines(VECTORS), atol=0.02)


def test_ranges_of_each_dimension_would_change_the_cosines():
    """Why there is one scale: from least to largest in each dimension, codes are moved to the middle of that."""
    moved = VECTORS + 1
    theirs = quantize_embeddings(moved, "int8").astype(np.float64)
    ours = Scale.of(moved).codes(moved).astype(np.float64)
    assert np.abs(cosines(ours) - cosines(moved)).max() < 0.02
    assert np.abs(cosines(theirs) - cosines(moved)).max() > 0.3


@pytest.mark.parametrize("step", [0.0, -1.0, np.nan, np.inf])
def test_a_scale_that_is_none(step):
    with pytest.raises(InputError, match=r"the step of int8 vectors is .*; it must be a number greater than 0"):
        Scale(step)


def test_vectors_of_nothing_have_no_scale():
    with pytest.raises(InputError, match=r"is 0\.0; it must be"):
        Scale.of(np.zeros((3, 4), np.float32))


def test_bits_are_those_of_sentence_transformers_and_of_a_loop():
    np.testing.assert_array_equal(bits(VECTORS), quantize_embeddings(VECTORS, "ubinary"))
    row = "".join("1" if value > 0 else "0" for value in VECTORS[0]).ljust(40, "0")
    assert bits(VECTORS)[0].tolist() == [int(row[start : start + 8], 2) for start in range(0, 40, 8)]
    assert bits(np.zeros((1, 8), np.float32)).tolist() == [[0]]


def test_the_cosine_of_signs_is_the_hamming_distance_of_bits():
    packed = bits(VECTORS[:6])
    distances = [
        [sum(bin(x ^ y).count("1") for x, y in zip(a, b, strict=True)) for b in packed.tolist()] for a in packed.tolist()
    ]
    np.testing.assert_allclose(cosines(signs(VECTORS[:6])), 1 - 2 * np.array(distances) / 37, atol=1e-6)
