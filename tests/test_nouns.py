"""What a job or a cluster can be."""

import pytest

from gavelx.cluster import Cluster
from gavelx.errors import OptionError, UserError
from gavelx.jobs import Job


def test_no_job_arrives_so_late_that_a_round_is_lost_in_rounding() -> None:
    latest = Job(0, "net", 1.0, arrival_s=1e12).arrival_s
    assert latest < latest + 0.001
    with pytest.raises(UserError, match="arrival_s is 1e"):
        Job(0, "net", 1.0, arrival_s=1e19)


def test_a_type_is_named_once_in_whatever_case() -> None:
    assert Cluster.of({"V100": 6}).accelerators == ("v100",)
    with pytest.raises(OptionError, match="twice"):
        Cluster.of({"V100": 1, "v100": 2})
