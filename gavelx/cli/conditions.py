"""Rules and faults of a run, from the options that the user typed."""

import math
from collections.abc import Collection
from dataclasses import replace

from gavelx.cli.run_options import RunOptions
from gavelx.errors import OptionError, did_you_mean
from gavelx.files.amounts import read_amounts
from gavelx.files.csvs import NUMBER
from gavelx.files.overhead_tables import load_overheads
from gavelx.files.texts import shown
from gavelx.mechanism import Rules
from gavelx.mechanism.lengths import KNOWN, Known
from gavelx.published import RULES, AnyRules, seeded
from gavelx.simulator.faults import Faults

ROUND_S = (1.0, 1e6)
"""The shortest and longest round: a shorter one makes runs too slow, a longer one makes a run a single round."""
MIN_RUN_S = (0.0, 1e8)
PROTECT_S = (0.0, 1e9)
SPEED_NOISE = (0.0, 2.0)
FAILURES = {"servers": 24.0, "jobs": 6.0}
"""The most failures of each server per day and of each job per hour: with more, jobs make no progress."""
FAILURES_FORM = "--failures servers=0.5,jobs=0.01"
BACKFILL = {"never": None, "any": 0.0}


def rules_of(typed: RunOptions, job_types: Collection[str]) -> AnyRules:
    """The named rules with the options applied. Raises :class:`OptionError` or :class:`InputFileError`."""
    if typed.rules not in RULES:
        hint = did_you_mean(typed.rules, RULES)
        raise OptionError(f"there are no rules {typed.rules!r}", where="--rules", hint=hint)
    rules = seeded(RULES[typed.rules], typed.seed)
    if typed.round_s is not None:
        rules = rules.with_round(within(typed.round_s, ROUND_S, "--round", "a round of {:g} s", "seconds"))
    seen = "{:g} s without preemption"
    if typed.min_run:
        rules = _only_default(rules, "--min-run")
        rules = replace(rules, min_run_s=within(typed.min_run, MIN_RUN_S, "--min-run", seen, "seconds"))
    if typed.protect_for is not None:
        rules = _only_default(rules, "--protect-for")
        rules = replace(rules, protect_s=within(typed.protect_for, PROTECT_S, "--protect-for", seen, "seconds"))
    if typed.plain_jobs:
        _only_default(rules, "--plain-jobs")
    if typed.backfill is not None:
        rules = replace(rules, backfill=_backfill(typed.backfill, rules))
    if typed.overheads is not None:
        rules = replace(rules, overheads=load_overheads(typed.overheads, job_types))
    return rules


def lengths_of(typed: RunOptions, rules: AnyRules) -> Known:
    """What the scheduler knows of lengths. Raises :class:`OptionError`."""
    for known in KNOWN:
        if typed.lengths == known:
            if known != "told":
                _only_default(rules, f"--lengths {known}")
            return known
    hint = did_you_mean(typed.lengths, KNOWN)
    raise OptionError(
        f"{shown(typed.lengths)} is not known", where="--lengths", expected=", ".join(KNOWN), hint=hint
    )


def faults_of(typed: RunOptions) -> Faults:
    """The faults of the run, drawn with its seed. Raises :class:`OptionError`."""
    noise = within(typed.speed_noise, SPEED_NOISE, "--speed-noise", "a variation of {:g}", "of the speed")
    rate: dict[str, float] = {}
    if typed.failures is not None:
        rate = read_amounts(typed.failures, FAILURES, where="--failures", form=FAILURES_FORM)
    return Faults(
        seed=typed.seed,
        speed_noise=noise,
        server_failures_per_day=rate.get("servers", 0.0),
        job_failures_per_hour=rate.get("jobs", 0.0),
    )


def within(value: float, limits: tuple[float, float], option: str, seen: str, unit: str) -> float:
    """The value, checked against these limits. Raises :class:`OptionError`; ``seen`` describes the value."""
    low, high = limits
    if not low <= value <= high:
        raise OptionError(seen.format(value), where=option, expected=f"{low:g} to {high:g} {unit}")
    return value


def _backfill(text: str, rules: AnyRules) -> float | None:
    if text in BACKFILL:
        return BACKFILL[text]
    part = float(text) if NUMBER.fullmatch(text) else math.nan
    if not 0.0 <= part <= 1.0:
        expected = "never, any, or the least part of its fastest speed, from 0 to 1"
        raise OptionError(
            f"cannot read {shown(text)}", where="--backfill", expected=expected, hint="--backfill 0.8"
        )
    _only_default(rules, f"--backfill {text}")
    return part


def _only_default(rules: AnyRules, option: str) -> Rules:
    """The rules, if they are the default ones. Raises :class:`OptionError` for others.

    The published simulator restarts every job each round, at no cost and on any free devices.
    """
    if isinstance(rules, Rules):
        return rules
    problem = f"the rules {rules.name!r} do not support it"
    raise OptionError(problem, where=option, expected="the rules 'default'", hint="leave --rules out")
