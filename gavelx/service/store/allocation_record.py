"""A policy's answer without the snapshot that it answers: what crosses to and from the solver, and what is logged.

The mechanism asks the same question again when the log is replayed, so the shares are all that has to be kept.

Legend: P configurations with a share, J jobs, C configurations.
"""

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation, Certificate
from gavelx.configuration import ABSENT, ALONE, AS_ASKED, ConfigurationSet, widened
from gavelx.errors import PolicyError
from gavelx.execution import DEFAULT, Execution
from gavelx.memory import Memory
from gavelx.memory import from_json as memory_from_json
from gavelx.memory import to_json as memory_to_json
from gavelx.promises import Promises
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
    memory: Memory = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Plain values; numbers are written so that reading gives the same float back."""
        promised, configurations = self.promised, self.promised.configurations
        return {
            "asked_s": self.asked_s,
            "opened": sorted(self.opened),
            "accelerators": list(promised.accelerators),
            "first": configurations.job.tolist(),
            "second": configurations.partner.tolist(),
            "accelerator": configurations.type.tolist(),
            "devices": configurations.devices.tolist(),
            "spread": np.flatnonzero(configurations.spread).tolist(),
            **({"batch": configurations.batch.tolist()} if configurations.batch.any() else {}),
            **({"others": configurations.others.tolist()} if configurations.others.any() else {}),
            "share": promised.share_P.tolist(),
            "certificate": self.certificate.to_json(),
            "marginal": self.marginal_A,
            "execution": asdict(self.execution),
            "notes": list(self.notes),
            **({"memory": memory_to_json(self.memory)} if self.memory else {}),
        }

    @staticmethod
    def from_json(body: dict[str, Any]) -> "AllocationRecord":
        """What :meth:`to_json` wrote."""
        spread_P = np.zeros(len(body["first"]), dtype=bool)
        spread_P[body["spread"]] = True
        names = ("first", "second", "accelerator", "devices")
        job, partner, type_, devices = (np.array(body[name], dtype=np.int64) for name in names)
        batch = np.array(body.get("batch", [0] * len(job)), dtype=np.int64)
        others = body.get("others") or [[]] * len(job)
        others_PA = np.array(others, dtype=np.int64).reshape(len(job), len(others[0]) if others else 0)
        configurations = ConfigurationSet(job, partner, type_, devices, spread_P, batch, others_PA)
        promised = Promises(tuple(body["accelerators"]), configurations, np.array(body["share"], dtype=float))
        return AllocationRecord(
            asked_s=body["asked_s"],
            opened=frozenset(body["opened"]),
            promised=promised,
            certificate=Certificate(**body["certificate"]),
            marginal_A=body["marginal"],
            execution=_execution(body["execution"]),
            notes=tuple(body["notes"]),
            memory=memory_from_json(body.get("memory", {})),
        )


def _execution(body: dict[str, Any]) -> Execution:
    first_on = tuple((job_id, name) for job_id, name in body.get("first_on", ()))
    return Execution(**body | {"first_on": first_on})


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
        memory=dict(allocation.memory),
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
        memory=answer.memory,
    )


def as_of_version_3(body: dict[str, Any]) -> dict[str, Any]:
    """An answer of versions 1 and 2: flags said how it is carried out, and jobs had the devices they asked for."""
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
    return body | {"execution": asdict(execution), "devices": [AS_ASKED] * len(body["first"])}


def _places(promised: Promises, snapshot: Snapshot) -> Ints:
    """Where each promised configuration stands in the snapshot's table."""
    row = {job.id: j for j, job in enumerate(snapshot.jobs)} | {ALONE: ALONE}
    a_of = {name: a for a, name in enumerate(snapshot.accelerators)}
    given = promised.configurations
    try:
        job_P, partner_P = (
            np.array([row[i] for i in ids.tolist()], dtype=np.int64) for ids in (given.job, given.partner)
        )
        type_A = np.array([a_of[name] for name in promised.accelerators], dtype=np.int64)
    except KeyError as error:
        raise PolicyError(f"the answer speaks of {error}, which it was not asked about") from None
    devices_P = np.where(given.devices == AS_ASKED, snapshot.scale_factor_J[job_P], given.devices)
    others = np.zeros((len(job_P), len(a_of) if given.others.any() else 0), dtype=np.int64)
    if given.others.any():
        others[:, type_A] = widened(given.others, len(type_A))
    how = type_A[given.type], devices_P, given.spread, given.batch, others
    wanted = ConfigurationSet.of(job_P, partner_P, *how)
    place_P = snapshot.configurations.rows.find(wanted)
    if (place_P == ABSENT).any():
        raise PolicyError("the answer gives a share to a configuration that it was not asked about")
    return place_P
