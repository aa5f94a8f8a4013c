"""An auction for a lease among those who are worst off: Themis.

Legend: J jobs, B bidders, A accelerator types, C configurations, V variables (a bid for a type), K constraints.
"""

import math
from time import perf_counter

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.allocation import Allocation
from gavelx.errors import PolicyError
from gavelx.execution import Execution
from gavelx.policies.base import Policy
from gavelx.policies.greedy import by_arrival, seconds_JA, soonest_s_J, usable_throughput_JA
from gavelx.policies.terms import FinishTimeRatio
from gavelx.policies.view import View
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified, repaired
from gavelx.solvers.lp.highs import LinearProgram

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
CRUMB = 1e-9
"""Shares and devices below this are rounding."""
EXACT = 12
"""Decimal places of exp and log that are the same on every processor."""


class Themis(Policy):
    """Auction the devices for a lease among the jobs that are worst off; what is withheld goes to the others.

    1. rho_j, completion time shared over completion time with an equal share, if the job got nothing in this lease
       and its fastest type from then on. The 1 - ``fairness`` of the jobs with the largest rho may bid.
    2. A bid is 1 / rho_j for each type, held for the lease. Winners are chosen such that the product of all bids
       is largest, a bidder without devices counting with the rho that it has then.
    3. A winner pays for what its presence costs the others: it keeps the part c_j of its lease by which their
       product is smaller with it than without.
    4. What is left over goes to the jobs outside the auction, the worst off first, then to bidders, losers first.

    The policy asks to be called again after a lease. Source: Themis (NSDI'20), sections 4 and 5. The paper counts
    devices of one kind and lets an app use any number; jobs here need all their devices, of one type, so what a
    winner must give up is time, and a part of a lease is a share. Winners come from a linear program in the
    logarithms of bids, integral where all jobs need one device; payments from what s_j more devices of the type
    would be worth to all bidders, which is then exactly the harm done (Gul and Stacchetti, 1999). Leftovers go by
    rho instead of by lot, every call is an auction of all devices, and an app is one job.
    """

    name = "themis"
    ignores = ("weights",)

    def __init__(self, fairness: float = 0.8, lease_s: float = 1200.0) -> None:
        self.fairness, self.lease_s = fairness, lease_s
        where = f"themis(fairness={fairness}, lease_s={lease_s})"
        if not 0 <= fairness < 1:
            raise PolicyError(f"fairness is {fairness!r}", where=where, expected="a number from 0 to below 1")
        if not lease_s > 0:
            raise PolicyError(f"lease_s is {lease_s!r}", where=where, expected="seconds above 0")

    def allocate(self, snapshot: Snapshot) -> Allocation:
        started = perf_counter()
        T_JA, table = usable_throughput_JA(snapshot), snapshot.configurations
        done_s_JA, waits_s_J = self._completion_s(snapshot, T_JA)
        alone_s_J = FinishTimeRatio().equal_share_s(View(snapshot))
        rho_J = np.divide(waits_s_J, alone_s_J, out=np.zeros(len(T_JA)), where=alone_s_J > 0)
        queue = [j for j in by_arrival(snapshot, -rho_J) if waits_s_J[j] < np.inf]
        bidders = math.ceil((1.0 - self.fairness) * len(queue) - CRUMB)
        share_JA = np.zeros(T_JA.shape)
        if bidders:
            bids = np.array(queue[:bidders])
            gain_BA = np.log(waits_s_J[bids])[:, None] - np.log(np.maximum(done_s_JA[bids], CRUMB))
            share_JA[bids] = auction(gain_BA, snapshot.scale_factor_J[bids], snapshot.devices_A)
        losers_first = sorted(queue[:bidders], key=lambda j: bool(share_JA[j].any()))
        hand_over(share_JA, [*queue[bidders:], *losers_first], T_JA, snapshot)
        share_C = np.zeros(len(table))
        share_C[table.configuration_M] = share_JA[table.job_M, table.accelerator_C[table.configuration_M]]
        return certified(
            snapshot,
            repaired(snapshot, share_C),
            path="auction",
            seconds=perf_counter() - started,
            execution=Execution(refresh_s=self.lease_s),
        )

    def _completion_s(self, snapshot: Snapshot, T_JA: Floats) -> tuple[Floats, Floats]:
        """Seconds from arrival to completion, with each type or with nothing for the lease, then with the fastest.

        Infinite where a job cannot run.
        """
        left_s_JA = seconds_JA(snapshot.steps_left_J, T_JA)
        fastest_s_J = soonest_s_J(snapshot.steps_left_J, T_JA)
        undone_JA = np.maximum(0.0, 1.0 - self.lease_s / np.maximum(left_s_JA, CRUMB))
        done_s_JA = np.minimum(left_s_JA, self.lease_s) + fastest_s_J[:, None] * undone_JA
        elapsed_s_J = snapshot.elapsed_s_J
        done_s_JA = np.where(T_JA > 0, elapsed_s_J[:, None] + done_s_JA, np.inf)
        return done_s_JA, elapsed_s_J + self.lease_s + fastest_s_J


def auction(gain_BA: Floats, scale_B: Ints, devices_A: Ints) -> Floats:
    """What each bidder keeps of the lease, on each type.

    ``gain_BA`` is the logarithm of the ratio of its bids with and without the type; what is not above 0 is no bid.
    """
    bidder_V, type_V = np.nonzero(gain_BA > 0)
    share_BA = np.zeros(gain_BA.shape)
    if not len(bidder_V):
        return share_BA
    size = gain_BA.max()
    program, value_V, best = _winners(gain_BA[bidder_V, type_V] / size, bidder_V, type_V, scale_B, devices_A)
    share_BA[bidder_V, type_V] = np.where(value_V > CRUMB, value_V, 0.0)
    paid_B = np.zeros(len(gain_BA))
    for scale in np.unique(scale_B).tolist():
        for a in np.flatnonzero(share_BA[scale_B == scale].any(axis=0)).tolist():
            row, limit = len(gain_BA) + a, float(devices_A[a])
            program.set_lower(row, -limit - scale)
            worth = float((program.solve()[0] * gain_BA[bidder_V, type_V]).sum()) - best * size
            program.set_lower(row, -limit)
            paid_B += np.where(scale_B == scale, share_BA[:, a] * max(0.0, worth), 0.0)
    return share_BA * np.exp(-paid_B).round(EXACT)[:, None]


def _winners(
    gain_V: Floats, bidder_V: Ints, type_V: Ints, scale_B: Ints, devices_A: Ints
) -> tuple[LinearProgram, Floats, float]:
    """The program, the shares of its optimum, and the sum of gains. Rows: times of bidders, devices of types."""
    V, B = len(gain_V), len(scale_B)
    row_K = np.concatenate([bidder_V, B + type_V])
    value_K = np.concatenate([-np.ones(V), -scale_B[bidder_V].astype(float)])
    column_K = np.tile(np.arange(V), 2)
    shape = (B + len(devices_A), V)
    program = LinearProgram(
        objective_V=gain_V,
        lower_V=np.zeros(V),
        upper_V=np.ones(V),
        matrix_KV=sparse.csr_array((value_K, (row_K, column_K)), shape=shape),
        lower_K=-np.concatenate([np.ones(B), devices_A.astype(float)]),
        upper_K=np.full(shape[0], np.inf),
        primal=True,
    )
    value_V, _ = program.solve()
    return program, value_V, float((value_V * gain_V).sum())


def hand_over(share_JA: Floats, jobs: list[int], T_JA: Floats, snapshot: Snapshot) -> None:
    """Give what is left of the devices to these jobs in turn, each on its fastest types first; in place."""
    scale_J = snapshot.scale_factor_J
    left_A = snapshot.devices_A - np.einsum("J,JA->A", scale_J, share_JA)
    fastest_JA = np.argsort(-T_JA, axis=1, kind="stable")
    for j in jobs:
        if left_A.max() <= CRUMB:
            return
        time_left = 1.0 - share_JA[j].sum()
        for a in fastest_JA[j].tolist():
            if time_left > CRUMB and left_A[a] > CRUMB and T_JA[j, a] > 0:
                share = min(time_left, left_A[a] / scale_J[j])
                share_JA[j, a] += share
                time_left -= share
                left_A[a] -= share * scale_J[j]
