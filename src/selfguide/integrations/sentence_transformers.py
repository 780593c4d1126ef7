"""Self-guidance as a loss for sentence-transformers' own trainer: the same step as ours, through another door."""

from collections.abc import Iterable
from typing import Any, final

import torch
import torch.distributed as dist
from torch import Tensor, nn

from selfguide.choices import POOLINGS
from selfguide.encoders.encoder import Encoder
from selfguide.encoders.families import family_of
from selfguide.encoders.guide import Guide, parse_layers
from selfguide.encoders.projection import make_projection
from selfguide.errors import InputError
from selfguide.guidance import SelfGuidance


@final
class SelfGuidedLoss(nn.Module):
    """Pulls each sentence's embedding towards the layers of a frozen copy of the model, and away from other sentences'.

    Requirements:
        1. A model of a transformer and a pooling (cls, mean or max; cls is the paper's), on one process.
        2. Sentences alone: one text column, no labels.

    Relations:
        - ``selfguide train`` does the same with a checkpoint of everything (this trainer saves the model, but neither the
          projection nor the layer sampler, so a resumed run goes on with fresh ones), views made once a sentence, and the
          paper's schedule.
        - ``objective="simcse"`` is ``MultipleNegativesRankingLoss`` on (sentence, sentence) at ``scale=20``.

    Example:
        ``SentenceTransformerTrainer(model=model, train_dataset=sentences, loss=SelfGuidedLoss(model)).train()``
    """

    def __init__(
        self,
        model: Any,  # noqa: ANN401 - a SentenceTransformer
        *,
        objective: str = "sg-opt",
        temperature: float = 0.01,
        distance_weight: float = 0.1,
        pooling: str = "max",
        layers: str = "all",
        projection: str = "mlp",
        projection_width: int = 4096,
        freeze_embeddings: bool = True,
        guide_dropout: bool = False,
        seed: int = 1,
    ) -> None:
        """Copy the model as the guide and freeze what is not trained; the defaults are the paper's.

        Args:
            model: The ``SentenceTransformer`` that is trained.
            objective: ``sg``, ``opt1``, ``opt2``, ``sg-opt`` or ``simcse``.
            temperature: Of the cosines; SimCSE's recipe has 0.05.
            distance_weight: Weight of the squared distance between encoder and guide.
            pooling: Pooling of the guide's layers into views.
            layers: Layers of the guide that are views, such as ``all`` or ``4-``.
            projection: Head on anchors and views: ``mlp``, ``tanh`` or ``none``.
            projection_width: Width of the mlp projection.
            freeze_embeddings: Leave layer 0 as it is.
            guide_dropout: Run the guide with dropout.
            seed: Of the projection's weights and the layer sampler.

        Raises:
            InputError: when the model or a name is not one that this loss can work with.
        """
        super().__init__()
        if objective not in ("sg", "opt1", "opt2", "sg-opt", "simcse"):
            raise InputError(f"objective '{objective}' is not known here; choose one of: sg, opt1, opt2, sg-opt, simcse")
        if pooling not in POOLINGS:
            raise InputError(f"pooling '{pooling}' is not known; choose one of: {', '.join(POOLINGS)}")
        encoder, anchor = _encoder_of(model)
        _freeze(encoder, embeddings=freeze_embeddings)
        generator = torch.Generator().manual_seed(seed)
        std = encoder.model.config.initializer_range
        head = make_projection(projection, dim=encoder.dim, width=projection_width, std=std, generator=generator)
        self.model = model
        self.guide = Guide(encoder, layers=parse_layers(layers, encoder.layer_count), pooling=pooling, dropout=guide_dropout)
        self.guidance = SelfGuidance(
            encoder.model,
            head,
            objective=objective,
            temperature=temperature,
            distance_weight=distance_weight,
            anchor=anchor,
            guide=self.guide.model,
        )
        self.layer_generator = generator
        self.settings = {
            "objective": objective,
            "temperature": temperature,
            "distance_weight": distance_weight,
            "pooling": pooling,
            "layers": layers,
            "projection": projection,
            "projection_width": projection_width,
            "freeze_embeddings": freeze_embeddings,
            "guide_dropout": guide_dropout,
            "seed": seed,
        }

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None = None) -> Tensor:
        """The loss of one batch; ``sentence_features`` holds the token ids and mask of one text column.

        Raises:
            InputError: for more than one column, or more than one process.
        """
        _check_single_process()
        features = list(sentence_features)
        if len(features) != 1:
            raise InputError(f"{len(features)} text columns were given; this loss takes one column of sentences")
        ids, mask = features[0]["input_ids"], features[0]["attention_mask"]
        self._follow(ids.device)
        self.guidance.find_moving()
        if self.guidance.second_pass:
            ids, mask = torch.cat([ids, ids]), torch.cat([mask, mask])
        monitors: Tensor = self.guidance(ids, mask, self._views(ids, mask))
        return monitors[0]

    def get_config_dict(self) -> dict[str, Any]:
        """Settings for the model card of sentence-transformers."""
        return self.settings

    @property
    def citation(self) -> str:
        """BibTeX for the model card of sentence-transformers."""
        return """@inproceedings{kim-etal-2021-self,
    title = "Self-Guided Contrastive Learning for {BERT} Sentence Representations",
    author = "Kim, Taeuk and Yoo, Kang Min and Lee, Sang-goo",
    booktitle = "Proceedings of ACL-IJCNLP 2021",
    year = "2021",
}"""

    def _views(self, ids: Tensor, mask: Tensor) -> Tensor | None:
        if self.guidance.objective.second_pass:
            return None
        views = self.guide.views(ids, mask)
        if self.guidance.objective.all_layers:
            return views
        layers = torch.randint(views.shape[1], (len(views),), generator=self.layer_generator).to(views.device)
        return views[torch.arange(len(views), device=views.device), layers]

    def _follow(self, device: torch.device) -> None:
        """Bring the guide to where the trainer has moved the model."""
        if next(self.guide.model.parameters()).device != device:
            self.guide.model.to(device)
            self.guidance.references = [reference.to(device) for reference in self.guidance.references]


def _check_single_process() -> None:
    """Refuse to train a copy of the model in each process that the others never hear of."""
    if dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
        raise InputError(
            f"{dist.get_world_size()} processes train together; the trainer does not average the gradients of this loss "
            "between them: start one process, or use selfguide train, which does"
        )


def _encoder_of(model: Any) -> tuple[Encoder, str]:  # noqa: ANN401 - a SentenceTransformer
    """The transformer of a SentenceTransformer as our encoder, and its pooling."""
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    # a module after the pooling would be part of the embedding, but not trained; a Normalize changes no cosine
    wanted = (Transformer, Pooling, Normalize)[: max(2, len(model))]
    if len(model) != len(wanted) or not all(map(isinstance, model, wanted)):
        names = ", ".join(type(module).__name__ for module in model)
        raise InputError(
            f"the model is made of: {names}; this loss needs a Transformer followed by a Pooling, and at most a Normalize"
        )
    anchor = str(model[1].get_config_dict()["pooling_mode"])
    if anchor not in POOLINGS:
        raise InputError(f"the model's pooling is '{anchor}'; this loss knows: {', '.join(POOLINGS)}")
    transformer = model[0].auto_model
    encoder = Encoder(
        model=transformer,
        tokenizer=model.tokenizer,
        family=family_of(transformer.config),
        name=str(transformer.config.name_or_path),
        max_length=int(model.max_seq_length),
        positions=int(model.max_seq_length),
    )
    return encoder, anchor


def _freeze(encoder: Encoder, *, embeddings: bool) -> None:
    """Freeze layer 0 where asked, and an unused pooler always: weight decay would move it otherwise."""
    pooler = dict(encoder.model.named_children()).get("pooler")
    unused = list(pooler.parameters()) if pooler is not None else []
    for parameter in [*unused, *(encoder.frozen_parameters() if embeddings else [])]:
        parameter.requires_grad = False
