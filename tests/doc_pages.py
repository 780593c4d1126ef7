"""The pages of the documentation, what stands in their code blocks, and a folder in which all of it can be run."""

import gzip
import json
import random
import re
from pathlib import Path

from selfguide import bundled
from selfguide.data.senteval import LAYOUTS
from tiny_models import ENCODERS, WORDS, make_model
from tiny_runs import PAIRS, PARAPHRASES, SENTENCES
from tiny_translators import save_fsmt

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md")), ROOT / "benchmarks" / "README.md"]

LAYERS = 6
"""Of the tiny encoders here: as many as WK needs."""

_BLOCK = re.compile(r"^```(\S*)[^\n]*\n(.*?)^```$", flags=re.M | re.S)


def name_of(page: Path) -> str:
    """A page as it is called in test names and in links."""
    return str(page.relative_to(ROOT))


def blocks(page: Path, *languages: str) -> list[str]:
    """The code blocks of a page in some languages; in any, where none is named."""
    found = _BLOCK.findall(page.read_text("utf-8"))
    return [block for language, block in found if not languages or language in languages]


def commands(page: Path) -> list[str]:
    """The command lines of a page: what stands after ``$`` in its console blocks, without comments."""
    lines = [line for block in blocks(page, "console") for line in block.replace("\\\n", " ").splitlines()]
    return [re.sub(r"\s+# .*", "", line.removeprefix("$ ")) for line in lines if line.startswith("$ ")]


def write_workplace(folder: Path) -> None:
    """Write every file and model that a page names: small ones, under the names of the real ones."""
    sentences = "".join(bundled.SENTENCES.read_text("utf-8").splitlines(keepends=True)[:500])
    rows = [{"text": sentence, "title": sentence, "body": "the old tree"} for sentence in SENTENCES]
    (folder / "corpus").mkdir(parents=True)
    for name in ("sentences.txt", "reviews.txt"):
        (folder / name).write_text(sentences, "utf-8")
    (folder / "corpus" / "part.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    (folder / "reviews.csv").write_text("title,body\n" + "".join(f"{row['title']},{row['body']}\n" for row in rows), "utf-8")
    with gzip.open(folder / "notes.jsonl.gz", "wt", encoding="utf-8") as notes:
        notes.writelines(json.dumps({"text": f"{row['text']} in the park"}) + "\n" for row in rows)
    _write_parquet(folder / "news.parquet")
    (folder / "pairs.tsv").write_text("".join(f"{score}\t{a}\t{b}\n" for score, a, b in PAIRS), "utf-8")
    (folder / "paraphrases.tsv").write_text(
        "".join(f"{a}\t{b}\n" for a, b in zip(SENTENCES, PARAPHRASES, strict=True)), "utf-8"
    )
    for name in ("bert-base-uncased", "models/bert-base-uncased", "models/my-copy"):
        _write_encoder("bert", folder / name)
    _write_encoder("roberta", folder / "roberta-base")
    for number, name in enumerate(("wmt19-en-de", "wmt19-de-en")):
        save_fsmt(folder / "facebook" / name, seed=number)
    _write_senteval(folder / "DIR" / "senteval")
    (folder / "DIR" / "backtranslation" / "STS-B").mkdir(parents=True)


def _write_encoder(family: str, folder: Path) -> None:
    tokenizer = ENCODERS[family].tokenizer()
    make_model(family, len(tokenizer), layers=LAYERS).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _write_parquet(path: Path) -> None:
    from pyarrow import parquet, table

    parquet.write_table(table({"text": list(SENTENCES)}), path)


def _write_senteval(folder: Path) -> None:
    draws = random.Random(0)
    for name, layout in LAYOUTS.items():
        (folder / name).mkdir(parents=True)
        for file in layout.parts.values():
            lines = [
                "\t".join([f"{label}:x" if layout.has_finer_labels else label, *_texts(draws, layout.sentences)])
                for label in layout.labels
                for _ in range(20)
            ]
            (folder / name / file).write_text("\n".join(lines) + "\n", "utf-8")


def _texts(draws: random.Random, count: int) -> list[str]:
    return [" ".join(draws.choices(WORDS, k=6)) for _ in range(count)]
