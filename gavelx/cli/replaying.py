"""``gavelx replay``: run the jobs of a recorded log under another policy, cluster or price table."""

import numpy as np

from gavelx.cli.estimated_speeds import check_types, estimated
from gavelx.cli.extras import service_installed
from gavelx.cli.output import Outputs, prints_aside, stderr, stdout, write_json
from gavelx.cli.parallel import run_policies
from gavelx.cli.prices import tell_of_age
from gavelx.cli.progress import progress_bars
from gavelx.cli.scenario import Scenario, speed_samples
from gavelx.cli.secrets import check_not_typed
from gavelx.cli.tables import print_result, print_speeds
from gavelx.cluster import Cluster
from gavelx.errors import OptionError, WorkloadError
from gavelx.files.data_sheets import other_spellings
from gavelx.files.price_tables import load_prices
from gavelx.mechanism.lengths import Known
from gavelx.policies import load_policy
from gavelx.report.speeds import speeds_to_json, speeds_used
from gavelx.report.words import hours
from gavelx.workload import check_workload, runnable

with service_installed():
    from gavelx.service.state.replay import RecordedWorkload, read_recorded
    from gavelx.service.store.places import without_password


def run_replay(  # noqa: PLR0917
    log: str,
    policy: str,
    cluster: str | None,
    devices_per_server: int,
    prices: str | None,
    round_s: float | None,
    json: str | None,
    *,
    strict_speeds: bool = False,
    samples: int | None = None,
) -> None:
    """Simulate the recorded jobs; print the figures beside the recorded ones.

    Speeds on other accelerator types than the recorded ones are estimated, unless ``strict_speeds``. Where speeds
    are estimated, ``samples`` repetitions have speeds drawn from their ranges.
    """
    check_not_typed("LOG", log)
    if cluster is None and devices_per_server != 4:
        problem = "the servers are those of the log"
        raise OptionError(problem, where="--devices-per-server", expected="--cluster with it")
    outputs = Outputs(json)
    outputs.check(log, prices)
    with prints_aside():
        chosen = load_policy(policy)
    recorded, where = read_recorded(log), f"log {without_password(log)}"
    place = recorded.cluster if cluster is None else Cluster.parse(cluster, devices_per_server)
    if not place.servers:
        raise WorkloadError("no server ever joined", where=where, hint="--cluster v100=8")
    throughputs = recorded.throughputs
    throughputs = throughputs.also_called(other_spellings(place.accelerators, throughputs.accelerators))
    if cluster is not None and not strict_speeds:
        check_types(place.accelerators, throughputs)
        throughputs = estimated(throughputs, recorded.jobs, place.accelerators)
    speeds = speeds_used(recorded.jobs, place.accelerators, throughputs)
    jobs = runnable(recorded.jobs, place, throughputs, chosen.opens)
    if not jobs:
        check_workload(recorded.jobs, place, throughputs, where, chosen.opens)
    if left_out := len(recorded.jobs) - len(jobs):
        stderr().print(f"left out {left_out:,} jobs that can run nowhere in {place}", markup=False)
    rules = recorded.configuration.rules
    rules = rules if round_s is None else rules.with_round(round_s)
    if prices is None:
        costs, changes = recorded.prices, recorded.price_changes
    else:
        costs, changes = load_prices(prices, place.accelerators), ()
        tell_of_age(costs.as_of, prices)
    lengths: Known = "believed" if recorded.untold else "told"
    samples = speed_samples(samples, throughputs, place)
    scenario = Scenario(
        *(jobs, place, throughputs, costs, rules),
        window=None,
        price_changes=changes,
        lengths=lengths,
        speed_samples=samples,
    )
    with prints_aside(), progress_bars([policy], len(jobs), samples) as (watch, _):
        (result,) = run_policies([policy], scenario, watch)
    really = _really(recorded)
    if outputs.json is not None:
        write_json(result.to_json() | {"recorded": really} | speeds_to_json(speeds), outputs.json)
    if outputs.table_wanted:
        print_result(result, stdout())
        was = f"recorded: {really['jobs_completed']} of {really['jobs_total']} jobs complete"
        mean = "" if really["jct_mean_s"] is None else f", JCT mean {hours(really['jct_mean_s'])} h"
        stdout().print(was + mean, markup=False)
        print_speeds(speeds, stdout())


def _really(recorded: RecordedWorkload) -> dict[str, float | int | None]:
    """The recorded figures of the same jobs."""
    arrival_s = {job.id: job.arrival_s for job in recorded.jobs}
    jct_s = [end_s - arrival_s[i] for i, end_s in recorded.completion_s.items() if i in arrival_s]
    return {
        "jobs_total": len(recorded.jobs),
        "jobs_completed": len(jct_s),
        "jobs_cancelled": recorded.cancelled,
        "jct_mean_s": float(np.mean(jct_s)) if jct_s else None,
        "makespan_s": max(recorded.completion_s.values(), default=None),
    }
