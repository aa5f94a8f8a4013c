"""Every command: its options, its help, and one call into the file that does the work.

Imports sit inside the functions so that help needs no numpy, scipy or matplotlib.
"""
# ruff: noqa: PLC0415

from typing import Annotated, Any

import typer

from gavelx.cli import cluster_commands, money_commands
from gavelx.cli import completion as c
from gavelx.cli import options as o
from gavelx.cli.cluster_options import WHERE, Address
from gavelx.cli.learn_commands import learn_app
from gavelx.cli.money_options import MixOptions
from gavelx.cli.run_options import RunOptions, with_options
from gavelx.cli.throughput_commands import throughputs_app
from gavelx.cli.wrong_options import Commands

app = typer.Typer(
    cls=Commands,
    help="Scheduling policies for training jobs on mixed GPU clusters: simulate, compare, price and explain them.",
    epilog="Start with:  gavelx compare --cluster v100=5,p100=5,k80=5 --jobs 40",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
trace_app = typer.Typer(no_args_is_help=True, help="Traces of jobs: generate, import, show.")
prices_app = typer.Typer(no_args_is_help=True, help="Prices of accelerators.")
app.add_typer(trace_app, name="trace")
app.add_typer(throughputs_app, name="throughputs")
app.add_typer(prices_app, name="prices")
app.add_typer(learn_app, name="learn")
cluster_commands.add_to(app)
money_commands.add_to(app, prices_app)

DEFAULT_POLICIES = "fifo,agnostic(max_min_fairness),isolated,max_min_fairness,max_sum_throughput"


def _version(wanted: bool) -> None:
    if wanted:
        from gavelx import __version__

        typer.echo(f"gavelx {__version__}")
        raise typer.Exit


@app.callback()
def gavelx(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


@app.command(epilog="Example:  gavelx demo --out demo")
def demo(
    *,
    out: Annotated[
        str, typer.Option(metavar="FOLDER", help="Where the page, the plot and all figures are written.")
    ] = "gavelx-demo",
    workers: o.Workers = None,
) -> None:
    """Compare six policies on a published trace of 504 jobs: a table, and a page with plots. Takes a minute."""
    from pathlib import Path

    from gavelx.cli.demo import run_demo

    if code := run_demo(Path(out), workers):
        raise typer.Exit(code)


@app.command(epilog="Example:  gavelx docs write_a_policy")
def docs(
    page: Annotated[
        str | None,
        typer.Argument(metavar="[PAGE]", help="A page. Default: list the pages.", autocompletion=c.pages),
    ] = None,
) -> None:
    """Read the documentation that belongs to this version."""
    from gavelx.cli.pages import show_page

    show_page(page)


@app.command(epilog="Example:  gavelx policies --json")
def policies(json: o.JsonFlag = False) -> None:
    """List the policies by name, and what each promises."""
    from gavelx.cli.listing import list_policies

    list_policies(json)


@app.command(
    epilog="Example:  gavelx simulate --policy max_min_fairness --cluster v100=5,p100=5,k80=5 --jobs 40 --seed 1"
)
@with_options(RunOptions)
def simulate(
    *,
    policy: o.Policy,
    typed: RunOptions,
    json: o.JsonOut = None,
    html: o.HtmlOut = None,
    png: o.PngOut = None,
) -> None:
    """Run one policy on a list of jobs, on a simulated clock."""
    from gavelx.cli.output import Outputs
    from gavelx.cli.running import run_simulate

    if code := run_simulate(policy, typed, Outputs(json, html, png)):
        raise typer.Exit(code)


@app.command(epilog='Example:  gavelx compare --policies "fifo,max_min_fairness" --cluster v100=5,k80=5 --jobs 40')
@with_options(RunOptions)
def compare(
    *,
    policies: o.Policies = DEFAULT_POLICIES,
    typed: RunOptions,
    workers: o.Workers = None,
    json: o.JsonOut = None,
    html: o.HtmlOut = None,
    png: o.PngOut = None,
) -> None:
    """Run several policies on the same jobs and show them side by side.

    If a policy fails, its row says why, and the other policies still run; with
    --json, figures are written as soon as they are known. The exit status is
    then 2, or 1 if it is a mistake of ours.
    """
    from gavelx.cli.output import Outputs
    from gavelx.cli.running import run_compare

    if code := run_compare(policies, typed, workers, Outputs(json, html, png)):
        raise typer.Exit(code)


@app.command(epilog="Example:  gavelx allocate --policy max_min_fairness --snapshot snapshot.json")
def allocate(
    *,
    policy: o.Policy,
    snapshot: Annotated[str, typer.Option(metavar="FILE.json", help="The snapshot to decide for.")],
    index: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Which snapshot, if the file holds a list (from 0).")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Explain it: limits of each job, value of one more device, fairness.")
    ] = False,
    strict_speeds: o.StrictSpeeds = False,
    solver: o.Solver = "auto",
    time_budget: o.TimeBudget = 60.0,
    json: o.JsonOut = None,
) -> None:
    """Ask a policy for one decision: shares of time, certified.

    Shows a table, or writes JSON instead.

    With --explain, the JSON has a key explanation as well, with these keys:

    accelerators, by type: devices; in_use; one_more_device (the largest
    relative change of the objective with one more device; of a sum of
    logarithms, as for nash_welfare, that of the geometric mean of its terms);
    usd_per_hour_per_percent (the price of a change by one per cent).

    jobs: time_share; steps_per_s; equal_share_gain (0.12: 12 % faster than with
    an equal share; null if that gives nothing); envy (0.12: 12 % faster with
    the share of the job in envies; null if the job has nothing); limited_by.

    sharing_incentive, envy_freeness, pareto_efficiency: whether each holds.
    """
    from gavelx.cli.command_line import without_collection

    with without_collection():
        from gavelx.cli.allocating import allocate as decide
        from gavelx.cli.output import Outputs
        from gavelx.cli.solving import solver_settings

        settings = solver_settings(solver, time_budget)
        decide(policy, snapshot, index, settings, Outputs(json), explain=explain, strict_speeds=strict_speeds)


@app.command(epilog="Example:  gavelx mix --trace shockwave_120 --prices aws,gcp --deadline 24")
@with_options(MixOptions)
def mix(*, typed: MixOptions, json: o.JsonFlag = False) -> None:
    """Find the cheapest instances that meet all deadlines, confirmed by simulation.

    Also shows the value of one more device of each type, and its cost. The exit
    status is 1 if the simulator confirms no cluster.
    """
    from gavelx.cli.mixing import mix as find_mix

    if not find_mix(typed, as_json=json):
        raise typer.Exit(1)


@trace_app.command(
    "generate", epilog="Example:  gavelx trace generate --jobs 100 --arrival-rate 5 --out trace.csv"
)
def trace_generate(
    *,
    jobs: Annotated[int, typer.Option(min=1, max=o.JOBS_MAX, metavar="N", help="Number of jobs.")],
    job_types: o.JobTypes = None,
    arrival_rate: o.ArrivalRate = 0.0,
    seed: o.Seed = 0,
    multi_gpu: o.MultiGpu = False,
    multi_priority: o.MultiPriority = False,
    table: o.Table = "simulation",
    out: o.TraceOut = None,
    json: o.JsonFlag = False,
) -> None:
    """Make a random trace; the same seed makes the same trace."""
    from gavelx.cli.traces import generate

    generate(
        jobs,
        job_types=job_types,
        arrival_rate=arrival_rate,
        seed=seed,
        multi_gpu=multi_gpu,
        multi_priority=multi_priority,
        table=table,
        out=out,
        as_json=json,
    )


@trace_app.command("import", epilog="Example:  gavelx trace import sacct.txt --skip-bad-rows --out trace.csv")
def trace_import(
    *,
    file: Annotated[str, typer.Argument(metavar="FILE", help="A published or recorded trace.")],
    format: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="auto (by the contents of the file), gavel, shockwave, philly, pollux (Sia's and AdaptDL's too), "
            "elasticflow, tiresias, helios, ones, alibaba2020, alibaba2023, slurm (sacct), jobcomp (Slurm's "
            "completion log) or csv.",
        ),
    ] = "auto",
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Leave out and list rows that cannot be used.")
    ] = False,
    keep: Annotated[
        str,
        typer.Option(
            metavar="WHICH",
            help="Jobs to keep: completed (only those that ended well), cancelled (also those that a user or a "
            "time limit ended), failed (all that held devices).",
        ),
    ] = "cancelled",
    table: o.Table = "simulation",
    table_out: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.csv",
            help="Keep the GPU counts that the table does not know, at estimated speeds, and write the table with "
            "these speeds here, for simulate --table.",
        ),
    ] = None,
    reference: Annotated[
        str, typer.Option(metavar="TYPE", help="Accelerator type to which recorded durations refer.")
    ] = "v100",
    seed: Annotated[int, typer.Option(min=0, help="Seed of the job types that are drawn.")] = 0,
    out: o.TraceOut = None,
    json: o.JsonFlag = False,
) -> None:
    """Convert a trace of another system to our CSV.

    A job with a known duration gets a job type of the table (its own model,
    the closest one, or a drawn one) and the steps that the reference
    accelerator makes in that time. GPU counts that are not in the table are
    rounded up or cut, at the same GPU-time. Jobs that never ran are left out
    and counted, those that failed with their GPU-time. docs/traces.md has the
    rules.
    """
    from gavelx.cli.importing import ImportOptions, run_import

    typed = ImportOptions(format, skip_bad_rows, table, reference, seed, keep, table_out)
    run_import(file, typed, out, json)


@app.command(epilog="Example:  gavelx worker --scheduler 10.0.0.1:7070 --devices v100=2")
@with_options(Address)
def worker(
    *,
    where: Address,
    devices: Annotated[
        str | None,
        typer.Option(metavar="TYPE=N", help="Devices of this machine: v100=2, cpu=4. Default: found with NVML."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of this server, unique in the cluster. Default: the machine's name.")
    ] = None,
    address: Annotated[
        str | None, typer.Option(metavar="HOST", help="Address of this server for other servers of a gang.")
    ] = None,
    folder: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="State and logs of the agent; not to be shared.")
    ] = None,
    shared: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Folders of jobs, with their checkpoints; the same on all servers. Default: FOLDER/shared.",
        ),
    ] = None,
    emulate: Annotated[bool, typer.Option("--emulate", help="Start no commands: jobs only sleep.")] = False,
    cert: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Certificate of this agent (PEM).", rich_help_panel=WHERE),
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="FILE", help="Its key (PEM).", rich_help_panel=WHERE)] = None,
    grace: Annotated[
        float,
        typer.Option(min=0.1, metavar="SECONDS", help="Time for checkpoints, unless the scheduler sets one."),
    ] = 15.0,
    keep_output_days: Annotated[
        float, typer.Option(min=0.0, metavar="DAYS", help="Output is kept this long after its job last ran here.")
    ] = 30.0,
    keep_output: Annotated[
        float, typer.Option(min=0.0, metavar="GIB", help="Output of each owner that is kept here, in GiB.")
    ] = 4.0,
) -> None:
    """Run the agent of this machine: take leases from a scheduler, run their jobs, report.

    It runs until SIGTERM or Ctrl-C, which stops its jobs with a checkpoint. At
    a second signal it exits at once: jobs then run until their leases expire,
    and an agent that is started again with the same folder finds them.
    """
    from gavelx.cli.worker import Security, WorkerOptions, work
    from gavelx.worker.kept_output import KeepOutput

    security = Security(token_file=where.token_file, ca=where.ca, cert=cert, key=key)
    kept = KeepOutput(keep_output_days, keep_output)
    work(WorkerOptions(where.scheduler, devices, name, address, folder, shared, emulate, grace, security, kept))


@trace_app.command("show", epilog="Example:  gavelx trace show trace.csv")
def trace_show(
    file: Annotated[
        str | None,
        typer.Argument(metavar="[FILE]", help="A CSV file, or a bundled trace's name. Default: list these."),
    ] = None,
    json: o.JsonFlag = False,
) -> None:
    """Summarise a trace: its jobs, job types, scale factors and arrival times; or list the bundled traces."""
    from gavelx.cli.traces import show

    show(file, json)


PANELS = {
    "Compare policies": "demo compare simulate allocate policies mix replay bill",
    "Run a cluster": "serve worker submit status explain logs cancel drain offer policy certs token log",
    "Data and documentation": "trace throughputs prices learn docs",
}
"""How help groups the commands."""


def _group() -> None:
    order = [name for names in PANELS.values() for name in names.split()]
    of = {name: panel for panel, names in PANELS.items() for name in names.split()}
    for known in (app.registered_commands, app.registered_groups):
        for info in known:
            info.rich_help_panel = of[_name(info)]  # a command without a panel is our mistake
        known.sort(key=lambda info: order.index(_name(info)))


def _name(info: Any) -> str:
    return str(info.name or info.callback.__name__)


_group()
