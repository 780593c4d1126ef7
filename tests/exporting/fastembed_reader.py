"""Run by the Python of fastembed, where there is no torch: folder, texts and a file for the vectors."""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType

folder, texts, target = sys.argv[1:]
assert find_spec("torch") is None and find_spec("transformers") is None
TextEmbedding.add_custom_model(
    model="my/encoder",
    pooling=PoolingType.DISABLED,
    normalization=False,
    sources=ModelSource(hf="my/encoder"),
    dim=json.loads((Path(folder) / "export.json").read_text())["dimension"],
    model_file="model.onnx",
)
model = TextEmbedding("my/encoder", specific_model_path=folder)
np.save(target, np.array(list(model.embed(json.loads(Path(texts).read_text()), batch_size=8))))
