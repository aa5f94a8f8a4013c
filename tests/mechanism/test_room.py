"""Who makes room for a gang: enough of them, where any can, and no more than must."""

from collections import Counter
from itertools import combinations
from typing import NamedTuple

from hypothesis import assume, given
from hypothesis import strategies as st

from gavelx.cluster import fewest_servers
from gavelx.mechanism.room import Tenant, make_room

LOSSES = st.sampled_from((0.0, 0.0, 10.0, 60.0))


class Case(NamedTuple):
    """Servers by number: their sizes, what of them is free, and who may move from them; some devices stay held."""

    sizes: dict[int, int]
    free: dict[int, int]
    tenants: dict[int, list[Tenant]]

    def free_without(self, moves: list[Tenant]) -> list[int]:
        """Free devices once these have moved, the emptiest server first."""
        freed = {i: sum(one.devices for one in held if one in moves) for i, held in self.tenants.items()}
        return sorted((count + freed[i] for i, count in self.free.items()), reverse=True)


@st.composite
def cases(draw: st.DrawFn, widest: int = 3) -> Case:
    case = Case({}, {}, {})
    for server in range(draw(st.integers(1, 5))):
        held = draw(st.lists(st.tuples(st.integers(1, widest), LOSSES), max_size=3))
        case.tenants[server] = [Tenant(10 * server + n, *one) for n, one in enumerate(held)]
        case.free[server] = draw(st.integers(0, 4))
        stays = draw(st.sampled_from((0, 0, 1, 2)))
        case.sizes[server] = case.free[server] + sum(width for width, _ in held) + stays
    return case


@given(case=cases(), width=st.integers(1, 12))
def test_room_is_found_wherever_there_is_some(case: Case, width: int) -> None:
    assume(width <= sum(case.sizes.values()))
    count = fewest_servers(width, Counter(case.sizes.values()))
    moves = make_room(width, count, case.free, case.tenants)
    if moves is None:
        everybody = [one for held in case.tenants.values() for one in held]
        assert sum(case.free_without(everybody)[:count]) < width
    else:
        assert sum(case.free_without(moves)[:count]) >= width


@given(case=cases(widest=1), width=st.integers(1, 4))
def test_nobody_could_make_room_in_one_server_and_lose_less(case: Case, width: int) -> None:
    moves = make_room(width, 1, case.free, case.tenants)
    if moves is not None:
        for server, held in case.tenants.items():
            for group in combinations(held, max(0, width - case.free[server])):
                assert sum(one.loss_s for one in moves) <= sum(one.loss_s for one in group)


def test_nobody_moves_who_need_not() -> None:
    """Two of the wide tenant's devices would do, and the cheap one is not needed beside it."""
    tenants = {0: [Tenant(0, 1, 0.0), Tenant(1, 3, 5.0)], 1: [Tenant(2, 1, 90.0)]}
    assert make_room(4, 1, {0: 1, 1: 3}, tenants) == [Tenant(1, 3, 5.0)]
    assert make_room(4, 2, {0: 1, 1: 3}, tenants) == []
