"""``gavelx throughputs measure``: check the options, run the measurements, print and write a table."""

import re
from collections.abc import Sequence
from typing import Any

from gavelx.cli.extras import service_installed
from gavelx.cli.output import print_json, stderr, stdout
from gavelx.cli.tables import plain_table, policy_cell
from gavelx.cli.throughput_options import MeasureOptions
from gavelx.errors import OptionError
from gavelx.estimator.steady_speed import interval
from gavelx.files.atomic import ensure_writable
from gavelx.files.profiles import Profile, write_profiles
from gavelx.files.texts import exists
from gavelx.files.throughput_tables import load_throughputs, pairs_path
from gavelx.measurements import Way
from gavelx.throughputs import Pairing, Setting, Throughputs

with service_installed():
    from gavelx.profiler.profile import Plan, Refused, profiles
    from gavelx.profiler.running import How, Job, check_devices
    from gavelx.worker.devices import Devices, find_devices

AND = "+"
"""Separates the commands of two jobs."""


def run_measure(wanted: MeasureOptions, as_json: bool) -> None:
    """Measure, write each speed once it is known, print. The exit status is 2 if nothing could be measured."""
    plan = _plan(wanted)
    devices = _devices(wanted.accelerator, max(plan.workers))
    how = How(
        devices,
        seconds=wanted.seconds,
        steps=wanted.steps,
        start_s=wanted.start_within,
        pattern=_pattern(wanted.step_pattern),
        one_process=wanted.one_process,
    )
    if wanted.out is not None:
        ensure_writable(wanted.out)
        ensure_writable(pairs_path(wanted.out))
    before = load_throughputs(wanted.out) if wanted.out is not None and exists(wanted.out) else Throughputs({})
    good, refused = list[Profile](), list[Refused]()
    for found in profiles(plan, how, _begins):
        measured = [each for each in found if isinstance(each, Profile)]
        if wanted.out is not None and measured:  # at once: a later run may fail, or be interrupted
            write_profiles(wanted.out, measured)
        good += measured
        refused += [each for each in found if isinstance(each, Refused)]
    if as_json:
        rows = [row_of(profile) for profile in good]
        rejected = [way_of(each.way) | {"reason": each.reason} for each in refused]
        print_json({"rows": rows, "rejected": rejected})
    else:
        _print(good, refused)
    for note in _contradictions(before, good):
        stderr().print(note, markup=False, soft_wrap=True)
    if not good:
        raise OptionError(
            refused[0].reason,
            where=f"no speed of {wanted.type} could be measured",
            hint="fix the reported problem, or count for longer, such as --seconds 120",
        )


def _plan(wanted: MeasureOptions) -> Plan:
    commands, beside = _split(tuple(wanted.command)), wanted.beside or []
    if len(commands) != 1 + len(beside):
        raise OptionError(
            f"{len(beside)} partners, and {len(commands) - 1} commands after the first",
            where="--beside",
            expected=f"a command for each, after a {AND!r}",
            hint=f"--type A --beside B -- python a.py {AND} python b.py",
        )
    return Plan(
        _named(wanted.type, "--type"),
        commands[0],
        workers=_numbers(wanted.workers, "--workers"),
        batch_sizes=_numbers(wanted.batch_sizes, "--batch-sizes") if wanted.batch_sizes else (),
        beside=tuple(
            Job(_named(name, "--beside"), words) for name, words in zip(beside, commands[1:], strict=True)
        ),
        repeat=wanted.repeat,
        source=wanted.source,
    )


def _named(text: str, option: str) -> str:
    """The name of a job type, as a table has it. Raises :class:`OptionError` for an empty one."""
    if not (name := " ".join(text.split())):
        raise OptionError("the job type has no name", where=option, expected="such as my-model-bs32")
    return name


def _split(words: Sequence[str]) -> list[tuple[str, ...]]:
    """Argument vectors, each ended by a ``+``. Raises :class:`OptionError` for an empty one.

    >>> _split(["python", "a.py", "+", "python", "b.py"])
    [('python', 'a.py'), ('python', 'b.py')]
    """
    commands = list[list[str]]([[]])
    for word in words:
        if word == AND:
            commands.append([])
        else:
            commands[-1].append(word)
    if not all(commands):
        raise OptionError("a command is empty", where="-- COMMAND", expected="a program and its arguments")
    return [tuple(command) for command in commands]


def _numbers(text: str, option: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and 0 < int(part) < 10**9 for part in parts):
        raise OptionError(f"cannot read {text[:80]!r}", where=option, expected="whole numbers, such as 1,2,4")
    return tuple(dict.fromkeys(map(int, parts)))


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        problem = f"{text!r} is no regular expression ({error})"
        raise OptionError(problem, where="--step-pattern", expected=r"such as 'step (\d+)'") from None


def _devices(accelerator: str | None, workers: int) -> Devices:
    """The GPUs of this machine, or ``workers`` devices of the type that the user names."""
    try:
        devices = find_devices(None if accelerator is None else f"{accelerator}={workers}")
    except OptionError as error:
        hint = "--accelerator cpu" if accelerator is None else "a name such as v100"
        raise OptionError(error.problem, where="--accelerator", hint=hint) from None
    check_devices(devices, workers)
    return devices


def _begins(jobs: Sequence[Job], n: int) -> None:
    again = f", again ({n + 1})" if n else ""
    devices = f" on {jobs[0].workers} devices" if jobs[0].workers > 1 else ""
    stderr().print(" beside ".join(job.job_type for job in jobs) + devices + again + " ...", markup=False)


def way_of(way: Way) -> dict[str, Any]:
    """A way to run as columns of a table."""
    return way._asdict()


def row_of(profile: Profile) -> dict[str, Any]:
    """A measurement as JSON."""
    m = profile.measurement
    low, high = interval(m.steps_per_second, m.relative_error)
    return way_of(m.way) | {
        "steps_per_second": m.steps_per_second,
        "lower": low,
        "upper": high,
        "relative_error": m.relative_error,
        "seconds": m.seconds,
        "memory_mib": profile.memory_mib,
        "utilization": profile.utilization,
        "measured_at": m.measured_at or None,
        "source": m.source or None,
    }


def _print(good: Sequence[Profile], refused: Sequence[Refused]) -> None:
    table = plain_table()
    table.add_column("job type", overflow="fold")
    for heading in ("devices", "steps/s", "+-", "counted", "memory", "use"):
        table.add_column(heading, justify="right")
    for profile in good:
        m = profile.measurement
        table.add_row(
            policy_cell(_name(m.way)),
            str(m.way.scale_factor) if isinstance(m.way, Setting) else "1",
            f"{m.steps_per_second:.4g}" if m.steps_per_second else "cannot run",
            f"{interval(1.0, m.relative_error)[1] - 1.0:.1%}",
            f"{m.seconds:.0f} s",
            "?" if profile.memory_mib is None else f"{profile.memory_mib:,.0f} MiB",
            "?" if profile.utilization is None else f"{profile.utilization:.0%}",
        )
    for each in refused:
        table.add_row(policy_cell(_name(each.way)), "", "rejected", *[""] * 4)
    stdout().print(table)
    for each in refused:
        stdout().print(f"{_name(each.way)}: {each.reason}", markup=False, soft_wrap=True)
    if good:
        stdout().print("+-: half the width of the 90 % interval.", style="dim")


def _name(way: Way) -> str:
    return f"{way.job_type} beside {way.partner}" if isinstance(way, Pairing) else way.job_type


def _contradictions(before: Throughputs, good: Sequence[Profile]) -> list[str]:
    """A line for each speed of the table that the measurements contradict."""
    notes = []
    for profile in good:
        m = profile.measurement
        said = before.isolated.get(m.way) if isinstance(m.way, Setting) else before.colocated.get(m.way)
        low, high = interval(m.steps_per_second, m.relative_error)
        if said is not None and not low * 0.95 <= said <= high * 1.05:
            notes.append(f"{_name(m.way)} on {m.way.accelerator}: the table said {said:.4g} steps/s; replaced")
    return notes
