"""Ask a policy, and check what it answers before anyone acts on it.

A policy may be anybody's code. If it raises, or answers with what is no feasible allocation of the snapshot, the
message names the policy, the line, what was seen and what was expected. Our own policies pass the same check.
"""

import math
import traceback
from typing import Protocol

import numpy as np

from gavelx.allocation import FEASIBLE, Allocation, Certificate
from gavelx.errors import GavelxError, PolicyError
from gavelx.snapshot import Snapshot


class Answers(Protocol):
    """Whatever answers a snapshot with an allocation."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        """The share of time of every configuration."""


def ask(policy: Answers, snapshot: Snapshot) -> Allocation:
    """The policy's allocation of the snapshot.

    Raises :class:`PolicyError` where a policy that is not ours fails or answers with something that cannot be
    used. A failure of our own policies passes through as it is: it is our mistake, not the user's.
    """
    try:
        allocation = policy.allocate(snapshot)
        _check(allocation, snapshot, policy)
    except GavelxError:
        raise
    except (Exception, SystemExit) as error:
        if type(policy).__module__.partition(".")[0] == "gavelx":
            raise
        raise _failed(policy, error) from error
    return allocation


def _failed(policy: Answers, error: BaseException) -> PolicyError:
    last = traceback.extract_tb(error.__traceback__)[-1]
    text = " ".join(str(error).split())[:300]
    problem = f"allocate() failed with {type(error).__name__}{': ' * bool(text)}{text}"
    return PolicyError(problem, where=_name(policy), hint=f"look at {last.filename}, line {last.lineno}")


def _name(policy: Answers) -> str:
    return f"policy {type(policy).__name__}"


def _check(allocation: object, snapshot: Snapshot, policy: Answers) -> None:
    """Raises :class:`PolicyError` unless this is a feasible allocation of the snapshot's jobs and devices."""
    expected = "an Allocation; gavelx.solvers.certified makes one"
    if not isinstance(allocation, Allocation) or not isinstance(allocation.certificate, Certificate):
        seen = type(allocation.certificate if isinstance(allocation, Allocation) else allocation).__name__
        raise PolicyError(f"allocate() returned a {seen}", where=_name(policy), expected=expected)
    answered = allocation.snapshot
    if answered.jobs != snapshot.jobs or answered.cluster != snapshot.cluster:
        problem = "allocate() answered for other jobs or another cluster"
        raise PolicyError(problem, where=_name(policy), expected="those of the snapshot it was given")
    share_C, shape = np.asarray(allocation.share_C), (len(answered.configurations),)
    if share_C.shape != shape or share_C.dtype.kind not in "fiu":
        problem = f"the shares are an array of {share_C.dtype} with shape {share_C.shape}"
        raise PolicyError(problem, where=_name(policy), expected=f"numbers with shape {shape}")
    if not np.isfinite(share_C).all():
        raise PolicyError("a share is not a finite number", where=_name(policy), expected="shares from 0 to 1")
    c = allocation.certificate
    if not all(value is None or math.isfinite(value) for value in (c.objective, c.bound)):
        problem = f"the certificate says objective {c.objective}, bound {c.bound}"
        raise PolicyError(problem, where=_name(policy), expected="finite numbers, or None")
    _check_limits(answered, share_C, policy)


def _check_limits(snapshot: Snapshot, share_C: np.ndarray, policy: Answers) -> None:
    """Shares of at least 0, at most all of a job's time, and no more devices than there are."""
    table = snapshot.configurations
    over_J, over_A = table.time_J(share_C) - 1.0, table.devices_A(share_C) - snapshot.devices_A
    if share_C.min(initial=0.0) < -FEASIBLE:
        raise PolicyError(f"a share is {share_C.min():.4g}", where=_name(policy), expected="0 or more")
    if over_J.max(initial=0.0) > FEASIBLE:
        j = int(over_J.argmax())
        problem = f"job {snapshot.jobs[j].id} gets {over_J[j] + 1:.4g} of its time"
        raise PolicyError(problem, where=_name(policy), expected="at most 1 over all its configurations")
    if over_A.max(initial=0.0) > FEASIBLE:
        a = int(over_A.argmax())
        devices = int(snapshot.devices_A[a])
        problem = f"the shares use {over_A[a] + devices:.6g} devices of {snapshot.accelerators[a]}"
        raise PolicyError(problem, where=_name(policy), expected=f"at most {devices}")
