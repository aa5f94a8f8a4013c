"""The books of a mechanism agree with one another; what does not is said."""

from collections.abc import Callable

import numpy as np
import pytest

from gavelx.configuration import ALONE
from gavelx.mechanism import Mechanism
from gavelx.mechanism.events import Allocated, JobSubmitted, Wake
from gavelx.mechanism.live import NO_WAY
from gavelx.prices import Prices
from gavelx.solvers import certified
from tests.mechanism.test_mechanism import a_running_pair, as_a_pair, asked, ended, job, settle, with_servers


def running() -> Mechanism:
    """Two jobs on a server of three devices, and one of them is a gang."""
    mechanism = with_servers(3)
    for submitted in (job(0, scale=2), job(1)):
        mechanism.handle(JobSubmitted(0.0, submitted))
    settle(mechanism, Wake(0.0), [1.0, 1.0])
    mechanism.validate()
    return mechanism


def _forget_a_device(mechanism: Mechanism) -> None:
    mechanism.hardware.free[0].take(0)
    lease = mechanism.leasing.leases[0]
    mechanism.leasing.leases[0] = lease._replace(devices=lease.devices[:1])


def _hold_twice(mechanism: Mechanism) -> None:
    leases = mechanism.leasing.leases
    leases[1] = leases[1]._replace(devices=leases[0].devices[:1])


def _lose_the_server(mechanism: Mechanism) -> None:
    del mechanism.hardware.servers[0]


def _forget_a_lease(mechanism: Mechanism) -> None:
    del mechanism.leasing.leases[1]


def _mix_rows(mechanism: Mechanism) -> None:
    mechanism.live.index = {0: 1, 1: 0}


def _run_by_another(mechanism: Mechanism) -> None:
    mechanism.live.way[:] = mechanism.live.way[::-1].copy()


def _another_lease(mechanism: Mechanism) -> None:
    mechanism.live.lease[0] = 77


def _entitle_the_gone(mechanism: Mechanism) -> None:
    mechanism.accounts.ways.job[0] = 9


BROKEN: list[tuple[Callable[[Mechanism], None], str]] = [
    (_forget_a_device, "1 free|devices"),
    (_hold_twice, "is in leases"),
    (_lose_the_server, "its server is gone"),
    (_forget_a_lease, "leases and rows differ"),
    (_mix_rows, "rows of jobs are mixed up"),
    (_run_by_another, "by the entitlement of another one"),
    (_another_lease, "77"),
    (_entitle_the_gone, "a job that is gone is entitled"),
]


@pytest.mark.parametrize(("damage", "words"), BROKEN, ids=lambda value: getattr(value, "__name__", ""))
def test_books_that_do_not_agree_are_found(damage: Callable[[Mechanism], None], words: str) -> None:
    mechanism = running()
    damage(mechanism)
    with pytest.raises(AssertionError, match=words):
        mechanism.validate()


def test_a_promised_pair_is_known_whatever_the_order_of_ids() -> None:
    """Rows are in order of submission, ids need not be: a pair still runs by what it was promised."""
    mechanism = with_servers(1, pairs=True)
    for job_id in (7, 2):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    solve = asked(mechanism, Wake(0.0))
    mechanism.handle(Allocated(0.0, as_a_pair(solve.snapshot)))
    mechanism.validate()
    assert mechanism.live.partner.tolist() == [2, 7]
    mechanism.handle(Wake(360.0))  # a new round finds it as it runs
    assert (mechanism.live.way != NO_WAY).all()
    mechanism.accounts.promise(mechanism.accounts.ways)
    assert (mechanism.live.way != NO_WAY).all()


def test_one_job_can_be_read() -> None:
    mechanism, (first, _) = a_running_pair()
    mechanism.handle(ended(100.0, first, 700.0))
    left, stays = mechanism.job(0), mechanism.job(1)
    assert left is not None and stays is not None
    assert (left.steps_done, left.saved_steps, left.lease, left.received_s) == (700.0, 700.0, None, 100.0)
    assert stays.lease is not None and stays.lease.job_id == 1
    assert stays.received_s == 100.0
    assert stays.behind_s == stays.promised_s - stays.received_s
    assert mechanism.job(5) is None


@pytest.mark.parametrize("pairs", [False, True])
def test_what_a_job_has_cost_is_as_of_now(pairs: bool) -> None:
    """The time since accounts were settled counts, up to the moment that is asked for; a pair shares the price."""
    mechanism = with_servers(1, prices=Prices({"fast": 3600.0}), pairs=pairs)
    for job_id in (0, 1):
        mechanism.handle(JobSubmitted(0.0, job(job_id)))
    solve = asked(mechanism, Wake(0.0))
    one_C = np.arange(len(solve.snapshot.configurations)) == 0
    alone = certified(solve.snapshot, one_C.astype(float), path="test", seconds=0.0)
    mechanism.handle(Allocated(0.0, as_a_pair(solve.snapshot) if pairs else alone))
    before = mechanism.live.spent_usd.copy()
    mechanism.handle(Wake(100.0))
    seen = [view.spent_usd for view in map(mechanism.job, (0, 1)) if view is not None]
    assert (mechanism.live.spent_usd == before).all()
    assert seen == ([50.0, 50.0] if pairs else [100.0, 0.0])
    later = [view for view in (mechanism.job(i, 250.0) for i in (0, 1)) if view is not None]
    assert [view.spent_usd for view in later] == [2.5 * usd for usd in seen]
    assert [view.received_s for view in later] == ([250.0, 250.0] if pairs else [250.0, 0.0])
    assert [view.promised_s for view in later] == ([250.0, 250.0] if pairs else [250.0, 0.0])
    mechanism.accounts.settle_all(100.0)
    mechanism.accounts.accrue(100.0)
    assert [mechanism.job(i, 250.0) for i in (0, 1)] == later


def test_servers_and_devices_can_be_read() -> None:
    mechanism = running()
    assert [server.id for server in mechanism.servers()] == [0]
    assert (mechanism.devices(), mechanism.free(), mechanism.running()) == ({"fast": 3}, {"fast": 0}, 2)
    assert np.all(mechanism.live.partner == ALONE)
