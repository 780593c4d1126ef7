"""Which sentences a step reads, and the batch that is made of them."""

import math
from collections.abc import Callable
from typing import final

import torch

from selfguide.data.texts import Texts
from selfguide.devices import sent
from selfguide.encoders.encoder import Encoder
from selfguide.encoders.guide import Guide
from selfguide.guidance import StepInputs
from selfguide.training.view_cache import ViewCache


@final
class BatchPlan:
    """The order of the sentences over the whole run: a function of seed and step alone, so that nothing is lost on resume.

    Each epoch is a fresh permutation, cut into batches; the last, smaller one is kept unless it holds a single sentence,
    which would have no negatives.
    """

    def __init__(
        self, sentences: int, batch_size: int, *, seed: int, accumulation: int = 1, process: int = 0, processes: int = 1
    ) -> None:
        self.sentences = sentences
        self.batch_size = batch_size
        self.seed = seed
        self.accumulation = accumulation
        self.process, self.processes = process, processes
        self.batches_per_epoch = sentences // batch_size + (sentences % batch_size > 1)
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.long)

    def steps_of(self, epochs: int) -> int:
        """Steps that so many epochs take."""
        return math.ceil(epochs * self.batches_per_epoch / (self.accumulation * self.processes))

    def positions(self, step: int, part: int = 0) -> list[int]:
        """Positions of the sentences of a batch: step and part (of ``accumulation``) count from 0."""
        number = (step * self.accumulation + part) * self.processes + self.process
        epoch, batch = divmod(number, self.batches_per_epoch)
        if epoch != self._epoch:
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + epoch)
            self._epoch, self._order = epoch, torch.randperm(self.sentences, generator=generator)
        return self._order[batch * self.batch_size : (batch + 1) * self.batch_size].tolist()


@final
class BatchMaker:
    """Makes the inputs of a step: token ids, views of the guide, and which sentences are the same."""

    def __init__(
        self,
        encoder: Encoder,
        plan: BatchPlan,
        sentences: Texts,
        *,
        device: torch.device,
        guide: Guide | None,
        cache: ViewCache | None,
        paraphrases: Texts | None = None,
        second_pass: bool = False,
        all_layers: bool = True,
        mask_duplicates: bool = False,
        layer_generator: torch.Generator | None = None,
        width_of: Callable[[int], int] = lambda longest: longest,
    ) -> None:
        """Keep the parts.

        Args:
            encoder: For its tokenizer; the guide has one of its own.
            plan: The order of the sentences.
            sentences: What the encoder reads.
            device: Where the inputs go.
            guide: Gives the views, unless the objective has none.
            cache: Views made ahead, for a guide without dropout.
            paraphrases: Of each sentence: read by the encoder in the second pass, else by the guide.
            second_pass: Put every sentence, or its paraphrase, into the batch once more.
            all_layers: Give the views of all layers; otherwise one, drawn for each sentence.
            mask_duplicates: Mark identical sentences of a batch.
            layer_generator: Draws the layers.
            width_of: Longest row of a batch -> tokens to pad to.
        """
        self.encoder, self.plan, self.sentences = encoder, plan, sentences
        self.device, self.guide, self.cache = device, guide, cache
        self.paraphrases, self.second_pass, self.all_layers = paraphrases, second_pass, all_layers
        self.mask_duplicates, self.layer_generator, self.width_of = mask_duplicates, layer_generator, width_of

    def __call__(self, step: int, part: int = 0) -> StepInputs:
        """The inputs of one batch."""
        positions = self.plan.positions(step, part)
        texts = [self.sentences[position] for position in positions]
        rows = self.encoder.tokenize(texts)
        if self.second_pass:
            reads_paraphrases = self.paraphrases is not None and self.guide is None
            rows = rows + (self.encoder.tokenize(self._paraphrases(positions)) if reads_paraphrases else rows)
        ids, mask = self.encoder.pad(rows, self.width_of(max(len(row) for row in rows)))
        return StepInputs(
            ids=sent(ids, self.device),
            mask=sent(mask, self.device),
            views=self._views(step, part, positions, texts),
            same=self._same(texts),
        )

    def _views(self, step: int, part: int, positions: list[int], texts: list[str]) -> torch.Tensor | None:
        if self.guide is None:
            return None
        if self.cache is not None:
            views = self.cache(step, part)
        else:
            guided = texts if self.paraphrases is None else self._paraphrases(positions)
            reader = self.guide.encoder
            ids, mask = reader.pad(reader.tokenize(guided))
            views = self.guide.views(ids.to(self.device), mask.to(self.device))
        if self.all_layers:
            return views
        layers = torch.randint(views.shape[1], (len(views),), generator=self.layer_generator)
        layers = sent(layers, views.device)
        return views[torch.arange(len(views), device=views.device), layers]

    def _paraphrases(self, positions: list[int]) -> list[str]:
        assert self.paraphrases is not None
        return [self.paraphrases[position] for position in positions]

    def _same(self, texts: list[str]) -> torch.Tensor | None:
        if not self.mask_duplicates:
            return None
        numbers: dict[str, int] = {}
        group = torch.tensor([numbers.setdefault(text, len(numbers)) for text in texts])
        return sent(group.unsqueeze(0) == group.unsqueeze(1), self.device)
