"""What a report says of each type adds up to the cost of the run, also where prices change."""

import numpy as np
import pytest

from tests.report.results import result


def test_costs_by_type_add_up_where_prices_change() -> None:
    run = result(price_changes=((1800.0, np.array([6.0, 0.5])),))
    assert run.cost_usd_A.tolist() == pytest.approx([0.5 * 2.0 + 0.5 * 6.0, 2 * 2.0 * 0.5])
    assert run.cost_usd_A.sum() == pytest.approx(run.summary()["cost_usd"])
