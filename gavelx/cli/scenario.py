"""From options to a scenario: jobs, cluster, throughputs, prices, rules, window.

Every mistake of the user is found here, before the simulation starts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gavelx.cli.capacities import capacities_of, check_capacities
from gavelx.cli.conditions import faults_of, lengths_of, rules_of, within
from gavelx.cli.drawing import drawn_jobs
from gavelx.cli.estimated_speeds import check_names, check_types, estimated
from gavelx.cli.prices import PriceChanges, prices_of
from gavelx.cli.run_options import RunOptions
from gavelx.cli.solving import solver_settings
from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.errors import OptionError, UserError, WorkloadError
from gavelx.estimator.estimated_table import Believed, ways_of
from gavelx.estimator.sampled_table import sampled
from gavelx.files.data_sheets import load_data_sheets, other_spellings
from gavelx.files.measurement_tables import read_measurements
from gavelx.files.texts import shown
from gavelx.files.throughput_tables import load_throughputs
from gavelx.files.traces import find_trace, read_trace
from gavelx.jobs import Job
from gavelx.measurements import Measurement
from gavelx.mechanism import Rules
from gavelx.mechanism.lengths import Known
from gavelx.prices import Prices
from gavelx.published import AnyRules
from gavelx.simulator.capacity import Capacity, at_best
from gavelx.simulator.faults import NO_FAULTS, Faults
from gavelx.simulator.learning import where_it_runs
from gavelx.simulator.plain_jobs import with_plain_jobs
from gavelx.snapshot import Kind
from gavelx.solvers import Settings
from gavelx.spelling import as_spelled
from gavelx.throughputs import Throughputs
from gavelx.workload import check_workload, runnable

SPEED_SAMPLES = 19
"""The least and the largest of 19 repetitions are the ends of a 90 % interval: 18 of 20 gaps lie between them."""


@dataclass(frozen=True)
class Scenario:
    """Everything that a run needs, except the policy."""

    jobs: tuple[Job, ...]
    cluster: Cluster
    throughputs: Throughputs
    prices: Prices
    rules: AnyRules
    window: slice | None
    jobs_left_out: int = 0
    faults: Faults = NO_FAULTS
    price_changes: PriceChanges = ()
    capacities: tuple[Capacity, ...] = ()
    settings: Settings = field(default_factory=Settings)
    measured: tuple[Measurement, ...] = ()
    lengths: Known = "told"
    speed_samples: int = 0

    def drawn(self, sample: int) -> "Scenario":
        """The same with estimated speeds drawn from their ranges; sample 0 has those in the middle."""
        return replace(self, throughputs=sampled(self.throughputs, sample)) if sample else self

    def believed(self, opens: frozenset[Kind]) -> Believed | None:
        """The speeds that a policy with these kinds of configurations knows at first; None: all of them."""
        if not self.measured:
            return None
        from gavelx.estimator import DEFAULT, make_estimator  # noqa: PLC0415  # slow to import, and only needed here

        ways = ways_of(
            list(dict.fromkeys(job.job_type for job in self.jobs)),
            self.cluster.accelerators,
            sorted({job.scale_factor for job in self.jobs}),
            pairs="pairs" in opens,
            placements=True,
        )
        learner = Believed(make_estimator(DEFAULT, load_data_sheets()), ways)
        learner.observe(self.measured)
        return learner


def load_scenario(typed: RunOptions, opens: frozenset[Kind] = frozenset()) -> Scenario:
    """Read the files, check the options, estimate missing speeds, and check that the jobs can run.

    ``opens`` are the kinds of configurations that any policy may use. Raises :class:`OptionError`,
    :class:`InputFileError` or :class:`WorkloadError`.
    """
    cluster = Cluster.parse(typed.cluster, typed.devices_per_server)
    settings = solver_settings(typed.solver, typed.time_budget)
    throughputs = load_throughputs(typed.table)
    throughputs = throughputs.also_called(other_spellings(cluster.accelerators, throughputs.accelerators))
    check_types(cluster.accelerators, throughputs)
    rules, faults = rules_of(typed, throughputs.job_types), faults_of(typed)
    prices, price_changes = prices_of(typed, cluster)
    capacities = capacities_of(typed, cluster, rules)
    jobs, where = _jobs(typed, throughputs)
    jobs_read = len(jobs)
    jobs = with_plain_jobs(
        jobs, within(typed.plain_jobs, (0.0, 1.0), "--plain-jobs", "{:g}", "of the jobs"), typed.seed
    )
    jobs = with_elasticity(jobs, typed.elasticity)
    _check_rules(jobs, rules, where)
    if not typed.strict_speeds:
        if not typed.skip_unrunnable:
            check_names(jobs, cluster.accelerators, throughputs, where)
        throughputs = estimated(throughputs, jobs, cluster.accelerators, pairs="pairs" in opens)
    if typed.skip_unrunnable:
        jobs = runnable(jobs, at_best(cluster, capacities), throughputs)
        if not jobs:
            raise WorkloadError(f"none of its {jobs_read:,} jobs can run in {cluster}", where=where)
    window = parse_window(typed.window, len(jobs))
    check_workload(jobs, cluster, throughputs, where, opens)
    check_capacities(jobs, cluster, capacities, throughputs, opens)
    scenario = Scenario(
        jobs=jobs,
        cluster=cluster,
        throughputs=throughputs,
        prices=prices,
        rules=rules,
        window=window,
        jobs_left_out=jobs_read - len(jobs),
        faults=faults,
        lengths=lengths_of(typed, rules),
        price_changes=price_changes,
        capacities=capacities,
        settings=settings,
        measured=tuple(read_measurements(typed.measured)) if typed.measured is not None else (),
        speed_samples=speed_samples(typed.speed_samples, throughputs, cluster),
    )
    if typed.measured is not None:
        _check_measured(scenario, typed.measured)
    return scenario


def with_elasticity(jobs: Sequence[Job], text: str | None) -> tuple[Job, ...]:
    """The jobs in other sizes too, those that the trace does not say more about. Raises :class:`OptionError`."""
    if text is None:
        return tuple(jobs)
    try:
        elastic = Elastic.of(text)
        return tuple(
            job if job.elastic else replace(job, elastic=elastic.around(job.scale_factor)) for job in jobs
        )
    except UserError as error:
        raise OptionError(error.problem, where="--elasticity", expected=error.expected) from None


def speed_samples(wanted: int | None, throughputs: Throughputs, cluster: Cluster) -> int:
    """The number of repetitions with sampled speeds; 0 where no speed of this cluster is estimated."""
    if not any(way.accelerator in cluster.accelerators for way in throughputs.ranges):
        return 0
    return SPEED_SAMPLES if wanted is None else wanted


def _check_rules(jobs: Sequence[Job], rules: AnyRules, where: str) -> None:
    """Raise :class:`WorkloadError` for a job that the published rules do not support."""
    for job in () if isinstance(rules, Rules) else jobs:
        if job.preemptible != "auto" or not job.checkpoints:
            said = "no checkpoints" if not job.checkpoints else f"preemptible={job.preemptible}"
            problem = f"{said}, and the rules {rules.name!r} do not support it"
            raise WorkloadError(problem, where=f"{where}, job {job.id}", hint="leave --rules out")


def _check_measured(scenario: Scenario, path: str) -> None:
    """Raise :class:`OptionError` for a job type without any measured or estimated speed."""
    expected = "each job type of the run on one accelerator at least"
    if (learner := scenario.believed(frozenset())) is None:
        raise OptionError(f"there is no measurement in {path}", where="--measured", expected=expected)
    believed = where_it_runs(learner.throughputs(), scenario.throughputs)
    for job in scenario.jobs:
        if job.job_type not in believed.job_types:
            problem = f"{path} says nothing about the speed of {shown(job.job_type)}"
            raise OptionError(problem, where="--measured", expected=expected)
    check_workload(scenario.jobs, scenario.cluster, believed, f"--measured {path}")


def parse_window(text: str | None, jobs_total: int) -> slice | None:
    """Read ``S:E`` as the jobs S to E-1. Raises :class:`OptionError` unless 0 <= S < E <= jobs.

    >>> parse_window("10:20", 40)
    slice(10, 20, None)
    """
    if text is None:
        return None
    start, colon, end = (part.strip() for part in text.partition(":"))
    if not (colon and all(part.isascii() and part.isdigit() and len(part) < 10 for part in (start, end))):
        raise OptionError(f"cannot read {text!r}", where="--window", expected="S:E, for example 10:20")
    if not int(start) < int(end) <= jobs_total:
        raise OptionError(
            f"{text!r} does not name a slice of {jobs_total} jobs", where="--window", expected="S < E <= jobs"
        )
    return slice(int(start), int(end))


def _jobs(typed: RunOptions, throughputs: Throughputs) -> tuple[tuple[Job, ...], str]:
    """The jobs, and the name of their source."""
    if (typed.trace is None) == (typed.jobs is None):
        seen = (
            "both --trace and --jobs are given"
            if typed.jobs is not None
            else "neither --trace nor --jobs is given"
        )
        raise OptionError(seen, expected="one of them", hint="--jobs 40, or --trace FILE")
    if typed.jobs is not None:
        jobs = drawn_jobs(
            typed.jobs,
            typed.job_types,
            throughputs,
            arrival_rate=typed.arrival_rate,
            seed=typed.seed,
            multi_gpu=typed.multi_gpu,
            multi_priority=typed.multi_priority,
        )
        return jobs, "--jobs"
    for option in ("arrival_rate", "multi_gpu", "multi_priority", "job_types"):
        if getattr(typed, option):
            name = "--" + option.replace("_", "-")
            raise OptionError("it says how random jobs are made, and the jobs come from --trace", where=name)
    assert typed.trace is not None
    path = find_trace(typed.trace)
    return as_spelled(read_trace(path), throughputs.job_types), str(path)
