"""Options of the commands of a running cluster, each defined once."""

from dataclasses import dataclass
from typing import Annotated

import typer

from gavelx.cli import options as o
from gavelx.cli.secrets import STATE

HERE = "127.0.0.1:7070"
WHERE, _ACCESS, _TIMES = "Where", "Access", "Times"


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
    """Address of the scheduler, and the files to authenticate with."""

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
    """Address of a scheduler, for a command that can do without one."""

    scheduler: Annotated[
        str | None,
        typer.Option("--scheduler", metavar="HOST:PORT", help="Ask a scheduler.", rich_help_panel=WHERE),
    ] = None
    token_file: TokenFile = None
    ca: Ca = None


@dataclass(frozen=True, kw_only=True)
class JobOptions:
    """A job, as typed after ``submit``."""

    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND ...", help="Command, run without a shell.")]
    type: Annotated[
        str,
        typer.Option(
            metavar="TYPE",
            help="The job type: a row of the throughput table, such as resnet18-bs32, or a name of yours. Jobs of "
            "one type share what is learned of them. Default: the command's name.",
        ),
    ] = ""
    steps: Annotated[
        float, typer.Option(metavar="N", help="Total optimizer steps. Default: unknown, the job ends by itself.")
    ] = 0.0
    workers: Annotated[
        str,
        typer.Option(
            metavar="N|MIN:MAX",
            help="Devices that it needs at once; 1:8 if it may change their number from 1, or 1:2:8 from 2.",
        ),
    ] = "1"
    batch: Annotated[
        str,
        typer.Option(
            metavar="MIN:MAX",
            help="Samples in an update of all devices, if it may change them: 64:512, from 64 as submitted.",
        ),
    ] = ""
    parts: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="Logical workers: on any devices it has the bits of so many, at least the most of --workers. "
            "Default: as few as will do.",
        ),
    ] = 0
    mixed: Annotated[
        bool,
        typer.Option(
            "--mixed", help="Its parts may run on devices of several types at once, and give up their bits."
        ),
    ] = False
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
            help="Its speed in steps/s on a type that the table lacks; may be repeated.",
        ),
    ] = None
    one_process_per_server: Annotated[
        bool,
        typer.Option("--one-process-per-server", help="Start it once on each server, not once for each device."),
    ] = False
    slo: Annotated[float, typer.Option(help="Deadline, as a multiple of --duration; 0: no deadline.")] = 0.0
    duration: Annotated[float, typer.Option(metavar="SECONDS", help="Time it needs on the reference device.")] = (
        0.0
    )
    preemptible: Annotated[
        str,
        typer.Option(
            metavar="auto|yes|no",
            help="Whether it may be stopped for other jobs; auto: until a preemption has lost its work.",
        ),
    ] = "auto"
    retries: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=1000,
            metavar="N",
            help="Launch it again after at most N failures in a row without a saved step (default: see serve).",
        ),
    ] = None
    restart_if_silent: Annotated[
        float,
        typer.Option(
            min=0.0,
            metavar="SECONDS",
            help="If it made steps and then none for so long, it counts as failed and starts again; 0: never.",
        ),
    ] = 0.0
    count: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Number of such jobs to submit.")] = 1
    request_id: Annotated[
        str, typer.Option(help="A name of your choice: a second submission with it makes no second job.")
    ] = ""


@dataclass(frozen=True, kw_only=True)
class ServeOptions:
    """The options of ``serve``, as typed."""

    state: Annotated[
        str,
        typer.Option(envvar=STATE, metavar="FOLDER|URL", help="The durable log: a folder, or postgresql://..."),
    ] = "gavelx-state"
    policy: Annotated[
        str | None,
        typer.Option(
            help="A policy, as in simulate. Default: the last one of the log; in a new log max_min_fairness, or "
            "with --tokens, to share among owners, hierarchical(max_min_fairness)."
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
        str | None, typer.Option(metavar="NAME|FILE", help="Throughputs, for a new log (default: simulation).")
    ] = None
    prices: o.Prices = None
    round_s: o.Round = None
    backfill: o.Backfill = None
    min_run: o.MinRun = 0.0
    protect_for: o.ProtectFor = None
    overheads: o.Overheads = None
    max_failures: Annotated[
        int, typer.Option(min=1, help="Failures in a row without a step, after which a job is given up.")
    ] = 5
    retry_after: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="SECONDS",
            help="A failed job waits this long, then twice as long, and so on; another server is tried at once "
            "[default: 60].",
        ),
    ] = None
    final_after: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="SECONDS",
            help="A job that ran for longer, saved nothing and exits with an error is given up at once "
            "[default: 300].",
        ),
    ] = None
    tokens: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="File of tokens that may call (gavelx token).", rich_help_panel=_ACCESS),
    ] = None
    max_jobs: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Most live jobs of a user.", rich_help_panel=_ACCESS),
    ] = 10_000
    max_weight: Annotated[
        float, typer.Option(metavar="WEIGHT", help="Greatest weight of a user's job.", rich_help_panel=_ACCESS)
    ] = 10.0
    cert: Annotated[
        str | None, typer.Option(metavar="FILE", help="TLS: the service's certificate.", rich_help_panel=_ACCESS)
    ] = None
    key: Annotated[str | None, typer.Option(metavar="FILE", help="TLS: its key.", rich_help_panel=_ACCESS)] = None
    agent_ca: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Agents need a certificate of this CA ...", rich_help_panel=_ACCESS),
    ] = None
    agent_listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="... and connect here.", rich_help_panel=_ACCESS)
    ] = None
    heartbeat: Annotated[
        float, typer.Option(min=0.05, metavar="SECONDS", help="Time between heartbeats.", rich_help_panel=_TIMES)
    ] = 5.0
    valid_for: Annotated[
        float,
        typer.Option(
            min=0.5,
            metavar="SECONDS",
            help="How long jobs continue without an answer from the scheduler.",
            rich_help_panel=_TIMES,
        ),
    ] = 60.0
    grace: Annotated[
        float,
        typer.Option(
            min=0.0, metavar="SECONDS", help="From the request to stop a job to its kill.", rich_help_panel=_TIMES
        ),
    ] = 15.0
    time_budget: o.TimeBudget = 60.0
    refine: Annotated[
        bool | None,
        typer.Option("--refine/--no-refine", help="Use speeds that leases measure over the table (new log: yes)."),
    ] = None
    restored: Annotated[
        bool,
        typer.Option("--restored", help="The log is a backup: agents drop leases that are newer."),
    ] = False
    new: Annotated[bool, typer.Option("--new", help="Begin a new log, if the old one is lost.")] = False
