"""Options of the commands about money, each defined once."""

from dataclasses import dataclass
from typing import Annotated

import typer

from gavelx.cli import options as o

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


Kind = Annotated[str, typer.Option(help="on_demand, spot or reserved.", rich_help_panel=_PRICES)]


@dataclass(frozen=True, kw_only=True)
class BillOptions:
    """The options of ``bill``, as typed."""

    result: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE",
            help="A file that simulate or compare wrote with --json; may be repeated.",
            rich_help_panel=_WHAT,
        ),
    ] = None
    log: Annotated[
        str | None,
        typer.Option(
            metavar="LOG",
            help="What a real cluster did: the --state of its scheduler, a folder or a URL. Default, without "
            "--result: $GAVELX_STATE.",
            rich_help_panel=_WHAT,
        ),
    ] = None
    since: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help="Of a log, what was from then on: 2026-11, 2026-11-01 or 2026-11-01T08:00+01:00 (UTC without "
            "a zone; a month or a day is its beginning).",
            rich_help_panel=_WHAT,
        ),
    ] = None
    until: Annotated[
        str | None, typer.Option(metavar="DATE", help="And before then: 2026-12.", rich_help_panel=_WHAT)
    ] = None
    prices: Annotated[
        str,
        typer.Option(
            metavar="SPEC,...",
            help="Tables: aws, gcp:us-central1, aws+p100=1.35 (a price added), v100=1.6,k80=0.9, or a CSV file; "
            "as-run: the prices that the run had.",
            rich_help_panel=_PRICES,
        ),
    ]
    as_of: AsOf = None
    kind: Kind = "on_demand"
    discount: Discount = None
    currency: Annotated[
        str | None,
        typer.Option(
            metavar="NAME=RATE",
            help="Print amounts in another currency: EUR=1.08 (US dollars for one). Files stay in US dollars.",
            rich_help_panel=_PRICES,
        ),
    ] = None
    carbon: Annotated[
        str | None,
        typer.Option(
            metavar="WHERE",
            help="Grid: gcp:us-central1, grid:Germany, or g CO2 per kWh. Default: the region of the price.",
            rich_help_panel=_ENERGY,
        ),
    ] = None
    pue: Annotated[
        float | None, typer.Option(help="Of the data centre. Default: the cloud's.", rich_help_panel=_ENERGY)
    ] = None
    draw: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            help="busy=0.8,idle=0.1: parts of its TDP that a device draws. Default: 1 and 0.",
            rich_help_panel=_ENERGY,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class MixOptions:
    """The options of ``mix``, as typed."""

    trace: Annotated[str, typer.Option(metavar="FILE", help="Jobs: a CSV file, or a bundled trace's name.")]
    deadline_h: Annotated[
        float | None,
        typer.Option(
            "--deadline",
            metavar="HOURS",
            help="After arrival, for each job without a deadline from slo and duration_s.",
        ),
    ] = None
    prices: Annotated[
        str,
        typer.Option(
            metavar="SPEC,...", help="Clouds, price files, or v100=2.48,k80=0.45.", rich_help_panel=_PRICES
        ),
    ]
    as_of: AsOf = None
    kind: Kind = "on_demand"
    discount: Discount = None
    accelerators: Annotated[
        str | None,
        typer.Option(
            metavar="TYPE,...",
            help="Choose from these types. Default: all in the table; for jobs that it lacks, all sold.",
        ),
    ] = None
    max_devices: Annotated[str | None, typer.Option(metavar="TYPE=N,...", help="Most devices of a type.")] = None
    policy: o.Policy = "deadlines"
    table: o.Table = "simulation"
    strict_speeds: o.StrictSpeeds = False
    speed_samples: o.SpeedSamples = None
    round_s: o.Round = None
    time_budget: o.TimeBudget = 60.0


@dataclass(frozen=True, kw_only=True)
class ImportOptions:
    """The options of ``prices import``, as typed."""

    cloud: Annotated[
        str | None, typer.Option(help="The cloud of the prices, if the file does not name it (skypilot).")
    ] = None
    as_of: Annotated[
        str | None,
        typer.Option(
            metavar="DATE", help="The date of the prices, if the file has none; in place of theirs for azure, gcp."
        ),
    ] = None
    currency: Annotated[
        str | None, typer.Option(metavar="NAME=RATE,...", help="US dollars for one unit: EUR=1.08.")
    ] = None
    skip_bad_rows: Annotated[
        bool, typer.Option("--skip-bad-rows", help="Leave out and list rows that cannot be used.")
    ] = False
