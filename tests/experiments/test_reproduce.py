"""Whole reproductions with tiny models and data: what is run, what is kept, what is told."""

import itertools
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from selfguide.cli.main import main
from selfguide.encoders.loading import locate
from selfguide.errors import InputError
from selfguide.experiments.comparison import compare_with_paper
from selfguide.experiments.config import ReproduceConfig
from selfguide.experiments.jobs import Job
from selfguide.experiments.making import made
from selfguide.experiments.measures import MEASURES, run_job
from selfguide.experiments.places import Places
from selfguide.experiments.reproduce import reproduce
from selfguide.experiments.results import MEASURED, Result, ResultFolder, read_result
from selfguide.experiments.runner import plan_jobs, run_jobs
from selfguide.experiments.specs import methods, read_spec
from tiny_models import WORDS
from tiny_sts import use_tiny_sts


@pytest.fixture
def places(tiny_bert, tmp_path, monkeypatch):
    """Tiny data and a tiny model in the place of BERT-base."""
    data = tmp_path / "data"
    use_tiny_sts(monkeypatch, data)
    stsb = data / "sts" / "STS-B"
    for split in ("train", "dev"):
        (stsb / f"{split}.tsv").write_text((stsb / "test.tsv").read_text())
    (data / "backtranslation" / "STS-B").mkdir(parents=True)
    rows = [f"the {a} sits\tthe {a} sits on\tthe {b} runs\tthe {b} runs in\n" for a, b in itertools.pairwise(WORDS)]
    (data / "backtranslation" / "STS-B" / "train.tsv").write_text("".join(rows))
    return Places(data, tmp_path / "work", "cpu", {"bert-base-uncased": str(tiny_bert)})


def job(method, measure="sts", seed=None):
    return Job("BERT-base", "bert-base-uncased", method, measure, seed)


@pytest.fixture
def small_trainings(monkeypatch):
    """Trainings of the specs with few steps of small batches."""
    for method in methods().values():
        if method.train is not None:
            small = {"steps": 2, "batch_size": 4, "projection_width": 16, "score_every": 1}
            monkeypatch.setitem(method.train, "checkpoint_minutes", 0)
            for name, value in small.items():
                monkeypatch.setitem(method.train, name, value)


@pytest.mark.parametrize("method", ["cls", "mean"])
def test_an_encoder_as_it_is(places, method):
    result = run_job(job(method), places)
    assert result.state == MEASURED
    assert {row["dataset"] for row in result.rows} >= {"STS-B", "SICK-R", "STS16", "Avg"}
    assert {row["embedder"] for row in result.rows} == {f"BERT-base/{method}"}
    assert result.environment["packages"]["torch"]
    assert result.config is None


@pytest.mark.usefixtures("small_trainings")
@pytest.mark.parametrize("method", ["sg", "sg-opt", "prompted", "simcse", "bt-ready", "bt+sg-opt-ready", "sg-opt-covered"])
def test_a_training(places, method):
    result = run_job(job(method, seed=2), places)
    assert result.state == MEASURED, result.state
    assert result.config["seed"] == 2
    assert result.config["model"] == places.models["bert-base-uncased"].rsplit("/", 1)[-1]
    assert {row["seed"] for row in result.rows} == {2}
    assert [row["step"] for row in result.curve if "dev" in row] == [1, 2]
    assert set(result.seconds) == {"training", "total"}


def test_sweep(places):
    result = run_job(job("cls", "sweep"), places)
    assert {(row["protocol"]["layers"][0], row["protocol"]["pooling"]) for row in result.rows} >= {(0, "mean"), (4, "cls")}


def test_cost(places):
    result = run_job(job("mean", "cost"), places)
    assert result.value_of("inference", "seconds") > 0
    assert result.value_of("training", "seconds") is None


def test_map(places, tmp_path):
    lines = [f"{5 * (n % 2)}\tthe {a} sits\tthe {b} runs\n" for n, (a, b) in enumerate(zip(WORDS, WORDS[::-1], strict=True))]
    (places.data / "sts" / "STS-B" / "dev.tsv").write_text("".join(lines))
    pairs = run_job(job("cls", "map"), places).artefacts["map"]
    assert {pair["kind"] for pair in pairs} == {"positive", "negative"}
    assert all(len(pair["sentences"]) == len(pair["points"]) == 2 for pair in pairs)
    assert all(-1.0001 <= pair["cosine"] <= 1.0001 for pair in pairs)


def test_what_is_not_at_hand_is_told(places):
    result = run_job(Job("BERT-large", "bert-large-uncased", "cls", "sts", None), places)
    assert result.state.startswith("not run: the model 'bert-large-uncased' is not a local folder")
    assert result.rows == []
    glove = run_job(Job("", "glove.840B.300d.txt", "glove", "sts", None), places)
    assert glove.state.startswith("not run:")
    nli = run_job(job("sg-opt-nli", seed=1), places)
    assert nli.state.startswith("not run: sentences of SNLI and MultiNLI train")


def counting(calls):
    def run(job, places):
        calls.append(job)
        return Result(job.recipe, job.fingerprint, MEASURED, seconds={"total": 2.0})

    return run


def test_only_what_is_missing_or_stale_is_run(places, tmp_path):
    results, jobs, calls = ResultFolder(tmp_path / "results"), [job("cls"), job("mean"), job("sg", seed=1)], []
    run_jobs(jobs[:2], results, places, run=counting(calls))
    plan = plan_jobs(jobs, results)
    assert (list(plan.known), plan.left) == (jobs[:2], jobs[2:])
    path = results.folder / jobs[0].path
    stale = json.loads(path.read_text())
    path.write_text(json.dumps({**stale, "fingerprint": "another"}))
    plan = plan_jobs(jobs, results)
    assert plan.left == [jobs[0], jobs[2]]
    assert plan.seconds_before == {jobs[0]: 2.0}
    assert plan_jobs(jobs, results, rerun=True).left == jobs


def test_numbers_are_not_lost_to_a_failure(places, tmp_path):
    results, calls = ResultFolder(tmp_path / "results"), []
    run_jobs([job("cls")], results, places, run=counting(calls))
    lost = Places(places.data, places.work, "cpu", {})
    found = run_jobs([job("cls")], results, lost)
    assert not found[job("cls")].is_measured
    assert results.read(job("cls")).is_measured


def test_several_at_a_time_give_the_same(places, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    jobs = [Job("BERT-large", "no/such-model", "cls", "sts", None), Job("BERT-large", "no/such-model", "mean", "sts", None)]
    found = run_jobs(jobs, ResultFolder(tmp_path / "results"), places, at_once=2)
    assert {job: result.state.split(":")[0] for job, result in found.items()} == dict.fromkeys(jobs, "not run")


def test_reproduce(places, tmp_path):
    config = ReproduceConfig(
        data=str(places.data),
        results=str(tmp_path / "results"),
        method=("cls", "mean"),
        model=(f"bert-base-uncased={places.models['bert-base-uncased']}",),
        device="cpu",
    )
    outcome = reproduce(["table1"], config)
    assert not outcome.not_run
    assert [label for label, _ in outcome.tables[0].lines][2:6] != []
    again = reproduce(["table1"], config)
    assert (len(again.plan.known), again.plan.left) == (2, [])
    ours = dict(again.tables[0].lines)["BERT-base  No tuning, CLS, ours"]
    result = read_result(tmp_path / "results" / "sts" / "bert-base" / "cls.json")
    assert ours[-1].value == result.value_of("Avg", "spearman")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["tabel1"], "did you mean 'table1'"),
        (["table1", "--seeds", "1;2"], "--seeds is '1;2'"),
        (["table1", "--jobs", "0"], "--jobs is 0"),
        (["table1", "--encoder", "BERT-bas"], "did you mean 'BERT-base'"),
        (["table1", "--method", "sgopt"], "did you mean 'sg-opt'"),
        (["table1", "--model", "gpt2"], "the tables have no model 'gpt2'"),
        (["table2", "--encoder", "mini"], "nothing of table2 is asked for"),
        (["table1", "--data", "/no/such/folder"], "the data folder '/no/such/folder' does not exist"),
    ],
)
def test_wrong_use(flags, words, capsys):
    assert main(["reproduce", *flags]) == 2
    assert words in capsys.readouterr().err


def test_dry_run(capsys, tmp_path):
    flags = ["--results", str(tmp_path / "results"), "--encoder", "BERT-base", "--method", "sg-opt", "--seeds", "1,2"]
    assert main(["reproduce", "table1", "--dry-run", *flags]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "0 runs have a result; they took 0 s",
        "to run: BERT-base, sg-opt: sts, seed 1",
        "to run: BERT-base, sg-opt: sts, seed 2",
    ]
    assert not (tmp_path / "results").exists()


def test_in_part_is_exit_code_1(capsys, tmp_path):
    flags = ["--results", str(tmp_path / "results"), "--encoder", "BERT-large", "--method", "cls", "--device", "cpu"]
    assert main(["reproduce", "table1", *flags]) == 1
    captured = capsys.readouterr()
    assert "BERT-large  No tuning, CLS, paper" in captured.out
    assert "done in part: 1 runs have no numbers" in captured.err


def test_a_broken_result_is_named(tmp_path):
    path = tmp_path / "sts" / "bert-base" / "cls.json"
    path.parent.mkdir(parents=True)
    path.write_text("[]")
    with pytest.raises(Exception, match="not a result file"):
        ResultFolder(tmp_path).read(job("cls"))


@pytest.mark.parametrize(
    "change",
    [
        {"rows": None},
        {"rows": [{}]},
        {"rows": [{"dataset": "Avg", "metric": "spearman", "value": "high"}]},
        {"seconds": None},
        {"state": 5},
    ],
    ids=str,
)
def test_a_result_that_was_changed_by_hand(tmp_path, change):
    results = ResultFolder(tmp_path)
    results.write(job("cls"), Result(job("cls").recipe, job("cls").fingerprint, MEASURED, seconds={"total": 1.0}))
    assert results.read(job("cls")) is not None
    path = tmp_path / job("cls").path
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=r"cls.json: not a result file .*; delete it to run it again"):
        results.read(job("cls"))


def test_results_that_cannot_be_written_are_told_before_anything_is_run(tmp_path, capsys):
    (tmp_path / "results").write_text("a file")
    flags = ["--encoder", "BERT-base", "--method", "cls", "--results", str(tmp_path / "results")]
    assert main(["reproduce", "table1", *flags]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_seeds_are_taken_as_they_are_and_once(places):
    assert ReproduceConfig(seeds="0,1,1").seed_numbers == (0, 1)
    for seed, expected in ((0, 0), (None, 1)):
        with made(job("cls", seed=seed), places) as system:
            assert system.evaluation.seed == expected


def test_seeds_in_the_place_of_the_specs_are_shown(tmp_path):
    results, asked = ResultFolder(tmp_path), job("sg-opt", seed=99)
    row = {"dataset": "Avg", "metric": "spearman", "value": 50.0}
    results.write(asked, Result(asked.recipe, asked.fingerprint, MEASURED, [row], seconds={"total": 1.0}))
    shown = compare_with_paper(read_spec("table1"), results, [99])
    (line,) = (line for line in shown if (line.row.encoder, line.row.method) == ("BERT-base", "sg-opt"))
    assert line.cells["Avg"].values == (50.0,)


@pytest.mark.slow
def test_an_interrupted_reproduction_goes_on(tmp_path):
    """Killed after its first result; the second call runs the rest alone."""
    results = tmp_path / "results"
    words = zip(WORDS, WORDS[::-1], strict=True)
    sentences = "".join(f"{n % 6}\tthe {a} is here\tthe {b} is there\n" for n, (a, b) in enumerate(words))
    pairs = tmp_path / "data" / "sts" / "STS-B"
    pairs.mkdir(parents=True)
    for split in ("train", "dev", "test"):
        (pairs / f"{split}.tsv").write_text(sentences)
    code = "import sys; from selfguide.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "reproduce", "table6", "figure5", "--data", str(tmp_path / "data")]
    command += ["--model", f"bert-base-uncased={locate('mini').location}", "--method", "cls", "mean"]
    command += ["--results", str(results), "--device", "cpu"]
    first = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 300
    while not list(results.rglob("*.json")) and time.monotonic() < deadline:
        time.sleep(0.02)
    first.send_signal(signal.SIGKILL)
    first.wait()
    written = {path: path.read_bytes() for path in results.rglob("*.json")}
    assert written
    subprocess.run(command, check=True, capture_output=True)
    assert {path.name for path in results.rglob("*.json")} == {"cls.json", "mean.json"}
    assert all(path.read_bytes() == content for path, content in written.items())


def test_one_failure_does_not_stop_the_others(places, tmp_path, monkeypatch, caplog):
    def broken(system, places):
        raise RuntimeError("CUDA out of memory\n at this place")

    monkeypatch.setitem(MEASURES, "sweep", broken)
    found = run_jobs([job("cls", "sweep"), job("cls")], ResultFolder(tmp_path / "results"), places)
    assert found[job("cls", "sweep")].state == "not run: failed with RuntimeError: CUDA out of memory at this place"
    assert "BERT-base, cls: sweep failed" in caplog.text
    assert found[job("cls")].is_measured


@pytest.mark.slow
def test_ctrl_c_ends_all_processes(tmp_path, tiny_bert):
    """While trainings run side by side: soon, with exit code 130, and without processes left behind."""
    pairs = tmp_path / "data" / "sts" / "STS-B"
    pairs.mkdir(parents=True)
    lines = [f"{n % 6}\tthe {a} is {n}\tthe {b} is {n}\n" for n in range(200) for a, b in itertools.pairwise(WORDS)]
    for split in ("train", "dev", "test"):
        (pairs / f"{split}.tsv").write_text("".join(lines))
    code = "import sys; from selfguide.cli.main import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", code, "reproduce", "table1", "--data", str(tmp_path / "data"), "--device", "cpu"]
    command += ["--model", f"bert-base-uncased={tiny_bert}", "--method", "sg-opt", "--seeds", "1,2,3", "--jobs", "2"]
    command += ["--results", str(tmp_path / "results")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    deadline = time.monotonic() + 120
    while len(_group(process.pid)) < 4 and time.monotonic() < deadline:  # itself, a tracker and two workers
        time.sleep(0.2)
    time.sleep(8)  # the trainings have begun
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    assert process.returncode == 130
    time.sleep(1)
    assert _group(process.pid) == []


def _group(leader):
    """Processes of a session that still run."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,stat=", "-s", str(leader)], capture_output=True, text=True, check=False
    ).stdout
    return [line for line in listed.splitlines() if "Z" not in line]
