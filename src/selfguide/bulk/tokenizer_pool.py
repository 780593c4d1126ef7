"""Tokenising in several processes: one, however many threads it has, is slower than a large GPU reads."""

import math
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any, final

from selfguide.bulk.token_rows import TokenRows, join_rows
from selfguide.errors import SelfguideError

SENTENCES_AT_ONCE = 1024
"""Most that one process is asked for at a time."""
_WORKER = Path(__file__).with_name("tokenizer_worker.py")


@final
class TokenizerPool:
    """Processes with a copy of a tokenizer each; they end with :meth:`close`, and also when this process dies."""

    def __init__(self, tokenizer: str, processes: int) -> None:
        """Start the processes, and give each its tokenizer.

        Args:
            tokenizer: A tokenizer of the package tokenizers in JSON, cutting where it should, without padding.
            processes: How many.
        """
        # -P: the folder of the file is not where its imports come from; one thread each: the processes share the cores
        command = [sys.executable, "-P", str(_WORKER)]
        environment = {**os.environ, "TOKENIZERS_PARALLELISM": "false"}
        self._processes = [
            # in a session of their own, as Ctrl-C is for this process alone
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, start_new_session=True)
            for _ in range(processes)
        ]
        self._idle: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        for process in self._processes:
            pickle.dump(tokenizer, process.stdin)  # type: ignore[arg-type]
            self._idle.put(process)
        self._threads = ThreadPoolExecutor(max_workers=processes)

    def tokenize(self, sentences: Sequence[str]) -> TokenRows:
        """Token ids of sentences, in their order.

        Raises:
            SelfguideError: when a process died.
        """
        if not sentences:
            return join_rows([])
        processes = len(self._processes)
        rounds = math.ceil(len(sentences) / (processes * SENTENCES_AT_ONCE))
        size = math.ceil(len(sentences) / (processes * rounds))  # so that no process has a part more to do than another
        parts = [sentences[start : start + size] for start in range(0, len(sentences), size)]
        return join_rows(list(self._threads.map(self._ask, parts)))

    def close(self) -> None:
        """End the processes."""
        self._threads.shutdown(cancel_futures=True)
        for process in self._processes:
            process.kill()
            process.communicate()

    def _ask(self, sentences: Sequence[str]) -> Any:  # noqa: ANN401 - two arrays
        process = self._idle.get()
        try:
            pickle.dump(list(sentences), process.stdin, protocol=5)  # type: ignore[arg-type]
            process.stdin.flush()  # type: ignore[union-attr]
            return pickle.load(process.stdout)  # type: ignore[arg-type]
        except (EOFError, OSError, pickle.UnpicklingError) as error:
            raise SelfguideError(
                f"a process that tokenises died (exit code {process.poll()}); the same command goes on where it stopped"
            ) from error
        finally:
            self._idle.put(process)
