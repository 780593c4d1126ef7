"""Translations on the disk: found again by the same setup only, whole batches, and told when the file is broken."""

import pytest

from selfguide.errors import InputError
from selfguide.translation.cache import FILE, Cache, is_unfinished

SETUP = {"engine": "test", "beam": 5}


def test_what_was_added_is_found_again(tmp_path):
    with Cache(tmp_path / "cache", SETUP) as cache:
        assert cache.get("a cat") is None
        cache.add([("a cat", "one cat"), ("a dog\tand\u2028more", ""), ("naïve 🙂", "it's 'quoted'")])
    with Cache(tmp_path / "cache", dict(reversed(SETUP.items()))) as cache:
        assert [cache.get(key) for key in ("a cat", "a dog\tand\u2028more", "naïve 🙂", "A cat")] == [
            "one cat",
            "",
            "it's 'quoted'",
            None,
        ]


def test_another_setup_finds_nothing(tmp_path):
    with Cache(tmp_path, SETUP) as cache:
        cache.add([("a cat", "one cat")])
    with Cache(tmp_path, {**SETUP, "beam": 6}) as other:
        assert other.get("a cat") is None
        other.add([("a cat", "some cat")])
    with Cache(tmp_path, SETUP) as cache:
        assert cache.get("a cat") == "one cat"


def test_a_batch_is_there_whole_or_not_at_all(tmp_path):
    def pairs():
        yield "a cat", "one cat"
        yield "a dog", None  # not allowed in the table

    with Cache(tmp_path, SETUP) as cache:
        with pytest.raises(InputError, match="cannot be used"):
            cache.add(pairs())
        assert cache.get("a cat") is None
        cache.add([("a cat", "one cat")])
        assert cache.get("a cat") == "one cat"


def test_two_at_once(tmp_path):
    with Cache(tmp_path, SETUP) as one, Cache(tmp_path, SETUP) as two:
        one.add([("a cat", "one cat")])
        two.add([("a dog", "one dog")])
        assert [cache.get(key) for cache in (one, two) for key in ("a cat", "a dog")] == ["one cat", "one dog"] * 2


def test_an_output_is_unfinished_between_begin_and_finish(tmp_path):
    output, other = tmp_path / "a.tsv", tmp_path / "b.tsv"
    assert not is_unfinished(tmp_path / "cache", output)
    with Cache(tmp_path / "cache", SETUP) as cache:
        cache.begin(output)
        assert is_unfinished(tmp_path / "cache", output)
        assert not is_unfinished(tmp_path / "cache", other)
        cache.finish(output)
    assert not is_unfinished(tmp_path / "cache", output)


def test_a_file_that_is_no_cache(tmp_path):
    (tmp_path / FILE).write_text("years of work, none of it a database\n" * 100)
    assert not is_unfinished(tmp_path, tmp_path / "a.tsv")
    with pytest.raises(InputError, match=r"the cache '.*' cannot be used \(file is not a database\); delete it, or choose"):
        Cache(tmp_path, SETUP)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be used"):
        Cache(tmp_path / "file", SETUP)
