"""``gavelx serve``: check the options, then run the service until a signal stops it."""

import asyncio
import gc
import logging
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from gavelx.cli.cluster_options import ServeOptions
from gavelx.cli.conditions import rules_of, within
from gavelx.cli.extras import service_installed
from gavelx.cli.output import log_with_times, stderr
from gavelx.cli.prices import DEFAULT_PRICES, tell_of_age
from gavelx.cli.run_options import RunOptions
from gavelx.cli.secrets import check_not_typed, warn_if_open
from gavelx.cli.solving import solver_settings
from gavelx.errors import OptionError
from gavelx.files.data_sheets import device_of
from gavelx.files.price_tables import load_all_prices
from gavelx.files.throughput_tables import load_throughputs
from gavelx.mechanism import DEFAULT, Rules
from gavelx.overheads import Overhead, Overheads

with service_installed():
    from gavelx.service.agents.timing import Timing
    from gavelx.service.api.limits import Limits
    from gavelx.service.api.server import Options, Service, StoppedError
    from gavelx.service.store.configuration import Configuration
    from gavelx.service.store.places import without_password

DEFAULT_TABLE = "simulation"
MAX_WEIGHT = (1.0, 1e12)
SWITCH_S = 0.0005
"""Thread switch interval: how long the thread that writes the log may delay calls. Python's 5 ms are too long."""
COLLECT_AFTER = 50_000, 20, 20
"""Python looks for unreachable objects after so many new ones. Its 2,000 or fewer are reached several times in a
round, in which leases are made that stay; then all live jobs are looked through."""
OF_A_NEW_LOG = replace(DEFAULT, overheads=Overheads(Overhead(resize_s=0.0)))
"""Jobs change their size while they run, if they can."""


def run_serve(typed: ServeOptions, as_json: bool) -> None:
    """Serve until SIGTERM. Raises :class:`OptionError` for options that do not fit together."""
    check_not_typed("--state", typed.state)
    warn_if_open("--key", typed.key)
    warn_if_open("--tokens", typed.tokens, changeable=True)
    log_with_times()
    logging.getLogger("grpc._cython.cygrpc").addFilter(is_worth_a_line)
    if typed.valid_for < 3 * typed.heartbeat or typed.grace >= typed.valid_for:
        problem = (
            f"leases of {typed.valid_for:g} s, heartbeats every {typed.heartbeat:g} s, {typed.grace:g} s of grace"
        )
        expected = "leases of three heartbeats or more, and a grace that is shorter than they are"
        raise OptionError(problem, where="--valid-for, --heartbeat, --grace", expected=expected)
    options = Options(
        state=typed.state,
        listen=typed.listen,
        policy=typed.policy,
        configure=_configure(typed),
        timing=Timing(typed.heartbeat, typed.valid_for, typed.grace),
        settings=solver_settings("auto", typed.time_budget),
        metrics=typed.metrics,
        tokens=typed.tokens,
        limits=Limits(typed.max_jobs, within(typed.max_weight, MAX_WEIGHT, "--max-weight", "{:g}", "for a job")),
        certificate=typed.cert,
        key=typed.key,
        agent_ca=typed.agent_ca,
        agent_listen=typed.agent_listen,
        restored=typed.restored,
        new=typed.new,
    )
    open_as_many_files_as_allowed()
    sys.setswitchinterval(SWITCH_S)
    gc.set_threshold(*COLLECT_AFTER)
    with suppress(StoppedError):
        asyncio.run(_serve(options, as_json))


def is_worth_a_line(record: logging.LogRecord) -> bool:
    """False for gRPC's traceback about a caller who left before the reply was sent, as ``logs JOB | head`` may.

    gRPC logs it where the message cannot be sent and the call is not known to be cancelled yet.
    """
    return not str(record.msg).startswith("ExecuteBatchError raised in core by servicer method")


def open_as_many_files_as_allowed() -> None:
    """The soft limit of open files, often 1,024, is for programs that use select(); each connection is a file."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


async def _serve(options: Options, as_json: bool) -> None:
    from gavelx.cli.output import print_json  # noqa: PLC0415

    service = Service(options)
    for name in (signal.SIGTERM, signal.SIGINT):  # set first, so that a signal during the start counts
        asyncio.get_running_loop().add_signal_handler(name, service.stop)
    async with service:
        gc.freeze()  # restored objects stay, so garbage collection can skip them
        state = service.scheduler.state
        where = {
            "listening": service.address,
            "agents": service.agent_address or service.address,
            "metrics": service.metrics_address or None,
            "state": without_password(options.state),
            "policy": state.policy,
            "jobs_live": len(state.live),
            "records_replayed": service.replayed,
        }
        if as_json:
            print_json(where)
            sys.stdout.flush()
        else:
            jobs = f"{len(state.live):,} live jobs, {len(state.machines):,} servers known"
            stderr().print(f"serving at {service.address}, policy {state.policy}, {jobs}", markup=False)
        await service.serve()


def _configure(typed: ServeOptions) -> Callable[[Configuration | None], Configuration]:
    """The configuration: that of the log, changed by the options typed; a new log has our defaults."""

    def configure(found: Configuration | None) -> Configuration:
        if found is None or typed.table is not None:
            throughputs = load_throughputs(typed.table or DEFAULT_TABLE)
        else:
            throughputs = found.throughputs
        asked = RunOptions(
            cluster="",
            round_s=typed.round_s,
            min_run=typed.min_run,
            protect_for=typed.protect_for,
            backfill=typed.backfill,
            overheads=typed.overheads,
        )
        rules = rules_of(asked, throughputs.job_types)
        assert isinstance(rules, Rules)
        before = OF_A_NEW_LOG if found is None else found.rules
        rules = replace(
            before,
            round_s=before.round_s if typed.round_s is None else rules.round_s,
            min_run_s=rules.min_run_s or before.min_run_s,
            protect_s=before.protect_s if typed.protect_for is None else rules.protect_s,
            backfill=before.backfill if typed.backfill is None else rules.backfill,
            overheads=before.overheads if typed.overheads is None else rules.overheads,
            max_failures=typed.max_failures if found is None or typed.max_failures != 5 else before.max_failures,
            retry_s=before.retry_s if typed.retry_after is None else typed.retry_after,
            final_s=before.final_s if typed.final_after is None else typed.final_after,
            sleep_s=0.0,
        )
        if found is None or typed.prices is not None:
            spec = DEFAULT_PRICES if typed.prices is None else typed.prices
            prices = load_all_prices(spec)
            tell_of_age({device_of(name): as_of for name, as_of in prices.as_of.items()}, spec)
        else:
            prices = found.prices
        refine = typed.refine if typed.refine is not None else found is None or found.refine
        return Configuration(throughputs, prices, rules, refine)

    return configure
