"""What the present allocation promises to whom, and in which order it is served.

Legend: J live jobs, A accelerator types, P promised pairs, V ways to run.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from gavelx.mechanism.live import LiveJobs, Pairs
from gavelx.mechanism.rules import Rules
from gavelx.mechanism.selection import Ways
from gavelx.promises import NOBODY, Promises

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
PROTECTED_S = 1e12
"""Further behind than anybody: a job that must not be preempted yet."""


def take_over(
    live: LiveJobs,
    promises: Promises,
    known: Sequence[int],
    accelerators: Sequence[str],
    rules: Rules,
    since_s: float,
) -> None:
    """A new allocation, ``since_s`` after the last one: jobs and pairs get its shares and keep what they are owed.

    ``known`` are the rows of the jobs that the policy knew (-1 for one that has left).
    """
    before = rules.priority.before_allocation
    alone, *shared = live.blocks()
    before(alone, live["allocated"][:, None], since_s, rules.round_s)
    for pairs in shared:
        before(pairs, np.ones(len(pairs), dtype=bool), since_s, rules.round_s)
    live["allocated"][:] = False
    live["allocated"][[j for j in known if j >= 0]] = True
    type_P = np.array([accelerators.index(name) for name in promises.accelerators], dtype=np.int64)
    type_P = type_P[promises.accelerator_P]
    first_P = np.array([live.index.get(i, -1) for i in promises.first_P.tolist()], dtype=np.int64)
    second_P = np.array([live.index.get(i, -1) for i in promises.second_P.tolist()], dtype=np.int64)
    alone_P = (promises.second_P == NOBODY) & (first_P >= 0)
    live["share"][:] = 0.0
    np.add.at(live["share"], (first_P[alone_P], type_P[alone_P]), promises.share_P[alone_P])
    pair_P = (first_P >= 0) & (second_P >= 0)
    if pair_P.any() or len(live.pairs):
        columns = (first_P, second_P, type_P, promises.share_P)
        _pair_up(live, Pairs(*(column[pair_P] for column in columns)), rules)
    for block in live.blocks():
        rules.priority.after_allocation(block)


def _pair_up(live: LiveJobs, pairs: Pairs, rules: Rules) -> None:
    """New pairs, with what those of them that are not new were owed."""
    pairs.credit_s, pairs.received_s = np.zeros(len(pairs)), np.full(len(pairs), rules.round_s / 2)
    columns = (pairs.first, pairs.second, pairs.type)
    for p, way in enumerate(zip(*(column.tolist() for column in columns), strict=True)):
        if (old := live.pair_of(*way)) is not None:
            pairs.credit_s[p] = live.pairs.credit_s[old]
    live.pair_up(pairs)


def ways_to_serve(live: LiveJobs, candidate_J: Bools, rules: Rules, now_s: float, *, strict: bool) -> Ways:
    """The ways to run that these jobs may be given now, with the keys that order them.

    A job may run alone where it was promised a share, or where the rules let it fill idle devices; a pair may
    where it was promised one. An allocation that is ``strict`` is not to be filled.
    """
    fills = rules.backfill is not None and not strict
    runs_JA = live["throughput"] > 0
    promised_JA = runs_JA & (live["share"] > 0) & live["allocated"][:, None]
    if (
        rules.min_run_s > 0 and rules.priority.prefers_running
    ):  # what must not be preempted yet is as good as promised
        young_J = np.flatnonzero(live.running() & (now_s - live["launched_s"] < rules.min_run_s))
        promised_JA[young_J, live["type"][young_J]] = True
    eligible_JA = promised_JA | (runs_JA & _fast_enough(live, rules.backfill or 0.0)) if fills else promised_JA
    if not rules.reserve_unallocated:
        eligible_JA = eligible_JA & live["allocated"][:, None]
    alone, *shared = live.blocks()
    keys = rules.priority.keys(alone, promised_JA, rules.round_s)
    if rules.priority.prefers_running:
        stay_J = np.flatnonzero(live.running())
        keys[0][stay_J, live["type"][stay_J]] += _bonus_s(live, stay_J, rules, now_s)
        keys = [promised_JA.astype(float), *keys] if fills else keys
    job, type_ = np.nonzero(eligible_JA & candidate_J[:, None])
    ways = Ways(job, np.full(len(job), NOBODY), type_, [key[job, type_] for key in keys])
    return _with_pairs(ways, live, live.pairs, candidate_J, rules, now_s, fills) if shared else ways


def _fast_enough(live: LiveJobs, part: float) -> Bools:
    """Where a job is at least this part as fast as where it is fastest."""
    if part == 0.0:
        return np.True_  # type: ignore[return-value]
    speed_JA = np.nan_to_num(live["throughput"])
    return np.asarray(speed_JA >= part * speed_JA.max(axis=1, keepdims=True, initial=0.0))


def _with_pairs(
    ways: Ways, live: LiveJobs, pairs: Pairs, candidate_J: Bools, rules: Rules, now_s: float, fills: bool
) -> Ways:
    """The same ways, and those of the pairs whose members are both candidates."""
    keys = rules.priority.keys(pairs, pairs.share > 0, rules.round_s)
    if rules.priority.prefers_running:
        id_J = np.array([job.id for job in live.jobs], dtype=np.int64)
        together = (live["type"][pairs.first] == pairs.type) & (live["partner"][pairs.first] == id_J[pairs.second])
        keys[0][together] += _bonus_s(live, pairs.first[together], rules, now_s)
        keys = [np.ones(len(pairs)), *keys] if fills else keys
    p = np.flatnonzero(candidate_J[pairs.first] & candidate_J[pairs.second])
    return Ways(
        np.concatenate([ways.job, pairs.first[p]]),
        np.concatenate([ways.partner, pairs.second[p]]),
        np.concatenate([ways.type, pairs.type[p]]),
        [np.concatenate([key, more[p]]) for key, more in zip(ways.keys, keys, strict=True)],
    )


def _bonus_s(live: LiveJobs, j: Ints, rules: Rules, now_s: float) -> Floats:
    """By how many seconds those that run are preferred to those that wait."""
    young = now_s - live["launched_s"][j] < rules.min_run_s
    return np.where(young, PROTECTED_S, rules.round_s + loss_s(live, j))


def loss_s(live: LiveJobs, j: Ints) -> Floats:
    """Seconds that these running jobs would lose if they were stopped now.

    That is a checkpoint, or the work since the last one where that is less, and the restart.
    """
    checkpoint_s, a = live["checkpoint_s"][j], np.maximum(live["type"][j], 0)
    if not checkpoint_s.any():
        return live["restart_s"][j]
    speed = live["throughput"][j, a]
    unsaved = live["steps_done"][j] - live["saved_steps"][j]
    since_s = np.divide(unsaved, speed, out=np.zeros(len(j)), where=speed > 0)
    return live["restart_s"][j] + np.minimum(checkpoint_s, since_s)
