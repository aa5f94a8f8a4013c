"""What a policy is: a function from a snapshot to an allocation.

Legend: J jobs, A accelerator types, C configurations.
"""

from abc import ABC, abstractmethod

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.snapshot import Kind, Snapshot

Floats = NDArray[np.float64]


class Policy(ABC):
    """Decides how the cluster is shared at one instant.

    A policy keeps no state: what it needs is in the snapshot, so the same snapshot always gets the same answer.
    What it wants to remember goes into ``Allocation.memory`` and comes back in ``Snapshot.memory``; chance comes
    from ``Snapshot.random``.
    ``promises`` names the properties that it claims, among ``sharing_incentive``, ``owner_sharing_incentive``,
    ``value_fairness``, ``pareto_efficiency``, ``envy_freeness`` and ``strategy_proofness``; the tests check just
    those.
    ``ignores`` names what it does not look at by design: ``weights``; the tests hold it to that as well.
    ``uses`` names the kinds of configuration beyond the plain ones that it knows what to do with: ``pairs``,
    ``placements``, ``sizes``, and with those ``mixes`` of accelerator types. It sees them only inside
    ``packed(...)``, ``placed(...)`` and ``elastic(...)``; ``opens`` names those that it does see.
    """

    name: str = ""
    promises: tuple[str, ...] = ()
    ignores: tuple[str, ...] = ()
    uses: frozenset[Kind] = frozenset()
    opens: frozenset[Kind] = frozenset()

    @abstractmethod
    def allocate(self, snapshot: Snapshot) -> Allocation:
        """The share of time of every configuration, feasible and certified."""

    def gain(self, snapshot: Snapshot, share_C: Floats) -> float | None:
        """How good these shares are by the policy's own measure, more being better; None where it has none."""
        return None

    def __repr__(self) -> str:
        """The expression that made the policy."""
        return self.name or type(self).__name__

    def __str__(self) -> str:
        """What tables call it: its name, or the expression that made it."""
        return self.name or repr(self)
