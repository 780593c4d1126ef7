"""The configuration: presets as the paper and method.md have them, what goes before what, and every name checked."""

import dataclasses
import json

import pytest

from selfguide import choices
from selfguide.cli.arguments import given_settings
from selfguide.cli.main import build_parser
from selfguide.encoders.loading import LONGEST
from selfguide.encoders.projection import PROJECTIONS
from selfguide.errors import InputError
from selfguide.objectives.catalogue import OBJECTIVES
from selfguide.pooling import POOLINGS
from selfguide.settings import field_types, flag_of, read_toml
from selfguide.training.config import OBJECTIVE_SETTINGS, PRESETS, STEPS_WITHOUT_LABELS, TrainingConfig, resolve

FIELDS = {field.name: field for field in dataclasses.fields(TrainingConfig)}
KINDS = field_types(TrainingConfig)

TABLE_8 = {
    "epochs": None,  # 1 with dev pairs: see the test of the loop
    "objective": "sg-opt",
    "batch_size": 16,
    "learning_rate": 5e-5,
    "beta1": 0.9,
    "beta2": 0.9,
    "temperature": 0.01,
    "distance_weight": 0.1,
    "pooling": "max",
    "layers": "all",
    "projection": "mlp",
    "projection_width": 4096,
    "score_every": 50,
    "patience": 10,
}
FROM_THE_RELEASED_CODE = {"warmup": 0.1, "clip": 1.0, "weight_decay": 0.01, "max_length": None}
ELSEWHERE_IN_THE_PAPER = {"anchor": "cls", "freeze_embeddings": True, "guide_dropout": False, "simcse_weight": 0.0}


def settings(config):
    return {name: value for name, value in dataclasses.asdict(config).items() if name != "preset"}


def parse(*arguments):
    return given_settings(build_parser().parse_args(["train", *arguments]), TrainingConfig)


# Presets


def test_paper_is_table_8_with_the_text_as_it_stands():
    expected = TABLE_8 | FROM_THE_RELEASED_CODE | ELSEWHERE_IN_THE_PAPER | {"deduplicate": False, "mask_duplicates": False}
    config = resolve({"preset": "paper"})
    assert {name: getattr(config, name) for name in expected} == expected
    assert LONGEST == 128
    assert STEPS_WITHOUT_LABELS == 300


def test_without_a_preset_the_recipe_is_the_papers_but_for_repeated_sentences():
    paper, default = settings(resolve({"preset": "paper"})), settings(resolve({}))
    assert {name for name in paper if paper[name] != default[name]} == {"deduplicate", "mask_duplicates"}
    assert default["deduplicate"] and default["mask_duplicates"]


@pytest.mark.parametrize(
    ("preset", "changes"),
    [
        ("released", {"pooling": "mean", "guide_dropout": True}),
        ("senteval", {"pooling": "mean", "layers": "4-"}),
        ("prompted", {"template": '{mask} is the meaning of " {sentence} " .'}),
        (
            "simcse",
            {
                "objective": "simcse",
                "batch_size": 64,
                "learning_rate": 3e-5,
                "warmup": 0.0,
                "beta2": 0.999,
                "freeze_embeddings": False,
                "max_length": 32,
                "temperature": 0.05,
                "projection": "tanh",
                "distance_weight": 0.0,
                "score_every": 125,
                "deduplicate": True,
                "mask_duplicates": True,
            },
        ),
    ],
)
def test_other_presets_differ_from_paper_in_this_alone(preset, changes):
    paper, other = settings(resolve({"preset": "paper"})), settings(resolve({"preset": preset}))
    assert {name: other[name] for name in paper if other[name] != paper[name]} == changes


def test_every_preset_can_be_chosen_and_every_choice_is_a_preset():
    assert FIELDS["preset"].metadata["choices"] == tuple(PRESETS)


@pytest.mark.parametrize(
    ("names", "catalogue"),
    [(choices.OBJECTIVES, OBJECTIVES), (choices.POOLINGS, POOLINGS), (choices.PROJECTIONS, PROJECTIONS)],
    ids=["objectives", "poolings", "projections"],
)
def test_choices_are_those_of_the_catalogue(names, catalogue):
    assert names == tuple(catalogue)


# What goes before what


def test_order_is_defaults_objective_preset_file_flags(tmp_path, monkeypatch):
    """One setting, set to another value at each level; the levels are then taken away from the top."""
    monkeypatch.setitem(OBJECTIVE_SETTINGS, "opt1", {"temperature": 0.2})
    monkeypatch.setitem(PRESETS, "paper", {"temperature": 0.3})
    file = tmp_path / "settings.toml"
    file.write_text("temperature = 0.4\n")
    from_file = read_toml(file, TrainingConfig)
    chosen = {"objective": "opt1", "preset": "paper"}
    assert resolve({**chosen, **parse("--temperature", "0.5")}, from_file).temperature == 0.5
    assert resolve(chosen, from_file).temperature == 0.4
    assert resolve(chosen).temperature == 0.3
    assert resolve({"objective": "opt1"}).temperature == 0.2
    assert resolve({}).temperature == 0.01


def test_objective_and_preset_may_come_from_the_file():
    assert resolve({}, {"preset": "released"}).guide_dropout
    assert resolve({}, {"objective": "simcse"}).temperature == 0.05
    assert not resolve({"preset": "paper"}, {"preset": "released"}).guide_dropout


def test_the_objective_of_a_preset_brings_its_settings():
    assert resolve({"objective": "simcse"}).projection == "none"
    assert resolve({"preset": "simcse"}).projection == "tanh"
    assert resolve({"preset": "paper", "objective": "simcse"}).distance_weight == 0


# Every field, by flag and by file


def other_value(name):
    """A value of the field that is allowed and not the default."""
    kind, _ = KINDS[name]
    default, names = FIELDS[name].default, FIELDS[name].metadata["choices"]
    if names:
        return next(choice for choice in names if choice not in (default, "simcse"))
    if name == "template":
        return "{mask} : {sentence}"
    if kind is bool:
        return not default
    if kind is int:
        return (default or 3) + 1
    return {float: 0.75, str: f"some {name}", tuple: ("one", "two")}[kind]


def companions(name):
    """What else must be given for the field to make sense."""
    return {"objective": "bt"} if name == "paraphrases" else {}


def as_arguments(name, value):
    if isinstance(value, bool):
        return [flag_of(name) if value else flag_of(name).replace("--", "--no-", 1)]
    return [flag_of(name), *(value if isinstance(value, tuple) else [str(value)])]


@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_can_be_given_by_flag(name):
    value = other_value(name)
    assert value != FIELDS[name].default
    assert getattr(resolve(parse(*as_arguments(name, value)) | companions(name)), name) == value


@pytest.mark.parametrize("joint", ["_", "-"])
@pytest.mark.parametrize("name", FIELDS)
def test_every_setting_can_be_given_by_file(tmp_path, name, joint):
    value = other_value(name)
    file = tmp_path / "settings.toml"
    file.write_text(f"{name.replace('_', joint)} = {json.dumps(value)}\n")
    assert getattr(resolve(companions(name), read_toml(file, TrainingConfig)), name) == value


@pytest.mark.parametrize("name", [name for name, (kind, _) in KINDS.items() if kind is bool])
def test_a_switch_goes_both_ways(name):
    assert getattr(resolve(parse(flag_of(name))), name) is True
    assert getattr(resolve(parse(flag_of(name).replace("--", "--no-", 1))), name) is False
    assert getattr(resolve({}), name) is FIELDS[name].default


def test_lists_may_be_given_in_parts():
    assert parse("--data", "a", "b", "--data", "c")["data"] == ("a", "b", "c")
    assert parse("-o", "there")["output"] == "there"


def test_only_what_was_typed_comes_back():
    assert parse("--seed", "1") == {"seed": 1}


def test_a_resolved_configuration_comes_back_from_json():
    config = resolve({"preset": "released", "data": ("a", "b"), "output": "there", "dev": "pairs"})
    stored = json.loads(json.dumps(dataclasses.asdict(config)))
    assert TrainingConfig(**{name: tuple(v) if isinstance(v, list) else v for name, v in stored.items()}) == config


# Wrong names and values


@pytest.mark.parametrize(
    ("wrong", "hint"),
    [("poolin", "pooling"), ("learning_rat", "learning_rate"), ("warm_up", "warmup"), ("zzz", None)],
)
def test_an_unknown_name_is_refused_with_the_nearest_one(tmp_path, wrong, hint):
    file = tmp_path / "settings.toml"
    file.write_text(f"{wrong} = 1\n")
    attempts = {
        "in the arguments": (lambda: resolve({wrong: 1}), wrong, hint),
        str(file): (lambda: read_toml(file, TrainingConfig), wrong, hint),
        "selfguide train": (lambda: parse(flag_of(wrong), "1"), flag_of(wrong), hint and flag_of(hint)),
    }
    for where, (attempt, name, nearest) in attempts.items():
        with pytest.raises(InputError) as caught:
            attempt()
        assert where in str(caught.value)
        assert f"'{name}'" in str(caught.value)
        assert ("did you mean" in str(caught.value)) == (nearest is not None)
        assert nearest is None or f"did you mean '{nearest}'?" in str(caught.value)


def test_a_flag_must_be_written_out():
    with pytest.raises(InputError, match=r"'--step' \(did you mean '--steps'\?\)"):
        parse("--step", "5")


def test_several_unknown_names_are_told_at_once():
    with pytest.raises(InputError, match=r"'stepz' \(did you mean 'steps'\?\), 'pool' \(did you mean 'pooling'\?\)"):
        resolve({"stepz": 1, "pool": 2})


def test_all_problems_are_told_in_one_message():
    """Unknown names, types, choices, ranges and conflicts."""
    flags = parse(
        *("--pooling", "avg", "--batch-size", "many", "--temperature", "0", "--beta1", "1", "--steps", "5", "--epochs", "2")
    )
    with pytest.raises(InputError) as caught:
        resolve({**flags, "poling": "mean"}, {"preset": "papr", "guide_dropout": 1, "data": [1]})
    message = str(caught.value)
    for part in (
        "unknown setting 'poling' (did you mean 'pooling'?)",
        "--preset 'papr' is not known; choose one of: paper, released, simcse, senteval, prompted",
        "--pooling 'avg' is not known; choose one of: cls, mean, max",
        "--batch-size is 'many'; it takes a whole number",
        "--guide-dropout is 1; it takes true or false",
        "--data is [1]; it takes a list of texts",
        "--temperature is 0.0; it must be greater than 0",
        "--beta1 is 1.0; it must be from 0 to below 1",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"steps": 5, "epochs": 2}, "--steps and --epochs were both given"),
        ({"objective": "bt"}, "bt and bt\\+sg-opt need it"),
        ({"paraphrases": "f.tsv"}, "--objective sg-opt and --paraphrases go together"),
        ({"objective": "bt", "paraphrases": "f.tsv", "data": ("g",)}, "--data and --paraphrases were both given"),
        ({"objective": "simcse", "simcse_weight": 1.0}, "--objective simcse has it already"),
        ({"preset": ["paper"]}, r"--preset is \['paper'\]; it takes a text"),
        ({"objective": {}}, r"--objective is \{\}; it takes a text"),
        ({"objective": None}, "--objective is None; it takes a text"),
        ({"data": "file.txt"}, "--data is 'file.txt'; it takes a list of texts"),
        ({"data": ("",)}, r"--data is \('',\); it takes a list of texts"),
        ({"dev": ""}, "--dev is ''; it takes a text"),
        ({"template": ""}, "--template is ''; it takes a text"),
        ({"template": "{mask}"}, r"the template '\{mask\}' holds \{sentence\} 0 times"),
        ({"template": "{mask} {text}"}, r"holds \{text\}; its placeholders are: \{sentence\}, \{mask\}, \{cls\}"),
        ({"template": " {sentence} : {mask}"}, "begins with the sentence, and --anchor cls reads the first token; begin"),
        ({"model": ""}, "--model is ''; it takes a text"),
        ({"steps": True}, "--steps is True; it takes a whole number"),
        ({"seed": True}, "--seed is True; it takes a whole number"),
        ({"steps": 5.0}, "--steps is 5.0; it takes a whole number"),
        ({"seed": -1}, "--seed is -1; it must be from 0 to 4294967295"),
        ({"seed": 2**32}, "--seed is 4294967296; it must be from 0 to 4294967295"),
        ({"warmup": 1}, "--warmup is 1; it must be from 0 to below 1"),
        ({"beta2": -0.1}, "--beta2 is -0.1; it must be from 0 to below 1"),
        ({"learning_rate": 0}, "--learning-rate is 0; it must be greater than 0"),
        *(
            ({name: value}, "it takes a number")
            for name in ("learning_rate", "clip")
            for value in (float("nan"), float("inf"))
        ),
        *(
            ({name: value}, f"{flag_of(name)} is {value}; it must be {value + 1} or more")
            for name, value in (
                ("steps", 0),
                ("epochs", 0),
                ("batch_size", 1),
                ("accumulation", 0),
                ("score_every", 0),
                ("patience", -1),
                ("max_length", 2),
                ("projection_width", 0),
                ("weight_decay", -1),
                ("clip", -1),
                ("distance_weight", -1),
                ("simcse_weight", -1),
                ("checkpoint_every", -1),
                ("checkpoint_minutes", -1),
                ("view_cache_mb", 0),
            )
        ),
    ],
    ids=str,
)
def test_a_value_that_cannot_be_meant_is_refused(given, message):
    with pytest.raises(InputError, match=message):
        resolve(given)


def test_the_edges_of_the_ranges_are_allowed():
    edges = {"batch_size": 2, "patience": 0, "clip": 0, "warmup": 0, "beta1": 0, "seed": 2**32 - 1, "temperature": 1e-9}
    config = resolve(edges)
    assert {name: getattr(config, name) for name in edges} == edges


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path):
    file = tmp_path / "settings.toml"
    file.write_bytes(b"\xef\xbb\xbfsteps = 7\n")
    assert read_toml(file, TrainingConfig) == {"steps": 7}


@pytest.mark.parametrize(
    ("content", "message"), [(b"steps = \n", "is no valid TOML"), (b"\xff", "cannot be read"), (None, "cannot be read")]
)
def test_a_broken_file_is_named(tmp_path, content, message):
    file = tmp_path / "settings.toml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=rf"settings\.toml' {message}"):
        read_toml(file, TrainingConfig)
