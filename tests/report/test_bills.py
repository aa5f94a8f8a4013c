import re
from decimal import Decimal
from itertools import product

import pytest

from gavelx.report.bills import bill_report

ABOUT = [("Results", "runs.json"), ("Prices", "aws,gcp")]


def row(policy: str, prices: str, busy_usd: float, idle_usd: float = 1.0, kg_co2: float | None = 2.0) -> dict:
    total = {"busy_usd": busy_usd, "idle_usd": idle_usd, "total_usd": busy_usd + idle_usd}
    energy = {"kwh": 1234.0, "kg_co2": kg_co2}
    intervals = {**dict.fromkeys([*total, *energy], ""), "kwh": "0.0123 - 2,000"}
    return (
        {"policy": policy, "prices": prices, "as_of": None, "intervals": intervals, "total_between": None}
        | energy
        | total
    )


ROWS = [row(policy, prices, 10.0 * n) for n, (prices, policy) in enumerate(product("AB", ("fifo", "las")), 1)]


def test_a_row_for_each_run_and_a_column_for_each_table() -> None:
    page = bill_report(ROWS, ABOUT)
    cells = re.findall(r"<td[^>]*>([^<]*)<", page)
    assert cells == [
        *("fifo", "11.00", "1.00", "1,234", "2.00", "31.00", "1.00", "1,234", "2.00"),
        *("las", "21.00", "1.00", "1,234", "2.00", "41.00", "1.00", "1,234", "2.00"),
    ]
    assert page.count("<small>0.0123 - 2,000</small>") == 4
    assert re.findall(r'class="best">([\d.]+)<', page) == ["11.00", "31.00"]
    assert page.count("<svg") == 1 and page == bill_report(ROWS, ABOUT)


def test_the_interval_of_a_total_is_a_line() -> None:
    page = bill_report([ROWS[0] | {"total_between": (7.0, 19.0)}, *ROWS[1:]], ABOUT)
    assert "line: interval of the total" in page and "line: interval" not in bill_report(ROWS, ABOUT)
    assert page.count("<path") > bill_report(ROWS, ABOUT).count("<path")


def test_remarks_are_below_the_table() -> None:
    assert "PUE: unknown &lt;b&gt;" in bill_report(ROWS, ABOUT, remarks=["PUE: unknown <b>"])


def test_in_a_narrow_window_names_of_policies_keep_room() -> None:
    (rule,) = re.findall(r"td:first-child \{([^}]*)\}", bill_report(ROWS, ABOUT))
    assert "min-width: 9rem" in rule, "they stood letter below letter"


def test_one_bill_and_what_is_not_known() -> None:
    page = bill_report([row("fifo", "A", 0.0, 0.0, None)], ABOUT)
    assert 'class="best"' not in page and "<td>-</td>" in page


def test_a_single_bill_has_its_parts() -> None:
    parts = [
        ("owner", {"ada": Decimal("8.00"), "<b>": Decimal("1234.50")}),
        ("job (dearest 1)", {"7": Decimal(2)}),
    ]
    page = bill_report([row("fifo", "A", 10.0)], ABOUT, parts)
    rows = re.findall(r"<tr><td>([^<]*)</td><td>([^<]*)</td></tr>", page)
    assert rows == [("ada", "8.00"), ("&lt;b&gt;", "1,234.50"), ("7", "2.00")]
    assert "What jobs pay" not in bill_report(ROWS, ABOUT)


@pytest.mark.parametrize("name", ["<script>", "$x^$", "_hidden", "a\nb" * 40])
def test_names_are_not_markup(name: str) -> None:
    page = bill_report([row(name, name, 1.0)], [("Results", name)])
    assert "<script" not in page and "\0" not in page
