"""Wrong input and bad luck: one line on stderr that says what was wrong and what to do, an exit code, nothing written."""

import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from selfguide.cli.main import main
from tiny_runs import SENTENCES, SMALL, tree

CLI = (sys.executable, "-c", "from selfguide.cli.main import entry_point; entry_point()")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working folder, so that files and outputs have short names."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sentences.txt").write_text("".join(f"{sentence}\n" for sentence in SENTENCES))
    return tmp_path


@pytest.fixture
def fails(place, capfd):
    """Runs a command that must fail: gives its one line, after making sure that nothing was written."""

    def run(*arguments, code=2):
        before = tree(place)
        capfd.readouterr()
        assert main(arguments) == code
        captured = capfd.readouterr()
        assert captured.out == ""
        (line,) = captured.err.splitlines()
        assert line.startswith("selfguide: ")
        assert tree(place) == before
        return line

    return run


@pytest.fixture
def train_fails(fails, tiny_bert):
    """The same for ``selfguide train`` with input that is fine but for what is given."""

    def run(*arguments, code=2, data="sentences.txt", model=None):
        fine = ["--model", str(model or tiny_bert), "--data", data, "--output", "out", "--steps", "4", *SMALL]
        return fails("train", *fine, *arguments, code=code)

    return run


@pytest.fixture
def interrupted(place, tiny_bert, monkeypatch, capfd):
    """An unfinished run: ended by a loss of power, as it were, after the checkpoint of step 3."""
    from selfguide.training.loop import Loop

    step = Loop._one_step

    def until_step_3(self):
        if self.state.step == 3:
            raise KeyboardInterrupt
        step(self)

    with monkeypatch.context() as patch:
        patch.setattr(Loop, "_one_step", until_step_3)
        flags = ["--data", "sentences.txt", "--output", "out", "--steps", "4", "--checkpoint-every", "1", *SMALL]
        assert main(["train", "--model", str(tiny_bert), *flags]) == 130
    capfd.readouterr()
    return place / "out.checkpoints"


# Flags and settings


WRONG_FLAGS = [
    (["--objective", "sgopt"], ["--objective 'sgopt' is not known", "sg, opt1, opt2, sg-opt, simcse, bt, bt+sg-opt"]),
    (["--preset", "papre"], ["--preset 'papre' is not known", "paper, released, simcse, senteval, prompted"]),
    (["--pooling", "avg"], ["--pooling 'avg' is not known", "cls, mean, max"]),
    (["--device", "tpu"], ["--device 'tpu' is not known", "auto, cpu, cuda, mps"]),
    (["--poling", "mean"], ["'--poling' (did you mean '--pooling'?)", "'selfguide train --help'"]),
    (["--batchsize=4"], ["'--batchsize' (did you mean '--batch-size'?)"]),
    (["--xyzzy"], ["not known here: '--xyzzy'; 'selfguide train --help' lists"]),
    (["leftover"], ["not known here: 'leftover'"]),
    (["--seed"], ["argument --seed: expected one argument"]),
    (["--batch-size", "many"], ["--batch-size is 'many'; it takes a whole number"]),
    (["--batch-size", "1"], ["--batch-size is 1; it must be 2 or more"]),
    (["--learning-rate", "nan"], ["--learning-rate is nan; it takes a number"]),
    (["--temperature", "-1"], ["--temperature is -1.0; it must be greater than 0"]),
    (["--steps", "-5", "--clip", "x"], ["--steps is -5", "--clip is 'x'"]),
    (["--epochs", "2"], ["--steps and --epochs were both given; choose one"]),
    (["--objective", "bt"], ["--paraphrases go together"]),
    (["--template", "{mask} means"], ["the template '{mask} means' holds {sentence} 0 times", "exactly once"]),
    (["--template", "{sentence} ."], ["--template '{sentence} .' begins with the sentence", "{mask}, {cls} or a word"]),
    (["--preset", "prompted", "--max-length", "9"], ["max length 9 leaves no room for a sentence", "positions for 48"]),
    (["--layers", "13-"], ["layers '13-' is not understood", "layers 0 to 4", "'4-'"]),
    (["--layers", "x"], ["layers 'x' is not understood", "layers 0 to 4"]),
    (["--layers", "5"], ["layers '5' is not understood", "layers 0 to 4"]),
    (["--layers", "2-1"], ["layers '2-1' is not understood"]),
    (["--max-length", "64"], ["max length 64", "has positions for 48 tokens", "from 3 to 48"]),
    (["--device", "cuda"], ["--device cuda was asked for", "only: cpu", "--device auto"]),
    (["--device", "cpu", "--precision", "bf16"], ["--precision bf16 is for CUDA devices", "float32 or auto"]),
    (["--device", "cpu", "--precision", "half"], ["--precision 'half' is not known", "bf16"]),
    (["--tracker", "mlflow"], ["--tracker 'mlflow' is not known", "tensorboard, wandb"]),
    (["--resume", "--overwrite"], ["--resume and --overwrite were both given; choose one"]),
    (["--resume", "--seed", "x"], ["--seed is 'x'; it takes a whole number"]),
]


@pytest.mark.parametrize(("arguments", "facts"), WRONG_FLAGS, ids=[" ".join(arguments) for arguments, _ in WRONG_FLAGS])
def test_wrong_flags(train_fails, arguments, facts):
    if "cuda" in arguments and torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    line = train_fails(*arguments)
    assert all(fact in line for fact in facts), line


def test_a_tracker_that_is_not_installed(train_fails, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)  # so that it is not found, also where it is installed
    line = train_fails("--tracker", "wandb")
    assert "--tracker wandb needs a package that is not installed: pip install 'selfguide[wandb]'" in line


@pytest.mark.parametrize(
    ("arguments", "facts"),
    [
        ([], ["required: COMMAND", "'selfguide --help'"]),
        (["trian"], ["'trian'", "quickstart", "train"]),
        (["--seed", "1", "train"], ["'1'"]),
        (["train", "--data", "sentences.txt"], ["no output folder was given; name one with --output DIR"]),
        (["train", "--output", "out"], ["no training sentences were given; name a file with --data F"]),
        (["train", "--data", "", "--output", "out"], ["--data is ('',); it takes a list of texts"]),
        (["quickstart", "--seed", "x"], ["--seed", "'x'"]),
        (["quickstart", "--ouput", "x"], ["'--ouput' (did you mean '--output'?)"]),
    ],
    ids=str,
)
def test_wrong_use(fails, arguments, facts):
    line = fails(*arguments)
    assert all(fact in line for fact in facts), line


@pytest.mark.parametrize(
    ("content", "facts"),
    [
        ("batch_size = \n", ["'settings.toml' is no valid TOML", "line 1"]),
        ("batchsize = 4\n", ["'settings.toml'", "'batchsize' (did you mean 'batch_size'?)"]),
        ("[training]\nbatch_size = 4\n", ["unknown setting 'training'"]),
        ('batch_size = "4"\npooling = "avg"\n', ["--pooling 'avg'", "cls, mean, max"]),
        ("data = [1]\n", ["--data"]),
        (None, ["'settings.toml' cannot be read", "No such file"]),
    ],
    ids=str,
)
def test_bad_toml(fails, place, content, facts):
    if content is not None:
        (place / "settings.toml").write_text(content)
    line = fails("train", "--config", "settings.toml", "--output", "out", "--batch-size", "4")
    assert all(fact in line for fact in facts), line


# Data


@pytest.mark.parametrize(
    ("content", "arguments", "facts"),
    [
        (None, [], ["'data.txt': no such file or folder"]),
        ("", [], ["data.txt holds no sentences", "0 read"]),
        (" \n\n", [], ["data.txt holds no sentences", "2 read (2 blank)"]),
        ("one line\n", [], ["one sentence only", "two or more"]),
        ("a\nb\nc\n", [], ["--batch-size is 8", "holds 3 sentences", "--batch-size 3 or less"]),
        ("a\na\na\na\na\na\na\na\na\n", [], ["one sentence only"]),
    ],
    ids=["missing", "empty", "blank", "one", "batch too large", "one, repeated"],
)
def test_bad_text(train_fails, place, content, arguments, facts):
    if content is not None:
        (place / "data.txt").write_text(content)
    line = train_fails(*arguments, data="data.txt")
    assert all(fact in line for fact in facts), line


@pytest.mark.parametrize(
    ("name", "content", "column", "facts"),
    [
        ("t.csv", "id,body\n1,a cat\n", "text", ["t.csv: no column 'text'", "the columns are: id, body"]),
        ("t.csv", "id,body\n1,a cat\n", None, ["t.csv: no column sentence", "id, body", "--column NAME"]),
        ("t.tsv", "a\tb\nc\td\n", "3", ["t.tsv:1", "number of fields is 2 where 3"]),
        ("t.jsonl", '{"text": "a"}\n{"body": "b"}\n', None, ["t.jsonl:2: no column 'text'"]),
        ("t.jsonl", '{"text": "a"}\n{"text": \n', None, ["t.jsonl:2: broken JSON"]),
        ("t.txt.gz", "not compressed", None, ["t.txt.gz: not a whole .gz file"]),
        ("t.parquet", "no parquet", None, ["t.parquet: not a whole parquet file"]),
    ],
    ids=str,
)
def test_bad_tables(train_fails, place, name, content, column, facts):
    (place / name).write_text(content)
    line = train_fails(*(["--column", column] if column else []), data=name)
    assert all(fact in line for fact in facts), line


@pytest.mark.parametrize(
    ("name", "content", "facts"),
    [
        ("pairs.tsv", "1.0\ta cat\ta dog\n2.0\ta cat\n", ["pairs.tsv:2", "number of fields is 2 where 3"]),
        ("pairs.tsv", "1.0\ta\tb\n2.0\ta\tc\nhigh\ta\tb\n", ["pairs.tsv:3", "score 'high' is not a finite number"]),
        ("pairs.tsv", "1.0\ta\tb\n2.0\t \tb\n", ["pairs.tsv:2", "sentence1 is empty"]),
        ("pairs.tsv", "1.0\ta\tb\n1.0\tc\td\n", ["pairs.tsv: all 2 scores equal 1"]),
        ("pairs.tsv", "1.0\ta\tb\n", ["pairs.tsv: number of pairs is 1"]),
        ("pairs.txt", "1.0\ta\tb\n", ["pairs.txt: suffix '.txt' is not known", ".tsv"]),
        ("pairs.tsv", None, ["pairs.tsv: no such file or folder"]),
    ],
    ids=str,
)
def test_bad_pairs(train_fails, place, name, content, facts):
    if content is not None:
        (place / name).write_text(content)
    line = train_fails("--dev", name)
    assert all(fact in line for fact in facts), line


def test_bad_paraphrases(fails, place, tiny_bert):
    (place / "p.tsv").write_text("a cat\ta dog\nonly one\n")
    line = fails(
        "train", "--model", str(tiny_bert), "--objective", "bt", "--paraphrases", "p.tsv", "--output", "out", *SMALL
    )
    assert "p.tsv:2: number of fields is 1 where 2 are needed" in line


# Models


def test_a_model_that_is_not_here_and_no_network(train_fails):
    line = train_fails(model="nobody/no-such-model")
    assert "the model 'nobody/no-such-model' is not a local folder" in line
    assert "could not be had from the Hugging Face hub" in line
    assert "'mini'" in line and "check the name and the network" in line


@pytest.mark.parametrize(("family", "kind"), [("gpt2", "a decoder"), ("t5", "an encoder-decoder model")])
def test_a_model_that_is_no_encoder(train_fails, tiny_folder, family, kind):
    line = train_fails(model=tiny_folder(family))
    assert f"a model of type '{family}' is {kind}: self-guidance needs an encoder" in line
    assert "choose one of these families: bert, roberta" in line


def test_a_folder_that_is_no_model(train_fails, place):
    (place / "empty").mkdir()
    assert "the folder 'empty' holds no config.json" in train_fails(model="empty")
    assert "the model 'sentences.txt' is a file" in train_fails(model="sentences.txt")


def test_a_model_with_damaged_weights(train_fails, place, tiny_bert):
    shutil.copytree(tiny_bert, place / "bert")
    weights = place / "bert" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    assert "the model folder 'bert' cannot be loaded" in train_fails(model="bert")


# Outputs


def finished_run(folder: Path) -> None:
    (folder / "selfguide").mkdir(parents=True)
    (folder / "selfguide" / "config.json").write_text("{}")


def test_an_output_that_holds_a_run(train_fails, place):
    finished_run(place / "out")
    line = train_fails()
    assert "the output 'out' holds a finished run already" in line
    assert "choose another folder, or --overwrite to replace that run" in line


@pytest.mark.parametrize("flag", [[], ["--overwrite"]], ids=str)
@pytest.mark.parametrize("foreign", ["folder", "file"])
def test_an_output_that_is_somebody_elses(train_fails, place, flag, foreign):
    if foreign == "folder":
        (place / "out").mkdir()
        (place / "out" / "thesis.tex").write_text("years of work")
    else:
        (place / "out").write_text("years of work")
    line = train_fails(*flag)
    assert (
        "the output 'out' exists already and is not a run of selfguide, so it is left alone; choose another folder" in line
    )


@pytest.mark.parametrize("content", ["thesis.tex", "config.json", "step-00000001/weights"])
@pytest.mark.parametrize("flag", [[], ["--overwrite"]], ids=str)
def test_a_folder_of_somebody_else_where_checkpoints_go(train_fails, place, content, flag):
    file = place / "out.checkpoints" / content
    file.parent.mkdir(parents=True)
    file.write_text("{}")
    line = train_fails(*flag)
    assert "checkpoints would go to 'out.checkpoints', which holds something else" in line
    assert "move that away or choose another --output" in line


@pytest.mark.parametrize("output", [".", "..", "/", "../.."])
def test_an_output_without_a_name(train_fails, output):
    line = train_fails("--output", output)
    assert "exists already" in line or "has no name of its own; give the folder a name" in line


def test_an_output_below_a_file(train_fails):
    assert "sentences.txt' is no folder that allows it; choose another" in train_fails("--output", "sentences.txt/out")


def test_nothing_to_resume(train_fails, place):
    line = train_fails("--resume")
    assert "there is nothing to resume: 'out.checkpoints' holds no checkpoint, the run of 'out' was never begun" in line
    finished_run(place / "out")
    assert "the run of 'out' is finished" in train_fails("--resume")


def test_an_unfinished_run(train_fails, interrupted):
    line = train_fails("--checkpoint-every", "1")
    assert "'out.checkpoints' holds an unfinished run" in line
    assert "--resume to go on with it or --overwrite to start anew" in line


def test_resume_with_other_settings(train_fails, interrupted):
    line = train_fails("--checkpoint-every", "1", "--resume", "--seed", "2", "--temperature", "0.05")
    assert "--resume goes on with the settings of the interrupted run; these differ: " in line
    assert "seed (was 1, now 2)" in line
    assert "temperature (was 0.01, now 0.05)" in line


def test_resume_with_other_sentences(train_fails, interrupted, place):
    with (place / "sentences.txt").open("a") as file:
        file.write("the cat eats the bird\n")
    line = train_fails("--checkpoint-every", "1", "--resume")
    assert "--resume needs the same training sentences as before" in line
    assert "--overwrite starts anew" in line


@pytest.mark.parametrize("damage", ["flipped byte", "truncated manifest"])
def test_resume_from_a_damaged_checkpoint(train_fails, interrupted, damage):
    newest = sorted(interrupted.glob("step-*"))[-1]
    file = newest / ("manifest.json" if damage == "truncated manifest" else "optimizer.bin")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content if damage == "flipped byte" else content[:40])
    line = train_fails("--checkpoint-every", "1", "--resume")
    assert f"the checkpoint 'out.checkpoints/{newest.name}' is damaged" in line
    assert ("optimizer.bin is not as it was written" if damage == "flipped byte" else "no readable manifest.json") in line
    assert "delete that folder to go on from the one before" in line


# A full disk


def limited(arguments, megabytes):
    """Runs a command in a process in which no file may grow larger than that."""
    size = int(megabytes * 2**20)
    return subprocess.run(
        [*CLI, *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )


WEIGHTS_MB = 0.15
"""Less than the tiny model's weights, and more than anything else that a run writes but for the checkpoints."""

BEGUN = ["before.json", "config.json", "metrics.jsonl"]
"""What the checkpoint folder of a run holds before the first checkpoint."""


@pytest.mark.parametrize(
    ("flags", "megabytes", "unwritten"),
    [
        ([], WEIGHTS_MB, "out"),
        (["--checkpoint-every", "2"], 2 * WEIGHTS_MB, "out.checkpoints/step-00000002"),
    ],
    ids=["weights of the encoder", "optimiser in a checkpoint"],
)
def test_the_disk_is_full(place, tiny_bert, flags, megabytes, unwritten):
    """For real, and afterwards, when there is room again, the run can simply be started anew."""
    fine = ["--data", "sentences.txt", "--output", "out", "--steps", "3", "--device", "cpu", *SMALL]
    arguments = ["train", "--model", str(tiny_bert), *fine, *flags]
    done = limited(arguments, megabytes)
    assert done.returncode == 1, done.stderr
    assert done.stdout == ""
    line = done.stderr.splitlines()[-1]
    assert line.startswith(
        f"selfguide: '{unwritten}' could not be written: the disk is full, or a file reached its size limit"
    )
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in place.iterdir()) == ["out.checkpoints", "sentences.txt"]
    assert sorted(path.name for path in (place / "out.checkpoints").iterdir()) == BEGUN
    assert main(arguments) == 0
    assert sorted(path.name for path in place.iterdir()) == ["out", "sentences.txt"]
