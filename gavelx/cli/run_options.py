"""The options of ``simulate`` and ``compare`` as a dataclass, and a decorator that adds options to a command."""

import inspect
import shlex
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from inspect import Parameter
from typing import Any

from gavelx.cli import options as o


@dataclass(frozen=True)
class RunOptions:
    """The options of a run, as typed."""

    cluster: o.Cluster
    devices_per_server: o.DevicesPerServer = 4
    trace: o.Trace = None
    jobs: o.Jobs = None
    job_types: o.JobTypes = None
    arrival_rate: o.ArrivalRate = 0.0
    seed: o.Seed = 0
    multi_gpu: o.MultiGpu = False
    multi_priority: o.MultiPriority = False
    skip_unrunnable: o.SkipUnrunnable = False
    window: o.Window = None
    table: o.Table = "simulation"
    measured: o.Measured = None
    strict_speeds: o.StrictSpeeds = False
    speed_samples: o.SpeedSamples = None
    rules: o.Rules = "default"
    round_s: o.Round = None
    min_run: o.MinRun = 0.0
    protect_for: o.ProtectFor = None
    plain_jobs: o.PlainJobs = 0.0
    elasticity: o.Elasticity = None
    lengths: o.Lengths = "told"
    backfill: o.Backfill = None
    prices: o.Prices = None
    price_changes: o.PriceChanges = None
    spot_history: o.SpotHistory = None
    spot_availability: o.SpotAvailability = None
    spot_place: o.SpotPlace = None
    spot_start: o.SpotStart = None
    spot_notice: o.SpotNotice = 120.0
    lending: o.Lending = None
    lending_notice: o.LendingNotice = 30.0
    overheads: o.Overheads = None
    speed_noise: o.SpeedNoise = 0.0
    failures: o.Failures = None
    budget: o.Budget = None
    solver: o.Solver = "auto"
    time_budget: o.TimeBudget = 60.0

    def command(self, start: str) -> str:
        """The shell command that repeats this run; ``start`` is the command with its policies."""
        words = [start]
        for entry in fields(self):
            value = getattr(self, entry.name)
            if value != entry.default:
                option = "--round" if entry.name == "round_s" else "--" + entry.name.replace("_", "-")
                words.append(option if value is True else f"{option} {shlex.quote(str(value))}")
        return " ".join(words)


def with_options(options: type) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command: every field of this dataclass becomes an option, in place of the parameter of its type.

    typer reads options from a function's signature, so the command gets a signature with these options.
    """
    shared = [
        Parameter(
            entry.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if entry.default is MISSING else entry.default,
            annotation=entry.type,
        )
        for entry in fields(options)
    ]

    def spread(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command)
        place = next(name for name, parameter in own.parameters.items() if parameter.annotation is options)

        def run(**given: Any) -> None:
            typed = options(**{parameter.name: given.pop(parameter.name) for parameter in shared})
            command(**{place: typed}, **given)

        parameters = [
            each for name, one in own.parameters.items() for each in (shared if name == place else [one])
        ]
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        run.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        return run

    return spread
