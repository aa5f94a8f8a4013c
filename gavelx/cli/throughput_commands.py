"""The commands about throughputs: show, export, measure, estimate.

As in ``commands``, imports sit inside the functions.
"""
# ruff: noqa: PLC0415

from typing import Annotated

import typer

from gavelx.cli import options as o
from gavelx.cli.cluster_options import Address, AddressIfAny
from gavelx.cli.run_options import with_options
from gavelx.cli.throughput_options import MeasureOptions

throughputs_app = typer.Typer(no_args_is_help=True, help="Tables of throughputs: speeds of job types.")
JobTypes = Annotated[
    str | None,
    typer.Option("--type", "--job-type", metavar="TEXT", help="Only job types whose name contains this."),
]


@throughputs_app.command("show", epilog="Example:  gavelx throughputs show --type LM --scale-factor 1")
@with_options(AddressIfAny)
def throughputs_show(
    *,
    table: o.Table = "simulation",
    type: JobTypes = None,
    scale_factor: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only this scale factor.")] = None,
    address: AddressIfAny,
    json: o.JsonFlag = False,
) -> None:
    """Show steps/s by job type, scale factor and accelerator type.

    With --type, also show which speeds are measured, estimated or unknown, with
    dates and intervals. With --scheduler, show the speeds that leases of that
    cluster measured beside its table, and mark wrong profiles.
    """
    from gavelx.cli.listing import list_throughputs
    from gavelx.cli.speeds import show_measured, show_type
    from gavelx.errors import OptionError

    if address.scheduler is not None:
        if scale_factor is not None or table != "simulation":
            option = "--table" if scale_factor is None else "--scale-factor"
            raise OptionError("it is of a table, and the speeds come from --scheduler", where=option)
        show_measured(Address(address.scheduler, address.token_file, address.ca), type, json)
    elif type is not None:
        show_type(table, type, scale_factor, json)
    else:
        list_throughputs(table, scale_factor, json)


@throughputs_app.command("export", epilog="Example:  gavelx throughputs export --out speeds.csv")
@with_options(Address)
def throughputs_export(
    *,
    out: Annotated[str, typer.Option(metavar="FILE.csv", help="A new table, or one to add to.")],
    type: JobTypes = None,
    address: Address,
    json: o.JsonFlag = False,
) -> None:
    """Write the speeds that leases of a cluster measured into a table."""
    from gavelx.cli.speeds import export

    export(address, type, out, json)


@throughputs_app.command(
    "measure", epilog="Example:  gavelx throughputs measure --type mine --out speeds.csv -- python train.py"
)
@with_options(MeasureOptions)
def throughputs_measure(
    *,
    wanted: MeasureOptions,
    json: o.JsonFlag = False,
) -> None:
    """Measure steps/s on this machine, without the warm-up and with an interval.

    The job reports its steps through gavelx.training, or prints them. With
    --beside B -- python a.py + python b.py, the two are also measured together
    on one device.
    """
    from gavelx.cli.measuring import run_measure

    run_measure(wanted, json)


@throughputs_app.command(
    "estimate", epilog="Example:  gavelx throughputs estimate --observed measured.csv --wanted wanted.csv"
)
def throughputs_estimate(
    *,
    observed: Annotated[
        list[str],
        typer.Option(metavar="FILE.csv", help="Measured speeds; may be repeated."),
    ],
    wanted: Annotated[str, typer.Option(metavar="FILE.csv", help="The rows to estimate, without speeds.")],
    out: Annotated[
        str | None, typer.Option(metavar="FILE.csv", help="Write them here. Default: print them.")
    ] = None,
    estimator: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="completion, combined (with shipped speeds, and today's jobs by name), or an estimator of an "
            "installed package.",
        ),
    ] = "completion",
    level: Annotated[float, typer.Option(metavar="SHARE", help="Confidence level of the intervals.")] = 0.9,
    json: o.JsonFlag = False,
) -> None:
    """Estimate speeds: each wanted row gets an estimate, lower, upper and origin.

    Rows are of one job type (job_type, scale_factor, accelerator,
    consolidated, steps_per_second) or of a pair that shares a device
    (job_type_a, job_type_b, accelerator, steps_per_second_a,
    steps_per_second_b), in one file or in several. A speed of 0 means that the
    job cannot run there. Both speeds of a pair are estimated: estimate_a, ...,
    estimate_b, ... Measured speeds are returned unchanged; cells are empty if
    nothing is known of a job type. docs/throughputs.md has the method.
    """
    from gavelx.cli.estimating import run_estimate

    run_estimate(observed, wanted, out=out, estimator=estimator, level=level, as_json=json)
