"""Fine-tuning an encoder as a classifier of one text or two: inputs, head, training loop, predictions. Knows no data set."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F  # noqa: N812 - torch's own convention
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from selfguide.encoders.encoder import Encoder
from selfguide.errors import InputError, SelfguideError

HEAD = "dense+tanh+dropout+linear"
"""The head on the last state of the first token, drawn afresh: BERT's usual one without its pretrained pooler."""

ClassNumbers = npt.NDArray[np.int64]


@final
@dataclass(frozen=True)
class FineTuning:
    """Settings of a fine-tuning, but for the learning rate and the seed."""

    epochs: int = 3
    batch_size: int = 32
    max_length: int = 128
    """Tokens kept of an input, special tokens included; fewer where the encoder has fewer positions."""
    warmup: float = 0.1
    """Share of the steps over which the learning rate rises, before it falls to 0; both linearly."""
    weight_decay: float = 0.01
    """AdamW's, of matrices only: not of biases and norms."""
    clip: float = 1.0
    """Largest norm of the gradient."""
    dropout: float = 0.1
    """Dropout in the head; the encoder has its own."""
    precision: str = "float32"
    """``float32``, or ``bf16`` for mixed precision in training; predictions are made in float32."""

    def __post_init__(self) -> None:
        for name, value, least in (
            ("epochs", self.epochs, 1),
            ("batch size", self.batch_size, 1),
            ("max length", self.max_length, 8),
        ):
            if value < least:
                raise InputError(f"{name} {value} was asked for; fine-tuning needs at least {least}")


@final
class EncodedTexts:
    """Texts as the encoder takes them, padded once and kept on the device, where a batch is an index and a cut."""

    def __init__(self, encoder: Encoder, texts: Sequence[tuple[str, ...]], *, max_length: int, device: torch.device) -> None:
        """Encode texts, or pairs of them as two segments, cut from the longer one.

        Raises:
            InputError: when the tokenizer does not begin an input with the token that the head reads.
        """
        tokenizer, config = encoder.tokenizer, encoder.model.config
        encoded = tokenizer(
            *(list(column) for column in zip(*texts, strict=True)),
            truncation=True,
            max_length=min(max_length, encoder.positions),
            padding=True,
            padding_side="right",
            return_token_type_ids=getattr(config, "type_vocab_size", 0) > 1,
            return_attention_mask=True,
            return_tensors="pt",
        )
        if (encoded["input_ids"][:, 0] != tokenizer.cls_token_id).any():
            raise InputError(
                f"the tokenizer of '{encoder.name}' does not begin an input of {len(texts[0])} texts with "
                f"{encoder.family.first_token}, whose state is classified; its post-processor has no template for that"
            )
        self.device = device
        self.lengths: Tensor = encoded["attention_mask"].sum(dim=1)
        self.tensors: dict[str, Tensor] = {name: tensor.to(device) for name, tensor in encoded.items()}

    def __len__(self) -> int:
        return len(self.lengths)

    def batches(self, order: Tensor, size: int) -> Iterator[tuple[Tensor, dict[str, Tensor]]]:
        """Yield batches in the order given, positions and inputs on the device, without waiting for it."""
        lengths, order = self.lengths[order], order.to(self.device)
        for start in range(0, len(order), size):
            part = slice(start, start + size)
            width = -(-int(lengths[part].max()) // 8) * 8  # few shapes, and those that suit tensor cores
            positions = order[part]
            yield positions, {name: tensor[positions, :width] for name, tensor in self.tensors.items()}


@final
class Classifier(nn.Module):
    """A transformer with a fresh head on the last state of its first token."""

    def __init__(self, encoder: nn.Module, *, dim: int, classes: int, dropout: float) -> None:
        super().__init__()
        self.encoder, self.classes = encoder, classes
        dense, output = nn.Linear(dim, dim), nn.Linear(dim, classes)
        self.head = nn.Sequential(dense, nn.Tanh(), nn.Dropout(dropout), output)
        for layer in (dense, output):
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)

    def forward(self, batch: dict[str, Tensor]) -> Tensor:
        """Logits ``(batch, classes)``."""
        logits: Tensor = self.head(self.encoder(**batch).last_hidden_state[:, 0])
        return logits


def fine_tune(
    encoder: Encoder,
    inputs: EncodedTexts,
    labels: Sequence[int],
    *,
    classes: int,
    learning_rate: float,
    settings: FineTuning,
    seed: int,
    progress: Callable[[int, int], None] = lambda step, steps: None,
) -> Classifier:
    """Train a copy of the encoder with a new head; the encoder itself and the global random state stay as they are.

    The seed determines head, order and dropout; on a CPU it gives the same bits each time.

    Args:
        encoder: What to start from.
        inputs: The texts to train on; the classifier is trained on their device.
        labels: The class of each.
        classes: Number of classes.
        learning_rate: The highest learning rate, after the warm-up.
        settings: The others.
        seed: Of all that is random.
        progress: Told the steps done and all steps, after each.

    Returns:
        The classifier after the last epoch.
    """
    device, step = inputs.device, 0
    steps = settings.epochs * -(-len(inputs) // settings.batch_size)
    targets = torch.tensor(labels, device=device)
    with _seeded(seed), _attention_without_plans():
        model = copy.deepcopy(encoder.model)
        classifier = Classifier(model, dim=encoder.dim, classes=classes, dropout=settings.dropout).to(device).train()
        optimizer = _make_optimizer(classifier, settings.weight_decay)
        for _ in range(settings.epochs):
            # the order is drawn on the CPU: the same on every device
            for positions, batch in inputs.batches(torch.randperm(len(inputs)), settings.batch_size):
                for group in optimizer.param_groups:
                    group["lr"] = learning_rate * rate_factor(step, steps=steps, warmup=settings.warmup)
                with torch.autocast(device.type, torch.bfloat16, enabled=settings.precision == "bf16"):
                    loss = F.cross_entropy(classifier(batch), targets[positions])
                loss.backward()  # type: ignore[no-untyped-call]
                nn.utils.clip_grad_norm_(classifier.parameters(), settings.clip)
                optimizer.step()
                optimizer.zero_grad()
                step += 1
                progress(step, steps)
    return classifier


@torch.no_grad()
def predict(classifier: Classifier, inputs: EncodedTexts, *, batch_size: int = 256) -> ClassNumbers:
    """The class of each input, in float32 and without dropout.

    Raises:
        SelfguideError: when a logit is not finite, so that there is no class to speak of.
    """
    order = inputs.lengths.argsort(stable=True)
    logits = torch.empty(len(inputs), classifier.classes, device=inputs.device)
    classifier.train(False)
    with _attention_without_plans():
        for positions, batch in inputs.batches(order, batch_size):
            logits[positions] = classifier(batch)
    if not logits.isfinite().all():
        raise SelfguideError("the fine-tuned classifier gives logits that are not finite; lower the learning rate")
    return np.asarray(logits.argmax(dim=1).cpu().numpy(), dtype=np.int64)


def rate_factor(step: int, *, steps: int, warmup: float) -> float:
    """Share of the highest learning rate at a step (counted from 0): a linear rise, then linearly to 0."""
    rise = int(warmup * steps)
    return step / rise if step < rise else (steps - step) / max(1, steps - rise)


def _make_optimizer(module: nn.Module, weight_decay: float) -> torch.optim.AdamW:
    parameters = list(module.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, fused=parameters[0].device.type in ("cpu", "cuda"))


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    with torch.random.fork_rng(devices=range(torch.cuda.device_count())):
        torch.manual_seed(seed)
        yield


@contextmanager
def _attention_without_plans() -> Iterator[None]:
    """Leave out cuDNN's attention, which makes a plan for every new shape, half a second each."""
    with sdpa_kernel([SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]):
        yield
