"""Run by the Python of the second environment: reads each folder below the one given, and writes what it makes of it.

Knows nothing of selfguide. Beside ``texts.json`` there is a folder for each model; what was read goes to ``READ/<model>``:
``tokens.json``, ``auto_model.npy``, ``sentence_transformer.npy``, ``about.json``, or ``error.txt``.
"""

import json
import sys
import traceback
from pathlib import Path

import numpy as np
import sentence_transformers
import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.models import Pooling
from transformers import AutoModel, AutoTokenizer


@torch.no_grad()
def read(folder: Path, texts: list[str], target: Path) -> None:
    """Read a folder in the three ways of its users."""
    max_length = json.loads((folder / "sentence_bert_config.json").read_text())["max_seq_length"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    options = {"truncation": True, "max_length": max_length}
    (target / "tokens.json").write_text(json.dumps(tokenizer(texts, **options)["input_ids"]))
    model = AutoModel.from_pretrained(folder).eval()
    states = model(**tokenizer(texts, padding=True, return_tensors="pt", **options)).last_hidden_state
    np.save(target / "auto_model.npy", states[:, 0].numpy())
    whole = SentenceTransformer(str(folder), device="cpu")
    np.save(target / "sentence_transformer.npy", whole.encode(texts))
    about = {
        "modules": [type(module).__name__ for module in whole],
        "pooling": next(module for module in whole if isinstance(module, Pooling)).get_pooling_mode_str(),
        "max_length": whole.max_seq_length,
        "similarity": whole.similarity_fn_name,
        "dtype": str(model.dtype),
    }
    (target / "about.json").write_text(json.dumps(about))


def main(root: Path, results: Path) -> None:
    """Read all folders; an error in one does not keep the others from being read."""
    texts = json.loads((root / "texts.json").read_text(encoding="utf-8"))
    versions = {"transformers": transformers.__version__, "sentence-transformers": sentence_transformers.__version__}
    (results / "versions.json").write_text(json.dumps(versions))
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        target = results / folder.name
        target.mkdir()
        try:
            read(folder, texts, target)
        except Exception:
            (target / "error.txt").write_text(traceback.format_exc())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
