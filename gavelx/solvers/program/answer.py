"""What every solver gives back.

Legend: A accelerator types, C configurations.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gavelx.memory import Memory

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Answer:
    """Shares of all configurations, a proven bound on the objective, and the value of one more device.

    ``classes`` is how many classes of identical jobs were solved for; ``path`` says in words how. ``memory`` may
    help with the next snapshot (:mod:`gavelx.memory`).
    """

    share_C: Floats
    bound: float | None
    marginal_A: Floats | None
    classes: int
    path: str
    memory: Memory = field(default_factory=dict)
