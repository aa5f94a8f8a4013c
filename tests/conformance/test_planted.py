"""What is wrong is found: each check of the class, on a run in which something was tampered with."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from gavelx.jobs import Job
from gavelx.mechanism.accounts import Accounts
from gavelx.mechanism.commands import Lease
from gavelx.mechanism.leasing import Leasing
from gavelx.mechanism.selection import Choice
from gavelx.mixes import Mix
from gavelx.simulator import backend
from tests.conformance.conformance import IN_ORDER, TAKE_TURNS
from tests.conformance.observed import Observed
from tests.conformance.scenario import Scenario
from tests.conformance.test_backends import TestSimulated as Simulated

CHECKS = Simulated()


def run(scenario: Scenario, folder: Path) -> Observed:
    return Simulated.run(scenario.timed(CHECKS.round_s, CHECKS.longer), folder)


def longer_lease(seen: Observed) -> None:
    """It runs on while the next one has its device."""
    stopped = next(held for held in seen.history.leases if held.stopped and held.held_s > 0)
    stopped.end_s += 1.0


def half_a_gang(seen: Observed) -> None:
    held = seen.of(0)[0]
    held.lease = held.lease._replace(devices=held.lease.devices[:1] * 2)


def lost_steps(seen: Observed) -> None:
    """It was preempted, and began again from the beginning."""
    stopped = next(held for held in seen.history.leases if held.stopped and held.held_s > 0)
    stopped.steps_done = 0.0


def more_steps(seen: Observed) -> None:
    stopped = next(held for held in seen.history.leases if held.stopped and held.held_s > 0)
    stopped.steps_done *= 1.01


def complete_twice(seen: Observed) -> None:
    first, *_, last = seen.of(1)
    first.steps_done = last.steps_done


def account(**changed: float | str) -> Callable[[Observed], None]:
    def tamper(seen: Observed) -> None:
        seen.accounts[2] = replace(seen.accounts[2], **changed)  # type: ignore[index, arg-type]

    return tamper


def other_order(seen: Observed) -> None:
    first = seen.of(4)[0]
    first.launched_s = seen.of(3)[0].launched_s - 1.0


def drained_too_early(seen: Observed) -> None:
    ((server_id, _),) = seen.history.drained_s.items()
    seen.history.drained_s[server_id] = -1.0


def back_to_where_it_was_lost(seen: Observed) -> None:
    leases = seen.of(2)
    lost = next(held for held in leases if held.lost)
    leases[-1].lease = leases[-1].lease._replace(devices=lost.lease.devices)


def freed_for_another(seen: Observed) -> None:
    """Whoever is next takes the device, and not the one who waits longest."""
    heir = min((held for held in seen.of(2) if held.start_s >= seen.of(0)[0].end_s), key=lambda held: held.start_s)
    heir.start_s += 1.0
    seen.of(3)[0].start_s = heir.start_s - 0.5


TURNS = Simulated.test_jobs_take_turns
ORDER = Simulated.test_jobs_are_served_in_order_whatever_happens


@pytest.mark.parametrize(
    ("test", "scenario", "tamper"),
    [
        (TURNS, TAKE_TURNS, longer_lease),
        (TURNS, TAKE_TURNS, half_a_gang),
        (TURNS, TAKE_TURNS, lost_steps),
        (TURNS, TAKE_TURNS, more_steps),
        (TURNS, TAKE_TURNS, complete_twice),
        (TURNS, TAKE_TURNS, account(spent_usd=1.0)),
        (TURNS, TAKE_TURNS, account(steps_done=1.0)),
        (TURNS, TAKE_TURNS, account(ended="failed")),
        (TURNS, TAKE_TURNS, account(promised_s=1e5)),
        (ORDER, IN_ORDER, other_order),
        (ORDER, IN_ORDER, drained_too_early),
        (ORDER, IN_ORDER, back_to_where_it_was_lost),
        (ORDER, IN_ORDER, freed_for_another),
    ],
)
def test_tampering_is_found(
    test: Callable[[Simulated, Path], None],
    scenario: Scenario,
    tamper: Callable[[Observed], None],
    tmp_path: Path,
) -> None:
    class Tampered(Simulated):
        @staticmethod
        def run(_: Scenario, folder: Path) -> Observed:
            seen = run(scenario, folder)
            tamper(seen)
            return seen

    test(Simulated(), tmp_path)
    with pytest.raises(AssertionError):
        test(Tampered(), tmp_path)


# -- faults of mixes: of a lease on several types something is true of the first type alone -----------------------


def others_are_not_paid_for(patch: pytest.MonkeyPatch) -> None:
    right = Accounts._charge
    patch.setattr(
        Accounts,
        "_charge",
        lambda self, j_L, a_L, n_L, _, seconds_L, k: right(self, j_L, a_L, n_L, None, seconds_L, k=k),
    )


def others_are_not_given_back(patch: pytest.MonkeyPatch) -> None:
    def wrong(self: Leasing, j: int) -> Lease:
        lease = self.leases.pop(self.live.jobs[j].id)
        self.hardware.free[int(self.live.type[j])].give_back(lease.devices)
        return lease

    patch.setattr(Leasing, "_give_back", wrong)


def others_are_not_launched(patch: pytest.MonkeyPatch) -> None:
    right = Leasing._devices

    def wrong(self: Leasing, way: Choice) -> object:
        devices, moved = right(self, way)
        return (devices[: way.devices] if devices and way.others else devices), moved

    patch.setattr(Leasing, "_devices", wrong)


def others_are_as_fast_as_the_first(patch: pytest.MonkeyPatch) -> None:
    right = backend.speed_on

    def wrong(job: Job, mix: Mix, *how: object) -> float | None:
        return right(job, ((mix[0][0], sum(devices for _, devices in mix)),), *how)  # type: ignore[arg-type]

    patch.setattr(backend, "speed_on", wrong)


@pytest.mark.parametrize(
    "plant",
    [
        others_are_not_paid_for,
        others_are_not_given_back,
        others_are_not_launched,
        others_are_as_fast_as_the_first,
    ],
)
def test_a_fault_of_mixes_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        Simulated().test_a_job_runs_on_two_types_at_once(tmp_path)
