"""Compare two snapshots, field by field."""

import dataclasses

import numpy as np

from gavelx.snapshot import Snapshot


def assert_alike(one: Snapshot, other: Snapshot) -> None:
    """The same jobs, cluster and arrays, bit for bit."""
    assert (one.jobs, one.cluster, one.time_s) == (other.jobs, other.cluster, other.time_s)
    for left, right in ((one, other), (one.known, other.known)):
        for field in dataclasses.fields(left):
            if isinstance(getattr(left, field.name), np.ndarray):
                np.testing.assert_array_equal(getattr(left, field.name), getattr(right, field.name), field.name)
