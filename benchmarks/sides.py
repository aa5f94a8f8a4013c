"""The two sides of a benchmark: how an instance is answered, and which part of that is timed.

Legend: J jobs, A accelerator types, C configurations.
"""

import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.instances import Instance, snapshot_of
from gavelx.allocation import Allocation
from gavelx.policies import Policy, load_policy
from gavelx.snapshot import Snapshot

Floats = NDArray[np.float64]
ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, eq=False)
class Answer:
    """What is compared. ``value`` is what the benchmark's objective reads: shares x_JA, or a number.

    ``violation`` is the worst excess over a constraint, relative to it; ``used`` the part in use of the type that
    is used least; ``gap`` how far the objective may be from a proven bound, relative; ``seconds`` where the side
    kept its own clock, and ``peak_mb`` the largest memory of its process.
    """

    value: Any
    violation: float = 0.0
    used: float | None = None
    gap: float | None = None
    seconds: float | None = None
    peak_mb: float | None = None


def of_shares(instance: Instance, share_JA: Floats) -> Answer:
    """Shares of time with what they use and exceed."""
    used_A = share_JA.sum(axis=0) / instance.devices_A
    excess = max(float(share_JA.sum(axis=1).max() - 1.0), float(used_A.max() - 1.0), float(-share_JA.min()))
    return Answer(share_JA, violation=max(0.0, excess), used=float(used_A.min()))


@dataclass(frozen=True)
class Side:
    """One way to answer: ``ready`` and ``read`` are not timed, ``solve`` is.

    ``within(budget_s)``, where there is one, is the same side, ended when the budget is spent.
    """

    name: str
    solve: Callable[[Any], Any]
    ready: Callable[[Instance], Any] = lambda instance: instance
    read: Callable[[Instance, Any], Answer] = of_shares
    within: Callable[[float], "Side"] | None = None


def of_allocation(instance: Instance, allocation: Allocation) -> Answer:
    """The shares per job and type of an allocation, with its proven gap."""
    answer = of_shares(instance, allocation.share_JA)
    return Answer(answer.value, answer.violation, answer.used, _gap(allocation))


def of_throughput(instance: Instance, allocation: Allocation) -> Answer:
    """The effective throughputs of an allocation: where jobs share devices, shares per type do not give them."""
    return Answer(allocation.throughput_J, allocation.certificate.violation, gap=_gap(allocation))


def of_certificate(instance: Instance, allocation: Allocation) -> Answer:
    """The objective that an allocation claims: that of a whole plan of which the shares show only the start."""
    return Answer(allocation.certificate.objective, allocation.certificate.violation, gap=_gap(allocation))


def _gap(allocation: Allocation) -> float | None:
    seen = allocation.certificate
    if seen.bound is None or seen.objective is None:
        return None
    return abs(seen.bound - seen.objective) / max(1e-300, abs(seen.objective))


def by_policy(text: str, read: Callable[[Instance, Allocation], Answer] = of_allocation) -> Side:
    """A policy of ours, by its name, on a snapshot of which nothing has been asked yet.

    Raises :class:`~gavelx.errors.PolicyError` when the side is made ready and there is no such policy.
    """
    return Side(text, _allocate, lambda instance: _introduced(load_policy(text), instance), read)


def _introduced(policy: Policy, instance: Instance) -> tuple[Policy, Snapshot]:
    """A policy that has answered what was before, and the snapshot to answer now, with what it remembers."""
    if instance.before is None:
        return policy, snapshot_of(instance)
    return policy, snapshot_of(instance).replace(memory=policy.allocate(snapshot_of(instance.before)).memory)


def _allocate(ready: tuple[Policy, Snapshot]) -> Allocation:
    policy, snapshot = ready
    return policy.allocate(snapshot)


def in_a_process_of_its_own(text: str, timeout_s: float = 600.0) -> Side:
    """A policy of ours in a fresh process, which keeps its own clock and says how much memory it took.

    Start, imports and a first answer to a small instance are not timed; all memory counts.
    """

    def ready(instance: Instance) -> bytes:
        load_policy(text)
        return pickle.dumps((text, instance), protocol=pickle.HIGHEST_PROTOCOL)

    def solve(message: bytes) -> Answer:
        command = [sys.executable, "-m", "benchmarks.child"]
        child = subprocess.run(
            command, input=message, stdout=subprocess.PIPE, timeout=timeout_s, check=True, cwd=ROOT
        )
        answer: Answer = pickle.loads(child.stdout)
        return answer

    return Side(
        f"{text}, own process",
        solve,
        ready,
        read=lambda instance, answer: answer,
        within=lambda budget_s: in_a_process_of_its_own(text, budget_s),
    )
