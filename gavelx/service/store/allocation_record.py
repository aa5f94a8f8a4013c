"""A policy's answer without the snapshot that it answers: what crosses to and from the solver, and what is logged.

The mechanism asks the same question again when the log is replayed, so the shares are all that has to be kept.

Legend: P ways to run with a share, J jobs, C configurations.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation, Certificate
from gavelx.errors import PolicyError
from gavelx.execution import DEFAULT, Execution
from gavelx.promises import NOBODY, Promises
from gavelx.snapshot import Kind, Snapshot

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class AllocationRecord:
    """Who gets which share of time where, under the ids of the jobs; ``asked_s`` is the time of the question."""

    asked_s: float
    opened: frozenset[Kind]
    promised: Promises
    certificate: Certificate
    marginal_A: dict[str, float] = field(default_factory=dict)
    execution: Execution = DEFAULT
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain values; numbers are written so that reading gives the same float back."""
        promised = self.promised
        return {
            "asked_s": self.asked_s,
            "opened": sorted(self.opened),
            "accelerators": list(promised.accelerators),
            "first": promised.first_P.tolist(),
            "second": promised.second_P.tolist(),
            "accelerator": promised.accelerator_P.tolist(),
            "spread": np.flatnonzero(promised.spread_P).tolist(),
            "share": promised.share_P.tolist(),
            "certificate": self.certificate.to_json(),
            "marginal": self.marginal_A,
            "execution": asdict(self.execution),
            "notes": list(self.notes),
        }

    @staticmethod
    def from_json(body: dict[str, Any]) -> "AllocationRecord":
        """What :meth:`to_json` wrote."""
        spread_P = np.zeros(len(body["first"]), dtype=bool)
        spread_P[body["spread"]] = True
        promised = Promises(
            accelerators=tuple(body["accelerators"]),
            first_P=np.array(body["first"], dtype=np.int64),
            second_P=np.array(body["second"], dtype=np.int64),
            accelerator_P=np.array(body["accelerator"], dtype=np.int64),
            spread_P=spread_P,
            share_P=np.array(body["share"], dtype=float),
        )
        return AllocationRecord(
            asked_s=body["asked_s"],
            opened=frozenset(body["opened"]),
            promised=promised,
            certificate=Certificate(**body["certificate"]),
            marginal_A=body["marginal"],
            execution=Execution(**body["execution"]),
            notes=tuple(body["notes"]),
        )


def answer_of(allocation: Allocation) -> AllocationRecord:
    """What of an allocation cannot be worked out from the question."""
    return AllocationRecord(
        asked_s=allocation.snapshot.time_s,
        opened=allocation.snapshot.opened,
        promised=allocation.promises(),
        certificate=Certificate(**allocation.certificate.to_json()),
        marginal_A={name: float(value) for name, value in allocation.marginal_A.items()},
        execution=allocation.execution,
        notes=tuple(allocation.notes),
    )


def allocation_of(answer: AllocationRecord, asked: Snapshot) -> Allocation:
    """The allocation of the snapshot asked about. Raises :class:`PolicyError` for a way to run not in it."""
    snapshot = asked.replace(opened=answer.opened)
    share_C = np.zeros(len(snapshot.configurations))
    share_C[_places(answer.promised, snapshot)] = answer.promised.share_P
    return Allocation(
        snapshot=snapshot,
        share_C=share_C,
        certificate=answer.certificate,
        marginal_A=answer.marginal_A,
        execution=answer.execution,
        notes=answer.notes,
    )


def as_of_version_3(body: dict[str, Any]) -> dict[str, Any]:
    """An answer of versions 1 and 2, where flags said how it is carried out."""
    flags = set(body.pop("flags"))
    execution = Execution(
        backfill="strict" not in flags,
        quota="capped" in flags,
        whole_devices="whole" in flags,
        may_move="unmoved" not in flags,
        knows_types="type_blind" not in flags,
        by_owner="by_owner" in flags,
        refresh_s=body.pop("ask_again_s"),
    )
    return body | {"execution": asdict(execution)}


def _places(promised: Promises, snapshot: Snapshot) -> Ints:
    """Where each promised way to run stands among the configurations."""
    table = snapshot.configurations
    J, A = table.shape
    row = {job.id: j for j, job in enumerate(snapshot.jobs)} | {NOBODY: -1}
    a_of = {name: a for a, name in enumerate(snapshot.accelerators)}
    try:
        first_P = np.array([row[i] for i in promised.first_P.tolist()], dtype=np.int64)
        second_P = np.array([row[i] for i in promised.second_P.tolist()], dtype=np.int64)
        type_A = np.array([a_of[name] for name in promised.accelerators], dtype=np.int64)
    except KeyError as error:
        raise PolicyError(f"the answer speaks of {error}, which it was not asked about") from None
    alone_P = second_P < 0
    low_P = np.where(alone_P, first_P, np.minimum(first_P, second_P))
    high_P = np.where(alone_P, -1, np.maximum(first_P, second_P))
    low_C, high_C = np.full(len(table), J), np.full(len(table), -1)
    np.minimum.at(low_C, table.configuration_M, table.job_M)
    np.maximum.at(high_C, table.configuration_M, table.job_M)
    high_C[table.members_C == 1] = -1

    def keys(low: Ints, high: Ints, a: Ints, spread: NDArray[np.bool_]) -> Ints:
        return ((low * (J + 1) + high + 1) * A + a) * 2 + spread

    key_C = keys(low_C, high_C, table.accelerator_C, table.spread_C)
    key_P = keys(low_P, high_P, type_A[promised.accelerator_P], promised.spread_P)
    if not len(key_P):
        return np.zeros(0, dtype=np.int64)
    order = np.argsort(key_C, kind="stable")
    place_P = (
        order[np.minimum(np.searchsorted(key_C, key_P, sorter=order), len(order) - 1)] if len(order) else key_P
    )
    if not len(order) or (key_C[place_P] != key_P).any():
        raise PolicyError("the answer gives a share to a way to run that it was not asked about")
    return np.asarray(place_P, dtype=np.int64)
