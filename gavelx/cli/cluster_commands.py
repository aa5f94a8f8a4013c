"""The commands of a running cluster: serve, and the commands of users and operators.

As in ``commands``, imports sit inside the functions; nothing here loads grpc before it is needed.
"""
# ruff: noqa: PLC0415

from typing import Annotated

import typer

from gavelx.cli import options as o
from gavelx.cli.cluster_options import Address, JobOptions, ServeOptions
from gavelx.cli.run_options import with_options
from gavelx.cli.secrets import STATE

JobId = Annotated[int, typer.Argument(metavar="JOB", min=0, help="The number that submit printed.")]

log_app = typer.Typer(no_args_is_help=True, help="The durable log of the scheduler.")
policy_app = typer.Typer(no_args_is_help=True, help="The policy of a running scheduler.")


def add_to(app: typer.Typer) -> None:
    """Add these commands to the app."""
    for command in (serve, submit, status, explain, logs, cancel, drain, offer, certs, token, replay):
        app.command(epilog=f"Example:  {EXAMPLES[command.__name__]}")(command)
    policy_app.command("set", epilog="Example:  gavelx policy set finish_time_fairness")(policy_set)
    app.add_typer(policy_app, name="policy")
    log_app.command("compact", epilog="Example:  gavelx log compact run/")(log_compact)
    app.add_typer(log_app, name="log")


EXAMPLES = {
    "serve": "gavelx serve --state run/ --policy max_min_fairness --table simulation",
    "submit": "gavelx submit -- python train.py --epochs 90",
    "status": "gavelx status --json",
    "explain": "gavelx explain 17",
    "logs": "gavelx logs -f 17",
    "cancel": "gavelx cancel 17",
    "drain": "gavelx drain server-3",
    "offer": "gavelx offer server-3 4 --notice 30 --wait",
    "certs": "gavelx certs certs/ --host scheduler.example.org --agent server-1 --agent server-2",
    "token": "gavelx token tokens.json --owner ada --role user --days 90 --out ada.token",
    "replay": "gavelx replay run/ --policy finish_time_fairness",
}


@with_options(ServeOptions)
def serve(
    *,
    typed: ServeOptions,
    json: Annotated[bool, typer.Option("--json", help="Print the address where it listens as JSON.")] = False,
) -> None:
    """Run the scheduler of a cluster, until SIGTERM.

    Each request is in the durable log before it is answered: kill the scheduler
    at any time, start it again with the same --state, and it continues.
    """
    from gavelx.cli.serving import run_serve

    run_serve(typed, json)


@with_options(Address)
@with_options(JobOptions)
def submit(
    *,
    wanted: JobOptions,
    address: Address,
    json: o.JsonFlag = False,
) -> None:
    """Submit a job; print its number once it is safely on disk.

    The job runs in a folder of its own, the same on every server. Files in the
    command that exist here (train.py, ./run, data/) are replaced by their
    absolute path, so put them where all servers can read them.

    Nothing need be known of it: leases measure how fast it is, and it ends by
    itself. What is known helps from the start, such as its steps, and its speeds
    in steps/s: --steps 20000 --type mine --speed v100=10 --speed k80=3
    """
    from gavelx.cli.clients import access_of, run_submit

    run_submit(access_of(address), wanted, json)


@with_options(Address)
def status(
    *,
    jobs: Annotated[list[int] | None, typer.Argument(metavar="JOB ...", help="Only these.")] = None,
    all: Annotated[bool, typer.Option("--all", help="Show jobs that have ended as well.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Jobs shown, at most.")] = 100,
    address: Address,
    json: o.JsonFlag = False,
) -> None:
    """Show jobs and servers."""
    from gavelx.cli.clients import access_of, run_status

    run_status(access_of(address), jobs or [], ended=all, limit=limit, as_json=json)


@with_options(Address)
def explain(
    job: JobId,
    *,
    history: Annotated[bool, typer.Option("--history", help="Show every decision about it, in order.")] = False,
    address: Address,
    json: o.JsonFlag = False,
) -> None:
    """Say why a job waits or runs no faster, what it was promised and received."""
    from gavelx.cli.clients import access_of, run_explain

    run_explain(access_of(address), job, history, json)


@with_options(Address)
def logs(
    job: JobId,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Continue until the job ends.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Let its control characters act on the terminal.")] = False,
    address: Address,
    json: Annotated[bool, typer.Option("--json", help="A line of JSON for each piece.")] = False,
) -> None:
    """Print the output of a job.

    On a terminal, a ? stands for each control character but those of line ends and colours.
    """
    from gavelx.cli.clients import access_of, run_logs

    run_logs(access_of(address), job, follow=follow, raw=raw, as_json=json)


@with_options(Address)
def cancel(
    job: JobId,
    *,
    address: Address,
    json: o.JsonFlag = False,
) -> None:
    """Cancel a job; a job that has ended stays as it is."""
    from gavelx.cli.clients import access_of, run_cancel

    run_cancel(access_of(address), job, json)


@with_options(Address)
def drain(
    worker: Annotated[str, typer.Argument(metavar="WORKER", help="The name of a server, as status shows it.")],
    *,
    undo: Annotated[bool, typer.Option("--undo", help="Allow leases on it again.")] = False,
    address: Address,
    json: o.JsonFlag = False,
) -> None:
    """Drain a server: its jobs stop with a checkpoint and continue elsewhere.

    It stays drained until --undo, also if its agent or the scheduler restarts.
    """
    from gavelx.cli.clients import access_of, run_drain

    run_drain(access_of(address), worker, undo=undo, as_json=json)


@with_options(Address)
def offer(
    worker: Annotated[str, typer.Argument(metavar="WORKER", help="The name of a server, as status shows it.")],
    devices: Annotated[int, typer.Argument(min=0, help="Its first so many devices are for jobs.")],
    *,
    notice: Annotated[
        float,
        typer.Option("--notice", min=0.0, metavar="SECONDS", help="Time that jobs have to leave the others."),
    ] = 30.0,
    wait: Annotated[bool, typer.Option("--wait", help="Return when no job holds any of the others.")] = False,
    address: Address,
    json: o.JsonFlag = False,
) -> None:
    """Lend jobs only some devices of a server, or more of them again.

    Elastic jobs shrink to what is left while they run; other jobs stop with a
    checkpoint and continue elsewhere. It stays so until the next offer, also if
    the server's agent or the scheduler restarts.
    """
    from gavelx.cli.clients import access_of, run_offer

    run_offer(access_of(address), worker, devices, notice_s=notice, wait=wait, as_json=json)


@with_options(Address)
def policy_set(
    policy: Annotated[str, typer.Argument(help="A policy, as in simulate; files are those of the scheduler.")],
    *,
    address: Address,
    json: o.JsonFlag = False,
) -> None:
    """Change the policy; running jobs continue until the next round."""
    from gavelx.cli.clients import access_of, run_set_policy

    run_set_policy(access_of(address), policy, json)


def certs(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Where to write; existing files stay.")],
    *,
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME|ADDRESS", help="A name or address of the scheduler; may be repeated."),
    ] = None,
    agent: Annotated[list[str] | None, typer.Option(metavar="NAME", help="An agent; may be repeated.")] = None,
    days: Annotated[float, typer.Option(min=0.01, help="Validity of the certificates.")] = 365.0,
    json: o.JsonFlag = False,
) -> None:
    """Make a development CA, and certificates for the scheduler and its agents.

    Existing files stay as they are; delete a file to get a new one. Give each
    agent ca.pem and its own pair; keep ca.key here.
    """
    from gavelx.cli.securing import run_certs

    run_certs(folder, host or ["localhost", "127.0.0.1"], agent or [], days, json)


def token(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file of serve --tokens; it holds only hashes.")],
    *,
    owner: Annotated[str, typer.Option(help="Whose it is.")],
    role: Annotated[str, typer.Option(help="user, operator or agent.")] = "user",
    days: Annotated[float | None, typer.Option(min=0.01, help="Validity of the token. Default: no limit.")] = None,
    out: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write it to a file only you can read, instead of printing.")
    ] = None,
    json: o.JsonFlag = False,
) -> None:
    """Make a token; it is shown once, and only its hash is kept."""
    from gavelx.cli.securing import run_token

    run_token(file, owner, role, days, out=out, as_json=json)


def replay(
    log: Annotated[
        str, typer.Argument(metavar="LOG", envvar=STATE, help="The --state of a service: a folder or a URL.")
    ],
    *,
    policy: o.Policy,
    cluster: Annotated[
        str | None, typer.Option(metavar="TYPE=N,...", help="Another cluster than the recorded one.")
    ] = None,
    devices_per_server: o.DevicesPerServer = 4,
    prices: o.Prices = None,
    strict_speeds: o.StrictSpeeds = False,
    speed_samples: o.SpeedSamples = None,
    round_s: o.Round = None,
    json: o.JsonOut = None,
) -> None:
    """Run the jobs of a recorded log in the simulator, under another policy, cluster or price table."""
    from gavelx.cli.replaying import run_replay

    run_replay(
        *(log, policy, cluster, devices_per_server, prices, round_s, json),
        strict_speeds=strict_speeds,
        samples=speed_samples,
    )


def log_compact(
    log: Annotated[
        str, typer.Argument(metavar="LOG", envvar=STATE, help="The --state of a service: a folder or a URL.")
    ],
    *,
    json: o.JsonFlag = False,
) -> None:
    """Archive the records before a snapshot, compressed in the log itself, while the scheduler is stopped.

    No record is lost: gavelx replay reads the archive too.
    """
    from gavelx.cli.compacting import run_compact

    run_compact(log, json)
