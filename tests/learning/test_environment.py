"""The environment is one for `gymnasium`, and an episode earns minus the total time of its jobs."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.jobs import Job
from gavelx.policies.dl2 import Reads
from gavelx.throughputs import Setting, Throughputs

pytest.importorskip("gymnasium")
from gymnasium.utils.env_checker import check_env

from gavelx.learning.environment import Scheduling

TABLE = Throughputs({Setting("m", name, width): float(width) for name in "ab" for width in (1, 2, 4)}, name="t")


def trace(seed: int) -> Sequence[Job]:
    random = np.random.default_rng(seed)
    job = Job(0, "m", total_steps=1.0, elastic=Elastic("workers", 1, 4))
    return [replace(job, id=n, total_steps=random.uniform(500.0, 3000.0), arrival_s=400.0 * n) for n in range(5)]


def environment() -> Scheduling:
    return Scheduling(trace, Cluster.of({"a": 4, "b": 2}, 4), TABLE, Reads(("m",), ("a", "b"), 4, 360.0))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_it_passes_the_check_of_gymnasium() -> None:
    check_env(environment(), skip_render_check=True)


@pytest.mark.parametrize("seed", [1, 2])
def test_an_episode_earns_minus_the_total_time_of_its_jobs(seed: int) -> None:
    env, random = environment(), np.random.default_rng(seed)
    observation, info = env.reset(seed=seed)
    earned, reward, over = 0.0, 0.0, False
    while not over:
        assert env.observation_space.contains(observation)
        open_A = np.flatnonzero(info["open"])
        action = random.choice(open_A[:-1] if len(open_A) > 1 else open_A)
        observation, reward, over, _, info = env.step(action)
        earned += float(reward)
    total_s = float(env._run.result.jct_s_J.sum())
    assert earned == pytest.approx(-total_s / 360.0, rel=1e-9)
    assert reward > 0.1 * earned, "the last reward settles little"
