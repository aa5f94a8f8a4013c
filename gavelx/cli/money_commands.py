"""The commands about money: price tables and bills.

As in ``commands``, imports sit inside the functions.
"""
# ruff: noqa: PLC0415

from typing import Annotated

import typer

from gavelx.cli import options as o


def add_to(app: typer.Typer, prices_app: typer.Typer) -> None:
    """Make these commands known."""
    app.command(epilog="Example:  gavelx bill --result runs.json --prices aws,gcp,azure --html bill.html")(bill)
    prices_app.command("show", epilog="Example:  gavelx prices show --accelerators v100,k80")(prices_show)
    prices_app.command("import", epilog="Example:  gavelx prices import azure prices.json --out mine.csv")(
        prices_import
    )
    prices_app.command("check", epilog="Example:  gavelx prices check mine.csv")(prices_check)


_WHAT, _PRICES, _ENERGY = "What to bill", "Prices", "Energy and carbon"
AsOf = Annotated[
    str | None,
    typer.Option(metavar="DATE", help="Only prices up to 2023-09-21, or 2023-09.", rich_help_panel=_PRICES),
]
Discount = Annotated[
    str | None,
    typer.Option(
        metavar="SPEC",
        help="Negotiated: aws=10%,aws:p3=20% (the longest instance family counts). Spot prices stay.",
        rich_help_panel=_PRICES,
    ),
]


def bill(
    *,
    result: Annotated[
        list[str],
        typer.Option(
            metavar="FILE",
            help="What simulate or compare wrote with --json; may be repeated.",
            rich_help_panel=_WHAT,
        ),
    ],
    prices: Annotated[
        str,
        typer.Option(
            metavar="SPEC,...",
            help="Tables: aws, gcp:us-central1, aws+p100=1.35 (a price added), v100=1.6,k80=0.9, or a CSV file.",
            rich_help_panel=_PRICES,
        ),
    ],
    as_of: AsOf = None,
    kind: Annotated[str, typer.Option(help="on_demand, spot or reserved.", rich_help_panel=_PRICES)] = "on_demand",
    discount: Discount = None,
    currency: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=RATE",
            help="Print amounts in another currency: EUR=1.08 (US dollars for one). Files stay in US dollars.",
            rich_help_panel=_PRICES,
        ),
    ] = None,
    carbon: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="Grid: gcp:us-central1, grid:Germany, or g CO2 per kWh. Without it: where the price is from.",
            rich_help_panel=_ENERGY,
        ),
    ] = None,
    pue: Annotated[
        float | None, typer.Option(help="Of the data centre. Without it: the cloud's.", rich_help_panel=_ENERGY)
    ] = None,
    draw: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="busy=0.8,idle=0.1: parts of its TDP that a device draws. Without it: 1 and 0.",
            rich_help_panel=_ENERGY,
        ),
    ] = None,
    json: o.JsonOut = None,
    html: Annotated[
        str | None, typer.Option(metavar="OUT", help="Write a report with a plot.", rich_help_panel="Output")
    ] = None,
) -> None:
    """Say what runs cost under price tables: by job, owner and accelerator type, busy and idle.

    Jobs pay for the devices that they held; idle is what else was there until
    the end of the run. Parts add up to their sums, to the cent. Energy and
    carbon are estimates.
    """
    from gavelx.cli.billing import BillOptions, run_bill
    from gavelx.cli.output import Outputs

    typed = BillOptions(prices, as_of, kind, discount, currency, carbon, pue, draw)
    run_bill(result, typed, Outputs(json, html, plot_beside=False))


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


def prices_import(
    *,
    format: Annotated[
        str,
        typer.Argument(
            metavar="FORMAT",
            help="skypilot (catalogue CSV), aws-spot (describe-spot-price-history), azure (retail prices), "
            "gcp (pricing.yml) or csv.",
        ),
    ],
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="One or more of that format.")],
    cloud: Annotated[
        str | None, typer.Option(help="Whose prices they are, where the file does not say (skypilot).")
    ] = None,
    as_of: Annotated[
        str | None, typer.Option(metavar="DATE", help="Of when they are, where the file does not say.")
    ] = None,
    currency: Annotated[
        str | None, typer.Option(metavar="NAME=RATE,...", help="US dollars for one unit: EUR=1.08.")
    ] = None,
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Leave out and list rows that cannot be used.")
    ] = False,
    out: Annotated[
        str | None, typer.Option("--out", metavar="FILE", help="Write the table here. Without it: print it.")
    ] = None,
    json: o.JsonFlag = False,
) -> None:
    """Turn price lists of others into our CSV, which --prices reads.

    What is not a whole instance with accelerators on Linux (bare devices,
    other machines, Windows) is left out and counted.
    """
    from gavelx.cli.pricing import ImportOptions, run_import

    run_import(format, files, ImportOptions(cloud, as_of, currency, skip_bad_rows), out, json)


def prices_check(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A price table as prices import writes it.")] = "",
    json: o.JsonFlag = False,
) -> None:
    """Look for what is wrong, or strange, in a price table. Without FILE: the shipped one.

    Exit code 2 where there are errors; 0 where there are warnings only.
    """
    from gavelx.cli.pricing import run_check

    run_check(file, json)
