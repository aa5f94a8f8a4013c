"""What any backend must do with the mechanism, whatever a job is to it."""

from collections.abc import Callable
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import ClassVar

import pytest

from experiments.deployed.audit import audit
from gavelx.mixes import speed_on
from gavelx.sizes import OWN_BATCH
from tests.conformance.observed import Observed
from tests.conformance.scenario import PRICES, TABLE, Happening, Scenario, Wanted

TAKE_TURNS = Scenario(
    policy="max_min_fairness",
    servers={"fast": ("v100", 2), "slow": ("k80", 1)},
    jobs=(Wanted(2, workers=2), Wanted(3), Wanted(3), Wanted(1.5, after=1)),
)
IN_ORDER = Scenario(
    policy="fifo",
    servers=dict.fromkeys(("one", "two", "three"), ("v100", 1)),
    jobs=(Wanted(100), Wanted(10), Wanted(10), Wanted(0.5), Wanted(0.5)),
    happenings=(
        Happening(once=1, has_done=0.05, then="drain", job_id=1),  # it takes the place of the third
        Happening(once=1, has_run=2, then="cancel", job_id=0),  # whose place the third takes
        Happening(once=2, has_done=0.05, then="lose", job_id=2),
    ),
)
GROW_AND_SHRINK = Scenario(
    policy="elastic(max_min_fairness)",
    servers=dict.fromkeys(("one", "two"), ("v100", 1)),
    jobs=(Wanted(100, elastic="workers:1-2"), Wanted(4, after=2)),
    happenings=(Happening(once=0, has_held=(2, 1, 2), then="cancel", job_id=0),),
)
ON_ONE_SERVER = replace(GROW_AND_SHRINK, servers={"one": ("v100", 2)})
LENDING = Scenario(
    policy="elastic(easyscale)",
    servers={"one": ("v100", 2)},
    jobs=(Wanted(100, workers=2, elastic="workers:1-2"),),
    happenings=(
        Happening(once=0, has_held=(2,), then="offer", job_id=0, devices=1),
        Happening(once=0, has_held=(2, 1), then="offer", job_id=0, devices=2),
        Happening(once=0, has_held=(2, 1, 2), then="cancel", job_id=0),
    ),
    resize_s=0.0,
)
"""However long jobs take to start, and things to be noticed: each happens to a job that is far from its end."""


ON_MIXES = Scenario(
    policy="elastic(max_min_fairness)",
    servers={"fast": ("v100", 1), "slow": ("k80", 2)},
    jobs=(Wanted(12, elastic="workers:1-3/12/mixed"), Wanted(2, after=2), Wanted(1, after=6)),
)


class BackendConformance:
    """Subclass it and say how a scenario is run; ``paced``: jobs are just as fast as the table says."""

    run: ClassVar[Callable[[Scenario, Path], Observed]]
    round_s: ClassVar[float]
    longer: ClassVar[float] = 1.0
    paced: ClassVar[bool] = True
    bits: ClassVar[tuple[str, str]] = ("", "")

    def test_jobs_take_turns(self, tmp_path: Path) -> None:
        """Four jobs, one of them a gang, share two fast devices and a slow one by max-min fairness."""
        seen = type(self).run(TAKE_TURNS.timed(self.round_s, self.longer), tmp_path)
        self.every_job_is_complete_once(seen)
        self.the_books_add_up(seen)
        self.a_gang_holds_its_devices_together(seen)
        assert any(held.stopped for held in seen.history.leases), "nobody was preempted"
        self.who_is_preempted_goes_on_with_what_he_saved(seen)
        self.what_was_promised_was_received(seen)

    def test_jobs_are_served_in_order_whatever_happens(self, tmp_path: Path) -> None:
        """Five jobs on three devices, first come, first served: one is cancelled, a server drained, one lost."""
        seen = type(self).run(IN_ORDER.timed(self.round_s, self.longer), tmp_path)
        self.every_job_is_complete_once(seen, but=0)
        self.the_books_add_up(seen)
        self.they_begin_in_order_of_arrival(seen)
        self.a_cancelled_job_frees_its_device(seen, 0, to=2)
        self.who_is_preempted_goes_on_with_what_he_saved(seen)
        self.a_drained_server_gets_nothing(seen)
        self.who_lost_his_server_goes_on_elsewhere(seen, 2)

    def test_jobs_grow_and_shrink(self, tmp_path: Path) -> None:
        """An elastic job has all devices, makes room for another one, has them all again, and is cancelled."""
        seen = type(self).run(GROW_AND_SHRINK.timed(self.round_s, self.longer), tmp_path)
        self.every_job_is_complete_once(seen, but=0)
        self.the_books_add_up(seen)
        self.it_grew_and_shrank(seen, 0)
        self.who_is_preempted_goes_on_with_what_he_saved(seen)

    @pytest.mark.parametrize("scenario", [GROW_AND_SHRINK, ON_ONE_SERVER], ids=["two servers", "one server"])
    def test_jobs_are_resized_while_they_run(self, scenario: Scenario, tmp_path: Path) -> None:
        """The same without a restart: it goes over from lease to lease."""
        resized = replace(scenario, resize_s=0.0).timed(self.round_s, self.longer)
        seen = type(self).run(resized, tmp_path)
        self.every_job_is_complete_once(seen, but=0)
        self.the_books_add_up(seen)
        self.it_grew_and_shrank(seen, 0)
        assert [held.resized for held in seen.of(0)] == [True] * (len(seen.of(0)) - 1) + [False]
        assert seen.accounts[0].bits == self.bits

    def test_devices_are_taken_back_and_lent_again(self, tmp_path: Path) -> None:
        """An elastic job shrinks to the device that is left, and grows again, without a restart."""
        seen = type(self).run(LENDING.timed(self.round_s, self.longer), tmp_path)
        self.every_job_is_complete_once(seen, but=0)
        self.the_books_add_up(seen)
        held = seen.of(0)
        assert [[device.slot for device in each.lease.devices] for each in held] == [[0, 1], [0], [0, 1]]
        assert [each.resized for each in held] == [True, True, False]

    # -- what must hold ---------------------------------------------------------------------------------------

    def every_job_is_complete_once(self, seen: Observed, but: int | None = None) -> None:
        for job in seen.jobs.values():
            account, leases = seen.accounts[job.id], seen.of(job.id)
            if job.id == but:
                assert account.ended == "cancelled"
                assert account.steps_done < job.total_steps
                continue
            assert (account.ended, account.steps_done) == ("complete", job.total_steps), (job, account)
            assert [held.steps_done >= job.total_steps for held in leases] == [False] * (len(leases) - 1) + [True]

    def the_books_add_up(self, seen: Observed) -> None:
        """No device in two leases, no gang in part, no step without time for it; the bill is time times price."""
        table = TABLE if self.paced else None
        books = audit(seen.history, seen.jobs.values(), seen.servers.values(), PRICES, table)
        complete = [job for job in seen.jobs.values() if seen.accounts[job.id].ended == "complete"]
        books.check_complete({job.id: job.total_steps for job in complete})
        billed_usd = sum(account.spent_usd for account in seen.accounts.values())
        books.check_bill(billed_usd - self.waiting_usd(seen))

    def waiting_usd(self, seen: Observed) -> float:
        """What is paid for beside the work.

        How long a lease without a last word was held is not known: it pays from when it was given out. New
        devices of a job that is resized are held while their processes get ready.
        """
        usd = 0.0
        price_of = {
            server.id: PRICES.usd_per_hour[server.accelerator] / 3600.0 for server in seen.servers.values()
        }
        for held in seen.history.leases:
            price = PRICES.usd_per_hour[held.lease.accelerator] / 3600.0
            if held.lost:
                assert not held.lease.configuration.others
                usd += (held.start_s - held.launched_s) * len(held.lease.devices) * price
            if held.warm_s:
                assert held.lease.continues is not None
                before = seen.history.by_id[held.lease.continues].lease
                new = set(held.lease.devices) - set(before.devices)
                usd += held.warm_s * sum(price_of[device.server_id] for device in new)
        return usd

    def a_gang_holds_its_devices_together(self, seen: Observed) -> None:
        for job in seen.jobs.values():
            for held in seen.of(job.id):
                assert len(set(held.lease.devices)) == job.scale_factor

    def who_is_preempted_goes_on_with_what_he_saved(self, seen: Observed) -> None:
        """No step is done twice, but for those that a lost server had not saved."""
        for job in seen.jobs.values():
            before = 0.0
            for held in seen.of(job.id):
                if held.lost or held.failed:
                    assert not held.failed, held
                    before = held.steps_done
                    continue
                gained = held.steps_done - before
                assert gained >= 0.0, held
                if self.paced:
                    steps_per_s = speed_on(job, held.lease.configuration.uses, OWN_BATCH, TABLE)
                    assert steps_per_s is not None
                    most = held.held_s * steps_per_s
                    least = most if len(held.servers) == 1 else 0.0  # its parts do not begin or end together
                    assert least * (1 - 1e-6) <= gained <= most * (1 + 1e-6), held
                before = held.steps_done

    def it_grew_and_shrank(self, seen: Observed, job_id: int) -> None:
        """Its number of devices went down for the other job, and up again."""
        numbers = [number for number, _ in groupby(len(held.lease.devices) for held in seen.of(job_id))]
        assert numbers == [2, 1, 2], seen.history.of(job_id)

    def what_was_promised_was_received(self, seen: Observed) -> None:
        """No job is more than three rounds behind in the end (two in the simulator), but for what was late."""
        for job_id, account in seen.accounts.items():
            owed_s = account.promised_s - account.received_s
            assert owed_s <= 3 * self.round_s + seen.late_s, (job_id, account, seen.late_s)
        promised_s = sum(account.promised_s for account in seen.accounts.values())
        received_s = sum(account.received_s for account in seen.accounts.values())
        assert received_s + len(seen.jobs) * seen.late_s >= 0.8 * promised_s > 0.0

    def they_begin_in_order_of_arrival(self, seen: Observed) -> None:
        first_s = [seen.of(job_id)[0].launched_s for job_id in sorted(seen.jobs)]
        assert all(one <= other for one, other in pairwise(first_s)), first_s

    def a_cancelled_job_frees_its_device(self, seen: Observed, job_id: int, to: int) -> None:
        """Whoever is next in order has it."""
        (held,) = seen.of(job_id)
        later = [heir for heir in seen.history.leases if heir.start_s >= held.end_s and heir.held_s > 0]
        heir = min(later, key=lambda heir: heir.start_s)
        assert held.stopped
        assert (heir.lease.job_id, heir.lease.devices) == (to, held.lease.devices)

    def a_drained_server_gets_nothing(self, seen: Observed) -> None:
        ((server_id, drained_s),) = seen.history.drained_s.items()
        there = [held for held in seen.history.leases if server_id in held.servers]
        assert there
        assert all(held.launched_s <= drained_s for held in there)
        assert all(held.stopped or held.end_s <= drained_s for held in there)

    def who_lost_his_server_goes_on_elsewhere(self, seen: Observed, job_id: int) -> None:
        leases = seen.of(job_id)
        (lost,) = [held for held in leases if held.lost]
        later = leases[leases.index(lost) + 1 :]
        assert later
        assert all(held.servers != lost.servers and held.start_s >= lost.end_s for held in later)


class MixesConformance(BackendConformance):
    """The same, and what must hold of jobs on several types at once, where jobs are as fast as the table says."""

    def test_a_job_runs_on_two_types_at_once(self, tmp_path: Path) -> None:
        """A job in twelve parts has all devices, of both types, and leaves some of them to two others for a while.

        Six of its parts run on the v100 and three on each k80.
        """
        seen = type(self).run(ON_MIXES.timed(self.round_s, self.longer), tmp_path)
        self.every_job_is_complete_once(seen)
        self.the_books_add_up(seen)
        self.who_is_preempted_goes_on_with_what_he_saved(seen)
        uses = [held.lease.configuration.uses for held in seen.of(0)]
        assert (("v100", 1), ("k80", 2)) in uses, uses
        assert len(set(uses)) > 1, uses
        every_device = {device for held in seen.of(0) for device in held.lease.devices}
        assert len(every_device) == 3

    def test_a_job_goes_over_to_other_types_while_it_runs(self, tmp_path: Path) -> None:
        """It leaves devices to the others and takes them again without a restart, as within one type."""
        seen = type(self).run(replace(ON_MIXES, resize_s=0.0).timed(self.round_s, self.longer), tmp_path)
        self.every_job_is_complete_once(seen)
        self.the_books_add_up(seen)
        types = [(held.lease.configuration.types, held.resized) for held in seen.of(0)]
        over = [(one, two) for (one, resized), (two, _) in pairwise(types) if resized]
        assert any("+" in before or "+" in after for before, after in over), over
