"""The commands of a running cluster: serve, and what users and operators say to a scheduler.

As in ``commands``, imports sit inside the functions; nothing here loads grpc before it is needed.
"""
# ruff: noqa: PLC0415

from typing import Annotated

import typer

from gavelx.cli import options as o

WHERE, _WHO, _TIMES = "Where", "Who may", "Times"
HERE = "127.0.0.1:7070"

Scheduler = Annotated[
    str,
    typer.Option(
        "--scheduler",
        envvar="GAVELX_SCHEDULER",
        metavar="HOST:PORT",
        help="Where the scheduler listens.",
        rich_help_panel=WHERE,
    ),
]
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
JobId = Annotated[int, typer.Argument(metavar="JOB", min=0, help="The number that submit printed.")]

policy_app = typer.Typer(no_args_is_help=True, help="The policy of a running scheduler.")


def add_to(app: typer.Typer) -> None:
    """Make these commands known."""
    for command in (serve, submit, status, explain, logs, cancel, drain, certs, token, replay):
        app.command(epilog=f"Example:  {EXAMPLES[command.__name__]}")(command)
    policy_app.command("set", epilog="Example:  gavelx policy set finish_time_fairness")(policy_set)
    app.add_typer(policy_app, name="policy")


EXAMPLES = {
    "serve": "gavelx serve --state run/ --policy max_min_fairness --table simulation",
    "submit": "gavelx submit --type resnet18-bs32 --workers 1 --steps 20000 -- python train.py",
    "status": "gavelx status --json",
    "explain": "gavelx explain 17",
    "logs": "gavelx logs -f 17",
    "cancel": "gavelx cancel 17",
    "drain": "gavelx drain server-3",
    "certs": "gavelx certs certs/ --host scheduler.example.org --agent server-1 --agent server-2",
    "token": "gavelx token tokens.json --owner ada --role user --days 90",
    "replay": "gavelx replay run/ --policy finish_time_fairness",
}


def serve(
    *,
    state: Annotated[
        str, typer.Option(metavar="FOLDER|URL", help="The durable log: a folder, or postgresql://...")
    ] = "gavelx-state",
    policy: Annotated[
        str | None, typer.Option(help="A policy, as of simulate. Without it: the log's last one.")
    ] = None,
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Port 0 takes any.", rich_help_panel=WHERE)
    ] = HERE,
    metrics: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT", help="Prometheus figures, such as 127.0.0.1:9464.", rich_help_panel=WHERE
        ),
    ] = None,
    table: Annotated[
        str | None, typer.Option(metavar="NAME|FILE", help="Throughputs, for a new log (simulation without it).")
    ] = None,
    prices: o.Prices = None,
    round_s: o.Round = None,
    backfill: o.Backfill = None,
    min_run: o.MinRun = 0.0,
    overheads: o.Overheads = None,
    max_failures: Annotated[
        int, typer.Option(min=1, help="A job that failed so often without a step forward has failed for good.")
    ] = 5,
    tokens: Annotated[
        str | None, typer.Option(metavar="FILE", help="Who may call (gavelx token).", rich_help_panel=_WHO)
    ] = None,
    cert: Annotated[
        str | None, typer.Option(metavar="FILE", help="TLS: the service's certificate.", rich_help_panel=_WHO)
    ] = None,
    key: Annotated[str | None, typer.Option(metavar="FILE", help="TLS: its key.", rich_help_panel=_WHO)] = None,
    agent_ca: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Agents show a certificate of this CA ...", rich_help_panel=_WHO),
    ] = None,
    agent_listen: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="... and come in here.", rich_help_panel=_WHO)
    ] = None,
    heartbeat: Annotated[
        float, typer.Option(min=0.05, metavar="SECONDS", help="Between heartbeats.", rich_help_panel=_TIMES)
    ] = 5.0,
    valid_for: Annotated[
        float,
        typer.Option(
            min=0.5,
            metavar="SECONDS",
            help="How long jobs run on when an agent hears nothing.",
            rich_help_panel=_TIMES,
        ),
    ] = 60.0,
    grace: Annotated[
        float,
        typer.Option(
            min=0.0, metavar="SECONDS", help="Between asking a job to stop and killing it.", rich_help_panel=_TIMES
        ),
    ] = 15.0,
    time_budget: o.TimeBudget = 60.0,
    refine: Annotated[
        bool | None,
        typer.Option("--refine/--no-refine", help="Speeds that leases measure beat the table (a new log: yes)."),
    ] = None,
    restored: Annotated[
        bool,
        typer.Option("--restored", help="The log is a backup: agents forget what was leased since."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Say as JSON where it listens.")] = False,
) -> None:
    """Run the scheduler of a cluster, until SIGTERM.

    Everything is in the durable log before it is answered: kill it at any time,
    start it again with the same --state, and it goes on.
    """
    from gavelx.cli.serving import ServeOptions, run_serve

    run_serve(
        ServeOptions(
            state=state,
            policy=policy,
            listen=listen,
            metrics=metrics,
            table=table,
            prices=prices,
            round_s=round_s,
            backfill=backfill,
            min_run=min_run,
            overheads=overheads,
            max_failures=max_failures,
            tokens=tokens,
            cert=cert,
            key=key,
            agent_ca=agent_ca,
            agent_listen=agent_listen,
            heartbeat=heartbeat,
            valid_for=valid_for,
            grace=grace,
            time_budget=time_budget,
            refine=refine,
            restored=restored,
        ),
        json,
    )


def submit(
    *,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND ...", help="What to run; no shell sees it.")],
    type: Annotated[
        str,
        typer.Option(metavar="TYPE", help="The job type: a row of the throughput table, such as resnet18-bs32."),
    ],
    steps: Annotated[float, typer.Option(metavar="N", help="Optimizer steps in all.")],
    workers: Annotated[int, typer.Option(min=1, metavar="N", help="Devices that it needs at once.")] = 1,
    name: Annotated[str, typer.Option(help="For people.")] = "",
    weight: Annotated[float, typer.Option(help="Priority: 5 gets five times the share of 1.")] = 1.0,
    env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A variable of its environment; may be repeated."),
    ] = None,
    speed: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ACCELERATOR=STEPS_PER_S",
            help="How fast it runs where the table does not know; may be repeated.",
        ),
    ] = None,
    one_process_per_server: Annotated[
        bool,
        typer.Option("--one-process-per-server", help="Start it once on each server, not once for each device."),
    ] = False,
    slo: Annotated[float, typer.Option(help="To be done within so many times --duration; 0: no matter.")] = 0.0,
    duration: Annotated[
        float, typer.Option(metavar="SECONDS", help="Time it needs on the reference device.")
    ] = 0.0,
    count: Annotated[int, typer.Option(min=1, max=10_000, metavar="N", help="Submit so many such jobs.")] = 1,
    request_id: Annotated[
        str, typer.Option(help="A name of your own: submitted twice with it, the job is there once.")
    ] = "",
    scheduler: Scheduler = HERE,
    token_file: TokenFile = None,
    ca: Ca = None,
    json: o.JsonFlag = False,
) -> None:
    """Submit a job; prints its number once it is safely on disk.

    It runs in a folder of its own, which is the same wherever it goes on. Files
    of the command that are here (train.py, ./run, data/) are sent by their
    whole path, so they have to be in a place that all machines see.

    A type that the table does not have says how fast it is where:
    --type mine --speed v100=10 --speed k80=3 (steps/s).
    """
    from gavelx.cli.clients import Wanted, access_of, run_submit
    from gavelx.cli.command_words import with_whole_paths

    wanted = Wanted(
        with_whole_paths(command),
        type,
        steps,
        workers,
        name,
        weight,
        tuple(env or ()),
        tuple(speed or ()),
        one_process_per_server,
        slo,
        duration,
        count,
        request_id,
    )
    run_submit(access_of(scheduler, token_file, ca), wanted, json)


def status(
    *,
    jobs: Annotated[list[int] | None, typer.Argument(metavar="JOB ...", help="Only these.")] = None,
    all: Annotated[bool, typer.Option("--all", help="Those that have ended as well.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="Jobs shown, at most.")] = 100,
    scheduler: Scheduler = HERE,
    token_file: TokenFile = None,
    ca: Ca = None,
    json: o.JsonFlag = False,
) -> None:
    """Show jobs and servers."""
    from gavelx.cli.clients import access_of, run_status

    run_status(access_of(scheduler, token_file, ca), jobs or [], ended=all, limit=limit, as_json=json)


def explain(
    job: JobId,
    *,
    scheduler: Scheduler = HERE,
    token_file: TokenFile = None,
    ca: Ca = None,
    json: o.JsonFlag = False,
) -> None:
    """Say why a job waits or runs no faster, what it was promised and received."""
    from gavelx.cli.clients import access_of, run_explain

    run_explain(access_of(scheduler, token_file, ca), job, json)


def logs(
    job: JobId,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the job ends.")] = False,
    scheduler: Scheduler = HERE,
    token_file: TokenFile = None,
    ca: Ca = None,
    json: Annotated[bool, typer.Option("--json", help="A line of JSON for each piece.")] = False,
) -> None:
    """Print what a job wrote."""
    from gavelx.cli.clients import access_of, run_logs

    run_logs(access_of(scheduler, token_file, ca), job, follow=follow, as_json=json)


def cancel(
    job: JobId,
    *,
    scheduler: Scheduler = HERE,
    token_file: TokenFile = None,
    ca: Ca = None,
    json: o.JsonFlag = False,
) -> None:
    """Take a job back; one that has ended stays as it is."""
    from gavelx.cli.clients import access_of, run_cancel

    run_cancel(access_of(scheduler, token_file, ca), job, json)


def drain(
    worker: Annotated[str, typer.Argument(metavar="WORKER", help="The name of a server, as status shows it.")],
    *,
    undo: Annotated[bool, typer.Option("--undo", help="Let it have leases again.")] = False,
    scheduler: Scheduler = HERE,
    token_file: TokenFile = None,
    ca: Ca = None,
    json: o.JsonFlag = False,
) -> None:
    """Take a server out of service; its jobs stop softly and go on elsewhere.

    It stays out, also when its agent or the scheduler starts anew, until --undo.
    """
    from gavelx.cli.clients import access_of, run_drain

    run_drain(access_of(scheduler, token_file, ca), worker, undo=undo, as_json=json)


def policy_set(
    policy: Annotated[str, typer.Argument(help="A policy, as of simulate; files are the scheduler's own.")],
    *,
    scheduler: Scheduler = HERE,
    token_file: TokenFile = None,
    ca: Ca = None,
    json: o.JsonFlag = False,
) -> None:
    """Let another policy decide from now on; what runs goes on until the next round."""
    from gavelx.cli.clients import access_of, run_set_policy

    run_set_policy(access_of(scheduler, token_file, ca), policy, json)


def certs(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Where they go; those that are there stay.")],
    *,
    host: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME|ADDRESS", help="How the scheduler is reached; may be repeated."),
    ] = None,
    agent: Annotated[list[str] | None, typer.Option(metavar="NAME", help="An agent; may be repeated.")] = None,
    days: Annotated[float, typer.Option(min=0.01, help="How long they are good for.")] = 365.0,
    json: o.JsonFlag = False,
) -> None:
    """Make a development CA, and certificates for the scheduler and its agents.

    What is there already stays, whatever it says: to have another one, delete
    it first. Each agent needs ca.pem and its own pair; ca.key goes nowhere.
    """
    from gavelx.cli.securing import run_certs

    run_certs(folder, host or ["localhost", "127.0.0.1"], agent or [], days, json)


def token(
    file: Annotated[str, typer.Argument(metavar="FILE", help="The file of serve --tokens; it holds hashes only.")],
    *,
    owner: Annotated[str, typer.Option(help="Whose it is.")],
    role: Annotated[str, typer.Option(help="user, operator or agent.")] = "user",
    days: Annotated[
        float | None, typer.Option(min=0.0, help="How long it is good for. Without it: for ever.")
    ] = None,
    json: o.JsonFlag = False,
) -> None:
    """Make a token; it is printed once, and only its hash is kept."""
    from gavelx.cli.securing import run_token

    run_token(file, owner, role, days, json)


def replay(
    log: Annotated[str, typer.Argument(metavar="LOG", help="The --state of a service: a folder or a URL.")],
    *,
    policy: o.Policy,
    cluster: Annotated[
        str | None, typer.Option(metavar="TYPE=N,...", help="Another cluster than the recorded one.")
    ] = None,
    devices_per_server: o.DevicesPerServer = 4,
    prices: o.Prices = None,
    round_s: o.Round = None,
    json: o.JsonOut = None,
) -> None:
    """Run the jobs of a recorded log in the simulator, under another policy, cluster or price table."""
    from gavelx.cli.replaying import run_replay

    run_replay(log, policy, cluster, devices_per_server, prices, round_s, json)
