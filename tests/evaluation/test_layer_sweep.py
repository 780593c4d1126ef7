import pytest

from selfguide.embedders.pooled import PooledEmbedder
from selfguide.encoders import encoder as encoders
from selfguide.encoders.loading import load_encoder
from selfguide.errors import InputError
from selfguide.evaluation.config import EvaluationConfig
from selfguide.evaluation.families import PlannedTask
from selfguide.evaluation.layer_sweep import sweep_layers
from selfguide.evaluation.suite import plan_tasks, run_suite
from selfguide.pooling import POOLINGS
from tiny_models import LAYERS


@pytest.fixture
def embedder(tiny_bert):
    return PooledEmbedder(load_encoder(tiny_bert))


@pytest.fixture
def config(tiny_sts, tiny_bert, tmp_path):
    return EvaluationConfig(model=str(tiny_bert), data=str(tiny_sts), sweep=True, output=str(tmp_path / "scores.jsonl"))


@pytest.fixture
def planned(config):
    return plan_tasks(config)[0]


def test_every_layer_and_pooling_as_if_scored_alone(embedder, config, planned):
    swept = {row.embedder: row for row in sweep_layers(embedder, planned, config) if row.metric == "spearman"}
    assert len(swept) == (LAYERS + 1) * len(POOLINGS) - 1
    for pooling in POOLINGS:
        for layer in range(LAYERS + 1):
            alone = PooledEmbedder(embedder.encoder, pooling=pooling, layer=layer)
            if (layer, pooling) == (0, "cls"):
                assert alone.name not in swept
                with pytest.raises(InputError, match=r"its vectors are constant"):
                    run_suite(alone, planned, EvaluationConfig(data=config.data))
                continue
            (row, *_) = run_suite(alone, planned, EvaluationConfig(data=config.data))
            assert swept[alone.name].value == pytest.approx(row.value, abs=1e-6)
            assert swept[alone.name].protocol == {**row.protocol, "swept": True}


def test_the_text_goes_through_the_encoder_once_and_known_rows_not_at_all(embedder, config, planned, monkeypatch):
    seen = []
    run_states = encoders.run_states

    def counted(model, ids, mask):
        seen.append(len(ids))
        return run_states(model, ids, mask)

    monkeypatch.setattr("selfguide.evaluation.layer_sweep.run_states", counted)
    rows = sweep_layers(embedder, planned, config)
    assert sum(seen) == len(set(planned[0].task.sentences()))
    assert sweep_layers(embedder, planned, config) == rows
    assert sum(seen) == len(set(planned[0].task.sentences()))


def test_tasks_that_train_are_refused(embedder, config, planned):
    with pytest.raises(InputError, match="a sweep is for STS; STS-B would train a classifier"):
        sweep_layers(embedder, [PlannedTask(planned[0].task, metrics=("accuracy",), is_seeded=True)], config)
