"""Policies that doubt what they are told of speeds and lengths: what if all were at one end of their ranges?"""

from dataclasses import replace

from gavelx.allocation import Allocation
from gavelx.asking import ask, gain_of
from gavelx.policies.base import Floats
from gavelx.policies.modifiers import Modifier
from gavelx.snapshot import Snapshot
from gavelx.solvers import RatioStatement, Statement
from gavelx.throughputs import End


class Judged(Modifier):
    """The same policy, which takes every estimated speed and every believed length to be at one end of its range.

    Where all are exact it is the same policy. The objective and its bound are those at that end, as the
    path of the certificate says; throughputs of the allocation are at the speeds that are most likely.
    """

    end: End

    def allocate(self, snapshot: Snapshot) -> Allocation:
        if snapshot.known.lower_M is None and snapshot.left_range_JE is None:
            return ask(self.policy, snapshot)
        seen = ask(self.policy, self._at_end(snapshot))
        certificate = replace(seen.certificate, path=f"{seen.certificate.path}, at {self.end} ends")
        return replace(seen, snapshot=snapshot.replace(opened=seen.snapshot.opened), certificate=certificate)

    def _at_end(self, snapshot: Snapshot) -> Snapshot:
        """With slow speeds go long jobs."""
        known, left_JE = snapshot.known, snapshot.left_range_JE
        if known.lower_M is not None:
            known = known.at(self.end)
        if left_JE is None:
            return snapshot.replace(known=known)
        return snapshot.replace(
            known=known, steps_left_J=left_JE[:, int(self.end == "lower")].copy(), left_range_JE=None
        )

    def gain(self, snapshot: Snapshot, share_C: Floats) -> float | None:
        return gain_of(self.policy, self._at_end(snapshot), share_C)

    def stated(self, snapshot: Snapshot) -> Statement | RatioStatement | None:
        return super().stated(self._at_end(snapshot))


class robust(Judged):  # noqa: N801  (used like a function: robust(max_min_fairness))
    """The same policy with pessimistic speeds: of every estimate it believes the lower end, of lengths the upper.

    What it promises holds, in steps, as long as every speed is within its range: effective throughput is a sum of
    speeds with shares that are not negative, so it grows with each of them, and the worst case of a box of ranges
    is its lower corner. That is the robust counterpart of a program with such ranges (Soyster, "Convex programming
    with set-inclusive constraints", 1973) where terms grow with speed; for normalized ones, whose denominator has
    the same speeds, it is a heuristic.
    """

    end = "lower"


class optimistic(Judged):  # noqa: N801
    """The same policy with optimistic speeds: of every estimate it believes the upper end, of lengths the lower.

    Jobs are tried where they may be fast, which measures just those speeds, so what is estimated too high is found
    out: optimism in the face of uncertainty (Lai and Robbins, "Asymptotically efficient adaptive allocation
    rules", 1985). It pays where leases refine the estimates, and costs where they do not.
    """

    end = "upper"
