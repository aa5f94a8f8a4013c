"""Promises: the share of each configuration in an allocation, under job ids, so that they outlive the snapshot.

The mechanism keeps them, and the next snapshot holds them. Legend: P promises.
"""

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from gavelx.configuration import ConfigurationSet


@dataclass(frozen=True, eq=False)
class Promises:
    """The configurations with a share above 0, and their shares.

    * ``configurations``: members are job ids, types are indices into ``accelerators``;
    * ``share_P``: share of wall-clock time.
    """

    accelerators: tuple[str, ...] = ()
    configurations: ConfigurationSet = field(default_factory=ConfigurationSet)
    share_P: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))

    def __len__(self) -> int:
        return len(self.share_P)
