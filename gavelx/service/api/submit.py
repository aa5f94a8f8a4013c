"""Submissions: checked against what is known of speeds, numbered, and accepted once."""

import asyncio
import math
import secrets
import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from gavelx.elastic import Elastic
from gavelx.errors import UserError
from gavelx.jobs import Job
from gavelx.mechanism.events import JobSubmitted
from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.convert import check_spec, note_of
from gavelx.service.api.calls import Call
from gavelx.service.api.limits import Allowance
from gavelx.service.api.naming import type_of
from gavelx.service.state.foretelling import foretold
from gavelx.service.state.state import State
from gavelx.service.state.untold import Foretold
from gavelx.service.store.records import Entry
from gavelx.spelling import close, meant, nearest

JOBS_IN_CALL = 10_000
PIECE = 100
"""Jobs that are checked at a stretch."""


async def submit(call: Call, request: wire.SubmitRequest) -> wire.SubmitReply:
    """Durable when it is answered; all jobs are accepted or none."""
    allowance = Allowance(call.caller, call.desk.guard.accounts(), call.desk.limits)
    submission = Submission(call.state, request.jobs, allowance)
    await submission.check()
    await call.scheduler.ask(submission.entries)
    return wire.SubmitReply(job_ids=submission.ids)


class Submission:
    """Jobs that one caller wants; ``ids`` once they are checked and numbered. All are accepted or none."""

    def __init__(self, state: State, specs: Sequence[wire.JobSpec], allowance: Allowance) -> None:
        if not 1 <= len(specs) <= JOBS_IN_CALL:
            raise UserError(f"{len(specs)} jobs", expected=f"1 to {JOBS_IN_CALL} in a call")
        self._state, self._specs, self._allowance, self._owner = state, specs, allowance, allowance.caller.owner
        self._jobs: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.ids: list[int] = []

    async def check(self) -> None:
        """Raises :class:`UserError` that names a job which cannot be run. Others have their turns meanwhile.

        Jobs that there is no room for are refused before anything else is looked at.
        """
        self._check_room(spec.request_id for spec in self._specs)
        for n, spec in enumerate(self._specs):
            self._jobs.append(self._checked(n, spec))
            if n % PIECE == PIECE - 1:
                await asyncio.sleep(0)
        await self._foretell()

    async def _foretell(self) -> None:
        """Note what data sheets say of the speeds of those jobs whose users say none."""
        state = self._state
        kinds = {
            (fields["job_type"], width)
            for fields, note in self._jobs
            if note.get("untold")
            for width in {fields["scale_factor"], *(fields["elastic"].widths if fields["elastic"] else ())}
        }
        rows = await foretold(kinds - state.untold.foretold.keys(), list(state.untold.rates), state.table)
        rows_of = defaultdict[str, list[Foretold]](list)
        for row in rows:
            rows_of[row[0]].append(row)
        for fields, note in self._jobs:
            if own := rows_of.get(fields["job_type"]):
                note["foretold"] = own

    def _check_room(self, request_ids: Iterable[str]) -> None:
        """Raises :class:`RefusedError` where there is no room for those that were not accepted before."""
        self._allowance.check_jobs(self._state, sum(self._before(each) is None for each in request_ids))

    def _checked(self, n: int, spec: wire.JobSpec) -> tuple[dict[str, Any], dict[str, Any]]:
        """The fields of the job, and the note; raises :class:`UserError` naming the job."""
        try:
            check_spec(spec)
            self._allowance.check_weight(spec.weight)
            elastic = Elastic.of(spec.elasticity) if spec.elasticity else None
            named = meant(spec.job_type, self._state.job_types) or spec.job_type or type_of(spec.command)
            job_type, told = self._type(named, spec)
            fields: dict[str, Any] = {
                "job_type": job_type,
                "total_steps": spec.total_steps or math.inf,
                "scale_factor": max(1, spec.workers),
                "weight": spec.weight or 1.0,
                "slo": spec.slo or None,
                "duration_s": spec.duration_s or None,
                "owner": self._owner,
                "preemptible": spec.preemptible or "auto",
                "retries": spec.retries if spec.HasField("retries") else None,
                "elastic": elastic,
            }
            Job(0, **fields)
        except UserError as error:
            which = f"job {n + 1} of {len(self._specs)}" if len(self._specs) > 1 else "the job"
            where = f"{which}{f' ({spec.name[:64]!r})' if spec.name else ''}"
            raise UserError(error.problem, where=where, expected=error.expected, hint=error.hint) from None
        return fields, note_of(spec) | {"type": named} | told

    def _type(self, named: str, spec: wire.JobSpec) -> tuple[str, dict[str, Any]]:
        """The name under which its speeds are known, and what it says of them.

        A job that says its own is of a type of its own, by what it says, so speeds of one user reach no other. One
        that says none, of a type that the table lacks, is of a type of its owner, whose speeds are estimated.
        """
        if spec.steps_per_s:
            job_type, speeds = self._speeds(named, spec)
            return job_type, {"speeds": speeds} if speeds else {}
        if named in self._state.job_types:
            return named, {"untold": True}
        if spec.job_type and close(named, self._state.job_types):
            hint = f"{nearest(named, self._state.job_types)} or say how fast yours is: {self._speed_options()}"
            raise UserError(f"unknown job type {named!r}", expected="a type of the throughput table", hint=hint)
        by = {} if spec.job_type else {"named_by": "command"}
        return f"{named}~{zlib.crc32(self._owner.encode()):08x}", {"untold": True} | by

    def _speed_options(self) -> str:
        here = dict.fromkeys(machine.server.accelerator for machine in self._state.machines.values())
        return " ".join(f"--speed {name}=STEPS_PER_S" for name in list(here)[:3] or ["ACCELERATOR"])

    def _speeds(self, job_type: str, spec: wire.JobSpec) -> tuple[str, dict[str, float]]:
        """The name under which its speeds are known, and all of them where the table does not have some."""
        table = self._state.said_at.get(job_type, {}).get(max(1, spec.workers), {})
        speeds = {name.lower(): speed for name, speed in spec.steps_per_s.items()} | table
        if len(speeds) == len(table):
            return job_type, {}
        mark = zlib.crc32(repr(sorted(speeds.items())).encode())
        return f"{job_type}~{mark:08x}", speeds

    def entries(self, now_s: float) -> list[Entry]:
        """Number the jobs. One that was accepted before, by its request id, keeps its number and is no event."""
        state, entries = self._state, list[Entry]()
        self._check_room(note.get("request_id", "") for _, note in self._jobs)
        self.ids = []
        for fields, note in self._jobs:
            if (before := self._before(note.get("request_id", ""))) is not None:
                self.ids.append(before)
                continue
            job = Job(id=state.next_job_id, arrival_s=now_s, **fields)
            state.next_job_id += 1
            state.numbered[self._owner] += 1
            if request_id := note.get("request_id"):
                state.of_request[self._owner, request_id] = job.id
            self.ids.append(job.id)
            folder = f"{job.id}-{secrets.token_hex(4)}"  # other logs begin at 0, too
            entries.append(Entry(JobSubmitted(now_s, job), note | {"folder": folder}))
        return entries

    def _before(self, request_id: str) -> int | None:
        """The number that a job was given when it was submitted before; None if it was not."""
        return self._state.of_request.get((self._owner, request_id)) if request_id else None
