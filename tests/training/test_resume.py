"""An interrupted run that goes on ends as if it had never been interrupted, to the last bit; and the dangers on the way."""

import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from selfguide.cli.main import main
from selfguide.errors import InputError
from selfguide.files import read_json, read_json_lines, write_json
from selfguide.training.loop import MetricsLog
from selfguide.training.train import run_training
from tiny_runs import SENTENCES, Interrupter, Watcher, metrics_of, same_bits, tree, weights_of

CLI = (sys.executable, "-c", "from selfguide.cli.main import entry_point; entry_point()")

SCORED = {"score_every": 2, "patience": 3, "learning_rate": 1e-3}
OBJECTIVES = {
    "sg-opt with dev pairs": {"objective": "sg-opt", "dev": "pairs", **SCORED},
    "sg": {"objective": "sg"},
    "simcse": {"objective": "simcse"},
    "bt": {"objective": "bt", "paraphrases": "paraphrases"},
    "bt+sg-opt": {"objective": "bt+sg-opt", "paraphrases": "paraphrases"},
    "released with dev pairs": {"preset": "released", "dev": "pairs", **SCORED},
    "sg-opt with simcse, accumulated": {"simcse_weight": 1.0, "accumulation": 2},
    "prompted with dev pairs": {"preset": "prompted", "dev": "pairs", **SCORED},
}


@pytest.fixture
def run(tiny_bert, text, tmp_path):
    def train_into(name, *, progress=None, resume=False, score=None, **settings):
        given = {"model": str(tiny_bert), "steps": 9, "batch_size": 8, "projection_width": 32, "device": "cpu", **settings}
        given |= {key: text[given[key]] for key in ("dev", "paraphrases") if key in given}
        given |= {} if "paraphrases" in given else {"data": (text["sentences"],)}
        given |= {"output": str(tmp_path / name)}
        return run_training(given, progress=progress or Watcher(), resume=resume, score=score)

    return train_into


def assert_same_run(left, right):
    """Weights, metrics, scores, artefacts and summary; all but the time it took."""
    assert same_bits(weights_of(left), weights_of(right))
    assert metrics_of(left) == metrics_of(right)
    rows = [read_json_lines(folder / "selfguide" / "scores.jsonl") for folder in (left, right)]
    assert [row | {"run_id": ""} for row in rows[0]] == [row | {"run_id": ""} for row in rows[1]]
    summaries = [read_json(folder / "selfguide" / "summary.json") | {"seconds": 0} for folder in (left, right)]
    assert summaries[0] == summaries[1]
    for name in ("neighbours.json", "map.json"):
        assert read_json(left / "selfguide" / name) == read_json(right / "selfguide" / name)


@pytest.mark.parametrize(
    ("objective", "stops"),
    [
        *((objective, (3, 7)) for objective in OBJECTIVES),
        ("sg-opt with dev pairs", (2,)),  # just scored
        ("sg-opt with dev pairs", (8,)),  # patience has just run out
        ("released with dev pairs", (1, 2, 4)),
        ("sg", (9,)),  # the last step
    ],
    ids=str,
)
def test_resumed_is_as_uninterrupted(run, tmp_path, objective, stops):
    settings = OBJECTIVES[objective]
    run("whole", **settings)
    for number, stop in enumerate(stops):
        with pytest.raises(KeyboardInterrupt, match=f"interrupted after step {stop}; --resume goes on"):
            run("parts", progress=Interrupter(stop), resume=number > 0, **settings)
        assert sorted((tmp_path / "parts.checkpoints").glob("step-*"))[-1].name == f"step-{stop:08d}"
        assert not (tmp_path / "parts").exists()
    run("parts", resume=True, **settings)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts", "whole"]


def test_the_best_weights_before_the_interruption_are_not_forgotten(run, tmp_path):
    """The best score is before the interruption, and patience runs out after it."""
    scores = {0: 0.0, 2: 5.0, 4: 4.0, 6: 3.0, 8: 2.0}
    steps = {"whole": 0, "parts": 0}

    def script(name):
        def score(embedder):
            found = scores[steps[name]]
            steps[name] += 2
            return found

        return score

    settings = {"score_every": 2, "patience": 2, "steps": 9}
    whole = run("whole", score=script("whole"), **settings)
    with pytest.raises(KeyboardInterrupt):
        run("parts", score=script("parts"), progress=Interrupter(5), **settings)
    parts = run("parts", score=script("parts"), resume=True, **settings)
    assert (parts.kept_step, parts.steps_taken, parts.before, parts.after) == (2, 6, 0.0, 5.0)
    assert (whole.kept_step, whole.steps_taken) == (2, 6)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_the_settings_need_not_be_given_again(run, tmp_path):
    run("whole", preset="released", seed=4)
    with pytest.raises(KeyboardInterrupt):
        run("parts", preset="released", seed=4, progress=Interrupter(4))
    run_training({"output": str(tmp_path / "parts")}, resume=True, progress=Watcher())
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_a_second_interruption_ends_at_once(run, tmp_path):
    class Twice(Interrupter):
        def update(self, step, loss, sentences):
            super().update(step, loss, sentences)
            super().update(step, loss, sentences)

    handler = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt) as caught:
        run("parts", progress=Twice(3))
    assert str(caught.value) == ""
    assert not list((tmp_path / "parts.checkpoints").glob("step-*"))
    assert signal.getsignal(signal.SIGINT) is handler


def test_a_polite_kill_is_an_interruption_too(run, tmp_path):
    class Terminator(Interrupter):
        def update(self, step, loss, sentences):
            if step == self.step:
                os.kill(os.getpid(), signal.SIGTERM)

    handler = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt, match="after step 2"):
        run("parts", progress=Terminator(2))
    assert signal.getsignal(signal.SIGTERM) == handler


def test_a_run_in_a_thread_leaves_the_signals_alone(run, tmp_path):
    thread = threading.Thread(target=run, args=("out",))
    thread.start()
    thread.join()
    assert (tmp_path / "out" / "model.safetensors").is_file()


# Through processes


def flags(tiny_bert, text, output, *more):
    small = ("--batch-size", "8", "--projection-width", "32", "--checkpoint-every", "1", "--device", "cpu", "--steps", "12")
    return ["train", "--model", str(tiny_bert), "--data", text["sentences"], "--output", str(output), *small, *more]


def stop_at_step(arguments, checkpoints, step, number):
    """Starts a process and sends it a signal as soon as the checkpoint of a step is there."""
    process = subprocess.Popen([*CLI, *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while not (checkpoints / f"step-{step:08d}").exists() and process.poll() is None:
        assert time.monotonic() < deadline, "no checkpoint"
        time.sleep(0.005)
    process.send_signal(number)
    output, errors = process.communicate(timeout=300)
    return process.returncode, output, errors


def test_a_killed_process_goes_on_in_another(tiny_bert, text, tmp_path):
    """SIGKILL, at whatever it was doing after the checkpoint of step 4: dropout, dev scores and best weights."""
    settings = ("--objective", "simcse", "--dev", text["pairs"], "--score-every", "3", "--learning-rate", "1e-3")
    assert main(flags(tiny_bert, text, tmp_path / "whole", *settings)) == 0
    arguments = flags(tiny_bert, text, tmp_path / "parts", *settings)
    code, _, _ = stop_at_step(arguments, tmp_path / "parts.checkpoints", 4, signal.SIGKILL)
    assert code == -signal.SIGKILL
    assert not (tmp_path / "parts").exists()
    done = subprocess.run([*CLI, *arguments, "--resume"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == f"encoder: {tmp_path / 'parts'}"
    assert_same_run(tmp_path / "whole", tmp_path / "parts")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts", "whole"]


def test_ctrl_c_ends_a_process_in_order(tiny_bert, text, tmp_path):
    settings = ("--objective", "sg")
    assert main(flags(tiny_bert, text, tmp_path / "whole", *settings)) == 0
    arguments = flags(tiny_bert, text, tmp_path / "parts", *settings)
    code, output, errors = stop_at_step(arguments, tmp_path / "parts.checkpoints", 3, signal.SIGINT)
    assert code == 130, errors
    assert output == ""
    assert "Traceback" not in errors
    newest = sorted((tmp_path / "parts.checkpoints").glob("step-*"))[-1]
    step = int(newest.name.removeprefix("step-"))
    assert errors.splitlines()[-1] == f"selfguide: interrupted after step {step}; --resume goes on from there"
    assert 3 <= step < 12
    assert main([*arguments, "--resume"]) == 0
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


# Dangers


@pytest.fixture
def interrupted(run, tmp_path):
    """A run that was interrupted after step 4; gives its checkpoint folder."""
    with pytest.raises(KeyboardInterrupt):
        run("parts", dev="pairs", progress=Interrupter(4))
    return tmp_path / "parts.checkpoints"


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"seed": 2}, r"seed \(was 1, now 2\)"),
        ({"objective": "sg", "steps": 10}, r"objective \(was 'sg-opt', now 'sg'\)"),
        ({"steps": 10}, r"steps \(was 9, now 10\)"),
        ({"preset": "paper"}, r"preset \(was None, now 'paper'\)"),
        ({"template": "{mask} {sentence}"}, r"template \(was None, now '\{mask\} \{sentence\}'\)"),
    ],
    ids=str,
)
def test_other_settings_are_refused(run, interrupted, settings, told):
    before = tree(interrupted)
    with pytest.raises(InputError, match=rf"these differ: .*{told}"):
        run("parts", resume=True, **{"dev": "pairs", **settings})
    assert tree(interrupted) == before


def test_other_sentences_are_refused(tiny_bert, text, tmp_path):
    data = tmp_path / "sentences.txt"
    data.write_text("".join(f"{sentence}\n" for sentence in SENTENCES))
    given = {"model": str(tiny_bert), "data": (str(data),), "output": str(tmp_path / "out"), "batch_size": 8, "steps": 4}
    given |= {"projection_width": 32, "device": "cpu"}
    with pytest.raises(KeyboardInterrupt):
        run_training(given, progress=Interrupter(2))
    data.write_text(data.read_text() + "the cat eats the bird\n")
    before = tree(tmp_path)
    with pytest.raises(InputError, match="needs the same training sentences as before"):
        run_training(given, progress=Watcher(), resume=True)
    assert tree(tmp_path) == before


def test_other_dev_pairs_are_refused(run, interrupted):
    description = read_json(interrupted / "config.json")
    write_json(interrupted / "config.json", description | {"scored_by": "another hash"})
    with pytest.raises(InputError, match="needs the same dev pairs or score function as before"):
        run("parts", dev="pairs", resume=True)


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"config": 3}', '{"config": {"steps": 0}}', '{"config": {"zzz": 1}}', None]
)
def test_a_damaged_description_is_told(run, interrupted, content):
    if content is None:
        (interrupted / "config.json").unlink()
    else:
        (interrupted / "config.json").write_text(content)
    with pytest.raises(InputError, match=r"config\.json' is damaged .*; delete '.*parts\.checkpoints' to start anew"):
        run("parts", dev="pairs", resume=True)


def test_starting_anew_drops_the_old_checkpoints(interrupted, tmp_path):
    config = read_json(interrupted / "config.json")["config"]
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in config.items()}
    run_training({**given, "seed": 7}, overwrite=True, progress=Watcher())
    assert read_json(tmp_path / "parts" / "selfguide" / "config.json")["seed"] == 7
    assert not interrupted.exists()


def test_what_somebody_put_where_the_output_goes_is_not_replaced(run, interrupted, tmp_path):
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="is not a run of selfguide, so it is left alone"):
        run("parts", dev="pairs", resume=True)
    assert (tmp_path / "parts" / "thesis.tex").read_text() == "years of work"


def test_metrics_after_the_checkpoint_are_taken_back(tmp_path):
    """Also a last line that was cut off by a crash."""
    log = MetricsLog(tmp_path / "metrics.jsonl")
    log.write(*({"step": step, "loss": 1.0} for step in range(1, 6)))
    log.write({"step": 4, "dev": 2.0})
    with log.path.open("a") as file:
        file.write('{"step": 2, "lo')
    log.rewind(4)
    assert [row["step"] for row in read_json_lines(log.path)] == [1, 2, 3, 4, 4]
    assert [path.name for path in tmp_path.iterdir()] == ["metrics.jsonl"]
