"""Our policies in the rounds of Sia's simulator come out as theirs did."""

import json

import numpy as np
import pytest

from experiments.sia.__main__ import CLUSTERS, REFERENCE, RUNS, Run, jobs_of
from experiments.sia.rounds import Running, play

REFERENCES = json.loads(REFERENCE.read_text())


def played(run: Run, workload: str, cluster: str) -> list[Running]:
    servers = CLUSTERS[cluster]
    jobs = jobs_of(REFERENCES, workload, elastic=run.elastic)
    return play(jobs, run.scheduler(servers), servers, run.round_s)


def of(says: str) -> Run:
    return next(run for run in RUNS if says in run.says)


@pytest.mark.parametrize("workload", ["own-1", "own-2"])
def test_rigid_jobs_end_when_theirs_did(workload: str) -> None:
    """On the mixed cluster no queue forms, and most are within a round of it."""
    theirs = REFERENCES["runs"][f"{workload.replace('-', '')}_het_rigid"]
    jct = {job.name: job.end_s - job.arrival_s for job in played(of("rigid"), workload, "het")}
    assert np.mean(list(jct.values())) == pytest.approx(theirs["mean_jct_s"], rel=0.02)
    assert np.median([abs(jct[name] - seconds) for name, seconds in theirs["jct_s"].items()]) < 60.0


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_elastic_jobs_with_their_handicaps_end_no_later(cluster: str) -> None:
    theirs = REFERENCES["runs"][f"own1_{cluster}_sia"]
    jct = [job.end_s - job.arrival_s for job in played(of("doubling; theirs learns speeds"), "own-1", cluster)]
    assert np.mean(jct) <= 1.05 * theirs["mean_jct_s"]
    assert np.percentile(jct, 99) <= 1.05 * theirs["p99_jct_s"]


def test_where_speeds_are_known_elastic_jobs_end_earlier() -> None:
    theirs = REFERENCES["runs"]["own1_het_siaoracle"]
    jct = [job.end_s - job.arrival_s for job in played(of("any size at once"), "own-1", "het")]
    assert np.mean(jct) < theirs["mean_jct_s"]


def test_a_pause_is_charged_at_each_start() -> None:
    (job,) = jobs_of(REFERENCES, "own-1", elastic=False)[:1]
    servers = CLUSTERS["hom"]
    (alone,) = play([job], lambda *_: {job.name: ("aws", 1)}, servers)
    (again,) = jobs_of(REFERENCES, "own-1", elastic=False)[:1]
    places = iter([("aws", 1), ("aws", 2)] + [("aws", 1)] * 10**6)
    (moved,) = play([again], lambda *_: {again.name: next(places)}, servers)
    assert (alone.starts, moved.starts) == (1, 3)
    assert moved.end_s == pytest.approx(alone.end_s + again.restart_s)  # of the first two pauses, a round each
