"""The commands when all goes well: help, version, a run from flags and a file, and what goes to which stream."""

import dataclasses
import logging
import subprocess
import sys
from importlib.metadata import version

import pytest
from sentence_transformers import SentenceTransformer

from selfguide.cli.main import COMMANDS, build_parser, main
from selfguide.files import read_json
from selfguide.settings import flag_of
from selfguide.training.config import TrainingConfig
from tiny_runs import SENTENCES, SMALL, metrics_of, same_bits, tree, weights_of


def help_of(capsys, *command):
    with pytest.raises(SystemExit) as caught:
        main([*command, "--help"])
    assert caught.value.code == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


# Help and version


def test_help_names_every_command(capsys):
    text = help_of(capsys)
    for name, command in COMMANDS.items():
        assert name in text
        assert command.HELP.split()[0] in text


@pytest.mark.parametrize("command", COMMANDS)
def test_help_of_a_command_lists_every_flag_with_a_word_about_it(capsys, command):
    text = help_of(capsys, command)
    parser = build_parser()._subparsers._group_actions[0].choices[command]
    for action in parser._actions:
        assert action.help, action.option_strings
        assert all(flag in text for flag in action.option_strings)
    assert "--traceback" in text


def test_help_of_train_covers_the_settings_their_choices_and_defaults(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    text = help_of(capsys, "train")
    for field in dataclasses.fields(TrainingConfig):
        assert flag_of(field.name) in text
        assert field.metadata["help"] in text
        assert ",".join(field.metadata["choices"]) in text
    for words in ("(default: 16)", "(default: 5e-05)", "(default: sg-opt)", "--no-guide-dropout", "-o DIR"):
        assert words in text
    for flag in ("--config", "--resume", "--overwrite", "--push-to-hub", "--private"):
        assert flag in text


def test_version(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert caught.value.code == 0
    assert capsys.readouterr().out == f"selfguide {version('selfguide')}\n"


def test_help_does_not_wait_for_torch():
    """Nor does a mistake in a flag; and the console script gives the exit code on."""
    script = """
import sys
from selfguide.cli.main import entry_point, main
try:
    main(["train", "--help"])
except SystemExit:
    pass
assert main(["train", "--config", "missing.toml"]) == 2
heavy = {"torch", "transformers", "numpy", "datasets", "accelerate", "sentence_transformers", "scipy"} & set(sys.modules)
assert not heavy, heavy
sys.argv = ["selfguide", "nonsense"]
entry_point()
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1].startswith("selfguide: argument COMMAND")
    assert "Traceback" not in done.stderr


def test_python_runs_it_as_a_module():
    done = subprocess.run([sys.executable, "-m", "selfguide", "--version"], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (0, f"selfguide {version('selfguide')}\n")


# A run


@pytest.fixture
def settings(tmp_path, tiny_bert, text):
    """A TOML file that says all but the output and the number of steps."""
    file = tmp_path / "settings.toml"
    file.write_text(
        f"""
        model = "{tiny_bert}"
        data = ["{text["sentences"]}"]
        device = "cpu"
        objective = "opt2"
        batch-size = 4
        projection_width = 32
        guide_dropout = true
        seed = 5
        """
    )
    return str(file)


def test_a_run_from_a_file_and_flags(settings, tmp_path, capsys):
    output = tmp_path / "out"
    assert main(["train", "--config", settings, "-o", str(output), "--steps", "5", "--seed", "6", "--no-guide-dropout"]) == 0
    captured = capsys.readouterr()
    assert captured.out == f"encoder: {output}\n"
    assert captured.err.splitlines()[0] == "40 sentences kept of 40 read"
    assert captured.err.splitlines()[-1] == f"the encoder is in '{output}'"
    assert any(line.startswith("step 5/5  loss ") for line in captured.err.splitlines())
    config = read_json(output / "selfguide" / "config.json")
    expected = {"objective": "opt2", "batch_size": 4, "steps": 5, "seed": 6, "guide_dropout": False}
    assert {name: config[name] for name in expected} == expected
    assert len(metrics_of(output)) == 5
    assert SentenceTransformer(str(output), device="cpu").encode(["the cat"]).shape == (1, 32)


def test_dev_scores_are_the_result(settings, tmp_path, text, capsys):
    output = tmp_path / "out"
    flags = ["--steps", "4", "--score-every", "2", "--dev", text["pairs"]]
    assert main(["train", "--config", settings, "--output", str(output), *flags]) == 0
    scores, encoder = capsys.readouterr().out.splitlines()
    summary = read_json(output / "selfguide" / "summary.json")
    before, after, step = (summary[name] for name in ("before", "after", "kept_step"))
    assert scores == f"dev score before {before:.2f}, after {after:.2f} (step {step}, chosen by these labels)"
    assert encoder == f"encoder: {output}"


def test_a_second_run_says_its_lines_once(settings, tmp_path, capsys):
    for name in ("one", "two"):
        assert main(["train", "--config", settings, "--output", str(tmp_path / name), "--steps", "1"]) == 0
        assert capsys.readouterr().err.count("40 sentences kept of 40 read") == 1
    assert logging.getLogger("selfguide").handlers == []


def test_overwrite_replaces_the_run_whole(settings, tmp_path, capsys):
    output = tmp_path / "out"
    assert main(["train", "--config", settings, "--output", str(output), "--steps", "1"]) == 0
    (output / "note.txt").write_text("of the first run")
    assert main(["train", "--config", settings, "--output", str(output), "--steps", "2", "--overwrite"]) == 0
    assert not (output / "note.txt").exists()
    assert len(metrics_of(output)) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "settings.toml"]


def test_an_empty_folder_may_be_the_output(settings, tmp_path):
    (tmp_path / "out").mkdir()
    assert main(["train", "--config", settings, "--output", str(tmp_path / "out"), "--steps", "1"]) == 0


def test_a_trained_folder_can_be_trained_on(settings, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    assert main(["train", "--config", settings, "--output", str(first), "--steps", "1"]) == 0
    assert main(["train", "--config", settings, "--model", str(first), "--output", str(second), "--steps", "2"]) == 0
    assert not same_bits(weights_of(first), weights_of(second))


def test_columns_may_be_given_with_commas(tiny_bert, tmp_path, capsys):
    table = "left,right\n" + "".join(f"{a},{b}\n" for a, b in zip(SENTENCES[:20], SENTENCES[20:], strict=True))
    (tmp_path / "table.csv").write_text(table)
    flags = ["--column", "left,right", "--steps", "1", "--device", "cpu", *SMALL]
    data = ["--model", str(tiny_bert), "--data", str(tmp_path / "table.csv"), "--output", str(tmp_path / "out")]
    assert main(["train", *data, *flags]) == 0
    assert "40 sentences kept of 40 read" in capsys.readouterr().err


# Failure


def test_a_traceback_is_shown_when_asked_for(tmp_path, capsys):
    arguments = ["train", "--data", str(tmp_path / "missing.txt"), "--output", str(tmp_path / "out")]
    assert main(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert main([*arguments, "--traceback"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("Traceback (most recent call last):")
    assert error.splitlines()[-1].startswith("selfguide: ")
    assert tree(tmp_path) == {}


def test_what_nobody_foresaw_is_one_line_too(settings, tmp_path, capsys, monkeypatch):
    import selfguide.training.train

    def fail(*_, **__):
        raise RuntimeError("something\nodd")

    monkeypatch.setattr(selfguide.training.train, "run_training", fail)
    assert main(["train", "--config", settings, "--output", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == "selfguide: RuntimeError: something odd (--traceback shows where)\n"


def test_an_interruption_before_the_first_step(settings, tmp_path, capsys, monkeypatch):
    import selfguide.training.train

    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(selfguide.training.train, "load_encoder", interrupt)
    assert main(["train", "--config", settings, "--output", str(tmp_path / "out")]) == 130
    assert capsys.readouterr().err == "selfguide: interrupted\n"
    assert [path.name for path in tmp_path.iterdir()] == ["settings.toml"]


def test_a_failed_upload_keeps_the_encoder(settings, tmp_path, capsys):
    """There is no network in these tests."""
    output = tmp_path / "out"
    flags = ["--steps", "1", "--push-to-hub", "nobody/nothing"]
    assert main(["train", "--config", settings, "--output", str(output), *flags]) == 1
    captured = capsys.readouterr()
    assert f"'{output}' was trained but not uploaded to 'nobody/nothing'" in captured.err.splitlines()[-1]
    assert (output / "model.safetensors").is_file()
