"""Selection of very many jobs together is the same as one by one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gavelx.configuration import ConfigurationSet
from gavelx.mechanism import selection
from gavelx.mechanism.selection import Candidates, Choices, select


@st.composite
def contests(draw: st.DrawFn) -> tuple[Candidates, list[int]]:
    """Jobs with some ways each, in gangs of several widths and with equal keys, and free devices."""
    types = draw(st.integers(1, 4))
    pair = st.tuples(st.integers(0, 9), st.integers(0, types - 1))
    ways = draw(st.lists(pair, max_size=30, unique=True))
    width_J = draw(st.lists(st.sampled_from((1, 1, 2, 4)), min_size=10, max_size=10))
    keys = draw(st.lists(st.integers(0, 5), min_size=len(ways), max_size=len(ways)))
    job, type_ = (np.array([way[k] for way in ways], dtype=np.int64) for k in (0, 1))
    alone = ConfigurationSet.alone(job, type_, np.array(width_J)[job])
    free = draw(st.lists(st.integers(0, 6), min_size=types, max_size=types))
    return Candidates(Choices.to(alone, number=np.arange(len(ways))), [np.array(keys, dtype=float)]), free


@given(contests())
def test_together_as_one_by_one(contest: tuple[Candidates, list[int]]) -> None:
    candidates, free = contest
    one_by_one = select(candidates, free)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(selection, "FEW", -1)
        together = select(candidates, free)
    assert together[0].one_by_one() == one_by_one[0].one_by_one()
    assert together[1] == one_by_one[1]
