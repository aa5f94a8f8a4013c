import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from gavelx.elastic import Elastic
from gavelx.report.about import About
from gavelx.report.html import COLUMNS, best_value, html_report, order
from gavelx.report.plots import PLOTS
from gavelx.result import Result
from tests.report.results import NASTY, result, results

NAN = float("nan")
ABOUT = About("40 random jobs", "simulation", "gcp", 360.0, {"v100": 2.0}, "gavelx compare --cluster v100=2")
VOID = {"meta", "link", "br", "img", "hr", "input"}


class Page(HTMLParser):
    """Every tag with its attributes and all text; complains when a tag is left open."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(page)
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data.strip())


@pytest.mark.slow
@settings(max_examples=6)
@given(st.lists(results(), min_size=1, max_size=3), st.text(max_size=30))
def test_any_results_make_a_page(runs: list[Result], words: str) -> None:
    page = html_report(runs, About(words, words, words, 360.0, {words: 1.0}, words))
    page.encode()  # no lone surrogates
    Page(page)


@pytest.mark.slow
def test_names_are_text_wherever_they_stand() -> None:
    page = Page(html_report([result(policy=name) for name in NASTY], ABOUT))
    assert "script" not in {tag for tag, _ in page.tags}
    assert "b" not in {tag for tag, _ in page.tags}
    assert "<script>alert(1)</script>" in page.texts


def test_the_page_needs_nothing_else() -> None:
    page = Page(html_report([result()], ABOUT))
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in page.tags}
    for _, attributes in page.tags:
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#")
    assert "@import" not in "".join(page.texts)
    assert not re.search(r"url\((?!#)", "".join(page.texts))


def test_every_id_stands_once_and_every_link_leads_somewhere() -> None:
    page = Page(html_report([result(policy="a"), result(policy="b")], ABOUT))
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = {attributes["href"] for tag, attributes in page.tags if tag == "a"}
    assert {str(link).removeprefix("#") for link in links} <= set(ids)


def test_plots_have_a_name_for_those_who_do_not_see_them() -> None:
    page = Page(html_report([result(policy="one")], ABOUT))
    assert [tag for tag, _ in page.tags].count("main") == 1
    labels = [attributes["aria-labelledby"] for _, attributes in page.tags if attributes.get("role") == "img"]
    headings = {attributes.get("id") for tag, attributes in page.tags if tag == "h2"}
    assert len(labels) == len(PLOTS) and set(labels) <= headings


def test_the_same_results_give_the_same_page_whatever_the_time_it_took() -> None:
    first, second = result(policy_seconds=1.0, wall_seconds=2.0), result(policy_seconds=3.0, wall_seconds=4.0)
    assert html_report([first], ABOUT) == html_report([second], ABOUT)


def test_the_run_is_described() -> None:
    text = " ".join(Page(html_report([result(measured=slice(0, 1))], ABOUT)).texts)
    for words in (
        "40 random jobs",
        "v100=2,k80=2",
        "rounds of 360 s",
        "simulation",
        "$2 per device-hour",
        "jobs 0 to 0",
    ):
        assert words in text, words


def test_jobs_that_did_not_complete_are_counted() -> None:
    text = " ".join(" ".join(Page(html_report([result(completion_h=(1.0, NAN))], ABOUT)).texts).split())
    assert "1 of 2 jobs did not complete" in text


def test_policies_are_sorted_by_jobs_done_then_by_mean_jct() -> None:
    runs = [result(completion_h=(0.1, NAN)), result(completion_h=(3.0, 2.0)), result(completion_h=(1.0, 2.0))]
    assert order([run.summary() for run in runs]) == [2, 1, 0]


def test_policies_that_failed_are_rows_that_say_why() -> None:
    page = Page(html_report([result(policy="fifo")], ABOUT, [("<b>late</b>", "too late in mine.py"), ("b", "c")]))
    assert "b" not in {tag for tag, _ in page.tags}
    at = page.texts.index("too late in mine.py")
    assert [text for text in page.texts[at - 4 : at] if text] == ["<b>late</b>", "failed"]


def test_the_table_of_figures_fits_a_window_of_1280_pixels() -> None:
    """Measured in DejaVu Sans, which is wider than what most browsers use: cells do not wrap, headings do."""
    runs = [result(policy="hierarchical(max_min_fairness, ml=2)"), result(completion_h=(2345.6, 12345.6))]
    source = html_report(runs, ABOUT)
    table = source[source.index('<div class="scroll wide">') :].partition("</table>")[0]
    (font_rem,) = map(float, re.findall(r"\.wide table \{[^}]*font-size: ([\d.]+)rem", source))
    (padding_rem,) = map(float, re.findall(r"\.wide :is\(th, td\) \{ padding: [\d.]+rem ([\d.]+)rem", source))
    (policy_rem,) = map(float, re.findall(r"td\.policy \{[^}]*min-width: ([\d.]+)rem", source))
    (page_rem,) = map(float, re.findall(r"body \{[^}]*max-width: ([\d.]+)rem", source))
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row, re.DOTALL) for row in table.split("<tr>")[1:]]
    headings = [max(re.sub(r"<.*?>", " ", cell).split(), key=len) for cell in rows[0]]
    widest = [max((row[c] for row in rows[1:]), key=len) for c in range(1, len(headings))]
    cells = [max(_width(cell), _width(word, "bold")) for cell, word in zip(widest, headings[1:], strict=True)]
    needed = 16 * (policy_rem + font_rem * sum(cells) + 2 * padding_rem * len(cells))
    assert needed <= min(1280, 16 * page_rem) - 2 * min(0.04 * 1280, 48), "the last columns are cut"


def _width(text: str, weight: str = "normal") -> float:
    """How wide a text is, in times its size."""
    return float(
        TextPath((0, 0), text, 1.0, prop=FontProperties(family="DejaVu Sans", weight=weight)).get_extents().width
    )


def test_dropping_jobs_does_not_win_a_column() -> None:
    jct = next(column for column in COLUMNS if column.key == "jct_mean_s")
    runs = [result(completion_h=(0.1, NAN)), result(completion_h=(3.0, 2.0)), result(completion_h=(1.0, 2.0))]
    assert best_value(jct, [run.summary() for run in runs]) == 1.5 * 3600
    assert best_value(jct, [runs[1].summary()]) is None
    assert best_value(jct, [runs[1].summary(), runs[1].summary()]) is None


@pytest.mark.slow
def test_resizes_are_told_of_runs_with_elastic_jobs_alone() -> None:
    rigid = result()
    elastic = replace(rigid, jobs=tuple(replace(job, elastic=Elastic.of("workers:1-4")) for job in rigid.jobs))
    assert "resizes" not in Page(html_report([rigid], ABOUT)).texts
    assert Page(html_report([elastic], ABOUT)).texts.count("resizes") == 2  # of the policies, and of the jobs
