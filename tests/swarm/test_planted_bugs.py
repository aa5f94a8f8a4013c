"""Bugs that are planted, to see that they are caught: by the ledger and the audit, not by the mechanism itself.

Each takes one line out of the mechanism, or out of the simulated machines, or makes it wrong. Some seed among a
few must find it; without it, the same seeds pass (`test_swarm`).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gavelx.mechanism import Mechanism, Rules, leasing, protection
from gavelx.mechanism.commands import Command, Device, Launch, Lease
from gavelx.mechanism.events import Event, LeaseEnded, Progress
from gavelx.mechanism.leasing import Leasing
from gavelx.mechanism.live import LiveJobs
from gavelx.mechanism.placement import FreeDevices
from gavelx.simulator.backend import SimulatedCluster
from gavelx.simulator.recorder import Recorder
from gavelx.simulator.runs import Run
from tests.swarm.run import outcome
from tests.swarm.test_swarm import SEEDS

Plant = Callable[[pytest.MonkeyPatch], None]


def around(patch: pytest.MonkeyPatch, owner: type, name: str, wrong: Callable[..., Any]) -> None:
    """``wrong(right, self, ...)`` in the place of a method."""
    right = getattr(owner, name)
    patch.setattr(owner, name, lambda self, *args, **named: wrong(right, self, *args, **named))


def double_credit(patch: pytest.MonkeyPatch) -> None:
    """What a report says is added to what was known."""

    def wrong(right: Any, mechanism: Mechanism, event: Progress) -> Any:
        live = mechanism.live
        for job_id, steps in zip(event.job_id_L.tolist(), event.steps_done_L.tolist(), strict=True):
            if (j := live.index.get(job_id)) is not None and steps < live.total_steps[j]:
                live.steps_done[j] += steps
        return right(mechanism, event)

    around(patch, Mechanism, "_progress", wrong)


def lease_kept_on_a_lost_worker(patch: pytest.MonkeyPatch) -> None:
    def wrong(right: Any, leasing: Leasing, server_id: int, **how: Any) -> Any:
        leasing.hardware.leave(server_id)
        return []

    around(patch, Leasing, "_leave", wrong)


def lost_completion(patch: pytest.MonkeyPatch) -> None:
    """The end of a lease is not heard when it comes from a job that is complete."""

    def wrong(right: Any, mechanism: Mechanism, event: LeaseEnded) -> Any:
        j = mechanism.live.index.get(event.job_id)
        complete = j is not None and event.steps_done >= mechanism.live.total_steps[j]
        return [] if complete else right(mechanism, event)

    around(patch, Mechanism, "_lease_ended", wrong)


def completion_not_written_down(patch: pytest.MonkeyPatch) -> None:
    """The machines forget to note that a job is complete."""

    def wrong(right: Any, backend: SimulatedCluster, job_id: int) -> None:
        right(backend, job_id)
        backend.recorder.completion_s.pop(job_id, None)

    around(patch, SimulatedCluster, "_is_gone", wrong)


def gang_half_launched(patch: pytest.MonkeyPatch) -> None:
    def wrong(right: Any, leasing: Leasing, *args: Any) -> list[Lease]:
        leases = [lease._replace(devices=half(lease.devices)) for lease in right(leasing, *args)]
        leasing.leases |= {lease.job_id: lease for lease in leases}
        return leases

    def half(devices: tuple[Device, ...]) -> tuple[Device, ...]:
        return devices[: max(1, len(devices) // 2)]

    around(patch, Leasing, "_leases", wrong)


def bill_off_by_a_round(patch: pytest.MonkeyPatch) -> None:
    def wrong(right: Any, recorder: Recorder, *lease: Any) -> None:
        *which, billed_s, busy_s = lease
        right(recorder, *which, billed_s + 60.0, busy_s)

    around(patch, Recorder, "lease", wrong)


def credited_before_it_is_safe(patch: pytest.MonkeyPatch) -> None:
    """After a failure the mechanism goes on as if nothing had been lost."""

    def wrong(right: Any, mechanism: Mechanism, event: LeaseEnded) -> Any:
        j = mechanism.live.index.get(event.job_id)
        before = 0.0 if j is None else float(mechanism.live.steps_done[j])
        commands = right(mechanism, event)
        if j is not None:
            mechanism.live.steps_done[j] = max(before, float(mechanism.live.steps_done[j]))
        return commands

    around(patch, Mechanism, "_lease_ended", wrong)


def unsaved_work_survives_its_server(patch: pytest.MonkeyPatch) -> None:
    def wrong(right: Any, leasing: Leasing, server_id: int, **how: Any) -> Any:
        steps = leasing.live.steps_done.copy()
        commands = right(leasing, server_id, **how)
        np.maximum(leasing.live.steps_done, steps, out=leasing.live.steps_done)
        return commands

    around(patch, Leasing, "_leave", wrong)


def pair_charged_twice(patch: pytest.MonkeyPatch) -> None:
    def wrong(right: Any, run: Run, time_s: float) -> None:
        run.price_part = 1.0
        right(run, time_s)

    around(patch, Run, "turn", wrong)


def device_leased_twice(patch: pytest.MonkeyPatch) -> None:
    """The free devices are not marked as taken."""

    def wrong(right: Any, free: FreeDevices, server_id: int, count: int) -> Any:
        taken = right(free, server_id, count)
        if len(free._free[server_id]) == 0:
            free._put(server_id, [taken[-1]])
        return taken

    around(patch, FreeDevices, "_take_from", wrong)


def stop_forgotten(patch: pytest.MonkeyPatch) -> None:
    """A job is taken off its devices in the books, and nobody tells it."""

    def wrong(right: Any, mechanism: Mechanism, event: Event) -> list[Command]:
        commands: list[Command] = right(mechanism, event)
        return [command for command in commands if type(command).__name__ != "Stop"]

    around(patch, Mechanism, "handle", wrong)


def launched_twice(patch: pytest.MonkeyPatch) -> None:
    def wrong(right: Any, mechanism: Mechanism, event: Event) -> list[Command]:
        commands: list[Command] = right(mechanism, event)
        return [*commands, *(command for command in commands if isinstance(command, Launch))]

    around(patch, Mechanism, "handle", wrong)


def given_up_too_early(patch: pytest.MonkeyPatch) -> None:
    """A failure that is reported twice counts twice."""

    def wrong(right: Any, mechanism: Mechanism, event: LeaseEnded) -> Any:
        j = mechanism.live.index.get(event.job_id)
        if j is not None and event.failed:
            mechanism.live.failures[j] += 1
        return right(mechanism, event)

    around(patch, Mechanism, "_lease_ended", wrong)


def protected_job_preempted(patch: pytest.MonkeyPatch) -> None:
    def wrong(live: LiveJobs, rules: Rules, j: Any, now_s: float) -> Any:
        return np.zeros(len(j), dtype=bool)

    for module in (leasing, protection):
        patch.setattr(module, "may_keep", wrong)


def work_saved_by_a_job_that_saves_nothing(patch: pytest.MonkeyPatch) -> None:
    """The machines call safe what a plain job did before it was stopped."""

    def wrong(right: Any, backend: SimulatedCluster, lease_id: int, **how: Any) -> None:
        run = backend._running.get(lease_id)
        if run is not None and how.get("taken_back"):
            how["safe_steps"] = run.steps_at(backend.now_s)
        right(backend, lease_id, **how)

    around(patch, SimulatedCluster, "_end", wrong)


PLANTED: tuple[Plant, ...] = (
    *(
        double_credit,
        lease_kept_on_a_lost_worker,
        lost_completion,
        completion_not_written_down,
        gang_half_launched,
    ),
    *(bill_off_by_a_round, credited_before_it_is_safe, unsaved_work_survives_its_server, pair_charged_twice),
    *(device_leased_twice, stop_forgotten, launched_twice, given_up_too_early),
    *(protected_job_preempted, work_saved_by_a_job_that_saves_nothing),
)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_caught_by_the_books(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    assert any(outcome(seed)[1].startswith("LedgerError: ") for seed in SEEDS)


def test_time_that_goes_backwards_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    right = SimulatedCluster.events

    def wrong(backend: SimulatedCluster) -> Any:
        for count, event in enumerate(right(backend)):
            if count % 20 == 19:
                object.__setattr__(event, "time_s", event.time_s - 1.0)
            yield event

    monkeypatch.setattr(SimulatedCluster, "events", wrong)
    assert any("time went back" in outcome(seed)[1] for seed in SEEDS)
