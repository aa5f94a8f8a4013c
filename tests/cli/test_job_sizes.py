"""Sizes of a job as typed: what they mean, and what cannot be meant."""

import pytest

from gavelx.cli.job_sizes import job_sizes
from gavelx.elastic import Elastic
from gavelx.errors import OptionError


@pytest.mark.parametrize(
    ("typed", "devices", "elasticity"),
    [
        (("4",), 4, ""),
        (("1:8",), 1, "workers:1-8"),
        (("1:2:8", "", 16), 2, "workers:1-8/16"),
        (("4", "", 4), 4, "workers:4-4/4"),
        (("1:8", "64:512"), 1, "batch:1-8/64-512"),
    ],
)
def test_what_sizes_mean(typed: tuple[str, str, int], devices: int, elasticity: str) -> None:
    found, elastic = job_sizes(*typed)
    assert (found, "" if elastic is None else str(elastic)) == (devices, elasticity)
    assert elastic is None or Elastic.of(str(elastic)) == elastic, "as the scheduler reads it"


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        (("8:1",), "--workers: 8:1 is no range"),
        (("some",), "--workers: cannot read 'some'"),
        (("0",), "--workers: 0 is no range"),
        (("1:8", "512:64"), "--batch: 512:64 is no range"),
        (("1:8", "", 7), "--parts: 7 parts for 8 devices; expected a part for each device"),
        (("1:8", "64:512", 8), "--parts: beside --batch"),
        (("1:8", "", 10**6), "--parts: 1000000 parts"),
    ],
)
def test_sizes_that_make_no_sense(typed: tuple[str, str, int], message: str) -> None:
    with pytest.raises(OptionError) as error:
        job_sizes(*typed)
    assert str(error.value).startswith(message)
