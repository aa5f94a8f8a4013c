"""What the simulator holds that the scheduler knows of servers is what the mechanism does know."""

from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.cluster import Server
from gavelx.mechanism import Mechanism
from gavelx.mechanism.events import Event, ServerOffers, WorkerDrained, WorkerJoined, WorkerLost
from gavelx.simulator.servers import Heard, Servers
from gavelx.throughputs import Throughputs

IDS, EPOCHS, DEVICES = st.integers(0, 1), st.integers(0, 2), 4
EVENTS = st.one_of(
    st.builds(lambda i, epoch: WorkerJoined(0.0, Server(i, "fast", DEVICES), epoch), IDS, EPOCHS),
    st.builds(lambda i, epoch: WorkerLost(0.0, i, epoch), IDS, EPOCHS),
    st.builds(lambda i, epoch: WorkerDrained(0.0, i, epoch), IDS, EPOCHS),
    st.builds(
        lambda i, devices, epoch, number: ServerOffers(0.0, i, devices, epoch, number),
        *(IDS, st.integers(0, DEVICES), EPOCHS, st.integers(1, 5)),
    ),
)


@settings(max_examples=300)
@given(st.lists(EVENTS, min_size=4, max_size=30))
def test_it_is_what_the_mechanism_knows_in_whatever_order_events_come(events: list[Event]) -> None:
    mechanism, heard = Mechanism(Throughputs({})), Heard()
    for event in events:
        mechanism.handle(event)
        heard.hears(event)
        assert sorted(heard.servers(), key=lambda server: server.id) == sorted(
            mechanism.servers(), key=lambda server: server.id
        )


def test_a_server_says_what_it_lends_once() -> None:
    servers, server = Servers(), Server(7, "fast", DEVICES)
    assert servers.joins(server, 0.0).epoch == 0
    assert servers.offer(server, DEVICES, 0.0, 1.0) is None
    first, second = servers.offer(server, 1, 0.0, 2.0), servers.offer(server, 3, 0.0, 3.0)
    assert first
    assert second
    assert (first.number, second.number, servers.offered(server), servers.lends(server)) == (1, 2, 3, DEVICES)
    assert servers.lend(server, 3)
    assert not servers.lend(server, 3)
    assert servers.leaves(7) == server
    assert servers.joins(server, 4.0).epoch == 1
    assert servers.offered(server) == DEVICES
