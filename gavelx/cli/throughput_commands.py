"""The commands about throughputs: what is known, what was measured, what follows from it.

As in ``commands``, imports sit inside the functions.
"""
# ruff: noqa: PLC0415

from typing import Annotated

import typer

from gavelx.cli import options as o
from gavelx.cli.cluster_options import Address, AddressIfAny
from gavelx.cli.run_options import with_options
from gavelx.cli.throughput_options import MeasureOptions

throughputs_app = typer.Typer(no_args_is_help=True, help="Tables of throughputs: what runs how fast on what.")
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
    scale_factor: Annotated[int | None, typer.Option(min=1, metavar="N", help="Only jobs this wide.")] = None,
    address: AddressIfAny,
    json: o.JsonFlag = False,
) -> None:
    """Show steps/s by job type, scale factor and accelerator type.

    With --type also what is measured, estimated and unknown, from when and how
    sure. With --scheduler what leases of that cluster measured beside what its
    table says; a profile that is wrong by that is marked.
    """
    from gavelx.cli.listing import list_throughputs
    from gavelx.cli.speeds import show_measured, show_type

    if address.scheduler is not None:
        show_measured(Address(address.scheduler, address.token_file, address.ca), type, json)
    elif type is not None:
        show_type(table, type, scale_factor, json)
    else:
        list_throughputs(table, scale_factor, json)


@throughputs_app.command("export", epilog="Example:  gavelx throughputs export --out speeds.csv")
@with_options(Address)
def throughputs_export(
    *,
    out: Annotated[str, typer.Option(metavar="FILE.csv", help="A table to begin or to add to.")],
    type: JobTypes = None,
    address: Address,
    json: o.JsonFlag = False,
) -> None:
    """Write what leases of a cluster measured into a table."""
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
    """Measure steps/s on this machine: warm-up cut off, with an interval.

    The job reports its steps by gavelx.training, or prints them. With --beside
    B -- python a.py + python b.py the two are also measured on one device.
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
        typer.Option(metavar="FILE.csv", help="What was measured; more files with --observed again."),
    ],
    wanted: Annotated[str, typer.Option(metavar="FILE.csv", help="The rows that are wanted, without speeds.")],
    out: Annotated[
        str | None, typer.Option(metavar="FILE.csv", help="Write them here. Without it: print them.")
    ] = None,
    estimator: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="completion, or that of an installed package.",
        ),
    ] = "completion",
    level: Annotated[
        float, typer.Option(metavar="SHARE", help="How often an interval is to hold the true speed.")
    ] = 0.9,
    json: o.JsonFlag = False,
) -> None:
    """Complete a table of throughputs: each wanted row with estimate, lower, upper and origin.

    Rows are of one job type (job_type, scale_factor, accelerator,
    consolidated, steps_per_second) or of a pair that shares a device
    (job_type_a, job_type_b, accelerator, steps_per_second_a,
    steps_per_second_b), in one file or in several. A speed of 0 says that it
    was tried in vain. Of a pair both speeds are estimated: estimate_a, ...,
    estimate_b, ... Measured speeds come back as measured; cells are empty
    where nothing is known of a job type. docs/throughputs.md has the method.
    """
    from gavelx.cli.estimating import run_estimate

    run_estimate(observed, wanted, out=out, estimator=estimator, level=level, as_json=json)
