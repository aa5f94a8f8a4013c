"""``--lengths``: what a run knows of how long jobs are."""

import json
from pathlib import Path

import pytest

from tests.cli.running import Shell

RUN = ("simulate", "--policy", "srtf", "--cluster", "v100=2,k80=2", "--jobs", "5", "--json", "-")


def test_a_run_that_is_not_told_lengths_ends(shell: Shell) -> None:
    told, believed = (json.loads(shell(*RUN, "--lengths", known).out) for known in ("told", "believed"))
    assert told["jobs_completed"] == believed["jobs_completed"] == 5
    assert told["jct_mean_s"] != believed["jct_mean_s"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--lengths", "beleived"), "--lengths: 'beleived' is not known; expected told, believed, unknown"),
        (("--lengths", ""), "--lengths"),
        (
            ("--lengths", "unknown", "--rules", "published"),
            "--lengths unknown: the rules 'published' do not support it",
        ),
    ],
)
def test_what_cannot_be_is_refused(shell: Shell, tmp_path: Path, options: tuple[str, ...], message: str) -> None:
    ran = shell(*RUN, *options)
    assert ran.code == 2
    assert message in " ".join(ran.err.split())
