"""``gavelx learn``: random traces, rounds of learning with a line for each, and what the network is worth."""

from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from gavelx.cli.drawing import drawn_jobs
from gavelx.cli.extras import training_installed
from gavelx.cli.learn_options import WorldOptions
from gavelx.cli.output import print_json, stderr, stdout
from gavelx.cli.scenario import with_elasticity
from gavelx.cli.tables import print_rows
from gavelx.cluster import Cluster
from gavelx.errors import OptionError
from gavelx.estimated_speeds import with_estimates
from gavelx.files.atomic import ensure_writable, write_atomically
from gavelx.files.throughput_tables import load_throughputs
from gavelx.learning.evaluate import difference, evaluated, schedule_by
from gavelx.learning.lessons import Lesson, lesson_of
from gavelx.policies import Dl2
from gavelx.policies.dl2 import Reads, decided_by
from gavelx.report.words import number

if TYPE_CHECKING:
    from gavelx.learning.course import Course, Read

TRAINING, VALIDATION, TEST = range(3)
"""What traces are for; no two purposes share one."""


class Files(NamedTuple):
    """The files that a course writes."""

    weights: str
    checkpoint: str | None
    plot: str | None

    def check(self) -> None:
        """Raises :class:`OptionError` for a file that cannot be written, and for one that is named twice."""
        named = [file for file in self if file is not None]
        for file in named:
            ensure_writable(file)
        if len({Path(file).resolve() for file in named}) < len(named):
            raise OptionError(
                "one file is named twice", expected="different files for --out, --checkpoint, --plot"
            )


class Plan(NamedTuple):
    """A course: its files, its options (a checkpoint of others is refused), and its rounds."""

    files: Files
    settings: dict[str, Any]
    rounds: int

    def begun(self, read: "Read") -> "Course | None":
        """The course in the checkpoint, if there is one."""
        from gavelx.learning.course import course_in  # noqa: PLC0415

        self.files.check()
        checkpoint = self.files.checkpoint
        if checkpoint is None or not Path(checkpoint).exists():
            return None
        return course_in(checkpoint, self.settings, read)


class Published(NamedTuple):
    """Options of DL2: the teacher, jobs that the network sees, and steps of imitation."""

    teacher: str
    window: int
    steps: int


def lesson_for(world: WorldOptions, purpose: int, number: int = 0, teacher: str | None = None) -> Lesson:
    """Traces for a purpose; those of each number are others."""
    cluster, table = Cluster.parse(world.cluster), load_throughputs(world.table)
    seeds = np.random.SeedSequence([world.seed, purpose, number]).generate_state(world.traces).tolist()
    traces = [
        with_elasticity(
            drawn_jobs(
                world.jobs,
                world.job_types,
                table,
                arrival_rate=world.arrival_rate,
                seed=seed,
                multi_gpu=world.multi_gpu,
                multi_priority=world.multi_priority,
            ),
            world.elasticity,
        )
        for seed in seeds
    ]
    every = [job for trace in traces for job in trace]
    speeds = with_estimates(table, every, cluster.accelerators)
    return lesson_of(traces, cluster, speeds, world.slot, teacher)


def imitate(world: WorldOptions, rounds: int, steps: int, files: Files, *, as_json: bool) -> None:
    """Learn from looking ahead, with a line for each round; write the best weights, checkpoint and curve."""
    with training_installed():
        from gavelx.learning.course import course  # noqa: PLC0415
        from gavelx.learning.imitate import Round, imitation  # noqa: PLC0415
    plan = Plan(files, asdict(world) | {"steps": steps}, rounds)
    before = plan.begun(Round.of)
    learned = imitation(
        lambda number: lesson_for(world, TRAINING, number),
        seed=world.seed,
        rounds=rounds,
        steps=steps,
        slot_s=world.slot,
        after=cast(Round, before.last) if before else None,
    )
    _follow(before, course(learned, lesson_for(world, VALIDATION), before), plan, as_json=as_json)


def reinforce(world: WorldOptions, dl2: Published, rounds: int, files: Files, *, as_json: bool) -> None:
    """The same from another scheduler, and then by reinforcement, as DL2 learns."""
    with training_installed():
        from gavelx.learning.course import course  # noqa: PLC0415
        from gavelx.learning.reinforce import Reinforced, reinforcement  # noqa: PLC0415
    plan = Plan(files, asdict(world) | dl2._asdict(), rounds)
    before = plan.begun(Reinforced.of)

    def lesson(purpose: int, number: int = 0) -> Lesson:
        return lesson_for(world, purpose, number, dl2.teacher)

    types = tuple(sorted(set(lesson(TRAINING).types)))
    learned = reinforcement(
        lambda number: lesson(TRAINING, number),
        Reads(types, tuple(Cluster.parse(world.cluster).accelerators), dl2.window, world.slot),
        seed=world.seed,
        rounds=rounds,
        steps=dl2.steps,
        after=cast(Reinforced, before.last) if before else None,
    )
    _follow(before, course(learned, lesson(VALIDATION), before), plan, as_json=as_json)


def adapt(weights: str, world: WorldOptions, rounds: int, files: Files, *, as_json: bool) -> None:
    """Go on by reinforcement from a network that learned by imitation."""
    policy = decided_by(weights)
    if isinstance(policy, Dl2):
        expected = "a network that imitates looking ahead (gavelx learn imitate)"
        raise OptionError(
            "it is a network of DL2",
            where=weights,
            expected=expected,
            hint="gavelx learn reinforce goes on with it",
        )
    with training_installed():
        from gavelx.learning.adapt import Adapted, adaptation  # noqa: PLC0415
        from gavelx.learning.course import course  # noqa: PLC0415
    plan = Plan(files, asdict(world) | {"weights": policy.network.digest}, rounds)
    before = plan.begun(Adapted.of)
    learned = adaptation(
        lambda number: lesson_for(world, TRAINING, number),
        replace(policy.network, note={**policy.network.note, "slot_s": world.slot}),
        seed=world.seed,
        rounds=rounds,
        after=cast(Adapted, before.last) if before else None,
    )
    _follow(before, course(learned, lesson_for(world, VALIDATION), before), plan, as_json=as_json)


def _follow(before: "Course | None", courses: Iterator["Course"], plan: Plan, *, as_json: bool) -> None:
    """A line for each round, and its files, before the next begins; in the end, what they hold."""
    files, taught = plan.files, before
    if before is not None:
        _write(before, files)
    for taught in courses:
        _say(taught, plan.rounds)
        if files.checkpoint is not None:
            write_atomically(files.checkpoint, taught.to_bytes(plan.settings))
        _write(taught, files)
    assert taught is not None
    document = {
        "weights": files.weights,
        "policy": str(decided_by(files.weights)),
        "best_round": taught.best_round,
        "rounds": _rounds(taught),
    }
    if as_json:
        print_json(document)
    else:
        text = f"{document['policy']}: the network of round {taught.best_round}, in {files.weights}"
        stdout().print(text, markup=False, soft_wrap=True)


def evaluate(weights: str, world: WorldOptions, *, as_json: bool) -> None:
    """Mean completion on test traces under the network, its teacher and a greedy schedule."""
    policy, lesson = decided_by(weights), lesson_for(world, TEST)
    if isinstance(policy, Dl2) and policy.reads.accelerators != tuple(Cluster.parse(world.cluster).accelerators):
        expected = f"a cluster of {', '.join(policy.reads.accelerators)}, on which it learned"
        raise OptionError(f"--cluster is {world.cluster}", where=weights, expected=expected)
    found = evaluated(schedule_by(policy.network, lesson), lesson)
    means = {"network": found.network_s_K, "lookahead": found.teacher_s_K, "greedy": found.greedy_s_K}
    schedules: dict[str, dict[str, Any]] = {}
    for name, jct_s_K in means.items():
        mean, half = difference(jct_s_K, found.teacher_s_K)
        schedules[name] = {
            "jct_mean_s": float(jct_s_K.mean()),
            "to_lookahead": mean,
            "interval": None if half is None else [mean - half, mean + half],
        }
    if as_json:
        print_json({"policy": str(policy), "traces": world.traces, "schedules": schedules})
        return
    rows = [
        [
            str(policy) if name == "network" else name,
            number(one["jct_mean_s"] / 3600.0),
            f"{one['to_lookahead']:+.1%}",
            "" if one["interval"] is None else "{:+.1%} .. {:+.1%}".format(*one["interval"]),
        ]
        for name, one in schedules.items()
    ]
    headings = ["schedule", "mean JCT, h", "to lookahead", "95 % interval"]
    print_rows(f"{world.traces} traces of {world.jobs} jobs", headings, rows, stdout())


def _rounds(taught: "Course") -> list[dict[str, Any]]:
    """The curve, a row for each round."""
    return [
        {
            "round": point.round,
            "moves": point.moves,
            "network_jct_mean_s": point.network_s,
            "teacher_jct_mean_s": point.teacher_s,
            "greedy_jct_mean_s": point.greedy_s,
        }
        for point in taught.curve
    ]


def _say(taught: "Course", rounds: int) -> None:
    point = taught.curve[-1]
    text = (
        f"round {point.round} of {rounds}: mean JCT {number(point.network_s / 3600.0)} h, of the teacher "
        f"{number(point.teacher_s / 3600.0)} h; {point.moves:,} moves seen"
    )
    stderr().print(text, markup=False, soft_wrap=True)


def _write(taught: "Course", files: Files) -> None:
    """The best weights so far, and the curve."""
    write_atomically(files.weights, taught.best.to_bytes())
    if files.plot is not None:
        from gavelx.report.learning_curve import curve_plot  # noqa: PLC0415

        write_atomically(files.plot, curve_plot(_rounds(taught)))
