"""Promises: what an allocation gave each configuration, under the jobs' own ids, so that it outlives its snapshot.

The mechanism keeps them, the next snapshot remembers them. Legend: P promises.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gavelx.configuration import ConfigurationSet


@dataclass(frozen=True, eq=False)
class Promises:
    """Which configurations were promised which share of time: only those with a share above 0 are here.

    * ``configurations``: members are job ids, types are indices into ``accelerators``;
    * ``share_P``: share of wall-clock time.
    """

    accelerators: tuple[str, ...] = ()
    configurations: ConfigurationSet = field(default_factory=ConfigurationSet)
    share_P: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def __len__(self) -> int:
        return len(self.share_P)
