"""Many small classifiers trained at once: the folds and L2 values of a task are one batched problem.

The classifiers of a split of the rows differ in their L2 value. They start from the same weights and see the same batches,
so that one gather of rows and one wide matrix product serve them all. After a few epochs, a round, each is scored on the
validation rows of its split; those that no longer gain leave the batch.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import final

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence

Parameters = list[Tensor]
"""Weight ``(splits, penalties, out, in)`` and bias ``(splits, penalties, out)`` of each layer, for all classifiers."""

CACHE_BYTES = 12 * 2**20
"""What the classifiers of a group may take on a CPU: they must stay in its cache."""
DEVICE_BYTES = 8 * 2**30
"""The same for other devices, where all of a task run together."""


@final
@dataclass(frozen=True)
class Recipe:
    """How a classifier is trained; the defaults are SentEval's, with the paper's hidden layer (table 9)."""

    hidden: int = 50
    """Units of the hidden layer, which has a sigmoid; 0 is logistic regression."""
    batch: int = 64
    epoch_size: int = 4
    """Epochs of a round."""
    tenacity: int = 5
    """Rounds without a gain that are forgiven, counted over the whole training; the next one ends it."""
    max_epochs: int = 200
    """No round begins after more epochs than this."""
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
@dataclass(frozen=True)
class RowSets:
    """Sets of row numbers as one table, the shorter ones filled up with row 0."""

    rows: Tensor
    """``(sets, longest)``."""
    counts: Tensor
    """Rows of each set, ``(sets,)``."""

    @classmethod
    def of(cls, sets: Sequence[Tensor], device: torch.device) -> "RowSets":
        """Put sets into a table."""
        counts = torch.tensor([len(rows) for rows in sets])
        return cls(pad_sequence(list(sets), batch_first=True).to(device), counts.to(device))

    def __getitem__(self, chosen: Tensor) -> "RowSets":
        return RowSets(self.rows[chosen], self.counts[chosen])

    @property
    def is_filler(self) -> Tensor:
        """Which entries of the table are of no set."""
        return torch.arange(self.rows.shape[1], device=self.rows.device) >= self.counts.unsqueeze(1)


@final
@dataclass(frozen=True)
class Fitted:
    """Trained classifiers, each as it was in its best round."""

    parameters: Parameters
    accuracy: Tensor
    """Validation accuracy of each, ``(splits, penalties)``, on the CPU as all results are."""
    rounds: Tensor
    """Rounds that each was trained for, ``(splits, penalties)``."""

    def score(self, examples: Examples, rows: Sequence[Tensor]) -> Tensor:
        """Accuracy ``(splits, penalties)`` on rows, one set for each split."""
        return accuracy(self.parameters, examples, RowSets.of(rows, examples.features.device)).cpu()


def fit(
    examples: Examples, splits: Sequence[Split], penalties: Tensor, *, recipe: Recipe, generator: torch.Generator
) -> Fitted:
    """Train a classifier for every split and L2 value.

    Args:
        examples: The data of all splits.
        splits: Rows of each split.
        penalties: L2 values of each split, ``(splits, penalties)``: the weight decay of Adam, as a part of the gradient.
        recipe: Size of a classifier and rules of its training.
        generator: A generator of the CPU, from which initial weights and orders of rows are drawn on any device. What a
            split draws does not depend on when other splits stop.

    Returns:
        The classifiers, each as it was in its best round, the first of equals.
    """
    device = examples.features.device
    train = RowSets.of([split.train for split in splits], device)
    validation = RowSets.of([split.validation for split in splits], device)
    parameters = initial_parameters(examples, penalties.shape, hidden=recipe.hidden, generator=generator)
    best = [parameter.clone() for parameter in parameters]
    trainer = _Trainer(examples, train, validation, penalties.to(device, torch.float32), parameters, recipe)
    stopping = EarlyStopping(penalties.shape, tenacity=recipe.tenacity)
    for epochs_done in range(0, recipe.max_epochs + 1, recipe.epoch_size):
        draws = torch.rand(recipe.epoch_size, *train.rows.shape, generator=generator).to(device)
        scores = torch.zeros(penalties.shape, dtype=torch.float64, device=device)
        groups = list(trainer.groups(stopping.active))
        run_round = partial(trainer.run_round, draws=draws, epochs_done=epochs_done)
        for chosen, score in zip(groups, _for_each(groups, run_round), strict=True):
            scores[chosen] = score
        gained = stopping.update(scores.cpu()).to(device)
        for kept, parameter in zip(best, parameters, strict=True):
            kept[gained] = parameter[gained]
        if not stopping.active.any():
            break
    return Fitted(best, stopping.best, stopping.rounds)


def initial_parameters(examples: Examples, shape: Sequence[int], *, hidden: int, generator: torch.Generator) -> Parameters:
    """Weights and biases as ``torch.nn.Linear`` draws them for ``(splits, penalties)``; those of a split begin alike."""
    (splits, penalties), dim, parameters = shape, examples.features.shape[1], []
    for inputs, outputs in [(dim, hidden), (hidden, examples.classes)] if hidden else [(dim, examples.classes)]:
        for layer_shape in ((outputs, inputs), (outputs,)):
            drawn = (2 * torch.rand(splits, 1, *layer_shape, generator=generator) - 1) / inputs**0.5
            parameters.append(drawn.repeat_interleave(penalties, dim=1).to(examples.features.device))
    return parameters


def shuffled(sets: RowSets, draws: Tensor) -> Tensor:
    """Rows of each set in the order of uniform draws, both ``(epochs, sets, longest)``; fillers come last."""
    order = draws.masked_fill(sets.is_filler, 2.0).argsort(dim=2, stable=True)
    return sets.rows.expand_as(order).gather(2, order)


def forward(parameters: Parameters, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """Activations of the hidden layer and logits of every classifier.

    Args:
        parameters: Of all classifiers.
        inputs: ``(splits, rows, dim)``.

    Returns:
        ``(splits * penalties, hidden, rows)``, empty without a hidden layer, and ``(splits * penalties, classes, rows)``.
    """
    weight, bias, *head = parameters
    outputs = torch.baddbmm(bias.flatten(1).unsqueeze(2), weight.flatten(1, 2), inputs.mT)
    outputs = outputs.view(-1, weight.shape[2], inputs.shape[1])
    if not head:
        return outputs[:0], outputs
    weight, bias = (parameter.flatten(0, 1) for parameter in head)
    hidden = outputs.sigmoid_()
    return hidden, torch.baddbmm(bias.unsqueeze(2), weight, hidden)


def write_gradients(parameters: Parameters, gradients: Parameters, inputs: Tensor, targets: Tensor, weights: Tensor) -> None:
    """Write the gradient of each classifier's weighted cross-entropy.

    Args:
        parameters: Of all classifiers.
        gradients: Tensors of the same shapes, to write to.
        inputs: ``(splits, rows, dim)``.
        targets: One-hot labels times ``weights``, ``(splits, 1, classes, rows)``.
        weights: What each row counts, ``(splits, 1, 1, rows)``.
    """
    hidden, logits = forward(parameters, inputs)
    splits, penalties = parameters[0].shape[:2]
    errors = logits.softmax(dim=1).view(splits, penalties, *logits.shape[1:]).mul_(weights).sub_(targets)
    if len(hidden):
        torch.sum(errors, dim=3, out=gradients[3])
        errors = errors.flatten(0, 1)
        torch.bmm(errors, hidden.mT, out=gradients[2].flatten(0, 1))
        errors = torch.bmm(parameters[2].flatten(0, 1).mT, errors).mul_(hidden)
        errors = errors.addcmul_(errors, hidden, value=-1).view(splits, penalties, *hidden.shape[1:])
    torch.sum(errors, dim=3, out=gradients[1])
    torch.bmm(errors.flatten(1, 2), inputs, out=gradients[0].flatten(1, 2))


def accuracy(parameters: Parameters, examples: Examples, sets: RowSets) -> Tensor:
    """Share of rows that each classifier gets right, ``(splits, penalties)`` in float64; a set of rows for each split."""
    _, logits = forward(parameters, examples.features[sets.rows])
    predicted = logits.argmax(dim=1).view(*parameters[0].shape[:2], -1)
    labels = examples.labels[sets.rows].masked_fill(sets.is_filler, -1)
    return (predicted == labels.unsqueeze(1)).sum(dim=2) / sets.counts.double().unsqueeze(1)


@final
class EarlyStopping:
    """When each of many classifiers stops, by SentEval's rule: the count of rounds without a gain is never reset."""

    def __init__(self, shape: Sequence[int], *, tenacity: int) -> None:
        self.tenacity = tenacity
        self.active = torch.ones(*shape, dtype=torch.bool)
        self.best = torch.full(tuple(shape), -1.0, dtype=torch.float64)
        self.rounds = torch.zeros(*shape, dtype=torch.long)
        self._failures = torch.zeros(*shape, dtype=torch.long)

    def update(self, scores: Tensor) -> Tensor:
        """Take the scores of a round, of which those of stopped classifiers do not matter; says which gained."""
        gained = self.active & (scores > self.best)
        failed = self.active & ~gained
        self.rounds += self.active
        self.best = torch.where(gained, scores, self.best)
        self.active = self.active & ~(failed & (self._failures >= self.tenacity))
        self._failures += failed
        return gained


Chosen = tuple[Tensor, Tensor]
"""Classifiers that run together, as an index: splits ``(n, 1)`` and, of each, positions in its penalties ``(n, width)``."""


@final
class _Trainer:
    """All classifiers with the state of their optimiser; trains chosen ones."""

    def __init__(
        self,
        examples: Examples,
        rows: RowSets,
        validation: RowSets,
        penalties: Tensor,
        parameters: Parameters,
        recipe: Recipe,
    ) -> None:
        self.examples, self.rows, self.validation, self.penalties = examples, rows, validation, penalties
        self.recipe, self.state = recipe, [parameters, *([torch.zeros_like(p) for p in parameters] for _ in range(2))]
        self.steps = [-(-count // recipe.batch) for count in rows.counts.tolist()]  # of an epoch

    def groups(self, active: Tensor) -> Iterator[Chosen]:
        """Active classifiers in groups: of splits that are alike in how many of them are active, and in steps an epoch."""
        kinds = list(zip(active.sum(dim=1).tolist(), self.steps, strict=True))
        for width, steps in sorted({kind for kind in kinds if kind[0]}):
            alike = torch.tensor([number for number, kind in enumerate(kinds) if kind == (width, steps)])
            splits_at_once, width_at_once = self._group_size(len(alike), width)
            for splits in torch.split(alike, splits_at_once):
                positions = active[splits].nonzero()[:, 1].view(-1, width)
                for part in torch.split(positions, width_at_once, dim=1):
                    yield splits.unsqueeze(1).to(self.penalties.device), part.to(self.penalties.device)

    def run_round(self, chosen: Chosen, *, draws: Tensor, epochs_done: int) -> Tensor:
        """Train a group for an epoch by each of the draws ``(epochs, all splits, longest)``; gives validation accuracies."""
        splits, steps = chosen[0].flatten(), self.steps[int(chosen[0][0])]
        parameters, *moments = ([tensor[chosen] for tensor in kind] for kind in self.state)
        gradients = [torch.empty_like(parameter) for parameter in parameters]
        penalties = [self.penalties[chosen].view(*chosen[1].shape, *(1 for _ in p.shape[2:])) for p in parameters]
        step = torch.tensor(float(epochs_done * steps), device=splits.device)
        for rows, targets, weights in self._batches(self.rows[splits], draws[:, splits], steps):
            inputs = self.examples.features.index_select(0, rows).view(len(splits), self.recipe.batch, -1)
            write_gradients(parameters, gradients, inputs, targets, weights)
            for gradient, parameter, penalty in zip(gradients, parameters, penalties, strict=True):
                gradient.addcmul_(parameter, penalty)
            step += 1
            _adam(parameters, gradients, moments, step, self.recipe.learning_rate)
        for tensors, parts in zip(self.state, (parameters, *moments), strict=True):
            for tensor, part in zip(tensors, parts, strict=True):
                tensor[chosen] = part
        return accuracy(parameters, self.examples, self.validation[splits])

    def _batches(self, sets: RowSets, draws: Tensor, steps: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Rows ``(splits * batch,)``, targets and weights of each step; fillers weigh nothing."""
        size, splits = self.recipe.batch, len(sets.counts)
        position = torch.arange(steps * size, device=sets.rows.device)
        rows_of_batch = (sets.counts.unsqueeze(1) - position // size * size).clamp(max=size)
        weights = (position < sets.counts.unsqueeze(1)) / rows_of_batch
        weights = weights.view(splits, steps, size).transpose(0, 1)[:, :, None, None]  # (steps, splits, 1, 1, batch)
        classes = torch.arange(self.examples.classes, device=position.device).unsqueeze(1)
        orders = shuffled(sets, draws)
        for order in pad(orders, (0, steps * size - orders.shape[2])):
            rows = order.view(splits, steps, size).transpose(0, 1)
            targets = (self.examples.labels[rows][:, :, None, None] == classes) * weights
            yield from zip(rows.flatten(1), targets, weights, strict=True)

    def _group_size(self, splits: int, width: int) -> tuple[int, int]:
        """Splits of a group and classifiers of each, as memory allows; on a CPU, so few that each thread has a group."""
        numbers = 4 * width * sum(parameter[0, 0].numel() for parameter in self.state[0])  # with moments and gradients
        numbers += self.recipe.batch * self.examples.features.shape[1]
        if self.penalties.device.type != "cpu":
            return max(1, DEVICE_BYTES // (4 * numbers)), width
        threads = torch.get_num_threads()
        splits_at_once = max(1, min(CACHE_BYTES // (4 * numbers), -(-splits // threads)))
        return splits_at_once, -(-width // max(1, threads // splits))


def _adam(parameters: Parameters, gradients: Parameters, moments: list[Parameters], step: Tensor, rate: float) -> None:
    """One step of Adam; the weight decay is in the gradients already."""
    torch._fused_adam_(
        parameters,
        gradients,
        moments[0],
        moments[1],
        [],
        [step] * len(parameters),
        lr=rate,
        beta1=0.9,
        beta2=0.999,
        eps=1e-8,
        weight_decay=0.0,
        amsgrad=False,
        maximize=False,
    )


def _for_each(groups: Sequence[Chosen], work: Callable[[Chosen], Tensor]) -> list[Tensor]:
    """Work on every group: on a CPU a thread for each, which beats threads inside of such small operations by far."""
    threads = torch.get_num_threads()
    if threads == 1 or groups[0][0].device.type != "cpu":
        return [work(group) for group in groups]
    try:
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return list(pool.map(work, groups))
    finally:
        torch.set_num_threads(threads)  # the number is one of the whole process
