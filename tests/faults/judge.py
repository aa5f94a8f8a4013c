"""Whether anything was lost, run twice, or wrongly charged: by what the jobs themselves wrote down.

The diaries (`job.py`) say what really ran, and when. The log says what the service believes; nothing that the
service says of itself is taken for granted. All times are of one machine's monotonic clock; those of the log begin
where its first ``Started`` says.
"""

import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from gavelx.mechanism.commands import Launch, Lease, Resize, Stop
from gavelx.mechanism.events import Event, JobCancelled, LeaseEnded, Resized, WorkerLost
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.state.snapshots import restore
from gavelx.service.state.state import State
from gavelx.service.store.configuration import Configuration
from gavelx.service.store.log import Log
from gavelx.service.store.places import LogError
from gavelx.service.store.records import Entry, entry_of
from tests.faults.cluster import GRACE_S, HEARTBEAT_S, USD_PER_HOUR, VALID_FOR_S
from tests.faults.plan import JobPlan, Plan
from tests.service.test_restart import plain

BEGINS_S, ENDS_S = 3.0, 2.0
"""How long an agent may hold devices before the job writes its first line, and after its last one."""
CLOSE_S = 0.01
CENT_PART = 1e-6
BEFORE = {"joining", "conflict"}
"""What a process writes down that is to join a job: its devices are not those of the lease yet."""
UNHEARD_S = 1.5 * VALID_FOR_S + HEARTBEAT_S + GRACE_S + 1.0 + 0.01 * VALID_FOR_S
"""How long devices may be charged for that a silent server has stopped using. A service that is no more has said
that it was there each half of the time for which leases are valid; they lapse, and jobs have their grace."""


@dataclass(frozen=True)
class Line:
    """One line of a diary."""

    time_s: float
    what: str
    n: float | str
    lease: int
    rank: int
    pid: int


@dataclass
class Diary:
    """What one job wrote down."""

    job_id: int
    plan: JobPlan
    lines: list[Line]
    checkpoint: int

    @property
    def spans(self) -> dict[int, tuple[float, float]]:
        """First and last sign of life of each lease, in the order of their beginnings."""
        found: dict[int, tuple[float, float]] = {}
        for line in self.lines:
            if line.what in BEFORE:
                continue
            first_s, _ = found.get(line.lease, (line.time_s, 0.0))
            found[line.lease] = first_s, line.time_s
        return found

    def longest_s(self, lease: int, ranks: Collection[int]) -> float:
        """How long that of these lived that lived longest; those on other servers begin when they are told."""
        times: dict[int, list[float]] = {}
        for line in self.lines:
            if line.lease == lease and line.rank in ranks and line.what not in BEFORE:
                times.setdefault(line.rank, []).append(line.time_s)
        return max((each[-1] - each[0] for each in times.values()), default=0.0)


def read_diary(folder: Path, job_id: int, plan: JobPlan) -> Diary:
    path = folder / "diary"
    rows = [json.loads(row) for row in path.read_text().splitlines()] if path.exists() else []
    checkpoint = folder / "checkpoint"
    saved = json.loads(checkpoint.read_text())["steps"] if checkpoint.exists() else 0
    return Diary(job_id, plan, sorted((Line(*row) for row in rows), key=lambda line: line.time_s), saved)


# -- what the job says -----------------------------------------------------------------------------------------


def judge_diary(diary: Diary, continues: Mapping[int, int]) -> Iterator[str]:
    """Never twice at once, no progress lost beyond a checkpoint, the last step reached once.

    ``continues``: the lease from which a job was to go over to another, by the latter. Where it was restarted
    instead, its old processes are gone before.
    """
    live = {line.lease for line in diary.lines if line.what in {"joining", "over"}}
    continues = {lease: before for lease, before in continues.items() if lease in live}
    yield from _apart(diary, continues)
    yield from _steps(diary, continues)


def _apart(diary: Diary, continues: Mapping[int, int]) -> Iterator[str]:
    """No process of one launch lives beside those of another."""
    first = {lease: _first(lease, continues) for lease in {line.lease for line in diary.lines}}
    for (lease, (_, end_s)), (other, (begin_s, _)) in pairwise(diary.spans.items()):
        if begin_s < end_s and first[lease] != first[other]:
            yield f"ran twice at once: lease {lease} lived {end_s - begin_s:.3f} s into lease {other}"
    for line in diary.lines:
        if line.what == "conflict":
            theirs = int(str(line.n).split(".")[1]) if str(line.n).startswith("lease.") else 0
            if _first(theirs, continues) != first[line.lease]:
                yield f"lease {line.lease} found {line.n} taken"


def _steps(diary: Diary, continues: Mapping[int, int]) -> Iterator[str]:
    """Each step follows the last one, of this lease or that which it continues, or what was saved."""
    saved, done = 0.0, dict[int, float]()
    for line in diary.lines:
        if line.what == "start" and line.rank == 0 and "doomed" not in diary.plan.habits:
            done[line.lease] = float(line.n)
            if done[line.lease] < saved:
                yield f"lease {line.lease} began at step {line.n}, and {saved:g} were saved"
        elif line.what == "over":
            before = done.get(continues.get(line.lease, 0))
            if line.rank == 0 and line.n != before:
                yield f"lease {line.lease} went on at step {line.n}, and its job was at {before}"
            if line.rank == 0:
                done[line.lease] = float(line.n)
        elif line.what == "step":
            if line.n != done.get(line.lease, math.nan) + 1:
                yield f"lease {line.lease} did step {line.n} after {done.get(line.lease)}"
            if saved == diary.plan.steps:
                yield f"lease {line.lease} did step {line.n} of a job that was done"
            done[line.lease] = float(line.n)
        elif line.what == "saved":
            saved = max(saved, float(line.n))
    if max(done.values(), default=0.0) > diary.plan.steps:
        yield f"did {max(done.values()):g} steps of {diary.plan.steps}"


def _first(lease: int, continues: Mapping[int, int]) -> int:
    """The lease in which the job was launched that goes on in this one."""
    while lease in continues:
        lease = continues[lease]
    return lease


def judge_end(diary: Diary, status: wire.JobStatus) -> Iterator[str]:
    """It ended as it was to end."""
    expected = {"failed"} if "doomed" in diary.plan.habits else {"complete"}
    if diary.plan.cancel_s is not None:
        expected.add("cancelled")
    if status.state not in expected:
        yield f"is {status.state} ({status.reason}), not {' or '.join(sorted(expected))}"
    if status.state == "complete" and not diary.checkpoint == diary.plan.steps == status.steps_done:
        problem = f"the service says {status.steps_done:g}, the checkpoint {diary.checkpoint}"
        yield f"is said to be complete at step {diary.plan.steps}; {problem}"
    if status.steps_done > diary.checkpoint:
        yield f"was credited with {status.steps_done:g} steps and has saved {diary.checkpoint}"


# -- what the log says -----------------------------------------------------------------------------------------


@dataclass
class Account:
    """One lease in the books, by our own reckoning; ``held_s`` is what is to be paid for."""

    lease: Lease
    begin_s: float
    stop_s: float | None = None
    end_s: float | None = None
    held_s: float = 0.0
    ends: int = 0
    lost: set[int] = field(default_factory=set)  # servers that were lost before their part had reported
    over_s: float = 0.0
    """By when the parts on them had ended by themselves; when no server is left, it is paid for until then."""
    reported: bool = False
    warm_device_s: float = 0.0
    """Paid for beside that: devices that got ready before the job went over to this lease."""
    gone: set[int] = field(default_factory=set)
    """Servers whose last word was overtaken by three heartbeats, which a real stream does not do."""

    def usd_of(self, seconds: float) -> float:
        """What its devices cost for so long."""
        return seconds * len(self.lease.devices) * USD_PER_HOUR[self.lease.accelerator] / 3600.0

    @property
    def warm_usd(self) -> float:
        return self.warm_device_s * USD_PER_HOUR[self.lease.accelerator] / 3600.0

    @property
    def servers(self) -> list[int]:
        """The server of each rank; those of one server follow each other."""
        servers = [device.server_id for device in self.lease.devices]
        return sorted(servers, key=servers.index)

    @property
    def heard(self) -> list[int]:
        """The ranks of which there is a word."""
        return [rank for rank, server_id in enumerate(self.servers) if server_id not in self.lost | self.gone]


class Books:
    """The log read once more, with a ledger of our own beside the mechanism."""

    def __init__(self, log: Log) -> None:
        body = log.configuration
        assert body is not None
        self.accounts: dict[int, Account] = {}
        self.credited: list[LeaseEnded] = []
        self.problems: list[str] = []
        self.state = State(Configuration.from_json(body))
        self.zero_s: float | None = None
        self.continues: dict[int, int] = {}
        """By lease: the one from which its job was to go over to it."""
        for record in log.read():
            self._apply(entry_of(record))

    def _apply(self, entry: Entry) -> None:
        event = entry.event
        if self.zero_s is None:
            self.zero_s = entry.event.monotonic_s - entry.event.time_s  # type: ignore[attr-defined]
        runs = set(self.state.runs)
        commands = self.state.apply(entry)
        for command in commands:
            if isinstance(command, Resize) and command.lease.continues is not None:
                self.continues[command.lease.id] = command.lease.continues
            if isinstance(command, Launch | Resize):
                self.accounts[command.lease.id] = Account(command.lease, event.time_s)
            if isinstance(command, Stop):
                for lease_id in command.lease_id, self.continues.get(command.lease_id, 0):
                    if (account := self.accounts.get(lease_id)) is not None and account.stop_s is None:
                        account.stop_s = event.time_s
        self._end(event)
        if isinstance(event, LeaseEnded):
            self.accounts[event.lease_id].gone = set(entry.note.get("gone", ()))
        for lease_id in runs - set(self.state.runs):
            account = self.accounts[lease_id]
            account.ends += 1

    def _end(self, event: Event) -> None:
        """A lease is paid for as long as it was held; of one without a word, until it was taken back or lapsed."""
        match event:
            case LeaseEnded():
                self._ended(event)
            case Resized():
                before, account = self.accounts[event.before_id], self.accounts[event.lease_id]
                if before.reported:
                    self.problems.append(f"lease {event.before_id} ended twice")
                before.reported = True
                self._pay(before, event.time_s, event.held_s)
                new = set(account.lease.devices) - set(before.lease.devices)
                account.begin_s, account.warm_device_s = event.time_s, len(new) * event.warm_s
            case WorkerLost():
                for account in self.accounts.values():
                    on_it = any(device.server_id == event.server_id for device in account.lease.devices)
                    if on_it and not account.reported and event.server_id not in account.lost:
                        account.lost.add(event.server_id)
                        account.over_s = max(account.over_s, event.over_s)
                        end_s = account.end_s or account.stop_s or event.time_s
                        if account.lost == set(account.servers):
                            end_s = max(min(end_s, account.over_s), account.begin_s)
                        self._pay(account, end_s, None)
            case JobCancelled():
                for account in self.accounts.values():
                    if account.lease.job_id == event.job_id and account.end_s is None:
                        self._pay(account, account.stop_s or event.time_s, None)

    def _ended(self, event: LeaseEnded) -> None:
        account = self.accounts[event.lease_id]
        self.credited.append(event)
        if account.reported:
            self.problems.append(f"lease {event.lease_id} ended twice")
        account.reported = True
        if account.lost == set(account.servers):  # the late word of rank 0's, for itself
            account.lost.discard(account.servers[0])
        for later in self.accounts.values():
            if self.continues.get(later.lease.id) == event.lease_id and later.end_s is None:
                later.begin_s = event.time_s  # it is launched instead
        self._pay(account, event.time_s, event.held_s)

    def usd(self, job_id: int) -> float:
        """What the devices cost that a job held. Until it is heard to have gone over it holds its old ones."""
        leases = (account for account in self.accounts.values() if account.lease.job_id == job_id)
        return sum(account.usd_of(account.held_s) + account.warm_usd for account in leases)

    def _pay(self, account: Account, end_s: float, held_s: float | None) -> None:
        """``held_s``: by its own word; without one it was held from its beginning, if it has begun."""
        if held_s is None:
            before = self.accounts.get(self.continues.get(account.lease.id, 0))
            held_s = end_s - account.begin_s if before is None or before.reported else 0.0
        account.end_s, account.held_s = end_s, held_s


def judge_books(books: Books, diaries: dict[int, Diary], late_s: float) -> Iterator[str]:
    """Leases in the log against those that ran: each ended once, paid for as held, credited with what was done."""
    yield from books.problems
    for lease_id, account in books.accounts.items():
        if account.ends != 1:
            yield f"lease {lease_id} of job {account.lease.job_id} ended {account.ends} times"
    for job_id, diary in diaries.items():
        spans = diary.spans
        if unknown := spans.keys() - books.accounts.keys():
            yield f"job {job_id}: leases {sorted(unknown)} ran, and the log has none of them"
        for lease_id, (begin_s, end_s) in spans.items():
            if (account := books.accounts.get(lease_id)) is not None:
                ran_s, longest_s = end_s - begin_s, diary.longest_s(lease_id, account.heard)
                of_old_s = _of_old_s(lease_id, books, spans, late_s)
                yield from _judge_time(account, ran_s, longest_s - of_old_s, late_s)
    saved_by = {job_id: _saved_by(diary, books.zero_s or 0.0) for job_id, diary in diaries.items()}
    for event in books.credited:
        really = saved_by[event.job_id](event.time_s) if event.job_id in saved_by else 0.0
        if event.steps_done > really:
            yield f"lease {event.lease_id}: {event.steps_done:g} steps credited, {really:g} saved by then"
    for job_id, known in books.state.jobs.items():
        if abs(known.spent_usd - (held_usd := books.usd(job_id))) > CENT_PART:
            yield f"job {job_id} was charged {known.spent_usd:.6f} USD, and held devices for {held_usd:.6f}"


def _of_old_s(lease_id: int, books: Books, spans: Mapping[int, tuple[float, float]], late_s: float) -> float:
    """So much of a lease's time is charged to the one that it continues: until its agent saw that the job had gone
    over, which takes long where the agent was frozen.
    """
    if (before_id := books.continues.get(lease_id)) is None:
        return 0.0
    begin_s, end_s = spans.get(before_id, (0.0, 0.0))
    before = books.accounts.get(before_id)
    more_s = 0.0 if before is None else max(0.0, before.held_s - (end_s - begin_s))
    return HEARTBEAT_S + late_s + more_s


def _judge_time(account: Account, ran_s: float, longest_s: float, late_s: float) -> Iterator[str]:
    """What was held is what ran, but for how long beginning and ending take, and for a server nobody heard.

    A job that has gone over to another lease is charged for the old one until its agent has seen it.
    """
    unheard = account.lost or not account.reported
    too_long_s = BEGINS_S + ENDS_S + late_s + (UNHEARD_S if unheard else 0.0)
    if account.reported and account.held_s < longest_s - CLOSE_S:
        yield f"lease {account.lease.id} ran for {longest_s:.2f} s, and is charged for {account.held_s:.2f}"
    if account.held_s > ran_s + too_long_s:
        yield f"lease {account.lease.id} is charged for {account.held_s:.2f} s, and ran for {ran_s:.2f}"


def _saved_by(diary: Diary, zero_s: float) -> Callable[[float], float]:
    """How many steps were saved at a time of the log."""
    saved = [(line.time_s - zero_s, float(line.n)) for line in diary.lines if line.what == "saved"]
    return lambda time_s: max((n for at_s, n in saved if at_s <= time_s), default=0.0)


def judge_replay(place: str, log: Log) -> Iterator[str]:
    """The log says the same each time that it is read."""
    body = log.configuration
    assert body is not None
    configuration = Configuration.from_json(body)
    first, second = (plain(restore(log, lambda: State(configuration))[0]) for _ in range(2))
    whole = State(configuration)
    for record in log.read():
        whole.apply(entry_of(record))
    third = plain(whole)
    for name, value in first.items():
        if not value == second[name] == third[name]:
            yield f"read again, the log says something else of {name}"


# -- all of it -------------------------------------------------------------------------------------------------


def judge(
    plan: Plan, folder: Path, job_ids: dict[int, int], statuses: list[wire.JobStatus], late_s: float
) -> list[str]:
    """What is wrong with a run. ``job_ids``: what the service called each job of the plan.

    ``late_s``: how late this machine was in all, as it had other things to do.
    """
    jobs = folder / "shared" / "jobs"
    folders = {i: next(jobs.glob(f"{i}-*"), jobs / str(i)) for i in job_ids.values()}
    diaries = {i: read_diary(folders[i], i, plan.jobs[n]) for n, i in job_ids.items()}
    by_id = {status.job_id: status for status in statuses}
    problems = [f"job {i} was accepted, and nobody knows it" for i in diaries if i not in by_id]
    problems += [f"job {i} was never submitted" for i in by_id if i not in diaries]
    for i, diary in diaries.items():
        if i in by_id:
            problems += [f"job {i} {what}" for what in judge_end(diary, by_id[i])]
    place = str(folder / "service")
    try:
        log = Log(place, read_only=True)
    except LogError as error:
        return [*problems, f"the log lost records: {error}"]
    try:
        books = Books(log)
        for i, diary in diaries.items():
            problems += [f"job {i} {what}" for what in judge_diary(diary, books.continues)]
        problems += judge_books(books, diaries, late_s)
        problems += judge_replay(place, log)
    finally:
        log.close()
    return problems
