"""What a user may type after a command of a running cluster, written once."""

from dataclasses import dataclass
from typing import Annotated

import typer

from gavelx.cli import options as o
from gavelx.cli.secrets import STATE

HERE = "127.0.0.1:7070"
WHERE, _WHO, _TIMES = "Where", "Who may", "Times"


TokenFile = Annotated[
    str | None,
    typer.Option(
        "--token-file",
        envvar="GAVELX_TOKEN_FILE",
        metavar="FILE",
        help="A file that holds your token (gavelx token).",
        rich_help_panel=WHERE,
    ),
]
Ca = Annotated[
    str | None,
    typer.Option(
        "--ca",
        envvar="GAVELX_CA",
        metavar="FILE",
        help="The CA's certificate, where the scheduler speaks TLS.",
        rich_help_panel=WHERE,
    ),
]


@dataclass(frozen=True)
class Address:
    """Where the scheduler is, and what opens its door."""

    scheduler: Annotated[
        str,
        typer.Option(
            "--scheduler",
            envvar="GAVELX_SCHEDULER",
            metavar="HOST:PORT",
            help="Where the scheduler listens.",
            rich_help_panel=WHERE,
        ),
    ] = HERE
    token_file: TokenFile = None
    ca: Ca = None


@dataclass(frozen=True)
class AddressIfAny:
    """Where a scheduler is, for a command that need not ask one."""

    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", metavar="HOST:PORT", help="Ask a scheduler.", rich_help_panel=WHERE),
    ] = None
    token_file: TokenFile = None
    ca: Ca = None


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """A job, as typed after ``submit``."""

    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND ...", help="What to run; no shell sees it.")]
    type: Annotated[
        str,
        typer.Option(metavar="TYPE", help="The job type: a row of the throughput table, such as resnet18-bs32."),
    ]
    steps: Annotated[float, typer.Option(metavar="N", help="Optimizer steps in all.")]
    workers: Annotated[int, typer.Option(min=1, metavar="N", help="Devices that it needs at once.")] = 1
    name: Annotated[str, typer.Option(help="For people.")] = ""
    weight: Annotated[float, typer.Option(help="Priority: 5 gets five times the share of 1.")] = 1.0
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A variable of its environment; may be repeated."),
    ] = None
    speed: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ACCELERATOR=STEPS_PER_S",
            help="How fast it runs where the table does not know; may be repeated.",
        ),
    ] = None
    one_process_per_server: Annotated[
        bool,
        typer.Option("--one-process-per-server", help="Start it once on each server, not once for each device."),
    ] = False
    slo: Annotated[float, typer.Option(help="To be done within so many times --duration; 0: no matter.")] = 0.0
    duration: Annotated[float, typer.Option(metavar="SECONDS", help="Time it needs on the reference device.")] = (
        0.0
    )
    preemptible: Annotated[
        str,
        typer.Option(
            metavar="auto|yes|no",
            help="May it be stopped for others, to go on later? auto: until it has lost its work by that.",
        ),
    ] = "auto"
    count: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Submit so many such jobs.")] = 1
    request_id: Annotated[
        str, typer.Option(help="A name of your own: submitted twice with it, the job is there once.")
    ] = ""


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """How to serve, as typed."""

    state: Annotated[
        str,
        typer.Option(envvar=STATE, metavar="FOLDER|URL", help="The durable log: a folder, or postgresql://..."),
    ] = "gavelx-state"
    policy: Annotated[
        str | None,
        typer.Option(
            help="A policy, as of simulate. Without it: the log's last one; in a new log max_min_fairness, "
            "with --tokens among owners: hierarchical(max_min_fairness)."
        ),
    ] = None
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="Port 0 takes any.", rich_help_panel=WHERE)] = (
        HERE
    )
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Prometheus figures, such as 127.0.0.1:9464.", rich_help_panel=WHERE
        ),
    ] = None
    table: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="Throughputs, for a new log (simulation without it).")
    ] = None
    prices: o.Prices = None
    round_s: o.Round = None
    backfill: o.Backfill = None
    min_run: o.MinRun = 0.0
    protect_for: o.ProtectFor = None
    overheads: o.Overheads = None
    max_failures: Annotated[
        int, typer.Option(min=1, help="A job that failed so often without a step forward has failed for good.")
    ] = 5
    tokens: Annotated[
        str | None, typer.Option(metavar="FILE", help="Who may call (gavelx token).", rich_help_panel=_WHO)
    ] = None
    max_jobs: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="So many live jobs a user may have.", rich_help_panel=_WHO),
    ] = 10_000
    max_weight: Annotated[
        float, typer.Option(metavar="WEIGHT", help="So much a user's job may weigh.", rich_help_panel=_WHO)
    ] = 10.0
    cert: Annotated[
        str | None, typer.Option(metavar="FILE", help="TLS: the service's certificate.", rich_help_panel=_WHO)
    ] = None
    key: Annotated[str | None, typer.Option(metavar="FILE", help="TLS: its key.", rich_help_panel=_WHO)] = None
    agent_ca: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Agents show a certificate of this CA ...", rich_help_panel=_WHO),
    ] = None
    agent_listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="... and come in here.", rich_help_panel=_WHO)
    ] = None
    heartbeat: Annotated[
        float, typer.Option(min=0.05, metavar="SECONDS", help="Between heartbeats.", rich_help_panel=_TIMES)
    ] = 5.0
    valid_for: Annotated[
        float,
        typer.Option(
            min=0.5,
            metavar="SECONDS",
            help="How long jobs run on when an agent hears nothing.",
            rich_help_panel=_TIMES,
        ),
    ] = 60.0
    grace: Annotated[
        float,
        typer.Option(
            min=0.0, metavar="SECONDS", help="Between asking a job to stop and killing it.", rich_help_panel=_TIMES
        ),
    ] = 15.0
    time_budget: o.TimeBudget = 60.0
    refine: Annotated[
        bool | None,
        typer.Option("--refine/--no-refine", help="Speeds that leases measure beat the table (a new log: yes)."),
    ] = None
    restored: Annotated[
        bool,
        typer.Option("--restored", help="The log is a backup: agents forget what was leased since."),
    ] = False
    new: Annotated[
        bool, typer.Option("--new", help="Begin another log, where the one that was there is lost.")
    ] = False
