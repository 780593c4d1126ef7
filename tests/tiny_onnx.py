"""Tiny graphs of ONNX, made node by node, whose vectors can be computed by hand."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from tiny_models import WORDS

VOCABULARY = {word: number for number, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS])}
TABLE = np.random.default_rng(0).normal(size=(len(VOCABULARY), 5)).astype(np.float32)
"""A vector for each token; that of the padding is not 0, so that it would show."""
FLOAT, INT64, INT32, STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.INT32, TensorProto.STRING


def expected(sentence, length=128):
    """The mean of a sentence's token vectors."""
    tokens = ["[CLS]", *sentence.lower().split()[: length - 2], "[SEP]"]
    return TABLE[[VOCABULARY.get(token, 1) for token in tokens]].mean(axis=0)


def write_tokenizer(folder, *, truncation=None, specials=True):
    tokenizer = Tokenizer(models.WordLevel(VOCABULARY, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    if specials:
        tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.enable_padding(pad_id=0, pad_token="[PAD]")
    if truncation:
        tokenizer.enable_truncation(truncation)
    tokenizer.save(str(folder / "tokenizer.json"))


def write_graph(path, nodes, inputs, outputs, weights=TABLE, **options):
    """Inputs and outputs: name -> (type, shape). The weights are called ``table``."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, *kind) for name, kind in inputs.items()],
        [helper.make_tensor_value_info(name, *kind) for name, kind in outputs.items()],
        [
            numpy_helper.from_array(weights, "table"),
            numpy_helper.from_array(np.array([1]), "one"),
            numpy_helper.from_array(np.array([2]), "two"),
        ],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2), helper.make_opsetid("ai.onnx.contrib", 1)]
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), path, **options)
    return path


STATES = helper.make_node("Gather", ["table", "input_ids"], ["states"])
PLAIN_MEAN = helper.make_node("ReduceMean", ["states"], ["mean"], axes=[1], keepdims=0)
MASKED_MEAN = [
    helper.make_node("Cast", ["attention_mask"], ["mask"], to=FLOAT),
    helper.make_node("Unsqueeze", ["mask", "two"], ["wide"]),
    helper.make_node("Mul", ["states", "wide"], ["kept"]),
    helper.make_node("ReduceSum", ["kept", "one"], ["sum"], keepdims=0),
    helper.make_node("ReduceSum", ["mask", "one"], ["count"], keepdims=1),
    helper.make_node("Div", ["sum", "count"], ["sentence_embedding"]),
]


def write_mean(path, *, batch="n", length="t", kind=INT64, outputs=("sentence_embedding",), **options):
    """The mean over the tokens of the mask."""
    ids = (kind, [batch, length])
    inputs = {"input_ids": ids, "attention_mask": ids, "token_type_ids": ids}
    return write_graph(path, [STATES, *MASKED_MEAN], inputs, {name: (FLOAT, None) for name in outputs}, **options)
