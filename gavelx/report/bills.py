"""A report of bills: one HTML file with the matrix of runs and price tables, as a table and as a plot."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup
from matplotlib.ticker import FuncFormatter, MaxNLocator

from gavelx.report.plots import GRID, INK, Canvas, Plot, policy_style, svg_of
from gavelx.report.words import digits, printable, short

Row = dict[str, Any]
"""A bill: ``policy, prices, as_of, busy_usd, idle_usd, total_usd, kwh, kg_co2``, ``intervals`` in words, and the
ends of that of the total, ``total_between``, or None."""


def bill_report(
    rows: Sequence[Row],
    about: Sequence[tuple[str, str]],
    parts: Sequence[tuple[str, Mapping[str, Decimal]]] = (),
    remarks: Sequence[str] = (),
) -> str:
    """The whole page. ``rows``, at least one: all runs under the first table, then under the next, and so on.

    ``parts`` are those of a single bill: what divides it, such as ``owner``, and the amount of each. ``remarks``
    are sentences about the figures.
    """
    source = files("gavelx.report").joinpath("bills.html.j2").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["printable"] = lambda text: printable(str(text))
    environment.filters["cents"] = "{:,.2f}".format
    environment.filters["digits"] = digits
    tables = list(dict.fromkeys(row["prices"] for row in rows))
    runs = len(rows) // len(tables)
    return environment.from_string(source).render(
        about=about,
        parts=parts,
        remarks=remarks,
        tables=tables,
        matrix=[rows[position::runs] for position in range(runs)],
        plot=Markup(svg_of(Plot("bills", draw_bills, _height_in), rows)),  # plots escape names
    )


def draw_bills(figure: Canvas, rows: Sequence[Row]) -> None:
    """A panel for each price table, and in it a bar for each run.

    It shows what jobs paid, what was idle in grey, and the interval of the total as a line.
    """
    tables = list(dict.fromkeys(row["prices"] for row in rows))
    panels = figure.subplots(len(tables), 1, sharex=True, squeeze=False)[:, 0]
    for axes, table in zip(panels, tables, strict=True):
        of_table = [row for row in rows if row["prices"] == table]
        for place, row in enumerate(of_table):
            color, _ = policy_style(place)
            axes.barh(place, row["busy_usd"], height=0.62, color=color, linewidth=0)
            axes.barh(
                place, row["idle_usd"], left=row["busy_usd"], height=0.62, color=GRID, alpha=0.4, linewidth=0
            )
            if (ends := row["total_between"]) is not None:
                axes.plot(ends, (place, place), color=INK, linewidth=1.2, marker="|", markersize=6)
        axes.set_yticks(range(len(of_table)), ["\N{THIN SPACE}" + short(row["policy"]) for row in of_table])
        axes.set_ylim(len(of_table) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.set_title(short(table, 60))
        axes.grid(True, axis="x")
        axes.set_axisbelow(True)
    line = "; line: interval of the total" * any(row["total_between"] for row in rows)
    panels[-1].set_xlabel(f"US dollars; grey: idle{line}")
    panels[-1].xaxis.set_major_locator(MaxNLocator(6))
    panels[-1].xaxis.set_major_formatter(FuncFormatter(lambda usd, _: f"{usd:,.12g}"))


def _height_in(rows: Sequence[Row]) -> float:
    tables = len({row["prices"] for row in rows})
    return 0.7 + 0.45 * tables + 0.3 * len(rows)
