"""Ask a policy for an allocation, and check the answer before it is used.

A policy may be a user's own code. If it raises, or returns an allocation that is not feasible for the snapshot,
the message names the policy, the line, the value seen and the value expected. Our own policies pass the same
check.
"""

import math
from collections.abc import Mapping, Set
from dataclasses import fields
from numbers import Integral, Real
from typing import Any, Protocol, get_args

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation, Certificate, check_form, check_limits
from gavelx.authors import blamed, is_ours, look_at_answer
from gavelx.configurations import Configurations
from gavelx.errors import PolicyError, SharesError
from gavelx.execution import Execution
from gavelx.memory import wrong as wrong_memory
from gavelx.snapshot import Kind, Snapshot

WHOLE = 1e-6
"""A share is whole if it is this near to 0 or 1."""
OFFERED = (
    "certified(snapshot, ...) with the snapshot that was given, or its open('pairs'), ('placements') or ('sizes')"
)


class Allocator(Protocol):
    """An object that answers a snapshot with an allocation: a policy, or a wrapper of one."""

    def allocate(self, snapshot: Snapshot) -> Allocation:
        """The share of time of every configuration."""


def ask(policy: Allocator, snapshot: Snapshot) -> Allocation:
    """The policy's allocation of the snapshot.

    Raises :class:`PolicyError` if a policy that is not ours fails (with the author's line) or returns something
    unusable. An exception of our own policies passes through unchanged: it is our mistake, not the user's.
    """
    if isinstance(policy, type) or not hasattr(policy, "allocate"):
        raise _no_policy(policy)
    if is_ours(policy):
        allocation, hint = policy.allocate(snapshot), ""
    else:
        with blamed(_name(policy), "allocate()", policy.allocate) as heard:
            allocation = policy.allocate(snapshot)
        hint = look_at_answer(policy.allocate, heard)
    _check(allocation, snapshot, policy, hint)
    return allocation


def gain_of(policy: Any, snapshot: Snapshot, share_C: NDArray[np.float64]) -> float | None:
    """How good shares are by the policy's own measure, or None if it has none.

    Raises :class:`PolicyError` if the ``gain`` of a policy that is not ours fails, or returns no number.
    """
    if is_ours(policy):
        gain: float | None = policy.gain(snapshot, share_C)
        return gain
    with blamed(_name(policy), "gain()", policy.gain) as heard:
        gain = policy.gain(snapshot, share_C)
    if not (gain is None or isinstance(gain, Real)):
        hint = look_at_answer(policy.gain, heard)
        problem = f"gain() returned a {type(gain).__name__}"
        raise PolicyError(problem, where=_name(policy), expected="a number, or None", hint=hint)
    return gain


def _no_policy(given: object) -> PolicyError:
    """What to say of something that cannot be asked."""
    expected = "an object with allocate(snapshot)"
    if isinstance(given, type):
        name = given.__name__
        return PolicyError(f"a class is no policy: {name}", expected=expected, hint=f"{name}()")
    hint = f"load_policy({given!r:.100})" if isinstance(given, str) else "load_policy('max_min_fairness')"
    return PolicyError(f"no policy: {given!r:.100}", expected=expected, hint=hint)


def policy_opens(policy: Allocator) -> frozenset[Kind]:
    """The kinds of configuration that a policy is to be told of; one that is not ours may say nothing of it.

    Raises :class:`PolicyError` for what is none of them.
    """
    opens: object = getattr(policy, "opens", frozenset())
    if not isinstance(opens, Set | list | tuple) or not all(kind in get_args(Kind) for kind in opens):
        expected = f"a set of {', '.join(map(repr, get_args(Kind)))}"
        raise PolicyError(f"its opens is {opens!r:.100}", where=_name(policy), expected=expected)
    return frozenset(opens)


def foreign_row(answered: Snapshot, snapshot: Snapshot) -> tuple[str, str] | None:
    """The first configuration of an answer that the snapshot does not offer, and the nearest that it does offer.

    None if the snapshot offers all of them. A snapshot offers what is ``known`` in it; ``open(kind)`` shows more
    of that. A policy cannot choose the number of devices or the speed of a configuration.
    """
    offered, table = snapshot.known, answered.configurations
    if offered.foreign(answered.known) is None or (c := offered.foreign(table)) is None:
        return None
    job = table.job_M[table.configuration_M == c][0]
    alone_C = (offered.members_C == 1) & ~offered.spread_C & (offered.accelerator_C == table.accelerator_C[c])
    of_job_C = offered.configuration_M[alone_C[offered.configuration_M] & (offered.job_M == job)]
    if not len(of_job_C):
        return _in_words(snapshot, table, c), "nothing on that type"
    own = _in_words(snapshot, offered, of_job_C[offered.own_C[of_job_C].argmax()])
    others = _sizes_in_words(offered, of_job_C[~offered.own_C[of_job_C]])
    return _in_words(snapshot, table, c), f"{own}{others}"


def _sizes_in_words(table: Configurations, other_S: NDArray[np.int64]) -> str:
    """The other sizes of a job on a type, as ``, or 1, 4 or 8 devices``; empty if it has none."""
    *first, last = (f"{devices}" for devices in np.unique(table.devices_C[other_S])) if len(other_S) else ("",)
    return f", or {', '.join(first)}{' or ' if first else ''}{last} devices" if last else ""


def _in_words(snapshot: Snapshot, table: Configurations, c: int) -> str:
    """A configuration as ``job 3 on 2 x v100 at 7.91 steps/s``."""
    name, members_M = snapshot.accelerators[table.accelerator_C[c]], table.configuration_M == c
    jobs = [snapshot.jobs[j] for j in table.job_M[members_M]]
    who = " and ".join(f"job {job.id} ({job.job_type})" for job in jobs)
    speeds = " and ".join(f"{speed:.6g}" for speed in table.throughput_M[members_M])
    how = " spread" if table.spread_C[c] else ""
    how += f" in batches of {table.batch_C[c]}" if table.batch_C[c] else ""
    uses = [(name, table.devices_C[c]), *zip(snapshot.accelerators, table.others_CA[c], strict=False)]
    devices = " and ".join(f"{count} x {type_}" for type_, count in uses if count)
    return f"{who} on {devices}{how} at {speeds} steps/s"


def _name(policy: Allocator) -> str:
    return f"policy {type(policy).__name__}"


def _check(allocation: object, snapshot: Snapshot, policy: Allocator, hint: str) -> None:
    """Raise :class:`PolicyError` unless the allocation is feasible and of configurations in the snapshot."""
    where, expected = _name(policy), "an Allocation; gavelx.solvers.certified makes one"
    if not isinstance(allocation, Allocation) or not isinstance(allocation.certificate, Certificate):
        seen = type(allocation.certificate if isinstance(allocation, Allocation) else allocation).__name__
        raise PolicyError(f"allocate() returned a {seen}", where=where, expected=expected, hint=hint)
    answered = allocation.snapshot
    if answered.jobs != snapshot.jobs or answered.cluster != snapshot.cluster:
        problem = "allocate() answered for other jobs or another cluster"
        raise PolicyError(problem, where=where, expected="those of the snapshot it was given", hint=hint)
    if row := foreign_row(answered, snapshot):
        seen, offered = row
        problem = f"allocate() answered with a configuration that the snapshot does not offer: {seen}"
        if seen == offered or offered.startswith(f"{seen}, or "):
            problem = f"allocate() answered with a configuration twice: {seen}"
        raise PolicyError(problem, where=where, expected=f"what it offers: {offered}", hint=OFFERED)
    try:
        check_limits(answered, check_form(answered, allocation.share_C))
    except SharesError as error:
        raise PolicyError(error.problem, where=where, expected=error.expected, hint=hint) from error
    if (
        wrong := _wrong_words(allocation) or _wrong_numbers(allocation) or wrong_memory(allocation.memory)
    ) is not None:
        seen, expected = wrong
        raise PolicyError(seen, where=where, expected=expected, hint=hint)
    if allocation.execution.whole_devices and (parts := _parts(allocation)):
        expected = (
            "shares of 0 or 1: whole devices are handed out; without whole_devices, shares are parts of time"
        )
        raise PolicyError(f"whole_devices=True, and {parts}", where=where, expected=expected, hint=hint)


def _parts(allocation: Allocation) -> str:
    """The first job that has a part of a turn, in words; nothing if none has."""
    share_C = allocation.share_C
    part_C = (share_C > WHOLE) & (share_C < 1.0 - WHOLE)
    if not part_C.any():
        return ""
    c = int(np.flatnonzero(part_C)[0])
    answered = allocation.snapshot
    return f"{_in_words(answered, answered.configurations, c)} has a share of {share_C[c]:.3g}"


def _wrong_words(allocation: Allocation) -> tuple[str, str] | None:
    """A field beside the shares that is of the wrong kind, and what was expected; None if there is none."""
    notes, path, worth = allocation.notes, allocation.certificate.path, allocation.marginal_A
    if not isinstance(notes, list | tuple) or not all(isinstance(note, str) for note in notes):
        return f"its notes are {notes!r:.100}", "texts: allocation.with_notes(['...'])"
    if not isinstance(path, str):
        return f"the certificate says path {path!r:.100}", "a text"
    if not isinstance(worth, Mapping) or not all(isinstance(name, str) for name in worth):
        return f"one more device is worth {worth!r:.100}", "a number for each name of a type: {'v100': 1.5}"
    return _wrong_execution(allocation.execution)


def _wrong_execution(execution: object) -> tuple[str, str] | None:
    """The same for its execution."""
    if not isinstance(execution, Execution):
        return f"its execution is a {type(execution).__name__}", "an Execution: allocation.with_execution(...)"
    for field in fields(Execution):
        if field.type is bool and not isinstance(value := getattr(execution, field.name), bool):
            return f"{field.name} is {value!r:.100}", "True or False"
    first_on: Any = execution.first_on
    try:
        fine = all(isinstance(job, Integral) and isinstance(name, str) for job, name in first_on)
    except (TypeError, ValueError):
        fine = False
    return None if fine else (f"first_on is {first_on!r:.100}", "ids of jobs and names of types: ((3, 'v100'),)")


def _wrong_numbers(allocation: Allocation) -> tuple[str, str] | None:
    """A field beside the shares that should be a number and is not; None if there is none."""
    c, after_s, expected = allocation.certificate, allocation.execution.refresh_s, "finite numbers, or None"
    if not all(value is None or _is_finite(value) for value in (c.objective, c.bound)):
        return f"the certificate says objective {c.objective}, bound {c.bound}", expected
    if not all(map(_is_finite, (c.violation, c.classes, c.seconds))):
        return f"the certificate says violation {c.violation}, classes {c.classes}, seconds {c.seconds}", expected
    if after_s is not None and not (_is_finite(after_s) and after_s >= 0):
        return f"refresh_s is {after_s!r}", expected
    wrong = {name: value for name, value in allocation.marginal_A.items() if not _is_finite(value)}
    return (f"one more device is worth {wrong}", expected) if wrong else None


def _is_finite(value: object) -> bool:
    return isinstance(value, Real) and math.isfinite(value)
