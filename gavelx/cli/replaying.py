"""``gavelx replay``: run the jobs of a recorded log under another policy, cluster or price table."""

import numpy as np

from gavelx.cli.extras import service_installed
from gavelx.cli.output import Outputs, stderr, stdout, write_json
from gavelx.cli.secrets import check_not_typed
from gavelx.cli.tables import print_result
from gavelx.cluster import Cluster
from gavelx.errors import WorkloadError
from gavelx.files.price_tables import load_prices
from gavelx.mechanism.lengths import Known
from gavelx.policies import load_policy
from gavelx.report.words import hours
from gavelx.simulator import simulate
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
) -> None:
    """Simulate the recorded jobs; print the figures beside the recorded ones."""
    check_not_typed("LOG", log)
    outputs = Outputs(json)
    outputs.check(log, prices)
    chosen = load_policy(policy)
    recorded, where = read_recorded(log), f"log {without_password(log)}"
    place = recorded.cluster if cluster is None else Cluster.parse(cluster, devices_per_server)
    if not place.servers:
        raise WorkloadError("no server ever joined", where=where, hint="--cluster v100=8")
    jobs = runnable(recorded.jobs, place, recorded.throughputs)
    if not jobs:
        check_workload(recorded.jobs, place, recorded.throughputs, where)
    if left_out := len(recorded.jobs) - len(jobs):
        stderr().print(f"left out {left_out:,} jobs that can run nowhere in {place}", markup=False)
    rules = recorded.configuration.rules
    rules = rules if round_s is None else rules.with_round(round_s)
    if prices is None:
        costs, changes = recorded.prices, recorded.price_changes
    else:
        costs, changes = load_prices(prices, place.accelerators), ()
    lengths: Known = "believed" if recorded.untold else "told"
    result = simulate(
        chosen, jobs, place, recorded.throughputs, costs, rules=rules, price_changes=changes, lengths=lengths
    )
    really = _really(recorded)
    if outputs.json is not None:
        write_json(result.to_json() | {"recorded": really}, outputs.json)
    if outputs.table_wanted:
        print_result(result, stdout())
        was = f"recorded: {really['jobs_completed']} of {really['jobs_total']} jobs complete"
        mean = "" if really["jct_mean_s"] is None else f", JCT mean {hours(really['jct_mean_s'])} h"
        stdout().print(was + mean, markup=False)


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
