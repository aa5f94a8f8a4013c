"""One thread of BLAS for as long as anybody wants it, and then as many as there were."""

from collections.abc import Iterator
from threading import Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from gavelx.published.solver.one_thread import one_thread


def threads() -> list[int]:
    assert np.linalg.norm(np.ones(2)) > 1
    return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def two() -> Iterator[None]:
    """Two threads, whatever the machine has."""
    with threadpool_limits(2, user_api="blas"):
        yield


def test_it_is_one_within_and_as_before_after() -> None:
    before = threads()
    assert 2 in before
    with one_thread(), one_thread():
        assert set(threads()) == {1}
    assert threads() == before
    assert set(one_thread()(threads)()) == {1}
    assert threads() == before


def test_an_error_within_restores_it() -> None:
    before = threads()
    with pytest.raises(ValueError, match="so"), one_thread():
        raise ValueError("so")
    assert threads() == before


def test_the_last_to_go_restores_it() -> None:
    """As with threads of Python, they do not go in the order in which they would if one were inside the other."""
    before, first, second = threads(), one_thread(), one_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(threads()) == {1}
    second.__exit__(None, None, None)
    assert threads() == before


def test_many_threads_of_python() -> None:
    before = threads()

    def come_and_go() -> None:
        for _ in range(50):
            with one_thread():
                pass

    guests = [Thread(target=come_and_go) for _ in range(4)]
    for guest in guests:
        guest.start()
    for guest in guests:
        guest.join()
    assert threads() == before
