"""A process that tokenises: lists of sentences in by stdin, arrays of token ids out by stdout, until stdin ends.

Run as a file by :mod:`selfguide.bulk.tokenizer_pool`; imports nothing of selfguide, so that it starts at once.
"""

import pickle
import sys
from itertools import chain

import numpy as np
from tokenizers import Tokenizer


def main() -> None:
    """Answer every list with ids end to end, and the length of each row."""
    source, target = sys.stdin.buffer, sys.stdout.buffer
    tokenizer = Tokenizer.from_str(pickle.load(source))
    while True:
        try:
            sentences = pickle.load(source)
        except EOFError:  # whoever asked is done, or dead
            return
        rows = [row.ids for row in tokenizer.encode_batch_fast(sentences)]
        lengths = np.fromiter(map(len, rows), np.int64, count=len(rows))
        ids = np.fromiter(chain.from_iterable(rows), np.int32, count=int(lengths.sum()))
        pickle.dump((ids, lengths), target, protocol=5)
        target.flush()


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, BrokenPipeError):  # the one who asked has stopped; nobody waits for an answer
        sys.exit(1)
