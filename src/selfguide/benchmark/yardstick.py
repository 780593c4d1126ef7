"""The yardsticks that our training step is measured against, as code, so that everyone means the same.

*The paper's way*: eager float32 without TF32, the guide run each step with all hidden states, AdamW as a loop over the
parameters, the distance as a Python loop over the parameters, 16 sentences padded to 32 tokens. *Plain today*: the same with
TF32, the fused AdamW and multi-tensor operations. Written straight from the formulas; nothing of selfguide's step is used.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import final

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer

from selfguide.data.pairs import ScoredPairs
from selfguide.encoders.loading import locate
from selfguide.similarity import spearman

BATCH = 16
TOKENS = 32
TEMPERATURE = 0.01
DISTANCE_WEIGHT = 0.1
SCORE_EVERY = 50


@final
class Yardstick:
    """A self-guided training step (sg-opt, all layers, max pooling) as one would write it down first."""

    def __init__(self, model: str, device: str, *, today: bool) -> None:
        self.device, self.today = torch.device(device), today
        folder = locate(model).location
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        self.encoder = AutoModel.from_pretrained(folder, dtype=torch.float32).to(self.device).train()
        self.guide = copy.deepcopy(self.encoder).requires_grad_(False).eval()
        self.encoder.embeddings.requires_grad_(False)
        dim = self.encoder.config.hidden_size
        self.projection = nn.Sequential(nn.Linear(dim, 4096), nn.GELU(), nn.Linear(4096, 4096), nn.GELU()).to(self.device)
        self.trained = [p for m in (self.encoder, self.projection) for p in m.parameters() if p.requires_grad]
        fast = {"fused": True} if today else {"foreach": False}
        self.optimizer = torch.optim.AdamW(self.trained, lr=5e-5, betas=(0.9, 0.9), weight_decay=0.01, **fast)

    def batches(self, sentences: Sequence[str], count: int) -> list[list[str]]:
        """So many batches of sentences in random order."""
        order = torch.randperm(len(sentences), generator=torch.Generator().manual_seed(1)).tolist() * (
            1 + count * BATCH // len(sentences)
        )
        return [[sentences[place] for place in order[n * BATCH : (n + 1) * BATCH]] for n in range(count)]

    def run(self, sentences: Sequence[str], dev: ScoredPairs, *, steps: int) -> float:
        """Train for so many steps with a dev score every 50; gives the best."""
        best = self.score(dev)
        for number, batch in enumerate(self.batches(sentences, steps), start=1):
            self.step(batch)
            if number % SCORE_EVERY == 0 or number == steps:
                best = max(best, self.score(dev))
        return best

    @torch.no_grad()
    def score(self, dev: ScoredPairs) -> float:
        """Spearman of the cosines of the pairs' [CLS] vectors, the sentences sorted by length as usual."""
        sentences = [*dev.sentences1, *dev.sentences2]
        order = sorted(range(len(sentences)), key=lambda place: len(sentences[place]))
        vectors: list[Tensor] = [torch.empty(0)] * len(sentences)
        longest = min(128, self.encoder.config.max_position_embeddings)
        self.encoder.eval()
        for start in range(0, len(order), 2 * BATCH):
            places = order[start : start + 2 * BATCH]
            some = [sentences[place] for place in places]
            batch = self.tokenizer(some, padding=True, truncation=True, max_length=longest, return_tensors="pt")
            for place, vector in zip(
                places, self.encoder(**batch.to(self.device)).last_hidden_state[:, 0].cpu(), strict=True
            ):
                vectors[place] = vector
        self.encoder.train()
        left, right = torch.stack(vectors).chunk(2)
        return spearman(F.cosine_similarity(left, right).numpy(), dev.scores)

    def step(self, sentences: list[str]) -> float:
        """Take one training step; gives the loss, and so waits for the device."""
        with matmul_precision("high" if self.today else "highest"):
            return self._step(sentences)

    def _step(self, sentences: list[str]) -> float:
        batch = self.tokenizer(sentences, padding="max_length", truncation=True, max_length=TOKENS, return_tensors="pt")
        batch = batch.to(self.device)
        with torch.no_grad():
            hidden = self.guide(**batch, output_hidden_states=True).hidden_states
        padding = batch["attention_mask"].unsqueeze(-1) == 0
        views = torch.stack([layer.masked_fill(padding, -1e9).amax(dim=1) for layer in hidden], dim=1)
        anchors = self.encoder(**batch).last_hidden_state[:, 0]
        loss = self._objective(self.projection(anchors), self.projection(views)) + DISTANCE_WEIGHT * self._distance()
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(self.trained, 1.0, foreach=self.today)
        self.optimizer.step()
        return loss.item()

    def _objective(self, anchors: Tensor, views: Tensor) -> Tensor:
        anchors, views = F.normalize(anchors, dim=-1), F.normalize(views, dim=-1)
        cosines = torch.einsum("id,jkd->ijk", anchors, views) / TEMPERATURE
        own = torch.eye(len(anchors), dtype=torch.bool, device=anchors.device)
        positives = cosines[own]  # (batch, layers)
        negatives = cosines.masked_fill(own.unsqueeze(-1), -1e9).flatten(1).logsumexp(dim=1, keepdim=True)
        return (torch.logaddexp(negatives, positives) - positives).mean()

    def _distance(self) -> Tensor:
        pairs = list(zip(self.encoder.parameters(), self.guide.parameters(), strict=True))
        if self.today:
            differences = torch._foreach_sub([p for p, _ in pairs], [g for _, g in pairs])
            return torch.stack(torch._foreach_norm(differences)).square().sum()
        total = torch.zeros((), device=self.device)
        for parameter, reference in pairs:
            total = total + ((parameter - reference) ** 2).sum()
        return total


@contextmanager
def matmul_precision(name: str) -> Iterator[None]:
    """Set torch's float32 matrix precision for a block."""
    earlier = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(name)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(earlier)
