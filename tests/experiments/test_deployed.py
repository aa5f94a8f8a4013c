"""The comparisons of deployed and simulated, in small: what is compared, and that what is wrong is found."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from experiments.deployed import emulated, real
from experiments.deployed.local import DeployedError
from gavelx.simulator.plain_jobs import with_plain_jobs
from gavelx.throughputs import Setting
from tests.service.virtual import VirtualCluster


def scene(jobs: int, cluster: str) -> emulated.Scene:
    return emulated.scene_of("shockwave_120", jobs, cluster, "max_min_fairness", 900.0)


@pytest.mark.parametrize("plain", [0.0, 0.5])
def test_a_trace_goes_on_agents_just_as_in_the_simulator(plain: float) -> None:
    """The scheduler's state and registry, agents and their messages as they are; where messages take no time."""
    wanted = scene(24, "v100=2,p100=4,k80=4")
    jobs = [
        replace(job, preemptible="yes") if job.checkpoints else job  # a cluster has to be told who saves
        for job in with_plain_jobs(wanted.jobs, plain)
    ]
    faster = replace(wanted, jobs=tuple(jobs)).compressed(wanted.simulated().end_s / 20.0)
    cluster = VirtualCluster(faster.configuration, faster.policy)
    found = emulated.agreement(faster, 1.0, *cluster.play(faster.cluster.servers, faster.jobs, within_s=600.0))
    assert found.agrees
    assert found.makespan_emulated_s == pytest.approx(found.makespan_simulated_s, rel=1e-6)
    assert found.jct_emulated_s == pytest.approx(found.jct_simulated_s, rel=1e-6)
    assert found.leases_emulated == found.leases_simulated > 2 * 24, "they were preempted alike"


@pytest.mark.slow
def test_a_short_trace_is_carried_out_by_real_processes(tmp_path: Path) -> None:
    """All of it, and its books add up; how long that took is another matter, on whatever machine this is."""
    found = emulated.compare(scene(3, "v100=1,p100=1"), 2.0, tmp_path)
    assert found.jobs == 3 <= found.leases_emulated


@pytest.mark.parametrize("plain", [0.0, 0.5])
def test_compressed_time_is_the_same_run(plain: float) -> None:
    scene = emulated.scene_of("shockwave_120", 30, "v100=4,p100=4,k80=4", "max_min_fairness", 360.0)
    rules = replace(scene.rules, protect_s=3600.0)
    scene = replace(scene, jobs=with_plain_jobs(scene.jobs, plain), rules=rules)
    slow, fast = scene.simulated(), scene.compressed(100.0).simulated()
    assert fast.completion_s_J * 100.0 == pytest.approx(slow.completion_s_J, rel=1e-6)
    assert len(fast.leases) == len(slow.leases)


def test_an_emulation_that_is_off_does_not_agree() -> None:
    run = emulated.Agreement("fifo", 30, 500.0, 0.6, 75.0, 75.5, 0.99, 20.0, 20.0, 50, 50, 10.0)
    assert run.agrees
    assert not replace(run, makespan_emulated_s=77.0).agrees
    assert not replace(run, makespan_emulated_s=73.0).agrees
    assert not replace(run, rank_correlation=0.94).agrees


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--trace", "nowhere"], "nowhere"),
        (["--trace", "shockwave_120", "--jobs", "500"], "no more than there are"),
        (["--jobs", "1"], "two or more"),
        (["--policies", "nonsense"], "nonsense"),
        (["--cluster", "v100=1"], "v100"),
    ],
)
def test_wrong_options_are_named(words: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert emulated.main(words) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--wall-s", "0"], ["--round", "nan"], ["--jobs", "many"]])
def test_options_that_are_no_numbers_are_refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        emulated.main(words)
    assert words[0] in capsys.readouterr().err


@pytest.mark.slow
def test_real_jobs_are_preempted_and_lose_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """How much of its share a job received depends on how long processes take to start, so on this machine."""
    pytest.importorskip("torch")
    few = ["--jobs", "2", "--agents", "1", "--workloads", "recommendation"]
    words = [*few, "--policies", "max_min_fairness", "--steps-per-s", "20", "--round", "4", "--longer", "1.6"]
    real.main([*words, "--json"])
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert [problem for problem in run["wrong"] if "were promised" not in problem] == []
    assert [job["steps"] for job in run["jobs"]] == [384, 576]
    assert sum(job["preemptions"] for job in run["jobs"]) >= 1


def test_a_curve_that_is_another_is_found() -> None:
    with pytest.raises(DeployedError, match="step 2 was done twice"):
        real.curve_of("step 1 loss 0.5\nstep 2 loss 0.4\nstep 2 loss 0.3\n")
    assert real.curve_of("step 1 loss 0.5\nstep 2 loss 0.4\nstep 2 loss 0.4\n") == {1: "0.5", 2: "0.4"}


def test_declared_devices_differ_as_published() -> None:
    declared = real.declare("image_classification", real.TYPES, 20.0)
    table = real.load_throughputs("simulation").isolated
    published = [table[Setting(real.PUBLISHED["image_classification"], name)] for name in real.TYPES]
    speeds = list(declared.steps_per_s.values())
    assert max(speeds) == 20.0
    assert speeds[0] / speeds[2] == pytest.approx(published[0] / published[2], rel=1e-2)
