import xml.etree.ElementTree as ET

import matplotlib as mpl
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gavelx.report.plots import PLOTS, png_plot, policy_style, svg_plots, type_colors
from gavelx.result import Result
from tests.report.results import NASTY, result, results

NAN = float("nan")
PNG = b"\x89PNG\r\n\x1a\n"


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg)


@pytest.mark.slow
@settings(max_examples=6)
@given(st.lists(results(), min_size=1, max_size=3))
def test_any_results_can_be_drawn(runs: list[Result]) -> None:
    assert png_plot(runs).startswith(PNG)
    for svg in svg_plots(runs).values():
        parsed(svg)


@pytest.mark.slow
def test_the_same_results_give_the_same_bytes() -> None:
    runs = [result(policy="a"), result(policy="b", completion_h=(NAN, NAN))]
    assert png_plot(runs) == png_plot(runs)
    assert svg_plots(runs) == svg_plots(runs)


def test_drawing_leaves_matplotlib_as_it_was() -> None:
    before = dict(mpl.rcParams)
    svg_plots([result()])
    assert dict(mpl.rcParams) == before


@pytest.mark.slow
def test_names_stand_in_the_plots_as_text_not_markup() -> None:
    svgs = svg_plots([result(policy=name) for name in NASTY])
    for svg in svgs.values():
        assert "<script>" not in svg
        shown = {element.text for element in parsed(svg).iter() if element.text}
        assert any(text.strip() == "<script>alert(1)</script>" for text in shown), shown
    legend = "".join(text or "" for text in parsed(svgs["completion"]).itertext())
    assert "_hidden" in legend
    assert "$x^{" in legend


def test_svgs_share_a_page_without_sharing_ids() -> None:
    ids = [
        [element.get("id") for element in parsed(svg).iter() if element.get("id")]
        for svg in svg_plots([result()]).values()
    ]
    for a, some in enumerate(ids):
        for others in ids[a + 1 :]:
            assert not set(some) & set(others)


def test_svgs_take_over_the_colour_of_the_page_and_load_nothing() -> None:
    for svg in svg_plots([result()]).values():
        assert "currentColor" in svg
        assert "metadata" not in svg
        hrefs = [v for element in parsed(svg).iter() for k, v in element.attrib.items() if k.endswith("href")]
        assert all(href.startswith("#") for href in hrefs)


def test_what_is_not_known_is_said() -> None:
    assert "no job completed" in svg_plots([result(completion_h=(NAN, NAN))])["completion"]
    assert "no price for v100" in svg_plots([result(usd_per_hour=(NAN, 1.0))])["cost"]


def test_thousands_of_leases_do_not_make_the_plot_grow() -> None:
    few, many = (
        result([(i % 2, 0, 1, i / n, 1 / n) for i in range(n)], completion_h=(1.0, 1.0), cluster="v100=1,k80=0")
        for n in (2, 20_000)
    )
    assert len(many.leases) == 20_000
    assert len(svg_plots([many])["busy"]) < 1.5 * len(svg_plots([few])["busy"])


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_types_have_colours_of_their_own(count: int) -> None:
    assert len(set(type_colors(count))) == count


def test_policies_have_styles_of_their_own() -> None:
    assert len({str(policy_style(position)) for position in range(24)}) == 24


def test_plots_grow_with_what_they_hold() -> None:
    for plot in PLOTS:
        assert plot.height_in([result()] * 8) > plot.height_in([result()])


def test_end_of_a_run_without_time() -> None:
    run = result((), (NAN,), end_s=0.0)
    assert np.isnan(run.jct_s_J).all()
    assert png_plot([run]).startswith(PNG)
