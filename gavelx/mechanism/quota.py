"""Quotas: where shares are ceilings, a job starts only once it is owed a round, or the time that its start takes.

Legend: J live jobs, V ways to run, L those that run.
"""

import math

import numpy as np
from numpy.typing import NDArray

from gavelx.configuration import ALONE
from gavelx.mechanism.entitlements import Entitlements
from gavelx.mechanism.live import NO_WAY, LiveJobs
from gavelx.mechanism.protection import to_the_end_s
from gavelx.mechanism.rules import Rules

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
ROUNDING = 1e-9


def within_quota(ways: Entitlements, live: LiveJobs, rules: Rules, now_s: float) -> Bools:
    """Which ways are owed enough to run now."""
    enough_s = _owed_to_run_s(ways, live, rules) * (1.0 - ROUNDING)
    owed: Bools = _owed_by_round_end_s(ways, live, rules, now_s) >= enough_s
    return owed


def until_owed_s(ways: Entitlements, live: LiveJobs, rules: Rules, now_s: float) -> float:
    """How long until the first of them is, if none is yet; infinite where no job has a share."""
    missing_s = _owed_to_run_s(ways, live, rules) - _owed_by_round_end_s(ways, live, rules, now_s)
    has = ways.share > 0
    return float((missing_s[has] / ways.share[has]).min(initial=math.inf))


def _owed_by_round_end_s(ways: Entitlements, live: LiveJobs, rules: Rules, now_s: float) -> Floats:
    """Seconds that each way will be owed in a round from now if it does not run: a ceiling lets it run so long."""
    owed_s = ways.credit_s + ways.share * rules.round_s
    j = (live.way != NO_WAY).nonzero()[0]
    half_L = np.where(live.partner[j] != ALONE, 0.5, 1.0)
    np.subtract.at(owed_s, live.way[j], (now_s - live.since_s[j]) * half_L)
    return owed_s


def _owed_to_run_s(ways: Entitlements, live: LiveJobs, rules: Rules) -> Floats:
    """What each way must be owed to run where shares are ceilings: a round, or as many as it takes to start.

    A job that has to load its checkpoint is given so many that one of them is left for its steps. A protected one
    begins when what it is owed, and will be owed by then, lasts to its end.
    """
    restart_J = np.where(live.held_s > 0, live.restart_s, 0.0)
    restart_V = np.maximum(restart_J[ways.job], np.append(restart_J, 0.0)[ways.partner])
    owed_s = rules.round_s * np.ceil(1.0 + restart_V / rules.round_s - ROUNDING)
    if np.count_nonzero(live.protected):
        owed_s = np.maximum(owed_s, rules.round_s + (1.0 - ways.share) * (_unbroken_s(ways, live) - rules.round_s))
    owed_s[live.way[live.way != NO_WAY]] = rules.round_s  # they run
    return np.asarray(owed_s)


def _unbroken_s(ways: Entitlements, live: LiveJobs) -> Floats:
    """For how long each way has to run on: a protected job to its end, and for as long as it has lost so far."""
    seconds_V = np.zeros(len(ways))
    for member in (ways.job, ways.partner):
        there = member != ALONE
        j, a = member[there], ways.type[there]
        end_s = to_the_end_s(live, j, a)
        for b in range(ways.others.shape[1]):  # of a mix
            end_s = np.maximum(end_s, np.where(ways.others[there, b] > 0, to_the_end_s(live, j, b), 0.0))
        needs_s = np.where(live.protected[j], np.maximum(end_s, live.lost_s[j]), 0.0)
        seconds_V[there] = np.maximum(seconds_V[there], needs_s)
    return seconds_V
