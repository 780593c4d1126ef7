"""Run by each process of tests/training/test_processes.py: ``selfguide.train`` with the settings of a JSON file."""

import json
import os
import signal
import sys
from pathlib import Path

import selfguide


def main(settings: dict, results: Path) -> None:
    """Train; the process notes that it is done, and what vectors it got."""
    asked, offset = settings.pop("interrupt_at", None), settings.pop("score_from", 0)
    calls = []

    def score(embedder):
        """The main process alone is asked: before training, and after each step; the last step is always the best."""
        calls.append(offset + len(calls))
        if calls[-1] == asked:
            os.kill(os.getpid(), signal.SIGINT)
        return float(calls[-1])

    trained = selfguide.train(progress=False, score=score if settings.get("score_every") else None, **settings)
    done = {"vector": trained.encode(["the cat"])[0].tolist(), "scores": len(calls)}
    (results / f"{os.environ['RANK']}.json").write_text(json.dumps(done))


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]))
