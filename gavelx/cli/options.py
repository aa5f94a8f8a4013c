"""Options that more than one command has, each defined once."""

from typing import Annotated

import typer

from gavelx.cli import completion as c

JOBS_MAX = 1_000_000
"""The most random jobs; these take seconds to make, and a larger number is probably a typing mistake."""

_WHAT, _WORK, _HOW, _FAULTS, _OUT = "What to run", "Jobs", "How", "Faults", "Output"

Policy = Annotated[
    str,
    typer.Option(
        help="A policy: a name, modifier(NAME) ([bold]gavelx policies[/] lists both), my_file:my_policy, or a "
        "formula such as 'Maximize(SumThroughput())'.",
        rich_help_panel=_WHAT,
        autocompletion=c.policies,
    ),
]
Policies = Annotated[
    str,
    typer.Option(
        help="Policies, separated by commas; each as in --policy of simulate.",
        rich_help_panel=_WHAT,
        autocompletion=c.policies,
    ),
]
Cluster = Annotated[
    str,
    typer.Option(
        metavar="TYPE=N,...",
        help="Devices of each accelerator type, such as v100=5,p100=5,k80=5.",
        rich_help_panel=_WHAT,
    ),
]
DevicesPerServer = Annotated[
    int, typer.Option(min=1, metavar="N", help="Devices in one server.", rich_help_panel=_WHAT)
]
Trace = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Jobs from a trace: a CSV file, or a bundled trace's name.",
        rich_help_panel=_WORK,
        autocompletion=c.traces,
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(min=1, max=JOBS_MAX, metavar="N", help="Number of random jobs.", rich_help_panel=_WORK),
]
JobTypes = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,...",
        help="Types of random jobs: today (language models, images, speech ...), or names such as "
        "llama-7b-lora-bs16. Default: the published ones.",
        rich_help_panel=_WORK,
    ),
]
ArrivalRate = Annotated[
    float,
    typer.Option(
        min=0.0,
        metavar="JOBS_PER_HOUR",
        help="Rate at which random jobs arrive; 0: all arrive at the start.",
        rich_help_panel=_WORK,
    ),
]
Seed = Annotated[
    int,
    typer.Option(min=0, help="Seed of random jobs, failures and published rules.", rich_help_panel=_WORK),
]
MultiGpu = Annotated[
    bool,
    typer.Option("--multi-gpu", help="Three in ten random jobs need 2, 4 or 8 devices.", rich_help_panel=_WORK),
]
MultiPriority = Annotated[
    bool, typer.Option("--multi-priority", help="One in five random jobs has weight 5.", rich_help_panel=_WORK)
]
SkipUnrunnable = Annotated[
    bool,
    typer.Option(
        "--skip-unrunnable",
        help="Leave out jobs that can run nowhere in this cluster, instead of refusing the trace.",
        rich_help_panel=_WORK,
    ),
]
Window = Annotated[
    str | None,
    typer.Option(
        metavar="S:E", help="Measure jobs S to E-1 only, and end when they are complete.", rich_help_panel=_WORK
    ),
]
Table = Annotated[
    str,
    typer.Option(
        metavar="NAME|FILE", help="Throughputs: simulation, physical, or a CSV file.", rich_help_panel=_HOW
    ),
]
StrictSpeeds = Annotated[
    bool,
    typer.Option(
        "--strict-speeds", help="Use only speeds of the table: refuse types that it lacks.", rich_help_panel=_HOW
    ),
]
SpeedSamples = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=1000,
        metavar="N",
        help="Repetitions with speeds drawn from the ranges of estimated ones, for intervals of the figures. "
        "Default: 19 (the fewest for a 90 % interval) if a speed is estimated.",
        rich_help_panel=_HOW,
    ),
]
Measured = Annotated[
    str | None,
    typer.Option(
        metavar="FILE.csv",
        help="Let policies know only these measurements, estimates from them, and what leases measure. Jobs run "
        "at the speeds of --table.",
        rich_help_panel=_HOW,
    ),
]
Rules = Annotated[
    str, typer.Option(metavar="NAME", help="Rules of the rounds: default or published.", rich_help_panel=_HOW)
]
Round = Annotated[
    float | None, typer.Option("--round", metavar="SECONDS", help="Length of a round.", rich_help_panel=_HOW)
]
MinRun = Annotated[
    float,
    typer.Option(
        metavar="SECONDS", help="Time for which no job is preempted after its start.", rich_help_panel=_HOW
    ),
]
ProtectFor = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS",
        help="Time for which a job that saves nothing, and would lose its work, is not preempted after its start "
        "(default: a week).",
        rich_help_panel=_HOW,
    ),
]
PlainJobs = Annotated[
    float,
    typer.Option(
        metavar="PART",
        help="Part of the jobs that save nothing: after a stop they begin anew.",
        rich_help_panel=_FAULTS,
    ),
]
Lengths = Annotated[
    str,
    typer.Option(
        metavar="told|believed|unknown",
        help="What is known of how long jobs are: the truth, what jobs before them showed, or nothing.",
        rich_help_panel=_FAULTS,
    ),
]
Backfill = Annotated[
    str | None,
    typer.Option(
        metavar="WHERE",
        help="When to fill idle devices with jobs that have no share there: never, any, or at this part of a "
        "job's fastest speed, such as 0.8. Default: as the rules say.",
        rich_help_panel=_HOW,
    ),
]
Prices = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        help="aws, gcp:us-central1, aws+p100=1.35, v100=1.6,p100=1.35, or a CSV file. Default: gcp, for types "
        "that it has.",
        rich_help_panel=_HOW,
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        metavar="OWNER=USD,...",
        help="Most dollars per hour of an owner (team or team/user), or in total: ml=5,total=40.",
        rich_help_panel=_HOW,
    ),
]
PriceChanges = Annotated[
    str | None,
    typer.Option(
        metavar="FILE", help="Price changes: a CSV of time_s, accelerator, usd_per_hour.", rich_help_panel=_HOW
    ),
]
SpotHistory = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Recorded spot prices: a CSV, output of describe-spot-price-history, or spot_history (shipped).",
        rich_help_panel=_HOW,
    ),
]
SpotAvailability = Annotated[
    str | None,
    typer.Option(
        metavar="FILE",
        help="Recorded numbers of spot servers: a CSV of accelerator, nodes_requested, offset_s, duration_s, "
        "nodes_available.",
        rich_help_panel=_FAULTS,
    ),
]
SpotPlace = Annotated[
    str | None,
    typer.Option(
        metavar="ZONE", help="Only spot of this zone, region or cloud: us-east-1a.", rich_help_panel=_HOW
    ),
]
SpotStart = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="Start of the run in the price history: 2020-01-10.", rich_help_panel=_HOW),
]
SpotNotice = Annotated[
    float,
    typer.Option(
        min=0.0, metavar="SECONDS", help="Warning before a spot server goes (AWS: 120).", rich_help_panel=_FAULTS
    ),
]
Lending = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC|FILE",
        help="Devices that servers lend to jobs: least=0.25,most=1 (parts of each server, by a day of inference; "
        "also step and busiest, in seconds); or a CSV of time_s, accelerator, devices (of a server since then).",
        rich_help_panel=_FAULTS,
    ),
]
LendingNotice = Annotated[
    float,
    typer.Option(
        min=0.0, metavar="SECONDS", help="Warning before lent devices are taken back.", rich_help_panel=_FAULTS
    ),
]
Elasticity = Annotated[
    str | None,
    typer.Option(
        metavar="SIZES",
        help="Other sizes for all jobs: workers:1-8 (devices), or batch:1-8/64-512 (devices, and samples in an "
        "update). Used by policies in elastic(NAME).",
        rich_help_panel=_WORK,
    ),
]
Overheads = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        help="Seconds to stop, restart and resize a job: checkpoint=10,restart=30,resize=2, or a CSV file by job "
        "type. Without resize, a job that changes its size is restarted.",
        rich_help_panel=_FAULTS,
    ),
]
SpeedNoise = Annotated[
    float,
    typer.Option(
        metavar="PART",
        help="Relative variation of job speeds around the table (Shockwave measured 0.273).",
        rich_help_panel=_FAULTS,
    ),
]
Failures = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        help="servers=0.5,jobs=0.01: failures of each server per day, of each job per hour.",
        rich_help_panel=_FAULTS,
    ),
]
Solver = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="auto, highs, clarabel, ecos or scs. auto tries those that suit the program, one after another.",
        rich_help_panel=_HOW,
    ),
]
TimeBudget = Annotated[
    float,
    typer.Option(metavar="SECONDS", help="Processor time that one allocation may take.", rich_help_panel=_HOW),
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Policies that run at a time. Default: one on each core.", rich_help_panel=_HOW
    ),
]
JsonOut = Annotated[
    str | None,
    typer.Option("--json", metavar="OUT", help="Write figures as JSON; -: print them.", rich_help_panel=_OUT),
]
HtmlOut = Annotated[
    str | None,
    typer.Option("--html", metavar="OUT", help="Write a report, with its plot beside it.", rich_help_panel=_OUT),
]
PngOut = Annotated[
    str | None,
    typer.Option(
        "--png", metavar="OUT", help="Write the plot here, and not beside the report.", rich_help_panel=_OUT
    ),
]
JsonFlag = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.", rich_help_panel=_OUT)]
TraceOut = Annotated[
    str | None,
    typer.Option("--out", metavar="FILE", help="Write the trace here. Default: print it.", rich_help_panel=_OUT),
]
