"""Our scores and mteb's: the same numbers from the adapter, from the saved folder and from mteb's command line."""

import sys
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset, DatasetDict
from sentence_transformers import SentenceTransformer
from torch.utils.data import DataLoader

from selfguide import bundled
from selfguide.data.pairs import read_pairs
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.encoders.loading import load_encoder
from selfguide.encoders.saving import save_encoder
from selfguide.errors import MissingExtraError
from selfguide.files import read_json
from selfguide.integrations.mteb import MtebEncoder, main
from selfguide.similarity import paired_cosines, pearson, spearman
from tiny_models import DIM, SENTENCES

mteb = pytest.importorskip("mteb")

from mteb.abstasks import AbsTaskSTS  # noqa: E402 - after the check that it is there
from mteb.abstasks.task_metadata import TaskMetadata  # noqa: E402
from mteb.cli.build_cli import build_cli  # noqa: E402
from mteb.models import EncoderProtocol, ModelMeta, SentenceTransformerEncoderWrapper  # noqa: E402

# when it wraps a SentenceTransformer, mteb warns of a default of its own, and calls a method by its old name
pytestmark = [
    pytest.mark.filterwarnings("ignore:The fill_missing parameter is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The `get_sentence_embedding_dimension` method has been renamed:FutureWarning"),
]

TASK = "SelfguideLocalPairs"
PAIRS = read_pairs(bundled.TEST_PAIRS)
FIRST, SECOND, GOLD = (list(column[:30]) for column in (PAIRS.sentences1, PAIRS.sentences2, PAIRS.scores))


class LocalPairs(AbsTaskSTS):
    """30 bundled pairs; nothing is fetched."""

    min_score, max_score = 0, 5
    metadata = TaskMetadata(
        name=TASK,
        dataset={"path": "selfguide/local-pairs", "revision": "1"},
        description="Graded pairs that ship with selfguide.",
        type="STS",
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score="cosine_spearman",
    )

    def load_data(self, num_proc=None, **kwargs):
        columns = {"sentence1": FIRST, "sentence2": SECOND, "score": GOLD}
        self.dataset = DatasetDict({"test": Dataset.from_dict(columns)})
        self.data_loaded = True


@pytest.fixture(params=["cls", "mean"])
def embedder(request, tiny_bert):
    return PooledEmbedder(load_encoder(tiny_bert), pooling=request.param)


@pytest.fixture
def folder(embedder, tmp_path):
    path = tmp_path / "my-encoder"
    path.mkdir()
    save_encoder(embedder.encoder, path, pooling=embedder.pooling)
    return path


@pytest.fixture
def ours(embedder):
    """Spearman and Pearson of our cosines, as parts of 1."""
    cosines = paired_cosines(embedder.encode(FIRST), embedder.encode(SECOND))
    return {"cosine_spearman": spearman(cosines, GOLD) / 100, "cosine_pearson": pearson(cosines, GOLD) / 100}


def scores_by_mteb(model, cache):
    result = mteb.evaluate(model, LocalPairs(), cache=mteb.ResultCache(cache), show_progress_bar=False)
    return of_interest(result.task_results[0].scores)


def of_interest(scores):
    return {name: scores["test"][0][name] for name in ("cosine_spearman", "cosine_pearson")}


def test_the_adapter_gives_our_scores(embedder, ours, tmp_path):
    assert scores_by_mteb(MtebEncoder(embedder), tmp_path) == pytest.approx(ours, abs=1e-4)


def test_the_saved_folder_gives_our_scores(folder, ours, tmp_path):
    model = SentenceTransformer(str(folder), device="cpu")
    assert scores_by_mteb(model, tmp_path / "cache") == pytest.approx(ours, abs=1e-4)


def test_other_vectors_give_other_scores(embedder, ours, tmp_path):
    """So that the two above do not agree on whatever they are given."""
    inner = PooledEmbedder(embedder.encoder, pooling=embedder.pooling, layer=1)
    assert scores_by_mteb(MtebEncoder(inner), tmp_path) != pytest.approx(ours, abs=1e-3)


def meta_of(folder):
    """What mteb's ``get_model`` makes of such a folder where it lies on the hub."""
    return ModelMeta.create_empty({"loader": SentenceTransformerEncoderWrapper, "name": str(folder)})


def test_mtebs_loader_gives_our_vectors(embedder, folder):
    theirs = meta_of(folder).load_model(device="cpu")
    vectors = theirs.encode(
        DataLoader(Dataset.from_dict({"text": SENTENCES}), batch_size=4),
        task_metadata=LocalPairs.metadata,
        hf_split="test",
        hf_subset="default",
        show_progress_bar=False,
    )
    np.testing.assert_allclose(vectors, embedder.encode(SENTENCES), atol=1e-5)


def test_mtebs_command_gives_our_scores(folder, ours, tmp_path, monkeypatch):
    """``mteb run``, with the folder and the task in mteb's lists: it has no way to name a folder or a task of one's own."""
    monkeypatch.setitem(sys.modules["mteb.models.get_model_meta"].MODEL_REGISTRY, str(folder), meta_of(folder))
    monkeypatch.setitem(sys.modules["mteb.get_tasks"]._TASKS_REGISTRY, TASK, LocalPairs)
    words = ["run", "-m", str(folder), "-t", TASK, "--output-folder", str(tmp_path / "out")]
    arguments = build_cli().parse_args(words)
    arguments.func(arguments)
    (written,) = Path(tmp_path / "out").rglob(f"{TASK}.json")
    assert of_interest(read_json(written)["scores"]) == pytest.approx(ours, abs=1e-4)


def test_mtebs_command_takes_a_folder_through_us(folder, ours, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules["mteb.get_tasks"]._TASKS_REGISTRY, TASK, LocalPairs)
    registry = sys.modules["mteb.models.get_model_meta"].MODEL_REGISTRY
    monkeypatch.setattr(sys.modules["mteb.models.get_model_meta"], "MODEL_REGISTRY", dict(registry))
    main(["run", "-m", str(folder), "-t", TASK, "--output-folder", str(tmp_path / "out")])
    (written,) = Path(tmp_path / "out").rglob(f"{TASK}.json")
    assert of_interest(read_json(written)["scores"]) == pytest.approx(ours, abs=1e-4)


# mteb looks for the name on the hub, and warns that there is none
@pytest.mark.filterwarnings("ignore:Could not find model:UserWarning")
def test_mtebs_command_refuses_a_folder_that_it_does_not_know(folder):
    """As docs/evaluation.md says; should a new mteb take it, the page can say so."""
    with pytest.raises(NotImplementedError, match="No model implementation"):
        mteb.get_model(str(folder))


def test_the_adapter_is_what_mteb_calls_an_encoder(embedder):
    model = MtebEncoder(embedder)
    vectors = embedder.encode(SENTENCES)
    assert isinstance(model, EncoderProtocol)
    assert vectors.shape == (len(SENTENCES), DIM)
    table = np.asarray(model.similarity(vectors, vectors[::-1].copy()))
    pairs = np.asarray(model.similarity_pairwise(vectors, vectors[::-1].copy()))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    np.testing.assert_allclose(table, unit @ unit[::-1].T, atol=1e-5)
    np.testing.assert_allclose(pairs, table.diagonal(), atol=1e-5)


def test_cached_scores_are_only_those_of_the_same_vectors(embedder):
    def revision(embedder):
        return MtebEncoder(embedder).mteb_model_meta.revision

    class Unknown:
        name, protocol = "unknown", {}

    assert revision(embedder) == revision(embedder)
    assert revision(embedder) != revision(PooledEmbedder(embedder.encoder, pooling="max"))
    assert revision(Unknown()) != revision(Unknown())


def test_without_mteb_the_extra_is_named(embedder, monkeypatch):
    monkeypatch.setitem(sys.modules, "mteb", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'selfguide\[mteb\]'"):
        MtebEncoder(embedder)
