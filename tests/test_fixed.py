"""What policies and terms read, they cannot change; neither in this process nor in another."""

import pickle
from functools import partial

import numpy as np
import pytest

from gavelx.asking import ask
from gavelx.errors import PolicyError
from gavelx.policies import Linear, Maximize, SumThroughput, Throughput
from gavelx.policies.view import View
from gavelx.snapshot import Snapshot
from gavelx.solvers.program.statement import Affine
from tests.policies.small import snapshot


def sent(snapshot: Snapshot) -> Snapshot:
    """As it comes out in another process, with all that was computed before."""
    assert writable(snapshot) == []
    answer: Snapshot = pickle.loads(pickle.dumps(snapshot))
    return answer


def writable(snapshot: Snapshot) -> list[str]:
    """Names of arrays that everyone who looks at this snapshot shares, and could change."""
    found, allocation = [], Maximize(SumThroughput()).allocate(snapshot)
    for thing in (snapshot, snapshot.known, snapshot.cluster, View(snapshot), allocation):
        for name in dir(thing):
            if name.startswith("__"):
                continue
            read = partial(getattr, thing, name)
            if isinstance(read(), np.ndarray) and read().flags.writeable and np.shares_memory(read(), read()):
                found.append(f"{type(thing).__name__}.{name}")
    return found


@pytest.mark.parametrize("way", [lambda snapshot: snapshot, sent], ids=["here", "elsewhere"])
def test_arrays_of_a_snapshot_can_only_be_read(way) -> None:  # type: ignore[no-untyped-def]
    assert writable(way(snapshot("a", "b"))) == []


class FastestHalved(Linear):
    """A mistake: the fastest speeds are those of every term, and of whatever is computed from them."""

    def linear(self, view: View) -> Affine:
        fastest_J = view.fastest_throughput_J
        fastest_J /= 2.0
        return view.throughput.scaled(0.0).shifted(fastest_J)


def test_a_term_that_changes_what_others_read_is_told_its_line() -> None:
    policy = Maximize(SumThroughput(), [Throughput() >= FastestHalved(), Throughput() >= FastestHalved()])
    with pytest.raises(PolicyError, match=r"output array is read-only.*test_fixed.py, line"):
        ask(policy, snapshot("a", "b"))
