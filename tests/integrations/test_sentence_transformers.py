"""The loss in sentence-transformers' own trainer: what it computes, what it moves, what is saved and what is refused."""

import copy
import math
from dataclasses import dataclass

import pytest
import torch
import torch.distributed as dist
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, StaticEmbedding, Transformer
from torch import nn
from transformers import AutoModel, AutoTokenizer

from selfguide import SelfGuidedLoss, objectives
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.encoders.loading import load_encoder
from selfguide.errors import InputError
from tiny_models import DIM, LAYERS, SENTENCES

OBJECTIVES = ("sg", "opt1", "opt2", "sg-opt", "simcse")
SMALL = {"projection_width": 64}


def make_model(folder, pooling="cls", *others):
    modules = [Transformer(str(folder)), Pooling(DIM, pooling), *others]
    return SentenceTransformer(modules=modules, device="cpu")


@pytest.fixture
def model(tiny_bert):
    return make_model(tiny_bert)


@pytest.fixture(scope="module")
def trainer_of(tmp_path_factory):
    def make(model, loss, *, steps=1, texts=None, **options):
        arguments = SentenceTransformerTrainingArguments(
            output_dir=str(tmp_path_factory.mktemp("trainer")),
            max_steps=steps,
            per_device_train_batch_size=len(SENTENCES),
            report_to="none",
            save_strategy="no",
            disable_tqdm=True,
            use_cpu=True,
            logging_steps=1,
            **options,
        )
        data = Dataset.from_dict(texts or {"sentence": list(SENTENCES)})
        return SentenceTransformerTrainer(model=model, args=arguments, train_dataset=data, loss=loss)

    return make


def without_dropout(module):
    """Dropout off, though the trainer puts the model into training mode."""
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
    return module


def features_of(model, sentences=SENTENCES):
    return dict(model.preprocess(list(sentences)))


def parameters_of(module):
    return {name: parameter.detach().clone() for name, parameter in module.named_parameters()}


def moved(before, module):
    """Names of the parameters that are not, to the last bit, what they were."""
    return {name for name, parameter in module.named_parameters() if not torch.equal(before[name], parameter)}


# What is trained


@dataclass
class Trained:
    """A finished run of the trainer and what there was before it."""

    model: SentenceTransformer
    loss: SelfGuidedLoss
    trainer: SentenceTransformerTrainer
    encoder_before: dict[str, torch.Tensor]
    projection_before: dict[str, torch.Tensor]
    guide_before: dict[str, torch.Tensor]


@pytest.fixture(scope="module")
def trained(tiny_folder, trainer_of):
    model = make_model(tiny_folder("bert"))
    loss = SelfGuidedLoss(model, **SMALL)
    before = [parameters_of(module) for module in (model[0].auto_model, loss.guidance.projection, loss.guide.model)]
    trainer = trainer_of(model, loss, steps=20, learning_rate=1e-3, weight_decay=0.01)
    trainer.train()
    return Trained(model, loss, trainer, *before)


def test_loss_falls(trained):
    losses = [row["loss"] for row in trained.trainer.state.log_history if "loss" in row]
    assert len(losses) == 20
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_embeddings_and_pooler_stay_and_every_layer_moves(trained):
    names = set(trained.encoder_before)
    still = {name for name in names if name.startswith(("embeddings.", "pooler."))}
    assert len(still) == 7
    assert moved(trained.encoder_before, trained.model[0].auto_model) == names - still


def test_projection_is_trained_and_guide_is_not(trained):
    assert moved(trained.projection_before, trained.loss.guidance.projection) == {"0.weight", "0.bias", "2.weight", "2.bias"}
    assert moved(trained.guide_before, trained.loss.guide.model) == set()
    assert not any(parameter.requires_grad for parameter in trained.loss.guide.model.parameters())


def test_optimiser_holds_encoder_and_projection_once_and_nothing_else(trained):
    optimizer = trained.trainer.optimizer
    held = [id(parameter) for group in optimizer.param_groups for parameter in group["params"]]
    trained_layers = [p for name, p in trained.model[0].auto_model.named_parameters() if name.startswith("encoder.")]
    expected = {id(p) for p in (*trained_layers, *trained.loss.guidance.projection.parameters())}
    assert len(held) == len(expected) and set(held) == expected


def test_nothing_of_the_guide_or_the_projection_is_saved_with_the_model(trained):
    assert not [name for name in trained.model.state_dict() if "guid" in name or "projection" in name]


def test_embeddings_are_trained_when_asked(model, trainer_of):
    loss = SelfGuidedLoss(model, freeze_embeddings=False, **SMALL)
    before = parameters_of(model[0].auto_model)
    trainer_of(model, loss, steps=2, learning_rate=1e-3).train()
    still = set(before) - moved(before, model[0].auto_model)
    assert still == {"pooler.dense.weight", "pooler.dense.bias"}


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_every_objective_runs(objective, model, trainer_of):
    loss = SelfGuidedLoss(model, objective=objective, **SMALL)
    before = parameters_of(model[0].auto_model)
    trainer_of(model, loss, steps=3, learning_rate=1e-3).train()
    assert moved(before, model[0].auto_model) == {name for name in before if name.startswith("encoder.")}
    assert torch.isfinite(torch.from_numpy(model.encode(list(SENTENCES)))).all()


def test_loss_for_evaluation_has_no_dropout(model, trainer_of):
    loss = SelfGuidedLoss(model, **SMALL)
    trainer = trainer_of(model, loss)
    data = Dataset.from_dict({"sentence": list(SENTENCES)})
    assert trainer.evaluate(data)["eval_loss"] == trainer.evaluate(data)["eval_loss"]


def test_layers_are_drawn_anew_and_by_the_seed(model):
    without_dropout(model)

    def values(seed):
        loss = SelfGuidedLoss(model, objective="opt2", seed=seed, **SMALL)
        return [loss([features_of(model)]).item() for _ in range(3)]

    assert values(1) == values(1) and len(set(values(1))) == 3
    assert values(1) != values(2)


# What is computed


def independent_loss(encoder, guide, head, ids, mask, *, temperature=0.01, weight=0.1):
    """The paper's SG-OPT plus the distance, one sentence and one layer at a time, in double precision."""
    encoder, guide, head = (copy.deepcopy(module).double().eval() for module in (encoder, guide, head))
    anchors, views = [], []
    for row, length in zip(ids, mask.sum(dim=1).tolist(), strict=True):
        tokens = row[:length].unsqueeze(0)
        anchors.append(head(encoder(input_ids=tokens).last_hidden_state[0, 0]))
        states = guide(input_ids=tokens, output_hidden_states=True).hidden_states
        views.append([head(state[0].amax(dim=0)) for state in states])

    def phi(left, right):
        return math.exp(torch.nn.functional.cosine_similarity(left, right, dim=0).item() / temperature)

    total = 0.0
    for i, anchor in enumerate(anchors):
        negatives = sum(phi(anchor, view) for m in range(len(views)) if m != i for view in views[m])
        for view in views[i]:
            total -= math.log(phi(anchor, view) / (phi(anchor, view) + negatives))
    names = [name for name, _ in encoder.named_parameters() if name.startswith("encoder.")]
    own, reference = dict(encoder.named_parameters()), dict(guide.named_parameters())
    distance = sum((own[name] - reference[name]).square().sum().item() for name in names)
    return total / (len(anchors) * (LAYERS + 1)) + weight * distance, distance


@torch.no_grad()
def test_value_of_the_first_and_a_later_batch_is_that_of_the_paper(model, tiny_bert, trainer_of):
    loss = SelfGuidedLoss(without_dropout(model), **SMALL)
    seen = []

    def keep(module, arguments, output):
        features = {name: value.clone() for name, value in arguments[0][0].items() if torch.is_tensor(value)}
        seen.append((features, copy.deepcopy(model[0].auto_model), copy.deepcopy(module.guidance.projection), output.item()))

    loss.register_forward_hook(keep)
    with torch.enable_grad():
        trainer_of(model, loss, steps=3, learning_rate=3e-3).train()
    untouched = AutoModel.from_pretrained(tiny_bert)
    assert len(seen) == 3
    for step, (features, encoder, head, value) in enumerate(seen):
        expected, distance = independent_loss(encoder, untouched, head, features["input_ids"], features["attention_mask"])
        assert value == pytest.approx(expected, rel=1e-4)
        assert (distance == 0) == (step == 0)


@torch.no_grad()
def test_the_distance_is_that_of_parameters_put_in_the_place_of_others(model):
    loss = SelfGuidedLoss(without_dropout(model), distance_weight=1.0, **SMALL)
    features, encoder = features_of(model), model[0].auto_model
    at_the_start = loss([dict(features)])
    moved = {name: weight.clone() for name, weight in encoder.state_dict().items()}
    moved["encoder.layer.0.attention.self.key.bias"] += 1  # which changes no vector
    encoder.load_state_dict(moved, assign=True)
    torch.testing.assert_close(loss([dict(features)]) - at_the_start, torch.tensor(float(DIM)), rtol=1e-4, atol=0)


@pytest.mark.parametrize("objective", ["sg", "opt1", "opt2"])
@torch.no_grad()
def test_value_with_one_layer_is_that_of_the_formula(objective, model, tiny_bert):
    loss = SelfGuidedLoss(without_dropout(model), objective=objective, layers="2", pooling="mean", **SMALL)
    features = features_of(model)
    ids, mask = features["input_ids"], features["attention_mask"]
    states = AutoModel.from_pretrained(tiny_bert)(
        input_ids=ids, attention_mask=mask, output_hidden_states=True
    ).hidden_states
    weights = mask.unsqueeze(-1)
    view = (states[2] * weights).sum(dim=1) / weights.sum(dim=1)
    head = loss.guidance.projection
    expected = getattr(objectives, objective)(head(states[-1][:, 0]), head(view), temperature=0.01)
    torch.testing.assert_close(loss([features]), expected)


def test_simcse_is_the_ranking_loss_of_sentence_transformers(model):
    """Values and gradients; the encoder reads each sentence twice."""
    without_dropout(model)
    loss = SelfGuidedLoss(
        model, objective="simcse", distance_weight=0.0, projection="none", temperature=0.05, freeze_embeddings=False
    )
    ranking = MultipleNegativesRankingLoss(model, scale=20)
    ours = loss([features_of(model)])
    ours.backward()
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    theirs = ranking([features_of(model), features_of(model)], labels=None)
    theirs.backward()
    torch.testing.assert_close(ours, theirs)
    trained = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    assert len(gradients) == len(trained) > 60
    torch.testing.assert_close(gradients, trained, atol=1e-6, rtol=1e-4)


def test_simcse_takes_its_views_from_dropout(model):
    loss = SelfGuidedLoss(model.train(), objective="simcse", distance_weight=0.0, projection="none", temperature=0.05)
    assert loss([features_of(model)]).item() != loss([features_of(model)]).item()


# What is saved


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_model_saved_by_the_trainer_is_the_one_that_was_trained(pooling, tiny_bert, trainer_of, tmp_path):
    model = make_model(tiny_bert, pooling)
    trainer = trainer_of(model, SelfGuidedLoss(model, **SMALL), steps=2, learning_rate=1e-3)
    trainer.train()
    trainer.save_model(str(tmp_path / "saved"))
    loaded = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert loaded[1].pooling_mode == pooling
    vectors = model.encode(list(SENTENCES))
    assert (loaded.encode(list(SENTENCES)) == vectors).all()
    ours = PooledEmbedder(load_encoder(tmp_path / "saved"), pooling=pooling).encode(SENTENCES)
    assert ours == pytest.approx(vectors, abs=1e-5)


def test_card_names_loss_settings_and_paper(model, trainer_of, tmp_path):
    trainer = trainer_of(model, SelfGuidedLoss(model, temperature=0.02, **SMALL), steps=2)
    trainer.train()
    trainer.save_model(str(tmp_path / "saved"))
    card = (tmp_path / "saved" / "README.md").read_text(encoding="utf-8")
    assert "SelfGuidedLoss</code> with these parameters" in card and "#### SelfGuidedLoss" in card
    assert '"objective": "sg-opt"' in card and '"temperature": 0.02' in card and '"projection_width": 64' in card
    assert "kim-etal-2021-self" in card and "- loss:SelfGuidedLoss" in card


# The vector that is trained


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_the_vector_of_the_model_is_the_anchor(pooling, tiny_bert):
    """With no head and the last layer as the only view, at the start anchor and view are the same vector."""
    model = without_dropout(make_model(tiny_bert, pooling))
    layer = str(LAYERS)
    loss = SelfGuidedLoss(
        model, objective="opt2", temperature=0.5, projection="none", pooling=pooling, layers=layer, distance_weight=0.0
    )
    vectors = torch.from_numpy(model.encode(list(SENTENCES)))
    expected = objectives.opt2(vectors, vectors, temperature=0.5)
    torch.testing.assert_close(loss([features_of(model)]).detach(), expected)


def test_mean_pooled_model_gets_gradients_through_every_token(tiny_bert):
    """A model whose mean vector is trained; through [CLS] alone the last layer's output at other tokens would get none."""
    gradients = {}
    for pooling in ("mean", "cls"):
        model = without_dropout(make_model(tiny_bert, pooling))
        loss, states = SelfGuidedLoss(model, **SMALL), []

        def keep(module, arguments, output, states=states):
            output.retain_grad()
            states.append(output)

        model[0].auto_model.encoder.layer[-1].register_forward_hook(keep)
        loss([features_of(model)]).backward()
        gradients[pooling] = states[0].grad.abs().sum(dim=(0, 2)) > 0
    assert gradients["mean"].all()
    assert gradients["cls"].tolist() == [True] + [False] * (len(gradients["cls"]) - 1)


def test_normalised_model_is_taken(tiny_bert):
    plain, normalised = make_model(tiny_bert), make_model(tiny_bert, "cls", Normalize())
    values = [SelfGuidedLoss(without_dropout(m), **SMALL)([features_of(m)]).item() for m in (plain, normalised)]
    assert values[0] == values[1]


# Wrong use


def test_two_columns(model, trainer_of):
    texts = {"first": list(SENTENCES), "second": list(SENTENCES)}
    trainer = trainer_of(model, SelfGuidedLoss(model, **SMALL), texts=texts)
    with pytest.raises(InputError, match="2 text columns were given; this loss takes one column of sentences"):
        trainer.train()


def test_unknown_objective(model):
    with pytest.raises(InputError, match="objective 'bt' is not known here; choose one of: sg, opt1, opt2, sg-opt, simcse"):
        SelfGuidedLoss(model, objective="bt")


def test_unknown_projection(model):
    with pytest.raises(InputError, match="projection 'dense' is not known; choose one of: mlp, tanh, none"):
        SelfGuidedLoss(model, projection="dense")


def test_unknown_view_pooling(model):
    with pytest.raises(InputError, match="pooling 'avg' is not known; choose one of: cls, mean, max"):
        SelfGuidedLoss(model, pooling="avg")


def test_layers_that_are_not_there(model):
    with pytest.raises(InputError, match="layers '0-9' is not understood; this encoder has layers 0 to 4"):
        SelfGuidedLoss(model, layers="0-9")


def test_model_without_transformer(tiny_bert):
    words = StaticEmbedding(AutoTokenizer.from_pretrained(tiny_bert).backend_tokenizer, embedding_dim=DIM)
    expected = "the model is made of: StaticEmbedding; this loss needs a Transformer followed by a Pooling"
    with pytest.raises(InputError, match=expected):
        SelfGuidedLoss(SentenceTransformer(modules=[words], device="cpu"))


def test_model_with_a_layer_after_the_pooling(tiny_bert):
    """It would be part of the embedding and stay random."""
    model = make_model(tiny_bert, "cls", Dense(DIM, DIM))
    with pytest.raises(InputError, match="the model is made of: Transformer, Pooling, Dense; this loss needs a Transformer"):
        SelfGuidedLoss(model)


@pytest.mark.parametrize("pooling", ["lasttoken", "weightedmean", ("cls", "mean")])
def test_unsupported_pooling(pooling, tiny_bert):
    with pytest.raises(InputError, match=r"the model's pooling is '.*(token|mean).*'; this loss knows: cls, mean, max"):
        SelfGuidedLoss(make_model(tiny_bert, pooling))


def test_decoder(tiny_folder):
    with pytest.raises(InputError, match="a model of type 'gpt2' is a decoder"):
        SelfGuidedLoss(make_model(tiny_folder("gpt2"), "mean"))


def test_more_than_one_process(model, monkeypatch):
    loss = SelfGuidedLoss(model, **SMALL)
    monkeypatch.setattr(dist, "is_initialized", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    with pytest.raises(InputError, match=r"2 processes train together; .* start one process, or use selfguide train"):
        loss([features_of(model)])
