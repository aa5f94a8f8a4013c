"""Overheads, failures, noise, changing prices and rules of a run: what is asked for, and what cannot be."""

from pathlib import Path

import pytest

from gavelx.cli.run_options import RunOptions
from gavelx.cli.scenario import Scenario, load_scenario
from gavelx.errors import UserError
from gavelx.overheads import Overhead
from tests.cli.running import Shell

SMALL = ("--cluster", "v100=2,k80=2", "--jobs", 8, "--seed", 1)


def scenario(**options: object) -> Scenario:
    return load_scenario(RunOptions(**{"cluster": "v100=2,k80=2", "jobs": 8, **options}))  # type: ignore[arg-type]


@pytest.mark.slow
def test_each_option_reaches_the_run() -> None:
    made = scenario(seed=3, min_run=600.0, backfill="0.8", speed_noise=0.3, failures="jobs=0.5, servers=2")
    assert (made.rules.min_run_s, made.rules.backfill) == (600.0, 0.8)
    assert scenario(protect_for=60.0).rules.protect_s == 60.0
    assert [job.checkpoints for job in scenario(plain_jobs=1.0).jobs] == [False] * 8
    some = [[job.checkpoints for job in scenario(plain_jobs=0.5, seed=seed).jobs] for seed in (3, 3, 4)]
    assert some[0] == some[1] != some[2]
    faults = made.faults
    assert (faults.seed, faults.speed_noise) == (3, 0.3)
    assert (faults.server_failures_per_day, faults.job_failures_per_hour) == (2.0, 0.5)


def test_where_idle_devices_may_be_filled() -> None:
    seen = {text: scenario(backfill=text).rules.backfill for text in ("never", "any", "1")}
    assert seen == {"never": None, "any": 0.0, "1": 1.0}
    assert scenario(backfill="never", rules="published").rules.backfill is None


def test_overheads_of_all_jobs_or_of_some(tmp_path: Path) -> None:
    file = tmp_path / "overheads.csv"
    file.write_text("job_type,checkpoint_s,restart_s\nLM (batch size 5),4,9.5\n")
    assert scenario(overheads="restart=30").rules.overheads.of("whatever") == Overhead(0.0, 30.0)
    published = scenario(overheads="restart=30", rules="published", seed=3).rules
    assert published.seed == 3
    assert (published.name, published.overheads.of("whatever")) == ("published", Overhead(0.0, 30.0))
    by_type = scenario(overheads=str(file)).rules.overheads
    assert by_type.of("LM (batch size 5)") == Overhead(4.0, 9.5)
    assert by_type.of("CycleGAN") == Overhead()


def test_prices_change_one_type_at_a_time(tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text("time_s,accelerator,usd_per_hour\n7200,K80,5\n3600,v100,9\n3600,tpu,1\n")
    made = scenario(prices="v100=2,k80=1", price_changes=str(file))
    assert [(time_s, dict(later.usd_per_hour)) for time_s, later in made.price_changes] == [
        (3600.0, {"v100": 9.0, "k80": 1.0}),
        (7200.0, {"v100": 9.0, "k80": 5.0}),
    ]


def test_changing_prices_know_types_by_their_aliases(tmp_path: Path) -> None:
    """As price tables do: half of the changes passed over without a word would be a wrong bill."""
    file = tmp_path / "prices.csv"
    file.write_text("time_s,accelerator,usd_per_hour\n3600,V100-16GB,9\n3600,a100,4\n")
    made = scenario(prices="v100=2,k80=1", price_changes=str(file))
    assert made.price_changes[0][1].usd_per_hour["v100"] == 9.0
    file.write_text("time_s,accelerator,usd_per_hour\n3600,k80,9\n3600,v1000,4\n")
    with pytest.raises(
        UserError, match=r"row 3, column accelerator: 'v1000' is not known\. Try: did you mean 'v100'"
    ):
        scenario(prices="v100=2,k80=1", price_changes=str(file))


NODES = "accelerator,nodes_requested,offset_s,duration_s,nodes_available\n"


@pytest.mark.parametrize(
    ("rows", "notice", "said"),
    [
        (
            "V100,2,0,20000,1\nV100,2,20000,100,2\n",
            120.0,
            "job 0 needs 8 devices .* of v100=8 there are never more than v100=4 together",
        ),
        ("V100,2,0,20000,1\nV100,2,20000,1000,2\n", 120.0, ""),
        (
            "V100,2,0,20000,1\nV100,2,20000,1000,2\n",
            1000.0,
            "never more than v100=4 together for longer than the notice",
        ),
        (
            "V100,2,0,500,2\nV100,2,500,1000,0\nV100,2,1500,501,2\n",
            1000.0,
            "",
        ),  # the end goes on with the beginning
        ("V100,2,0,500,2\n", 1e400, r"--spot-notice: a notice of inf s; expected 0 to 86400 seconds"),
    ],
)
def test_who_never_finds_enough_spot_servers_is_told_before_the_run(
    tmp_path: Path, rows: str, notice: float, said: str
) -> None:
    trace, nodes = tmp_path / "trace.csv", tmp_path / "nodes.csv"
    trace.write_text("job_id,arrival_s,job_type,scale_factor,total_steps\n0,0,ResNet-50 (batch size 64),8,20000\n")
    nodes.write_text(NODES + rows)
    options = {"cluster": "v100=8", "jobs": None, "trace": str(trace), "spot_availability": str(nodes)}
    if not said:
        assert len(scenario(**options, spot_notice=notice).jobs) == 1
        return
    with pytest.raises(UserError, match=said):
        scenario(**options, spot_notice=notice)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"overheads": "checkpoint.csv"}, r"checkpoint\.csv: there is no such file"),
        ({"overheads": "checkpoint:10"}, r"--overheads: cannot read 'checkpoint:10'; expected NAME=NUMBER"),
        ({"overheads": ""}, r"--overheads: cannot read ''"),
        ({"spot_place": "mars"}, r"--spot-place: there are no spot servers and no spot prices"),
        ({"spot_notice": 5.0}, r"--spot-notice: no server is taken away"),
        (
            {"overheads": "checkpoint=1,stop=2"},
            r"--overheads: 'stop' is not known\. Try: one of checkpoint, restart",
        ),
        ({"overheads": "restart=1,restart=2"}, r"--overheads: 'restart' is there twice"),
        ({"overheads": "restart=1,30"}, r"--overheads: cannot read '30'; expected NAME=NUMBER"),
        ({"overheads": "restart=-1"}, r"'restart=-1' cannot be used; expected a number from 0 to 100000"),
        ({"overheads": "restart=nan"}, r"'restart=nan' cannot be used"),
        ({"failures": "server=1"}, r"--failures: 'server' is not known\. Try: did you mean 'servers'\?"),
        ({"failures": "servers=25"}, r"--failures: 'servers=25' cannot be used; expected a number from 0 to 24"),
        ({"failures": ""}, r"--failures: cannot read ''"),
        ({"speed_noise": -0.1}, r"--speed-noise: a variation of -0\.1; expected 0 to 2"),
        ({"speed_noise": float("nan")}, r"--speed-noise: a variation of nan"),
        ({"min_run": -5.0}, r"--min-run: -5 s without preemption; expected 0 to"),
        (
            {"backfill": "sometimes"},
            r"--backfill: cannot read 'sometimes'; expected never, any, or the least part",
        ),
        ({"backfill": "1.5"}, r"--backfill: cannot read '1\.5'"),
        (
            {"rules": "published", "backfill": "0.5"},
            r"--backfill 0\.5: the rules 'published' do not support it",
        ),
        (
            {"rules": "published", "min_run": 9.0},
            r"--min-run: the rules 'published' .*expected the rules 'default'",
        ),
        ({"rules": "published", "protect_for": 9.0}, r"--protect-for: the rules 'published'"),
        ({"rules": "published", "plain_jobs": 0.5}, r"--plain-jobs: the rules 'published'"),
        ({"plain_jobs": 1.5}, r"--plain-jobs: 1\.5; expected 0 to 1 of the jobs"),
        ({"protect_for": float("nan")}, r"--protect-for: nan s without preemption"),
        ({"price_changes": "nowhere.csv"}, r"nowhere\.csv: there is no such file"),
    ],
)
def test_what_cannot_be_used(options: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        scenario(**options)


@pytest.mark.parametrize(
    ("option", "header", "rows", "said"),
    [
        ("overheads", "job_type,checkpoint_s", "CycleGAN,1", "the column 'restart_s' is missing"),
        (
            "overheads",
            "job_type,checkpoint_s,restart_s",
            "CycleGun,1,1",
            "row 2, column job_type: 'CycleGun' is not",
        ),
        ("overheads", "job_type,checkpoint_s,restart_s", "CycleGAN,1,-1", "row 2, column restart_s: '-1' cannot"),
        ("overheads", "job_type,checkpoint_s,restart_s", "CycleGAN,1,1\nCycleGAN,1,1", "row 3.* is there twice"),
        (
            "price_changes",
            "time_s,accelerator,usd_per_hour",
            "-1,v100,1",
            "row 2, column time_s: '-1' cannot be used",
        ),
        (
            "price_changes",
            "time_s,accelerator,usd_per_hour",
            "1,v100,1\n1,V100,2",
            "row 3.*'v100' changes twice at 1",
        ),
        (
            "price_changes",
            "time_s,accelerator,usd_per_hour",
            "1,p100,1",
            "prices of p100, and none of the cluster",
        ),
        ("price_changes", "time_s,accelerator,usd_per_hour", "1,v100,free", "column usd_per_hour: 'free' cannot"),
        ("price_changes", "time_s,accelerator,usd_per_hour", "1,v100,0", "column usd_per_hour: '0' is no price"),
        (
            "price_changes",
            "time_s,accelerator,usd_per_hour",
            "1,v100,7e2",
            "column usd_per_hour: '7e2' is no price",
        ),
    ],
)
def test_what_is_wrong_in_a_file(tmp_path: Path, option: str, header: str, rows: str, said: str) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(f"{header}\n{rows}\n")
    with pytest.raises(UserError, match=f"mine.csv.*{said}"):
        scenario(**{option: str(file)})


def figures(shell: Shell, *options: object) -> dict[str, float]:
    ran = shell("simulate", "--policy", "max_min_fairness", *SMALL, *options, "--json", "-")
    assert ran.code == 0, ran.err
    return {key: ran.json[key] for key in ("makespan_s", "jct_mean_s", "cost_usd", "restarts")}


@pytest.mark.slow
def test_what_goes_wrong_costs_time_and_money(shell: Shell, tmp_path: Path) -> None:
    file = tmp_path / "prices.csv"
    file.write_text("time_s,accelerator,usd_per_hour\n3600,v100,50\n3600,k80,50\n")
    calm = figures(shell)
    assert figures(shell, "--overheads", "checkpoint=60,restart=100")["jct_mean_s"] > calm["jct_mean_s"]
    assert figures(shell, "--failures", "servers=1,jobs=0.5")["restarts"] > calm["restarts"]
    assert figures(shell, "--min-run", 36000)["restarts"] < calm["restarts"]
    assert figures(shell, "--price-changes", file)["cost_usd"] > calm["cost_usd"]
    noisy = figures(shell, "--speed-noise", 0.273)
    assert noisy["jct_mean_s"] != calm["jct_mean_s"]
    assert noisy == figures(shell, "--speed-noise", 0.273)


def test_jobs_that_were_given_up_are_named(shell: Shell) -> None:
    ran = shell("simulate", "--policy", "fifo", *SMALL, "--failures", "jobs=6", "--json", "-")
    assert 0 < ran.json["given_up"] == 8 - ran.json["jobs_completed"]
    assert "given up after too many failures" in ran.err


@pytest.mark.slow
def test_workers_run_under_the_same_conditions(shell: Shell) -> None:
    options = ("--policies", "fifo,isolated", *SMALL, "--failures", "jobs=0.5", "--overheads", "restart=50")
    one, two = (shell("compare", *options, "--workers", n, "--json", "-") for n in (1, 2))
    times = [[run["makespan_s"] for run in ran.json["runs"]] for ran in (one, two)]
    assert times[0] == times[1]


def test_the_command_names_the_conditions() -> None:
    typed = RunOptions(
        "v100=1", jobs=3, failures="jobs=1", backfill="any", min_run=60.0, price_changes="my prices.csv"
    )
    assert typed.command("gavelx simulate --policy fifo") == (
        "gavelx simulate --policy fifo --cluster v100=1 --jobs 3 --min-run 60.0 --backfill any"
        " --price-changes 'my prices.csv' --failures jobs=1"
    )


@pytest.mark.slow
def test_the_rules_published_know_no_jobs_that_are_not_to_be_preempted(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    header = "job_id,arrival_s,job_type,scale_factor,total_steps,preemptible,checkpoints\n"
    for cells, said in (("no,yes", "preemptible=no"), ("auto,no", "no checkpoints")):
        trace.write_text(f"{header}7,0,A3C,1,100,{cells}\n")
        assert len(scenario(jobs=None, trace=str(trace)).jobs) == 1
        with pytest.raises(UserError, match=f"job 7: {said}, and the rules 'published' do not support it"):
            scenario(jobs=None, trace=str(trace), rules="published")


def test_work_that_is_lost_is_shown(shell: Shell) -> None:
    said = shell("simulate", "--policy", "max_min_fairness", *SMALL, "--plain-jobs", "1").out
    assert "work lost (device-h)" in said
    assert "work lost" not in shell("simulate", "--policy", "max_min_fairness", *SMALL).out
