"""One order of sums: results do not depend on how many systems are solved at once."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from gavelx.dense import inverted


@given(st.integers(0, 10**6), st.integers(1, 20), st.booleans())
def test_a_block_alone_has_the_same_inverse_to_the_last_bit_as_among_others(
    seed: int, size: int, sparse: bool
) -> None:
    rng = np.random.default_rng(seed)
    blocks = rng.normal(size=(3, size, size)) * 10.0 ** rng.integers(-3, 4, size=(3, size, size))
    blocks *= rng.random(blocks.shape) < (0.5 if sparse else 1.0)
    blocks += np.eye(size) * 1e5
    together = inverted(blocks.copy())
    for block, inverse in zip(blocks, together, strict=True):
        alone = inverted(block[None].copy())[0]
        assert_array_equal(alone, inverse)
        assert_array_equal(np.signbit(alone), np.signbit(inverse))
        assert_allclose(block @ alone, np.eye(size), atol=1e-6)


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_singular_block_is_an_error(blocks: int) -> None:
    with pytest.raises(ZeroDivisionError):
        inverted(np.ones((blocks, 3, 3)))
