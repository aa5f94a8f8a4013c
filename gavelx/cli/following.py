"""``gavelx learn follow``: learn from what a running scheduler has logged, and let the scheduler decide by it."""

import time
from dataclasses import dataclass, replace
from pathlib import Path

from gavelx.cli.extras import service_installed, training_installed
from gavelx.cli.output import print_json, stderr
from gavelx.errors import OptionError, WorkloadError
from gavelx.files.atomic import write_atomically
from gavelx.learning.lessons import SLOT_S, Lesson, lesson_of
from gavelx.learning.trial import Recent, Trial, tried
from gavelx.mechanism.lengths import Known
from gavelx.policies import load_policy
from gavelx.policies.network import Network
from gavelx.report.words import number
from gavelx.workload import runnable

with service_installed():
    from gavelx.cli.clients import set_policy
    from gavelx.rpc.channels import Access
    from gavelx.service.state.replay import read_recorded

SLOTS_MOST, ANSWERS_MOST = 250, 2000
"""Of a window, in the time that the best schedule would take: slots of a lesson, and answers of a policy tried."""


@dataclass(frozen=True)
class Following:
    """What is learned, and how: from the ``last`` jobs of the log, into a ``folder`` of weights.

    ``slot_s``: how often devices change hands in the model; None: by the length of the jobs.
    """

    log: str
    folder: str
    teacher: str
    last: int
    rounds: int
    steps: int
    slot_s: float | None
    tolerance: float
    seed: int


def run_follow(access: Access, following: Following, every_s: float | None, *, as_json: bool) -> None:
    """Once, or again and again until a signal; a line for each time."""
    if not Path(following.folder).is_dir():
        raise OptionError(f"{following.folder} is no folder", where="--weights")
    load_policy(following.teacher)
    deciding: str | None = None
    while True:
        recent = recent_jobs(following)
        lesson = lesson_on(recent, following.slot_s)
        names = [following.teacher, learned(following, lesson), *([deciding] if deciding else [])]
        tries = asked_less(recent, lesson.least_s)
        trial = tried({name: load_policy(name) for name in names}, following.teacher, tries)
        chosen = trial.chosen(following.tolerance)
        _say(trial, chosen, set_policy(access, chosen), as_json=as_json)
        deciding = None if chosen == following.teacher else chosen
        if every_s is None:
            return
        time.sleep(every_s)


def recent_jobs(following: Following) -> Recent:
    """The window of jobs. Raises :class:`WorkloadError` if none can run."""
    recorded = read_recorded(following.log)
    jobs = runnable(recorded.jobs, recorded.cluster, recorded.throughputs)[-following.last :]
    if not jobs:
        raise WorkloadError("no job that could run was ever submitted", where=following.log)
    first_s = jobs[0].arrival_s
    jobs = tuple(replace(job, arrival_s=job.arrival_s - first_s) for job in jobs)
    lengths: Known = "believed" if recorded.untold else "told"
    return Recent(jobs, recorded.cluster, recorded.throughputs, recorded.configuration.rules, lengths)


def lesson_on(recent: Recent, slot_s: float | None) -> Lesson:
    """The window as a lesson, in slots of so many seconds; None: ``SLOT_S``, or as long that the best schedule
    there could be takes ``SLOTS_MOST`` of them."""
    lesson = lesson_of([recent.jobs], recent.cluster, recent.throughputs, slot_s or SLOT_S)
    if slot_s is None and (longer_s := lesson.least_s / SLOTS_MOST) > SLOT_S:
        return lesson_of([recent.jobs], recent.cluster, recent.throughputs, longer_s)
    return lesson


def asked_less(recent: Recent, least_s: float) -> Recent:
    """The window as it is simulated: by the cluster's rules, but that the policy is asked no more than some
    ``ANSWERS_MOST`` times where jobs are long."""
    rules, interval_s = recent.rules, least_s / ANSWERS_MOST
    if interval_s <= max(rules.round_s, rules.solve_interval_s):
        return recent
    return replace(recent, rules=replace(rules, solve_interval_s=interval_s))


def learned(following: Following, lesson: Lesson) -> str:
    """A network that imitates looking ahead on the window; its file is named after its content."""
    with training_installed():
        from gavelx.learning.imitate import imitation  # noqa: PLC0415
    *_, last = imitation(
        lambda _: lesson,
        seed=following.seed,
        rounds=following.rounds,
        steps=following.steps,
        slot_s=lesson.slot_s,
    )
    content = last.network.to_bytes()
    digest = Network.from_bytes(content, following.folder).digest
    path = Path(following.folder).absolute() / f"learned-{digest}.npz"
    write_atomically(path, content)
    return f"elastic({path})"


def _say(trial: Trial, chosen: str, before: str, *, as_json: bool) -> None:
    if as_json:
        print_json({"policy": chosen, "before": before, "jct_mean_s": dict(trial.jct_s)})
        return
    means = "; ".join(f"{name}: {number(jct_s / 3600.0)} h" for name, jct_s in trial.jct_s.items())
    stderr().print(f"mean JCT of the last jobs, simulated: {means}", markup=False, soft_wrap=True)
    stderr().print(f"{chosen} decides from now on; it was {before}", markup=False, soft_wrap=True)
