"""Puts the parts of a run together and lets the loop go."""

import json
import logging
import math
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any, final

import torch
from torch import nn

from selfguide.data.pairs import ScoredPairs
from selfguide.devices import TOKENS_PER_BATCH
from selfguide.embedders.pooled import PooledEmbedder
from selfguide.embedders.protocol import Embedder
from selfguide.encoders.encoder import Encoder
from selfguide.encoders.guide import Guide, parse_layers
from selfguide.encoders.projection import make_projection
from selfguide.encoders.template import template_text, without_template
from selfguide.errors import InputError
from selfguide.files import read_json, write_json
from selfguide.guidance import SelfGuidance
from selfguide.objectives.catalogue import OBJECTIVES
from selfguide.training.batches import BatchMaker, BatchPlan
from selfguide.training.card import RunSummary
from selfguide.training.checkpoints import Checkpoints
from selfguide.training.config import STEPS_WITHOUT_LABELS, TrainingConfig
from selfguide.training.half_weights import HalfWeights
from selfguide.training.loop import Loop, MetricsLog, RunState
from selfguide.training.output import TRACKER_PROJECT, checkpoint_folder
from selfguide.training.processes import from_main
from selfguide.training.progress import Progress
from selfguide.training.schedule import make_optimizer
from selfguide.training.scoring import DevScore
from selfguide.training.selection import Selection
from selfguide.training.stepping import CapturedStep, PlainStep, captured_width
from selfguide.training.text import TrainingText
from selfguide.training.view_cache import ViewCache

logger = logging.getLogger(__name__)

Score = Callable[[Embedder], float]


@final
class Run:
    """One run: what it is made from, and the loop made of that."""

    def __init__(
        self,
        config: TrainingConfig,
        text: TrainingText,
        encoder: Encoder,
        accelerator: Any,  # noqa: ANN401 - accelerate is untyped
        *,
        precision: str,
        pairs: ScoredPairs | None,
        score: Score | None,
        progress: Progress,
    ) -> None:
        self.config, self.text, self.encoder, self.accelerator = config, text, encoder, accelerator
        self.device: torch.device = accelerator.device
        self.precision, self.progress = precision, progress
        self.plan = BatchPlan(
            len(text.sentences),
            config.batch_size,
            seed=config.seed,
            accumulation=config.accumulation,
            process=accelerator.process_index,
            processes=accelerator.num_processes,
        )
        self.folder = checkpoint_folder(Path(config.output).expanduser())
        part = "" if accelerator.is_main_process else f".{accelerator.process_index}"
        self.metrics = MetricsLog(self.folder / f"metrics{part}.jsonl")
        self.score = self._score_function(pairs, score)
        self.steps = self._planned_steps()
        self.state = RunState(Selection(config.patience), torch.Generator().manual_seed(config.seed))
        self.guide = self._guide()
        self.module = self._module()

    def train(self, *, resume: bool) -> RunSummary:
        """Train; gives what there is to tell."""
        if self.config.tracker:
            self.accelerator.init_trackers(TRACKER_PROJECT, config={k: str(v) for k, v in asdict(self.config).items()})
        loop = self._loop()
        self.accelerator.register_for_checkpointing(self.state)
        if resume:
            loop.best = loop.checkpoints.load(self.accelerator)
            before = read_json(self.folder / "before.json")
        else:
            before = self.score() if self.score else None
            if self.accelerator.is_main_process:
                write_json(self.folder / "before.json", before)
        self.metrics.rewind(self.state.step)
        self._announce()
        began = time.monotonic()
        loop.run()
        for tracker in self.accelerator.trackers:
            tracker.finish()
        self.accelerator.trackers.clear()
        return self._summary(before, time.monotonic() - began)

    def _module(self) -> SelfGuidance:
        """The trained module on its device, layer 0 frozen where that is asked for."""
        config = self.config
        if config.freeze_embeddings:
            for parameter in self.encoder.frozen_parameters():
                parameter.requires_grad = False
        projection = make_projection(
            config.projection,
            dim=self.encoder.dim,
            width=config.projection_width,
            std=self.encoder.model.config.initializer_range,
            generator=torch.Generator().manual_seed(config.seed),
        )
        if (config.objective == "simcse" or config.simcse_weight) and not _has_dropout(self.encoder.model):
            logger.warning(
                "SimCSE tells two passes of a sentence apart by dropout; this encoder has none, so both give the same vector"
            )
        return SelfGuidance(
            nn.Module.to(self.encoder.model, self.device),
            projection.to(self.device),
            objective=config.objective,
            temperature=config.temperature,
            distance_weight=config.distance_weight,
            simcse_weight=config.simcse_weight,
            anchor=config.anchor,
            guide=self.guide.model if self.guide else None,
            # a scaler of gradients knows only those of the backward pass, and so do several processes
            distance_in_backward=self.precision == "fp16" or self.accelerator.num_processes > 1,
            unpadded=self.device.type == "cpu",  # a captured step on CUDA has fixed shapes, and time to spare
        )

    def _guide(self) -> Guide | None:
        """The guide, which reads plain sentences also where the encoder has a template."""
        config = self.config
        if not config.uses_guide and not config.distance_weight:
            return None
        layers = parse_layers(config.layers, self.encoder.layer_count)
        plain = without_template(self.encoder)
        guide = Guide(plain, layers=layers, pooling=config.pooling, dropout=config.guide_dropout)
        guide.model.to(self.device)
        return guide

    def _loop(self) -> Loop:
        config = self.config
        optimizer = make_optimizer(
            self.module, betas=(config.beta1, config.beta2), weight_decay=config.weight_decay, device=self.device
        )
        prepared, optimizer = self.accelerator.prepare(self.module, optimizer)
        plain = PlainStep(
            self.accelerator,
            prepared,
            optimizer,
            clip=config.clip,
            forward=HalfWeights(prepared, torch.bfloat16) if self._is_captured() and self.precision == "bf16" else None,
            add_gradient=self.module.add_distance_gradient,
        )
        rows = config.batch_size * (2 if self.module.second_pass else 1)
        return Loop(
            accelerator=self.accelerator,
            encoder=self.encoder.model,
            optimizer=optimizer,
            take_step=CapturedStep(plain, batch_size=rows) if self._is_captured() else plain,
            make_batch=self._batch_maker(),
            state=self.state,
            steps=self.steps,
            accumulation=config.accumulation,
            rate={"peak": config.learning_rate, "warmup": config.warmup},
            score=self.score,
            score_every=config.score_every,
            checkpoints=Checkpoints(
                self.folder, every_steps=config.checkpoint_every, every_minutes=config.checkpoint_minutes
            ),
            metrics=self.metrics,
            progress=self.progress,
        )

    def _is_captured(self) -> bool:
        """Whether the step can be one CUDA graph: a single process and batch, and no scaler that asks the host."""
        is_single = self.accelerator.num_processes == 1 and self.config.accumulation == 1
        return self.device.type == "cuda" and is_single and self.precision != "fp16"

    def _batch_maker(self) -> BatchMaker:
        config = self.config
        guide = self.guide if config.uses_guide else None

        def width_of(longest: int) -> int:
            return min(captured_width(longest), self.encoder.positions) if self._is_captured() else longest

        return BatchMaker(
            self.encoder,
            self.plan,
            self.text.sentences,
            device=self.device,
            guide=guide,
            cache=self._cache(guide) if guide and not guide.has_dropout else None,
            paraphrases=self.text.paraphrases,
            second_pass=self.module.second_pass,
            all_layers=OBJECTIVES[config.objective].all_layers,
            mask_duplicates=config.mask_duplicates and self.text.has_duplicates,
            layer_generator=self.state.layer_generator,
            width_of=width_of,
        )

    def _cache(self, guide: Guide) -> ViewCache:
        return ViewCache(
            guide,
            self.text.sentences if self.text.paraphrases is None else self.text.paraphrases,
            self.plan.positions,
            parts=self.config.accumulation,
            steps=self.steps,
            budget_bytes=self.config.view_cache_mb * 2**20,
            tokens_per_batch=TOKENS_PER_BATCH[self.device.type],
        )

    def _score_function(self, pairs: ScoredPairs | None, score: Score | None) -> Callable[[], float] | None:
        if score is not None and pairs is not None:
            raise InputError("both score and dev were given; choose one of them")
        if score is not None:
            # a new embedder each time: one keeps the hash of its weights, which change from score to score
            return self._in_main(lambda: _finite(score(PooledEmbedder(self.encoder, pooling=self.config.anchor))))
        if pairs is None:
            return None
        return self._in_main(DevScore(self.encoder, pairs, pooling=self.config.anchor))

    def _in_main(self, score: Callable[[], float]) -> Callable[[], float]:
        """The score that the main process works out, for all processes."""
        return lambda: from_main(self.accelerator, score() if self.accelerator.is_main_process else math.nan)

    def _planned_steps(self) -> int:
        config = self.config
        if config.steps:
            return config.steps
        if config.epochs or self.score:
            return self.plan.steps_of(config.epochs or 1)
        return STEPS_WITHOUT_LABELS

    def _announce(self) -> None:
        logger.info("%s", self.text.summary)
        if not (self.config.steps or self.config.epochs or self.score):
            logger.warning(
                "no labelled pairs were given (--dev), so nothing can tell the best step: training stops after %d steps, "
                "where the paper's runs are near their best (--steps changes that); watch the monitors",
                STEPS_WITHOUT_LABELS,
            )

    def _summary(self, before: float | None, seconds: float) -> RunSummary:
        rows = [json.loads(line) for line in self.metrics.path.read_text(encoding="utf-8").splitlines()]
        last = next(row for row in reversed(rows) if "loss" in row)
        selection = self.state.selection
        return RunSummary(
            config=self.config,
            data=self.text.summary,
            steps_taken=self.state.step,
            steps_planned=self.steps,
            processes=self.accelerator.num_processes,
            dim=self.encoder.dim,
            first_token=self.encoder.first_token,
            template=template_text(self.encoder),
            kept_step=selection.best_step if self.score else self.state.step,
            before=before,
            after=selection.best if self.score else None,
            seconds=seconds,
            last={name: value for name, value in last.items() if name != "step"},
        )


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise InputError(f"the score function gave {value}; it must give a finite number, the higher the better")
    return float(value)


def _has_dropout(model: nn.Module) -> bool:
    return any(module.p > 0 for module in model.modules() if isinstance(module, nn.Dropout))
