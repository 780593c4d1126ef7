"""Our bulk encoding in int8 against sentence-transformers: its defaults, and its own OpenVINO int8 in its best setting.

    python benchmarks/encode_int8.py --model M --data DIR --peer-python peer/bin/python

Short sentences (STS-B) and a mix of 4 to 128 tokens, tokenising and writing included, all in turns. The peer needs other
versions, and so an environment of its own: pip install sentence-transformers optimum-intel openvino nncf datasets
"""

import argparse
import logging
import tempfile
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path

from selfguide.benchmark.benchmark import as_text
from selfguide.benchmark.encoding import with_cls_pooling
from selfguide.benchmark.int8 import OpenvinoPeer, compare_int8, cosines
from selfguide.benchmark.rounds import Timing, take_turns
from selfguide.benchmark.texts import mixed_texts, repeated, short_texts
from selfguide.environment import describe_environment
from selfguide.files import write_json


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="mini")
    parser.add_argument("--data", help="folder with sts/STS-B (default: bundled sentences)")
    parser.add_argument("--peer-python")
    parser.add_argument("--sentences", type=int, default=600)
    parser.add_argument("--mixed", type=int, help="texts of the mix (default: a quarter of the sentences)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, help="write the figures to this JSON file")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("openvino").setLevel(logging.ERROR)
    texts = short_texts(arguments.data)
    mixed = arguments.mixed or arguments.sentences // 4
    kinds = {"short sentences": repeated(texts, arguments.sentences), "4 to 128 tokens": mixed_texts(texts, mixed)}
    found: list[Timing] = []
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        model = with_cls_pooling(arguments.model, scratch / "model")
        python = arguments.peer_python
        with OpenvinoPeer(python, model=model, texts=texts, scratch=scratch) if python else nullcontext() as peer:
            for kind, some in kinds.items():
                comparison = compare_int8(f"encode int8, {kind}", some, model=model, scratch=scratch, peer=peer)
                found.append(take_turns(comparison, arguments.rounds))
                comparison.facts.update(cosines(scratch))
    print(as_text(found))
    if arguments.output:
        record = {
            "comparisons": [
                {**asdict(each), "ratios": {peer: round(each.ratio(peer), 3) for peer in list(each.costs)[1:]}}
                for each in found
            ],
            "settings": {name: getattr(arguments, name) for name in ("sentences", "rounds")}
            | {"model": Path(arguments.model).name},
            "environment": describe_environment("cpu") | {"command": "encode_int8.py"},
        }
        write_json(arguments.output, record)


if __name__ == "__main__":
    main()
