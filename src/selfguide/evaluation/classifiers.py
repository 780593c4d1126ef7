"""Many small classifiers trained at once: the folds and L2 values of a task are one batched problem.

A problem is one classifier: a split of the rows and an L2 value. The problems of a split start from the same weights and see
the same batches, so that one gather of rows and one wide matrix product serve them all. Every few epochs each problem is
scored on its validation rows; those that stop improving leave the batch.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

Parameters = list[Tensor]
"""Weight and bias of each layer: ``(splits, problems, out, in)`` and ``(splits, problems, out)``."""

GROUP_BYTES = {"cpu": 12 * 2**20, "cuda": 8 * 2**30}
"""What the problems that run together may take: on a CPU they must stay in its cache."""


@final
@dataclass(frozen=True)
class Recipe:
    """How a classifier is trained; the defaults are SentEval's, with the paper's hidden layer (table 9)."""

    hidden: int = 50
    """Units of the hidden layer, which has a sigmoid; 0 is logistic regression."""
    batch: int = 64
    epoch_size: int = 4
    """Epochs from one validation score to the next."""
    tenacity: int = 5
    """Scores without a gain that are forgiven, over the whole training; the next one stops it."""
    max_epochs: int = 200
    """No further round begins past this."""
    learning_rate: float = 1e-3


@final
@dataclass(frozen=True)
class Split:
    """Row numbers to train on, and those whose accuracy decides when to stop."""

    train: Tensor
    validation: Tensor


@final
@dataclass(frozen=True)
class Examples:
    """Features ``(n, dim)`` and labels ``(n,)`` from 0 to ``classes - 1``, on the device that trains."""

    features: Tensor
    labels: Tensor
    classes: int


@final
class RowSets:
    """Sets of row numbers of unequal size as one table, ``(sets, longest)``, filled up with row 0."""

    def __init__(self, sets: Sequence[Tensor], device: torch.device) -> None:
        self.rows = pad_sequence(list(sets), batch_first=True).to(device)
        self.counts = torch.tensor([len(rows) for rows in sets], device=device)

    @property
    def is_filler(self) -> Tensor:
        """Which entries are not of the set, ``(sets, longest)``."""
        return torch.arange(self.rows.shape[1], device=self.rows.device) >= self.counts.unsqueeze(1)


@final
@dataclass(frozen=True)
class Fitted:
    """Trained classifiers, each with the weights of its best validation score."""

    parameters: Parameters
    accuracy: Tensor
    """Best validation accuracy of each, ``(splits, problems)``, on the CPU."""
    rounds: Tensor
    """Rounds of ``epoch_size`` epochs that each was trained for, ``(splits, problems)``, on the CPU."""

    def score(self, examples: Examples, rows: Sequence[Tensor]) -> Tensor:
        """Accuracy on rows, one set for each split: ``(splits, problems)``, on the CPU."""
        return accuracy(self.parameters, examples, RowSets(rows, examples.features.device)).cpu()


def fit(
    examples: Examples, splits: Sequence[Split], penalties: Tensor, *, recipe: Recipe, generator: torch.Generator
) -> Fitted:
    """Train a classifier for every split and L2 value.

    Args:
        examples: The data of all splits.
        splits: Rows of each split.
        penalties: L2 values of each split, ``(splits, problems)``: Adam's weight decay, part of the gradient.
        recipe: Size of the classifier and rules of the training.
        generator: A CPU generator that all initial weights and orders are drawn from. What a split draws depends on its
            number alone, not on when others stop.

    Returns:
        The classifiers, each at its best round; the earlier of equals.
    """
    device = examples.features.device
    train, validation = (RowSets(sets, device) for sets in zip(*((s.train, s.validation) for s in splits), strict=True))
    parameters = initial_parameters(examples, *penalties.shape, hidden=recipe.hidden, generator=generator)
    batch = _Batch(examples, train, penalties.to(device, torch.float32), parameters, recipe)
    stopping = EarlyStopping(penalties.shape, tenacity=recipe.tenacity)
    best = [parameter.clone() for parameter in parameters]
    for _ in range(0, recipe.max_epochs + 1, recipe.epoch_size):
        if not stopping.active.any():
            break
        draws = torch.rand(recipe.epoch_size, *train.rows.shape, generator=generator).to(device)
        scores = torch.full(penalties.shape, -1.0, dtype=torch.float64, device=device)
        for chosen in batch.groups(stopping.active):
            batch.train(chosen, draws)
            scores[chosen] = accuracy([p[chosen] for p in parameters], examples, validation, chosen[0].flatten())
        gained = stopping.update(scores.cpu()).to(device)
        for kept, parameter in zip(best, parameters, strict=True):
            kept[gained] = parameter[gained]
    return Fitted(best, stopping.best, stopping.rounds)


def initial_parameters(
    examples: Examples, splits: int, problems: int, *, hidden: int, generator: torch.Generator
) -> Parameters:
    """Weights and biases as ``torch.nn.Linear`` draws them; the problems of a split begin alike."""
    dim, classes = examples.features.shape[1], examples.classes
    parameters = []
    for inputs, outputs in [(dim, hidden), (hidden, classes)] if hidden else [(dim, classes)]:
        for shape in ((outputs, inputs), (outputs,)):
            drawn = (2 * torch.rand(splits, 1, *shape, generator=generator) - 1) / inputs**0.5
            parameters.append(drawn.repeat(1, problems, *(1 for _ in shape)).to(examples.features.device))
    return parameters


def epoch_orders(draws: Tensor, sets: RowSets, chosen: Tensor) -> Tensor:
    """Rows of chosen sets, shuffled anew for each epoch, fillers last: ``(epochs, chosen, longest)``.

    Args:
        draws: Uniform numbers ``(epochs, sets, longest)`` that sort the rows.
        sets: Row numbers.
        chosen: Numbers of the sets wanted.
    """
    keys = draws[:, chosen].masked_fill(sets.is_filler[chosen], 2.0)
    return sets.rows[chosen].expand(len(draws), -1, -1).gather(2, keys.argsort(dim=2, stable=True))


def forward(parameters: Parameters, inputs: Tensor) -> tuple[Tensor | None, Tensor]:
    """Hidden activations, or None, and logits.

    Args:
        parameters: Of all problems.
        inputs: ``(splits, rows, dim)``, shared by the problems of a split.

    Returns:
        ``(splits * problems, hidden, rows)`` and ``(splits * problems, classes, rows)``.
    """
    weight, bias, *head = parameters
    outputs = torch.baddbmm(_joined(bias).unsqueeze(2), _joined(weight), inputs.mT)
    outputs = outputs.view(-1, weight.shape[2], inputs.shape[1])
    if not head:
        return None, outputs
    hidden = outputs.sigmoid_()
    weight, bias = (parameter.flatten(0, 1) for parameter in head)
    return hidden, torch.baddbmm(bias.unsqueeze(2), weight, hidden)


def write_gradients(parameters: Parameters, gradients: Parameters, inputs: Tensor, targets: Tensor, weights: Tensor) -> None:
    """Write the gradients of the weighted cross-entropy of each problem, without those of the inputs.

    Args:
        parameters: Of all problems.
        gradients: Tensors of the same shapes, written to.
        inputs: ``(splits, rows, dim)``.
        targets: One-hot labels times ``weights``, ``(splits, 1, classes, rows)``.
        weights: What each row counts, ``(splits, 1, 1, rows)``.
    """
    hidden, logits = forward(parameters, inputs)
    splits, problems = parameters[0].shape[:2]
    errors = logits.softmax(dim=1).view(splits, problems, *logits.shape[1:]).mul_(weights).sub_(targets)
    if hidden is not None:
        delta = errors.flatten(0, 1)
        torch.bmm(delta, hidden.mT, out=gradients[2].flatten(0, 1))
        torch.sum(errors, dim=3, out=gradients[3])
        errors = torch.bmm(parameters[2].flatten(0, 1).mT, delta)
        errors = errors.mul_(hidden).mul_(1 - hidden).view(splits, problems, -1, inputs.shape[1])
    torch.bmm(_joined(errors), inputs, out=_joined(gradients[0]))
    torch.sum(errors, dim=3, out=gradients[1])


def accuracy(parameters: Parameters, examples: Examples, sets: RowSets, chosen: Tensor | None = None) -> Tensor:
    """Share of rows that each problem classifies rightly, ``(splits, problems)`` in float64.

    Args:
        parameters: Of all problems.
        examples: Where the rows come from.
        sets: Rows of each split.
        chosen: Numbers of the sets that the splits of ``parameters`` have; all by default.
    """
    rows, counts, is_filler = sets.rows, sets.counts, sets.is_filler
    if chosen is not None:
        rows, counts, is_filler = rows[chosen], counts[chosen], is_filler[chosen]
    _, logits = forward(parameters, examples.features[rows])
    predicted = logits.argmax(dim=1).view(*parameters[0].shape[:2], -1)
    right = (predicted == examples.labels[rows].masked_fill(is_filler, -1).unsqueeze(1)).sum(dim=2)
    return right.double() / counts.unsqueeze(1)


@final
class EarlyStopping:
    """When each of many problems stops: SentEval's rule, by which the count of scores without a gain is never reset."""

    def __init__(self, shape: Sequence[int], *, tenacity: int) -> None:
        self.tenacity = tenacity
        self.active = torch.ones(*shape, dtype=torch.bool)
        self.best = torch.full(tuple(shape), -1.0, dtype=torch.float64)
        self.rounds = torch.zeros(*shape, dtype=torch.long)
        self._failures = torch.zeros(*shape, dtype=torch.long)

    def update(self, scores: Tensor) -> Tensor:
        """Take the scores of a round (those of stopped problems are not looked at); says which problems gained."""
        self.rounds += self.active
        gained = self.active & (scores > self.best)
        failed = self.active & ~gained
        self.best = torch.where(gained, scores, self.best)
        self.active &= ~(failed & (self._failures >= self.tenacity))
        self._failures += failed
        return gained


@final
class _Batch:
    """All problems with their optimiser state; trains those that are left, in groups that run together."""

    def __init__(self, examples: Examples, rows: RowSets, penalties: Tensor, parameters: Parameters, recipe: Recipe) -> None:
        self.examples, self.rows, self.penalties, self.parameters, self.recipe = (
            examples,
            rows,
            penalties,
            parameters,
            recipe,
        )
        self.moments = [[torch.zeros_like(parameter) for parameter in parameters] for _ in range(2)]
        self.steps_taken = torch.zeros(len(penalties))
        # batches of an epoch: splits that differ here do not run together
        self.lengths = -(-rows.counts.cpu() // recipe.batch)

    def groups(self, active: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Split and problem numbers, each ``(splits, 1)`` and ``(splits, problems)``, of what can run together."""
        widths = active.sum(dim=1)
        device = self.penalties.device
        for width, length in torch.stack([widths, self.lengths], dim=1).unique(dim=0).tolist():
            alike = ((widths == width) & (self.lengths == length)).nonzero()
            for splits in alike.split(self._splits_at_once(width)) if width else ():
                problems = active[splits.flatten()].nonzero()[:, 1].view(-1, width)
                yield splits.to(device), problems.to(device)

    def train(self, chosen: tuple[Tensor, Tensor], draws: Tensor) -> None:
        """Train a group for as many epochs as there are draws."""
        splits = chosen[0].flatten()
        parameters, *moments = ([tensor[chosen] for tensor in kind] for kind in (self.parameters, *self.moments))
        gradients = [torch.empty_like(parameter) for parameter in parameters]
        penalties = [self.penalties[chosen].view(*chosen[1].shape, *(1 for _ in p.shape[2:])) for p in parameters]
        step = self.steps_taken[splits[0].item()].to(splits.device, copy=True)
        for rows, targets, weights in self._batches(splits, draws):
            inputs = self.examples.features.index_select(0, rows).view(len(splits), self.recipe.batch, -1)
            write_gradients(parameters, gradients, inputs, targets, weights)
            for gradient, parameter, penalty in zip(gradients, parameters, penalties, strict=True):
                gradient.addcmul_(parameter, penalty)
            step += 1
            torch._fused_adam_(
                parameters, gradients, *moments, [], [step] * len(parameters),
                lr=self.recipe.learning_rate, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.0, amsgrad=False, maximize=False,
            )  # fmt: skip
        self.steps_taken[splits.cpu()] = step.cpu()
        for whole, part in zip((self.parameters, *self.moments), (parameters, *moments), strict=True):
            for target, source in zip(whole, part, strict=True):
                target[chosen] = source

    def _batches(self, splits: Tensor, draws: Tensor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Rows ``(splits * batch,)``, targets and weights of one step after the other, fillers with weight 0."""
        size = self.recipe.batch
        length = int(self.lengths[splits[0].item()])
        filler = length * size - self.rows.rows.shape[1]
        orders = epoch_orders(draws, self.rows, splits)
        ...
