"""Objectives by the name that the command line, the result files and the tables use."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

from torch import Tensor

from selfguide.objectives.self_guided import opt1, opt2, sg, sg_opt, simcse


@final
@dataclass(frozen=True)
class Objective:
    """A formula and where its views come from."""

    function: Callable[..., Tensor]
    all_layers: bool = False
    """Takes the views of all layers of the guide; otherwise one view of each sentence."""
    second_pass: bool = False
    """The view is a second pass through the encoder: the same sentence (simcse) or its paraphrase (bt)."""


OBJECTIVES: dict[str, Objective] = {
    "sg": Objective(sg),
    "opt1": Objective(opt1),
    "opt2": Objective(opt2),
    "sg-opt": Objective(sg_opt, all_layers=True),
    "simcse": Objective(simcse, second_pass=True),
    "bt": Objective(sg, second_pass=True),
    "bt+sg-opt": Objective(sg_opt, all_layers=True),
}
