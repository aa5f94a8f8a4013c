"""The story of a run, from its events and commands."""

from math import inf

import numpy as np

from gavelx.cluster import Server
from gavelx.configuration import Configuration
from gavelx.mechanism.commands import Command, Device, Launch, Lease, Stop
from gavelx.mechanism.events import Event, LeaseEnded, Progress, Wake, WorkerDrained, WorkerJoined, WorkerLost
from gavelx.mechanism.history import History


def lease(number: int, job_id: int, *servers: int) -> Lease:
    devices = tuple(Device(server_id, 0) for server_id in servers)
    return Lease(number, job_id, Configuration((job_id,), "v100", len(devices)), devices, 100.0, 1000.0, 0.0)


def told(*happenings: tuple[Event, list[Command]]) -> History:
    history = History()
    for event, commands in happenings:
        history.note(event, commands)
    return history


def progress(time_s: float, number: int, job_id: int, saved: float) -> Progress:
    return Progress(time_s, np.array([number]), np.array([job_id]), np.array([saved + 5]), np.array([saved]))


def test_a_lease_is_held_for_as_long_as_was_reported() -> None:
    history = told(
        (Wake(1.0), [Launch(lease(1, 7, 0))]),
        (Wake(5.0), [Stop(1)]),
        (LeaseEnded(6.0, 1, 7, 40.0, 4.5), []),
        (LeaseEnded(9.0, 1, 7, 41.0, 8.0), []),  # said again
    )
    (held,) = history.of(7)
    assert (held.launched_s, held.start_s, held.end_s, held.held_s) == (1.0, 1.5, 6.0, 4.5)
    assert (held.steps_done, held.stopped, held.failed, held.lost) == (40.0, True, False, False)
    assert history.of(8) == []


def test_who_lost_his_server_keeps_what_was_saved() -> None:
    history = told(
        (Wake(1.0), [Launch(lease(1, 7, 0)), Launch(lease(2, 8, 1))]),
        (progress(2.0, 1, 7, 30.0), []),
        (WorkerLost(4.0, 0), [Stop(1), Launch(lease(3, 7, 1))]),
    )
    lost, again = history.of(7)
    assert (lost.end_s, lost.steps_done, lost.lost) == (4.0, 30.0, True)
    assert (again.start_s, again.end_s) == (4.0, inf)
    assert history.of(8)[0].end_s == inf


def test_a_lost_lease_was_held_since_its_devices_were_free() -> None:
    given_out = (Wake(3.0), [Stop(1), Launch(lease(2, 8, 0))])
    ended, lost = (LeaseEnded(4.0, 1, 7, 9.0, 3.0), []), (WorkerLost(6.0, 0), [Stop(2)])
    begun = told((Wake(1.0), [Launch(lease(1, 7, 0))]), given_out, ended, lost)
    assert [(held.launched_s, held.start_s, held.end_s) for held in begun.of(8)] == [(3.0, 4.0, 6.0)]
    never = told((Wake(1.0), [Launch(lease(1, 7, 0))]), given_out, lost)
    assert [(held.start_s, held.end_s, held.lost) for held in never.leases] == [(1.0, 6.0, True), (6.0, 6.0, True)]


def test_of_a_gang_that_lost_a_server_the_others_have_the_last_word() -> None:
    history = told(
        (Wake(1.0), [Launch(lease(1, 7, 0, 1))]),
        (WorkerLost(4.0, 0), [Stop(1)]),
        (LeaseEnded(5.0, 1, 7, 33.0, 4.0), []),
    )
    (held,) = history.leases
    assert (held.end_s, held.steps_done, held.lost, held.servers) == (5.0, 33.0, False, {0, 1})


def test_a_lost_lease_was_held_until_it_had_ended_on_the_last_of_its_servers() -> None:
    history = told(
        (Wake(1.0), [Launch(lease(1, 7, 0, 1))]),
        (WorkerLost(40.0, 0, lapsed_s=10.0), [Stop(1)]),
        (Wake(41.0), [Launch(lease(2, 7, 1))]),
    )
    assert [held.end_s for held in history.leases] == [40.0, inf]
    history.note(WorkerLost(45.0, 1, lapsed_s=12.0), [Stop(2)])
    assert [(held.end_s, held.held_s) for held in history.leases] == [(12.0, 11.0), (41.0, 0.0)]
    history.note(LeaseEnded(50.0, 1, 7, 33.0, 10.5), [])  # it comes back, and says for how long it was held
    assert history.leases[0].held_s == 10.5


def test_a_server_is_drained_until_it_joins_again() -> None:
    history = told((WorkerJoined(0.0, Server(0, "v100", 1)), []), (WorkerDrained(3.0, 0), []))
    assert history.drained_s == {0: 3.0}
    history.note(WorkerJoined(5.0, Server(0, "v100", 1), 1), [])
    assert history.drained_s == {}


def test_who_shares_devices_has_held_them_since_he_began() -> None:
    devices = (Device(0, 0),)
    pair = [
        Lease(1, 7, Configuration((7, 8), "v100", 1), devices, 1000.0, 1000.0, 0.0),
        Lease(2, 8, Configuration((7, 8), "v100", 1), devices, 1000.0, 1000.0, 0.0),
    ]
    history = History()
    history.note(Wake(0.0), [Launch(lease) for lease in pair])
    history.note(LeaseEnded(100.0, 1, 7, 90.0, 100.0), [])
    history.note(LeaseEnded(300.0, 2, 8, 280.0, 300.0), [])
    assert [(held.start_s, held.end_s) for held in history.leases] == [(0.0, 100.0), (0.0, 300.0)]
