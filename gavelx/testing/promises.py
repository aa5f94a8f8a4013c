"""Fairness and efficiency, measured from shares; only the properties that a policy promises are checked.

Legend: J jobs, A accelerator types.
"""

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis import target

from gavelx.allocation import Allocation
from gavelx.explain.properties import equal_share_gain_J, pareto_slack, worst_envy_J
from gavelx.snapshot import Snapshot
from gavelx.testing import owners, plain
from gavelx.testing.changes import misreported
from gavelx.testing.checks import Check, Checks, RefusedError, only_if
from gavelx.testing.snapshots import CONTESTED, EQUALS

PROMISES = (
    "sharing_incentive",
    "owner_sharing_incentive",
    "value_fairness",
    "pareto_efficiency",
    "envy_freeness",
    "strategy_proofness",
)
OR_NOT = "leave the word out of the policy's promises"


def only_if_promised(word: str) -> Callable[[Check], Check]:
    """A check of what the policy promises."""
    return only_if(lambda test: word in test.make_policy().promises)


class Promises(Checks):
    """Each promise that ``policy.promises`` names, on generated clusters."""

    def test_promises_are_known_words(self) -> None:
        """Every promise of the policy has a check."""
        if unknown := [word for word in self.make_policy().promises if word not in PROMISES]:
            pytest.fail(f"{self.make_policy()} promises {unknown}, expected words among {PROMISES}", pytrace=False)

    @only_if_promised("sharing_incentive")
    def test_sharing_incentive(self) -> None:
        """No job is slower than with 1/n of every accelerator type."""

        @self.for_all(self._jobs())
        def check(snapshot: Snapshot) -> None:
            allocation = self.ask(snapshot)
            gain_J = np.nan_to_num(equal_share_gain_J(allocation), nan=0.0)
            target(-float(gain_J.min(initial=0.0)))
            if gain_J.min(initial=0.0) < -self.tolerance:
                j = int(gain_J.argmin())
                got = allocation.throughput_J[j]
                seen = (
                    f"job {snapshot.jobs[j].id} gets {got:.6g} steps/s, {-gain_J[j]:.2%} less than its equal share"
                )
                self.fail("sharing incentive", seen, snapshot, OR_NOT)

    @only_if_promised("owner_sharing_incentive")
    def test_owner_sharing_incentive(self) -> None:
        """No job is slower than with its part of its owner's 1/n of every accelerator type."""

        @self.for_all(self._jobs())
        def check(snapshot: Snapshot) -> None:
            snapshot = owners.of_teams(snapshot)
            seen_J, slice_J = self.ask(snapshot).throughput_J, owners.slice_J(snapshot)
            gain_J = np.divide(seen_J, slice_J, out=np.ones(len(seen_J)), where=slice_J > 0) - 1.0
            target(-float(gain_J.min(initial=0.0)))
            if gain_J.min(initial=0.0) < -self.tolerance:
                j = int(gain_J.argmin())
                seen = (
                    f"job {snapshot.jobs[j].id} gets {seen_J[j]:.6g} steps/s, {-gain_J[j]:.2%} less than its slice"
                )
                self.fail("owner sharing incentive", seen, snapshot, OR_NOT)

    @only_if_promised("value_fairness")
    def test_value_fairness(self) -> None:
        """No owner could hold more, in dollars, unless one who holds no more than they do held less."""

        @self.for_all(self._jobs())
        def check(snapshot: Snapshot) -> None:
            snapshot = owners.of_teams(snapshot)
            short = [(most - usd, owner, usd, most) for owner, usd, most in owners.values(self.ask(snapshot))]
            gap, owner, usd, most = max(short)
            target(gap)
            if gap > self.tolerance * owners.usd_of_all(snapshot):
                seen = f"{owner} holds devices worth ${usd:.6g} an hour, and could hold ${most:.6g}"
                self.fail("value fairness", seen, snapshot, OR_NOT)

    @only_if_promised("pareto_efficiency")
    def test_pareto_efficiency(self) -> None:
        """No job could run faster without another running slower."""

        @self.for_all(self.snapshots(**CONTESTED))
        def check(snapshot: Snapshot) -> None:
            slack = pareto_slack(self.ask(snapshot))
            target(slack)
            if slack > self.tolerance:
                seen = f"without a loss to any job, jobs could gain {slack:.6g} of their full speeds in total"
                self.fail(
                    "Pareto efficiency", seen, snapshot, f"a second stage that uses what is left, or {OR_NOT}"
                )

    @only_if_promised("envy_freeness")
    def test_envy_freeness(self) -> None:
        """No job would run faster with the devices of another."""

        @self.for_all(self._jobs())
        def check(snapshot: Snapshot) -> None:
            envy_J, envied_J = worst_envy_J(self.ask(snapshot))
            j = int(envy_J.argmax())
            target(min(1e6, float(envy_J[j])))
            if envy_J[j] > self.tolerance:
                much = "would run only" if math.isinf(envy_J[j]) else f"would run {envy_J[j]:.2%} faster"
                seen = f"job {snapshot.jobs[j].id} {much} with the devices of job {snapshot.jobs[envied_J[j]].id}"
                self.fail("envy-freeness", seen, snapshot, OR_NOT)

    @only_if_promised("strategy_proofness")
    def test_strategy_proofness(self) -> None:
        """No job runs faster because it misreported its speeds."""
        drawn_lie = st.lists(st.floats(0.05, 20.0), min_size=3, max_size=3)

        @self.for_all(self._jobs(), drawn_lie)
        def check(snapshot: Snapshot, factors: list[float]) -> None:
            A, honest = len(snapshot.accelerators), self.ask(snapshot)
            speed_J = plain.use(honest.snapshot.configurations, honest.share_C).throughput_J
            for j in range(len(snapshot.jobs)):
                for lie_A in (factors[:A], *_lies_about_one_type(A)):
                    self._check_lie(snapshot, honest, j, float(speed_J[j]), lie_A)

    def _check_lie(self, snapshot: Snapshot, honest: Allocation, j: int, truth: float, lie_A: list[float]) -> None:
        """Job j gets no more true throughput by multiplying its speeds with these factors."""
        try:
            lying = self.ask(misreported(snapshot, j, lie_A))
        except RefusedError:
            return
        table = honest.snapshot.configurations
        gained = plain.use(table, plain.in_the_order_of(lying, honest.snapshot)).throughput_J[j]
        if gained > truth + self.tolerance * max(truth, 1e-3):
            told = ", ".join(f"{factor:.4g}" for factor in lie_A)
            seen = (
                f"job {snapshot.jobs[j].id} runs at {truth:.6g} steps/s; saying speeds x ({told}), at {gained:.6g}"
            )
            self.fail("strategy-proofness", seen, snapshot, OR_NOT)

    def _jobs(self) -> st.SearchStrategy[Snapshot]:
        return self.snapshots(**CONTESTED, **(EQUALS if self.among_equals else {}))


def _lies_about_one_type(A: int) -> list[list[float]]:
    """One accelerator type said to be slower or faster than it is."""
    return [[factor if a == b else 1.0 for b in range(A)] for a in range(A) for factor in (0.2, 5.0)]
