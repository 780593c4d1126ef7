"""sentence-transformers with its own OpenVINO int8, as a program for an environment that has it; needs nothing of ours.

Takes a sentence-transformers folder, a folder with ``train.csv`` (a column ``sentence``) to calibrate on, and a scratch
folder. Tells its versions, then answers every line on stdin, ``FILE BATCH_SIZE OUTPUT``, with the seconds for its lines.
"""

import json
import sys
import time
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import Any

SAMPLES = 32
"""Sentences that are calibrated on: this changes the vectors a little, and the speed not at all."""


def main() -> None:
    """Quantise once, then encode whenever asked to."""
    warnings.simplefilter("ignore")
    source, calibration, scratch = sys.argv[1:]
    model = _quantized(source, calibration, scratch)
    names = ("sentence-transformers", "transformers", "optimum-intel", "openvino", "nncf", "torch")
    _tell({name: version(name) for name in names})
    import numpy as np

    for line in sys.stdin:
        file, size, output = line.rstrip("\n").split("\t")
        began = time.perf_counter()
        texts = Path(file).read_text(encoding="utf-8").splitlines()
        np.save(output, model.encode(texts, batch_size=int(size), show_progress_bar=False))
        _tell(time.perf_counter() - began)


def _quantized(source: str, calibration: str, scratch: str) -> Any:  # noqa: ANN401 - of another environment
    from optimum.intel import OVQuantizationConfig
    from sentence_transformers import SentenceTransformer, export_static_quantized_openvino_model

    plain = SentenceTransformer(source, backend="openvino")
    plain.save_pretrained(scratch)
    export_static_quantized_openvino_model(
        plain, OVQuantizationConfig(num_samples=SAMPLES), scratch, calibration, "default", "train", "sentence"
    )
    file_name = "openvino/openvino_model_qint8_quantized.xml"
    return SentenceTransformer(scratch, backend="openvino", model_kwargs={"file_name": file_name})


def _tell(value: object) -> None:
    sys.stdout.write(f"ANSWER {json.dumps(value)}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
