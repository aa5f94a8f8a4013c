"""Cases: one seed fixes cluster, jobs, speeds, prices, policy, rules and everything that goes wrong.

All are small, so that a thousand of them take minutes, and odd: tiny servers, jobs that run on one type only,
gangs that cannot be spread, prices that change, servers that die every hour. Every job can run somewhere as long
as all servers are there.
"""

from dataclasses import dataclass, replace
from random import Random

from gavelx.cluster import Cluster
from gavelx.elastic import Elastic
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, Rules
from gavelx.mechanism.lengths import KNOWN, Known
from gavelx.overheads import FREE, Overhead, Overheads
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.published import PUBLISHED, AnyRules
from gavelx.simulator.capacity import Capacity
from gavelx.simulator.faults import Faults
from gavelx.throughputs import Pairing, Setting, Throughputs

POLICIES = (
    *("fifo", "agnostic(fifo)", "isolated", "proportional", "max_sum_throughput"),
    *("max_min_fairness", "agnostic(max_min_fairness)", "finish_time_fairness", "makespan"),
    *("packed(max_min_fairness)", "packed(fifo_program)", "packed(max_sum_throughput)", "packed(makespan)"),
    *("placed(max_min_fairness)", "packed(placed(max_min_fairness))"),
    *("srtf", "las_2d", "las_2d_gittins", "optimus", "drf", "tetris"),
    *("gandiva", "themis", "gang_fifo", "backfill"),
)
"""They take milliseconds."""
TYPES = ("v100", "p100", "k80")
KINDS = ("kind 0", "kind 1", "kind 2", "kind 3")
WIDTHS = (1, 2, 4)
CALM_FROM_S = 8000.0
"""When the faults stop."""


@dataclass(frozen=True)
class Case:
    """One run, complete."""

    seed: int
    jobs: tuple[Job, ...]
    cluster: Cluster
    throughputs: Throughputs
    prices: Prices
    price_changes: tuple[tuple[float, Prices], ...]
    policy: str
    rules: AnyRules
    faults: Faults
    lengths: Known
    lending: tuple[Capacity, ...] = ()

    def __str__(self) -> str:
        run = f"{self.policy}, rules {self.rules.name}, lengths {self.lengths}"
        return f"seed {self.seed}: {len(self.jobs)} jobs on {self.cluster}, {run}"


def case_of(seed: int) -> Case:
    """The case of this seed: always the same, on every machine."""
    random = Random(f"swarm:{seed}")
    devices_per_server = random.choice((1, 2, 2, 4))
    rules = _rules(random)
    most = random.choice((1, 1, 2, 3))
    plain = Random(f"plain:{seed}")
    protect_s = plain.choice((0.0, 1800.0, *3 * (DEFAULT.protect_s,)))
    rules = replace(rules, protect_s=protect_s) if isinstance(rules, Rules) else rules
    servers = {name: random.randint(name == TYPES[0], most) for name in TYPES}  # at least one of the first type
    cluster = Cluster.of({name: n * devices_per_server for name, n in servers.items()}, devices_per_server)
    case = Case(
        seed=seed,
        jobs=_some_plain(plain, _jobs(random, widest=servers[TYPES[0]] * devices_per_server), rules),
        cluster=cluster,
        throughputs=_throughputs(random, devices_per_server),
        prices=_prices(random),
        price_changes=tuple(
            (random.uniform(0.0, 12_000.0), _prices(random)) for _ in range(random.choice((0, 0, 3)))
        ),
        policy=random.choice(POLICIES),
        rules=rules,
        faults=_faults(random, seed, rules),
        lengths=_lengths(seed, rules),
    )
    return _some_lending(_some_mixed(_some_elastic(case)))


def _some_lending(case: Case) -> Case:
    """In a fourth of the cases servers of some types take devices back and lend them again, until faults stop."""
    random = Random(f"lending:{case.seed}")
    if not isinstance(case.rules, Rules) or random.random() < 3 / 4:
        return case
    lending = tuple(
        Capacity(name, _shares(random), random.choice((0.0, 30.0, 300.0)), of="devices")
        for name in TYPES
        if name == TYPES[0] or random.random() < 0.5
    )
    return replace(case, lending=lending)


def _shares(random: Random) -> tuple[tuple[float, float], ...]:
    """Parts for some minutes each until faults stop, and all after that."""
    every_s = random.choice((200.0, 900.0, 2500.0))
    parts = tuple((every_s, random.choice((0.0, 0.25, 0.5, 0.75, 1.0))) for _ in range(int(CALM_FROM_S / every_s)))
    return (*parts, (1e9, 1.0))


def _some_elastic(case: Case) -> Case:
    """In a third of the cases most jobs change their size, by a pause or by a restart."""
    random = Random(f"elastic:{case.seed}")
    if not isinstance(case.rules, Rules) or random.random() < 2 / 3:
        return case
    wrapped = f"elastic({case.policy})" if "sizes" in load_policy(case.policy).uses else case.policy
    rules, faults = case.rules, case.faults
    fidgets, can = random.random() < 0.5, random.choice((0.0, 0.7, 1.0))

    def resized(overheads: Overheads) -> Overheads:
        """Some can go over to another size without a restart."""
        each = {
            kind: overheads.of(kind)._replace(resize_s=random.choice((0.0, random.uniform(0.0, 20.0))))
            for kind in KINDS
            if random.random() < can
        }
        return Overheads(overheads.default, dict(overheads.by_type) | each)

    overheads = resized(rules.overheads)
    if faults.overheads is not None:
        faults = replace(faults, overheads=resized(faults.overheads))
    return replace(
        case,
        jobs=tuple(_elastic(random, job, longer=fidgets) for job in case.jobs),
        policy="tests.swarm.fidget:fidget" if fidgets else wrapped,
        rules=replace(rules, overheads=overheads, min_run_s=0.0 if fidgets else rules.min_run_s),
        faults=faults,
    )


def _some_mixed(case: Case) -> Case:
    """In an eighth of the cases all jobs may be on several types at once, and most change their devices live."""
    random = Random(f"mixed:{case.seed}")
    if not isinstance(case.rules, Rules) or random.random() < 7 / 8:
        return case
    mixed = Elastic("workers", 1, WIDTHS[-1], mixed=True)
    jobs = tuple(
        replace(job, elastic=mixed, total_steps=4.0 * job.total_steps, checkpoints=True) for job in case.jobs
    )
    live = Overheads(Overhead(random.choice((0.0, 5.0)), random.choice((0.0, 20.0)), random.choice((0.0, 3.0))))
    rules = replace(case.rules, overheads=live, min_run_s=0.0)
    faults = replace(case.faults, overheads=None)
    policy = random.choice(("tests.swarm.fidget:fidget", "elastic(fifo)", "elastic(max_min_fairness)"))
    return replace(case, jobs=jobs, rules=rules, faults=faults, policy=policy)


def _elastic(random: Random, job: Job, *, longer: bool) -> Job:
    """What never saves anything would not end under a policy that fidgets."""
    job = replace(job, elastic=_elasticity(random, job))
    return replace(job, total_steps=4.0 * job.total_steps, checkpoints=True) if longer else job


def _elasticity(random: Random, job: Job) -> Elastic | None:
    least = random.choice([width for width in WIDTHS if width <= job.scale_factor])
    most = random.choice([width for width in WIDTHS if width >= job.scale_factor])
    if random.random() < 0.2:
        return None
    if random.random() < 0.5:
        mixed = job.id % 2 == 0
        return Elastic("workers", 1 if mixed else least, WIDTHS[-1] if mixed else most, mixed=mixed)
    return Elastic("batch", least, most, batch=64, batch_least=random.choice((16, 64)), batch_most=256)


def _lengths(seed: int, rules: AnyRules) -> Known:
    """What is known of how long jobs are; under the published rules all."""
    return Random(f"lengths:{seed}").choice(("told", *KNOWN)) if isinstance(rules, Rules) else "told"


def _jobs(random: Random, widest: int) -> tuple[Job, ...]:
    widths = [width for width in WIDTHS if width <= widest]
    mean_gap_s = random.choice((0.0, 100.0, 1000.0))
    jobs, arrival_s = list[Job](), 0.0
    for job_id in random.sample(range(100), random.randint(2, 12)):
        width = min(random.choice(widths) for _ in range(3))
        jobs.append(
            Job(
                id=job_id,
                job_type=random.choice(KINDS),
                total_steps=random.choice((1.0, random.uniform(1.0, 3000.0), random.uniform(1.0, 15_000.0))),
                scale_factor=width,
                weight=random.choice((1.0, 1.0, 5.0)),
                arrival_s=arrival_s,
            )
        )
        arrival_s += random.expovariate(1.0 / mean_gap_s) if mean_gap_s else 0.0
    return tuple(jobs)


def _some_plain(random: Random, jobs: tuple[Job, ...], rules: AnyRules) -> tuple[Job, ...]:
    """Mostly some jobs save nothing, and some users say that theirs are not to be preempted, or always may be."""
    part = random.choice((0.0, 0.3, 0.3, 1.0)) if isinstance(rules, Rules) else 0.0
    owners = random.choice((("",), ("",), ("", "ml", "ml/ann", "ops")))
    if not part:
        return jobs
    return tuple(
        replace(
            job,
            checkpoints=random.random() >= part,
            preemptible=random.choice(("auto", "auto", "yes", "no")),
            owner=random.choice(owners),
        )
        for job in jobs
    )


def _throughputs(random: Random, devices_per_server: int) -> Throughputs:
    """Every kind runs on the first type; elsewhere some do not, or nobody knows."""
    isolated: dict[Setting, float] = {}
    for kind in KINDS:
        for a, name in enumerate(TYPES):
            runs = a == 0 or random.random() < 0.8
            speed = random.uniform(1.0, 20.0) * runs
            slow = random.choice((1.0, random.uniform(0.2, 1.0), 0.0))
            if not runs and random.random() < 0.5 and kind != KINDS[0]:  # every type is in the table
                continue
            for width in WIDTHS:
                isolated[Setting(kind, name, width)] = whole = speed * width**0.8
                fits = width <= devices_per_server
                if width > 1 and not (fits and random.random() < 0.3):
                    part = slow if fits or slow > 0 else 0.5
                    isolated[Setting(kind, name, width, consolidated=False)] = whole * part
    colocated = {
        Pairing(kind, partner, name): isolated[Setting(kind, name)] * random.uniform(0.4, 1.0)
        for name in TYPES
        for kind in KINDS
        for partner in KINDS
        if isolated.get(Setting(kind, name)) and isolated.get(Setting(partner, name))
    }
    return Throughputs(isolated, colocated)


def _prices(random: Random) -> Prices:
    return Prices({name: random.uniform(0.1, 4.0) for name in TYPES if random.random() < 0.9})


def _overheads(random: Random, round_s: float) -> Overheads:
    """Less than a round: jobs that take turns by the round get nothing done where a restart takes longer."""
    some_s, many_s = round_s / 6, round_s / 2
    return Overheads(
        Overhead(random.uniform(0.0, some_s), random.uniform(0.0, some_s)),
        {KINDS[0]: Overhead(random.uniform(0.0, many_s), random.uniform(0.0, many_s))},
    )


def _rules(random: Random) -> AnyRules:
    rules: AnyRules = random.choice((DEFAULT, DEFAULT, DEFAULT, PUBLISHED))
    round_s = random.choice((60.0, 360.0, 360.0, 1200.0))
    solve_interval_s = random.choice((rules.solve_interval_s, rules.solve_interval_s, 600.0))
    backfill, min_run_s = random.choice((rules.backfill, None, 0.0, 0.5)), random.choice((0.0, 0.0, 600.0))
    if isinstance(rules, Rules):
        overheads = random.choice((FREE, _overheads(random, round_s)))
        rules = replace(rules, min_run_s=min_run_s, overheads=overheads)
    rules = replace(
        rules,
        round_s=round_s,
        solve_interval_s=solve_interval_s,
        backfill=backfill,
        max_failures=random.choice((2, 5)),
    )
    if isinstance(rules, Rules):
        return rules
    return replace(rules, split_price=random.choice((False, True)))


def _faults(random: Random, seed: int, rules: AnyRules) -> Faults:
    """Each kind of trouble in half of the cases; the published simulator has no messages, and does not wait.

    Nor are there overheads in it: a round lasts as long as its steps, which may be less than a restart.
    """

    def some(most: float) -> float:
        return random.choice((0.0, random.uniform(0.0, most)))

    default = isinstance(rules, Rules)
    found = Faults(
        seed=seed,
        until_s=CALM_FROM_S,
        lost=some(0.3),
        late=some(0.5),
        doubled=some(0.5),
        late_s=random.choice((10.0, 300.0, 2000.0)) if default else 10.0,
        slow_solves=some(0.5),
        slow_s=random.choice((10.0, 1000.0)),
        server_failures_per_day=some(50.0),
        outage_s=random.choice((10.0, 600.0, 1800.0)),
        job_failures_per_hour=some(5.0),
        checkpoint_every_s=random.choice((60.0, 600.0)),
        speed_noise=some(0.3),
        overheads=random.choice((None, _overheads(random, rules.round_s))) if default else None,
    )
    return found if default else replace(found, lost=0.0, late=0.0, doubled=0.0, slow_solves=0.0)
