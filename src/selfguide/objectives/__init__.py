"""The objectives: projected vectors in, one scalar loss out. Nothing here knows about encoders."""

from selfguide.objectives.distance import distance
from selfguide.objectives.self_guided import opt1, opt2, sg, sg_opt, simcse

bt = sg
"""Back-translation uses SG's formula: the positive is the encoded paraphrase in place of a view of the guide."""

__all__ = ["bt", "distance", "opt1", "opt2", "sg", "sg_opt", "simcse"]
