"""Any embedder as a model of mteb, so that its tasks score what ``selfguide evaluate`` scores.

``python -m selfguide.integrations.mteb run -m FOLDER -t TASK`` is mteb's own command, which by itself knows no local folder.
"""

import hashlib
import json
import uuid
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, final

import numpy as np
import numpy.typing as npt

from selfguide.embedders.loading import load
from selfguide.embedders.protocol import Embedder
from selfguide.errors import MissingExtraError


@final
class MtebEncoder:
    """An embedder with the methods that mteb asks of an encoder (its ``EncoderProtocol``), compared by cosines.

    mteb keeps scores in a cache by a model's name and revision. The revision here is a hash of the embedder's protocol;
    an embedder that does not say what its weights are gets a new one each time, and is always scored.

    Example:
        ``mteb.evaluate(MtebEncoder(selfguide.load("my-encoder")), mteb.get_tasks(tasks=["STSBenchmark"]))``
    """

    def __init__(self, embedder: Embedder) -> None:
        """Wrap an embedder where it is.

        Raises:
            MissingExtraError: when mteb is not installed.
        """
        models = _import_mteb("mteb.models.model_meta")
        self.embedder = embedder
        protocol = embedder.protocol
        self.mteb_model_meta = models.ModelMeta.create_empty(
            {
                # mteb wants organization/name, and makes a file name of it
                "name": f"selfguide/{embedder.name.replace('/', '_')}",
                "revision": _revision(protocol),
                "max_tokens": protocol.get("max_length"),
                "similarity_fn_name": models.ScoringFunction.COSINE,
            }
        )

    def encode(
        self,
        inputs: Iterable[dict[str, Any]],
        *,
        task_metadata: Any,  # noqa: ANN401 - mteb's TaskMetadata
        hf_split: str,
        hf_subset: str,
        prompt_type: Any = None,  # noqa: ANN401 - mteb's PromptType
        **kwargs: Any,  # noqa: ANN401 - mteb's EncodeKwargs
    ) -> npt.NDArray[np.float32]:
        """Vectors of the sentences under ``text`` of all batches, ``(n, dim)``, in the order given.

        What else mteb tells (the task, a prompt's type, a batch size) changes nothing: there are no prompts, and embedders
        make batches of their own.
        """
        return self.embedder.encode([text for batch in inputs for text in batch["text"]])

    def similarity(self, embeddings1: Any, embeddings2: Any) -> Any:  # noqa: ANN401 - mteb's Array
        """Cosine of each row of one with each row of the other."""
        return _import_mteb("mteb.similarity_functions").cos_sim(embeddings1, embeddings2)

    def similarity_pairwise(self, embeddings1: Any, embeddings2: Any) -> Any:  # noqa: ANN401 - mteb's Array
        """Cosine of each row of one with the same row of the other."""
        return _import_mteb("mteb.similarity_functions").pairwise_cos_sim(embeddings1, embeddings2)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run mteb's command; a model that is a local folder or file is loaded as :func:`selfguide.load` does.

    Raises:
        InputError: when there is something at the path, but no embedder.
        MissingExtraError: when mteb is not installed.
    """
    parsed = _import_mteb("mteb.cli.build_cli").build_cli().parse_args(arguments)
    name = getattr(parsed, "model", None)
    if isinstance(name, str) and Path(name).expanduser().exists():
        model = MtebEncoder(load(name))
        meta = model.mteb_model_meta.model_copy(update={"loader": lambda *_, **__: model})
        _import_mteb("mteb.models.get_model_meta").MODEL_REGISTRY[meta.name] = meta
        parsed.model = meta.name
    parsed.func(parsed)


def _revision(protocol: dict[str, Any]) -> str:
    if "weights" not in protocol:
        return uuid.uuid4().hex
    return hashlib.sha256(json.dumps(protocol, sort_keys=True).encode()).hexdigest()


def _import_mteb(module: str) -> Any:  # noqa: ANN401 - a module that need not be there
    try:
        import_module("mteb")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"scoring with mteb needs a package that is not installed ({error.name}): pip install 'selfguide[mteb]'"
        ) from error
    return import_module(module)


if __name__ == "__main__":
    main()
