import pytest

from selfguide.errors import InputError
from selfguide.scores import ScoreRow, read_scores, write_scores

ROW = ScoreRow("bert/cls", "STS-B", "abc", "test", "spearman", 20.3, None, "0123", {"text": "raw", "zeile": "\u2028"})


def test_there_and_back(tmp_path):
    rows = [ROW, ScoreRow("bert/sg", "STS-B", "abc", "test", "spearman", 70.0, 3, "0123")]
    write_scores(tmp_path / "new" / "scores.jsonl", rows)
    assert read_scores(tmp_path / "new" / "scores.jsonl") == rows


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", r"scores.jsonl:3: broken JSON"),
        ("[1]", r"scores.jsonl:3: not a score row; a row is an object with: embedder, dataset, revision"),
        ('{"embedder": "a"}', r"scores.jsonl:3: not a score row"),
    ],
)
def test_a_line_that_is_none(tmp_path, line, words):
    path = tmp_path / "scores.jsonl"
    write_scores(path, [ROW])
    path.write_text(f"{path.read_text()}\n{line}\n", encoding="utf-8")
    with pytest.raises(InputError, match=words):
        read_scores(path)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        read_scores(tmp_path)
