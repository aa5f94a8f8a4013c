"""Promises: what an allocation gave, way by way, under the jobs' own ids, so that it outlives its snapshot.

The mechanism serves them, the next snapshot remembers them. Legend: P promises.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

NOBODY = -1


@dataclass(frozen=True, eq=False)
class Promises:
    """Who was promised which share of time on what: only ways to run with a share above 0 are here.

    * ``first_P``: job id; ``second_P``: id of the job that it shares devices with, or ``NOBODY``;
    * ``accelerator_P``: an index into ``accelerators``; ``spread_P``: over several servers;
    * ``share_P``: share of wall-clock time.
    """

    accelerators: tuple[str, ...] = ()
    first_P: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    second_P: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    accelerator_P: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    spread_P: NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    share_P: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def __len__(self) -> int:
        return len(self.share_P)
