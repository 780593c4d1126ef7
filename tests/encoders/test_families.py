"""Every family against its own modules: states, layer 0, what a training step moves, and folders that others read alike."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoTokenizer

from selfguide.encoders.encoder import embed_rows, run_last, run_states
from selfguide.encoders.families import FAMILIES, Family, layer_zero_modules
from selfguide.encoders.guide import Guide, parse_layers
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.projection import make_projection
from selfguide.encoders.saving import save_encoder
from selfguide.errors import InputError
from selfguide.files import read_json, write_json
from selfguide.guidance import SelfGuidance
from selfguide.training.schedule import make_optimizer, set_learning_rate
from tiny_models import DIM, ENCODERS, LAYERS, POSITIONS, SENTENCES

DOCS = Path(__file__).parents[2] / "docs" / "encoders.md"


@dataclass(frozen=True)
class Expected:
    """What is known of a family's modules, written down without looking at the library's own table."""

    embedding_output: str = "embeddings"
    layers: tuple[str, ...] = tuple(f"encoder.layer.{number}" for number in range(LAYERS))
    """Modules whose calls give layers 1 to l."""
    final_norm: str | None = None
    has_pooler: bool = False
    has_absolute_positions: bool = True


EXPECTED = {
    "bert": Expected(has_pooler=True),
    "roberta": Expected(has_pooler=True),
    "xlm-roberta": Expected(has_pooler=True),
    "camembert": Expected(has_pooler=True),
    "distilbert": Expected(layers=tuple(f"transformer.layer.{number}" for number in range(LAYERS))),
    "mpnet": Expected(has_pooler=True),
    "electra": Expected(embedding_output="embeddings_project"),
    # one shared layer, called l times
    "albert": Expected(
        embedding_output="encoder.embedding_hidden_mapping_in", layers=("encoder.albert_layer_groups.0",), has_pooler=True
    ),
    "deberta-v2": Expected(has_absolute_positions=False),
    "modernbert": Expected(
        layers=tuple(f"layers.{number}" for number in range(LAYERS)), final_norm="final_norm", has_absolute_positions=False
    ),
}

KEY_BIASES = re.compile(r"\.(key|k_lin|k)\.bias$")
"""Added to all logits of a query alike, so that the softmax cancels them: only rounding gives them a gradient.

Not so in DeBERTa (``key_proj``), where keys meet relative positions as well.
"""

POOLED = [family for family, expected in EXPECTED.items() if expected.has_pooler]


@pytest.fixture(params=EXPECTED)
def family(request):
    return request.param


@pytest.fixture
def encoder(family, tiny_folder):
    return load_encoder(tiny_folder(family))


def batch_of(encoder, sentences=SENTENCES):
    return encoder.pad(encoder.tokenize(sentences))


def parameters_of(model):
    return {name: parameter.detach().clone() for name, parameter in model.named_parameters()}


def layer_zero_names(encoder):
    frozen = {id(parameter) for parameter in encoder.frozen_parameters()}
    return {name for name, parameter in encoder.model.named_parameters() if id(parameter) in frozen}


@dataclass
class Step:
    """One training step, put together as a run does it."""

    guide: Guide
    module: SelfGuidance
    optimizer: torch.optim.Optimizer


def take_step(encoder, weight_decay=0.0):
    """Without weight decay only a gradient can move a parameter."""
    guide = Guide(encoder, layers=parse_layers("all", encoder.layer_count), pooling="max")
    for parameter in encoder.frozen_parameters():
        parameter.requires_grad = False
    projection = make_projection(
        "mlp",
        dim=encoder.dim,
        width=64,
        std=encoder.model.config.initializer_range,
        generator=torch.Generator().manual_seed(1),
    )
    module = SelfGuidance(
        encoder.model, projection, objective="sg-opt", temperature=0.05, distance_weight=0.1, guide=guide.model
    )
    optimizer = make_optimizer(module, betas=(0.9, 0.9), weight_decay=weight_decay, device=torch.device("cpu"))
    set_learning_rate(optimizer, 1e-3)
    ids, mask = batch_of(encoder)
    module.train()
    module(ids, mask, views=guide.views(ids, mask))[0].backward()
    optimizer.step()
    module.eval()
    return Step(guide, module, optimizer)


# The table of families


def check_all_families_are_covered():
    assert set(FAMILIES) == set(EXPECTED) == set(ENCODERS)


def test_all_families_are_covered():
    check_all_families_are_covered()


def test_a_family_without_tests_is_noticed(monkeypatch):
    monkeypatch.setitem(FAMILIES, "planted", Family(layer_zero=("embeddings",), first_token="[CLS]"))
    with pytest.raises(AssertionError):
        check_all_families_are_covered()


def test_documentation_has_the_same_table():
    """Columns: family, model_type, frozen modules, first token, remarks."""
    rows = [line.split("|")[2:5] for line in DOCS.read_text(encoding="utf-8").splitlines() if line.count("|") == 6]
    cells = [[re.findall(r"`([^`]+)`", cell) for cell in row] for row in rows[2:]]
    documented = {types[0]: Family(tuple(modules), token[0]) for types, modules, token in cells}
    assert documented == FAMILIES


# States


def hooked_states(model, expected, ids, mask):
    """Outputs of the embedding module and of each call of a layer, without the model's own bookkeeping."""
    kept, final = [], []

    def keep(store):
        return lambda _, __, output: store.append(output[0] if isinstance(output, tuple) else output)

    handles = [
        model.get_submodule(name).register_forward_hook(keep(kept)) for name in (expected.embedding_output, *expected.layers)
    ]
    if expected.final_norm:
        handles.append(model.get_submodule(expected.final_norm).register_forward_hook(keep(final)))
    model(input_ids=ids, attention_mask=mask)
    for handle in handles:
        handle.remove()
    return [*kept[: len(kept) - len(final)], *final]


@torch.no_grad()
def test_states_are_the_outputs_of_embedding_and_layers(family, encoder):
    ids, mask = batch_of(encoder)
    states = run_states(encoder.model, ids, mask)
    hooked = hooked_states(encoder.model, EXPECTED[family], ids, mask)
    assert states.layer_count == encoder.layer_count == LAYERS
    assert len(states.hidden) == len(hooked) == LAYERS + 1
    for number in range(LAYERS + 1):
        assert states.layer(number).shape == (*ids.shape, encoder.dim) == (*ids.shape, DIM)
        assert torch.equal(states.layer(number), hooked[number])
        assert number == 0 or not torch.allclose(hooked[number], hooked[number - 1], atol=1e-3)


@torch.no_grad()
def test_last_layer_is_the_last_hidden_state(encoder):
    ids, mask = batch_of(encoder)
    states = run_states(encoder.model, ids, mask)
    last = encoder.model(input_ids=ids, attention_mask=mask).last_hidden_state
    for same in (states.layer(LAYERS), states.hidden[-1], run_last(encoder.model, ids, mask)):
        assert torch.equal(same, last)


@torch.no_grad()
def test_padding_changes_no_state(encoder):
    rows = encoder.tokenize(SENTENCES)
    ids, mask = encoder.pad(rows, POSITIONS)
    padded, unmasked = (run_states(encoder.model, ids, m) for m in (mask, torch.ones_like(mask)))
    for number, row in enumerate(rows):
        alone = run_states(encoder.model, *encoder.pad([row]))
        for layer in range(LAYERS + 1):
            torch.testing.assert_close(padded.layer(layer)[number, : len(row)], alone.layer(layer)[0], atol=1e-5, rtol=0)
        # the model does read padding when it is not masked, so that the above says something
        assert not torch.allclose(unmasked.layer(LAYERS)[number, : len(row)], alone.layer(LAYERS)[0], atol=1e-3)


def test_first_token_is_that_of_the_family(family, encoder):
    first = encoder.tokenizer.convert_tokens_to_ids(FAMILIES[family].first_token)
    assert first != encoder.tokenizer.unk_token_id
    rows = encoder.tokenize(SENTENCES)
    assert {row[0] for row in rows} == {first} and {row[-1] for row in rows} == {encoder.tokenizer.sep_token_id}
    assert encoder.tokenizer.unk_token_id not in {token for row in rows for token in row}


@torch.no_grad()
def test_positions_are_all_there_are(family, encoder):
    assert encoder.positions == POSITIONS
    word = encoder.tokenize(["cat"])[0][1]
    run_last(encoder.model, *encoder.pad([[word] * POSITIONS]))
    if EXPECTED[family].has_absolute_positions:
        with pytest.raises((IndexError, RuntimeError)):
            run_last(encoder.model, *encoder.pad([[word] * (POSITIONS + 1)]))


# Layer 0


def test_layer_zero_is_what_its_states_depend_on(encoder):
    ids, mask = batch_of(encoder)
    output = run_states(encoder.model, ids, mask).layer(0)
    weights = torch.rand(output.shape, generator=torch.Generator().manual_seed(2))
    names, parameters = zip(*encoder.model.named_parameters(), strict=True)
    gradients = torch.autograd.grad((output * weights).sum(), parameters, allow_unused=True)
    reached = {name for name, gradient in zip(names, gradients, strict=True) if gradient is not None and gradient.any()}
    assert layer_zero_names(encoder) == reached
    assert 0 < len(reached) < len(names)


def test_a_model_without_layer_zero_is_refused():
    with pytest.raises(InputError, match="Linear has no module named embeddings to freeze as layer 0; choose"):
        layer_zero_modules(torch.nn.Linear(2, 2), FAMILIES["bert"])


# One training step


def test_step_moves_all_but_layer_zero_and_the_guide(encoder):
    before = parameters_of(encoder.model)
    step = take_step(encoder)
    frozen = layer_zero_names(encoder)
    stayed = {name for name, parameter in encoder.model.named_parameters() if torch.equal(parameter, before[name])}
    assert frozen <= stayed
    assert all(KEY_BIASES.search(name) for name in stayed - frozen)
    for name, parameter in step.guide.model.named_parameters():
        assert torch.equal(parameter, before[name]) and parameter.grad is None


def test_distance_counts_what_moves(encoder):
    before = parameters_of(encoder.model)
    step = take_step(encoder, weight_decay=0.01)
    frozen = layer_zero_names(encoder)
    moved = {name: p for name, p in encoder.model.named_parameters() if name not in frozen}
    assert len(step.module.references) == len(moved)
    by_hand = sum((p.detach().double() - before[name].double()).square().sum().item() for name, p in moved.items())
    assert step.module.distance().item() == pytest.approx(by_hand, rel=1e-4)
    assert by_hand > 0
    with torch.no_grad():
        for parameter in encoder.frozen_parameters():
            parameter.add_(1)
    assert step.module.distance().item() == pytest.approx(by_hand, rel=1e-4)


def test_optimizer_has_what_is_trained_and_no_pooler(encoder):
    step = take_step(encoder)
    optimized = {id(p) for group in step.optimizer.param_groups for p in group["params"]}
    frozen = {id(p) for p in encoder.frozen_parameters()}
    trained = {id(p) for p in (*encoder.model.parameters(), *step.module.projection.parameters())} - frozen
    assert optimized == trained
    assert not any("pooler" in name for name, _ in step.module.named_parameters())


# Folders


def test_saved_encoder_gives_the_same_vectors(encoder, tmp_path):
    untrained = embed_rows(encoder, encoder.tokenize(SENTENCES))
    take_step(encoder)
    save_encoder(encoder, tmp_path)
    again = load_encoder(tmp_path)
    rows = encoder.tokenize(SENTENCES)
    assert again.tokenize(SENTENCES) == rows
    assert (again.max_length, again.positions, again.family) == (encoder.max_length, encoder.positions, encoder.family)
    assert torch.equal(embed_rows(again, rows), embed_rows(encoder, rows))
    assert not torch.allclose(embed_rows(again, rows), untrained, atol=1e-3)


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_sentence_transformers_gives_the_same_vectors(family, tiny_folder, tmp_path, pooling):
    from sentence_transformers import SentenceTransformer

    encoder = load_encoder(tiny_folder(family), max_length=12)
    take_step(encoder)
    save_encoder(encoder, tmp_path, pooling=pooling)
    rows = encoder.tokenize(SENTENCES)
    assert max(len(row) for row in rows) == 12, "no sentence is cut"
    vectors = SentenceTransformer(str(tmp_path), device="cpu").encode(list(SENTENCES), convert_to_tensor=True)
    torch.testing.assert_close(vectors, embed_rows(encoder, rows, pooling=pooling), atol=1e-5, rtol=0)


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_saved_folder_is_spelt_as_all_readers_know(encoder, tmp_path, pooling):
    save_encoder(encoder, tmp_path, pooling=pooling)
    names = [module["type"] for module in read_json(tmp_path / "modules.json")]
    assert names == ["sentence_transformers.models.Transformer", "sentence_transformers.models.Pooling"]
    modes = read_json(tmp_path / "1_Pooling" / "config.json")
    assert modes["word_embedding_dimension"] == DIM and "pooling_mode" not in modes
    key = {"cls": "pooling_mode_cls_token", "mean": "pooling_mode_mean_tokens", "max": "pooling_mode_max_tokens"}[pooling]
    assert [name for name, value in modes.items() if name.startswith("pooling_mode_") and value] == [key]
    tokenizer = read_json(tmp_path / "tokenizer_config.json")
    assert tokenizer["tokenizer_class"] != "TokenizersBackend", "transformers 4 does not know it"
    assert not {"is_local", "local_files_only", "backend"} & set(tokenizer)


def test_unknown_pooling_is_not_saved(tiny_bert, tmp_path):
    with pytest.raises(InputError, match="pooling 'avg' is not known; choose one of: cls, max, mean"):
        save_encoder(load_encoder(tiny_bert), tmp_path, pooling="avg")
    assert not list(tmp_path.iterdir())


@torch.no_grad()
def test_transformers_gives_the_same_first_state(encoder, tmp_path):
    save_encoder(encoder, tmp_path)
    inputs = AutoTokenizer.from_pretrained(tmp_path)(list(SENTENCES), padding=True, return_tensors="pt")
    states = AutoModel.from_pretrained(tmp_path)(**inputs).last_hidden_state
    vectors = embed_rows(encoder, encoder.tokenize(SENTENCES))
    torch.testing.assert_close(states[:, 0], vectors, atol=1e-5, rtol=0)


def test_float16_is_raised_to_float32_and_stays_so(family, tiny_folder, tmp_path):
    half = tmp_path / "half"
    AutoModel.from_pretrained(tiny_folder(family)).half().save_pretrained(half)
    AutoTokenizer.from_pretrained(tiny_folder(family)).save_pretrained(half)
    assert read_json(half / "config.json")["dtype"] == "float16"
    encoder = load_encoder(half)
    assert {p.dtype for p in encoder.model.parameters()} == {torch.float32}
    assert encoder.pooler is None or {p.dtype for p in encoder.pooler.parameters()} == {torch.float32}
    save_encoder(encoder, tmp_path / "saved")
    assert read_json(tmp_path / "saved" / "config.json")["dtype"] == "float32"
    saved, stored = (load_file(folder / "model.safetensors") for folder in (tmp_path / "saved", half))
    for name, tensor in saved.items():
        assert tensor.dtype == torch.float32 and torch.equal(tensor, stored[name].float())


def test_saved_tensors_are_those_of_the_checkpoint(family, tiny_folder, tmp_path):
    """The pooler is among them, as it was, although the model was trained without it."""
    encoder = load_encoder(tiny_folder(family))
    step = take_step(encoder)
    save_encoder(encoder, tmp_path)
    before, after = (load_file(folder / "model.safetensors") for folder in (tiny_folder(family), tmp_path))
    assert {name: tensor.shape for name, tensor in before.items()} == {name: t.shape for name, t in after.items()}
    pooler = [name for name in before if name.startswith("pooler.")]
    assert bool(pooler) == EXPECTED[family].has_pooler == (encoder.pooler is not None)
    assert all(torch.equal(before[name], after[name]) for name in [*pooler, *layer_zero_names(encoder)])
    assert not any(name.startswith("pooler") for name, _ in step.module.encoder.named_parameters())


@pytest.mark.parametrize("family", POOLED)
@pytest.mark.parametrize("fault", ["all", "one", "shape"])
def test_checkpoint_without_pooler_weights_loads(tiny_folder, tmp_path, family, fault):
    AutoTokenizer.from_pretrained(tiny_folder(family)).save_pretrained(tmp_path)
    write_json(tmp_path / "config.json", read_json(tiny_folder(family) / "config.json"))
    tensors = load_file(tiny_folder(family) / "model.safetensors")
    pooler = sorted(name for name in tensors if name.startswith("pooler."))
    for name in pooler if fault == "all" else pooler[:1]:
        if fault == "shape":
            tensors[name] = torch.zeros(DIM + 1)
        else:
            del tensors[name]
    save_file(tensors, tmp_path / "model.safetensors", metadata={"format": "pt"})
    encoder, whole = load_encoder(tmp_path), load_encoder(tiny_folder(family))
    assert encoder.pooler is None and whole.pooler is not None
    rows = encoder.tokenize(SENTENCES)
    assert torch.equal(embed_rows(encoder, rows), embed_rows(whole, rows))
    save_encoder(encoder, tmp_path / "saved")
    assert not any(name.startswith("pooler") for name in load_file(tmp_path / "saved" / "model.safetensors"))


def test_saving_leaves_the_encoder_as_it_was(encoder, tmp_path):
    before = set(dict(encoder.model.named_modules()))
    save_encoder(encoder, tmp_path)
    assert set(dict(encoder.model.named_modules())) == before
    assert not any("pooler" in name for name, _ in encoder.model.named_parameters())
