"""The commands about money: price tables and bills.

As in ``commands``, imports sit inside the functions.
"""
# ruff: noqa: PLC0415

from typing import Annotated

import typer

from gavelx.cli import options as o
from gavelx.cli.money_options import AsOf, BillOptions, Discount, ImportOptions
from gavelx.cli.run_options import with_options


def add_to(app: typer.Typer, prices_app: typer.Typer) -> None:
    """Add these commands to the apps."""
    app.command(epilog="Example:  gavelx bill --result runs.json --prices aws,gcp,azure --html bill.html")(bill)
    prices_app.command("show", epilog="Example:  gavelx prices show --accelerators v100,k80")(prices_show)
    prices_app.command("import", epilog="Example:  gavelx prices import azure prices.json --out mine.csv")(
        prices_import
    )
    prices_app.command("refresh", epilog="Example:  gavelx prices refresh azure prices.json --out newer.csv")(
        prices_refresh
    )
    prices_app.command("check", epilog="Example:  gavelx prices check mine.csv")(prices_check)


@with_options(BillOptions)
def bill(
    *,
    typed: BillOptions,
    json: o.JsonOut = None,
    html: Annotated[
        str | None, typer.Option(metavar="OUT", help="Write a report with a plot.", rich_help_panel="Output")
    ] = None,
) -> None:
    """Print the cost of simulated runs, or of a real cluster: by job, owner and accelerator type, busy and idle.

    Jobs pay for the devices that they held; idle is all other device time until
    the end of the run. Parts add up to their sums, to the cent. Energy and
    carbon are estimates.
    """
    from gavelx.cli.billing import run_bill
    from gavelx.cli.output import Outputs

    run_bill(typed, Outputs(json, html, plot_beside=False))


def prices_show(
    *,
    cloud: Annotated[str | None, typer.Option(help="Every offer of one cloud: aws, gcp, azure, ...")] = None,
    accelerators: Annotated[
        str | None, typer.Option(metavar="TYPE,...", help="Only these accelerator types.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Every offer of a kind: on_demand, spot or reserved.")] = None,
    as_of: AsOf = None,
    discount: Discount = None,
    json: o.JsonFlag = False,
) -> None:
    """Show US dollars per device-hour."""
    from gavelx.cli.listing import list_prices

    list_prices(cloud, accelerators, kind, json, as_of=as_of, discount=discount)


PriceFormat = Annotated[
    str,
    typer.Argument(
        metavar="FORMAT",
        help="skypilot (catalogue CSV), aws-spot (describe-spot-price-history), azure (retail prices), "
        "gcp (pricing.yml) or csv.",
    ),
]


@with_options(ImportOptions)
def prices_import(
    *,
    format: PriceFormat,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="One or more of that format.")],
    typed: ImportOptions,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Write the table here. Default: print it.")
    ] = None,
    json: o.JsonFlag = False,
) -> None:
    """Convert price lists of clouds to our CSV, which --prices reads.

    Rows that are not a whole Linux instance with accelerators (bare devices,
    other machines, Windows) are left out and counted.
    """
    from gavelx.cli.price_tables import run_import

    run_import(format, files, typed, out, json)


@with_options(ImportOptions)
def prices_refresh(
    *,
    format: PriceFormat,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Newer lists of that format.")],
    typed: ImportOptions,
    table: Annotated[
        str | None, typer.Option(metavar="FILE", help="The table to refresh. Default: the shipped one.")
    ] = None,
    out: Annotated[str | None, typer.Option("--out", metavar="FILE", help="Write the new table here.")] = None,
    json: o.JsonFlag = False,
) -> None:
    """Say what newer price lists change: what is new, gone, dearer, cheaper.

    With --out, also write the table with the newer rows. What is gone stays
    in the table, at its old date, for bills of the past.
    """
    from gavelx.cli.price_refresh import run_refresh

    run_refresh(format, files, typed, table=table, out=out, as_json=json)


def prices_check(
    file: Annotated[
        str | None, typer.Argument(metavar="FILE", help="A price table as prices import writes it.")
    ] = None,
    json: o.JsonFlag = False,
) -> None:
    """Look for errors and oddities in a price table. Default: the shipped one.

    The exit status is 2 if there are errors, and 0 if there are only warnings.
    """
    from gavelx.cli.price_tables import run_check

    run_check(file, json)
