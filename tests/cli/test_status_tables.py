import io

import pytest
from rich.console import Console

from gavelx.cli.status_tables import JOBS, SERVERS, print_rows, reasons
from gavelx.rpc import wire_pb2 as wire

RUNNING = wire.JobStatus(
    job_id=10_000,
    name="a-rather-long-name-of-a-job",
    owner="ada",
    submitted_s_ago=7200.0,
    job_type="ResNet-18 (batch size 32)",
    state="running",
    steps_done=12_345.0,
    total_steps=1e6,
    promised_share=0.25,
    received_s=98_765.0,
    spent_usd=1234.5,
    servers=["server-1", "server-2"],
    accelerator="v100",
)
FAILED = wire.JobStatus(
    job_id=7,
    job_type="net",
    state="cancelled",
    total_steps=5.0,
    reason="exit code 1: [red]no such file[/]\n\x1b[2J",
)
ASIDE = wire.ServerStatus(
    name="server-2", state="put aside", reason="3 different jobs failed there shortly after launch"
)
SERVER = wire.ServerStatus(name="server-1", accelerator="v100", devices=8, leased=3, state="draining")


def printed(width: int) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False)
    print_rows(console, JOBS, [RUNNING, FAILED])
    print_rows(console, SERVERS, [SERVER])
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined, no-any-return]


@pytest.mark.parametrize("width", [45, 60, 80, 100, 132, 200])
def test_every_job_is_one_line_of_whole_words_in_any_width(width: int) -> None:
    lines = printed(width)
    assert len(lines) == 2 + 2 + 1 + 2 + 1 + 1
    assert max(map(len, lines)) <= width
    words = " ".join(lines).split()
    assert {"10000", "running", "cancelled", "12,345", "draining"} <= set(words)
    assert "\x1b" not in "".join(lines)


def test_a_wide_terminal_shows_all_and_a_narrow_one_what_matters_most() -> None:
    wide, narrow = printed(200), printed(80)
    for text in (
        "ada",
        "a-rather-long-name-of-a-job",
        "ResNet-18 (batch size 32)",
        "$1,234",
        "98,765 s",
        "7,200 s",
    ):
        assert text in "\n".join(wide)
    assert "server-1" in narrow[2]
    assert "…" in narrow[2]
    assert "$" not in narrow[2]


def test_an_elastic_job_shows_its_share_of_time_in_each_size() -> None:
    sizes = [
        wire.SizeShare(accelerator="v100", devices=4, share=0.75),
        wire.SizeShare(accelerator="v100", devices=2, batch=256, share=0.25),
    ]
    elastic = wire.JobStatus(job_id=8, job_type="net", state="running", elasticity="batch:1-8/64-512", sizes=sizes)
    for width, shown in ((240, "75.0% on 4 x v100, 25.0% on 2 x v100 / 256"), (50, "elastic")):
        console = Console(file=io.StringIO(), width=width, highlight=False)
        print_rows(console, JOBS, [RUNNING, elastic])
        lines = console.file.getvalue()  # type: ignore[attr-defined]
        assert (shown in lines) == (width == 240), lines
        assert ("sizes" in lines) == (width == 240)


def test_columns_that_are_empty_for_all_are_not_shown() -> None:
    console = Console(file=io.StringIO(), width=80)
    print_rows(console, JOBS, [wire.JobStatus(job_id=1, job_type="net", state="waiting", total_steps=5.0)])
    heading = console.file.getvalue().splitlines()[0].split()  # type: ignore[attr-defined]
    assert heading == ["job", "type", "state", "steps", "elapsed", "share", "received", "cost"]


def test_what_is_believed_of_the_end_is_shown_where_it_was_not_told() -> None:
    console = Console(file=io.StringIO(), width=120)
    untold = wire.JobStatus(
        job_id=1, state="running", steps_done=7.0, left_s=90.0, left_lower_s=30.0, left_upper_s=720.0
    )
    print_rows(console, JOBS, [untold, RUNNING])
    heading, _, one, other, *_ = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert "left" in heading
    assert "90 s (30 s to 720 s)" in one
    assert " s to " not in other


@pytest.mark.parametrize(
    ("level", "order", "bits"),
    [
        ("elastic", "torch-ddp", "elastic, torch-ddp"),
        ("none", "rank", "none, rank"),  # it had bits to keep, and did not
        ("fixed", "", "fixed"),
        ("none", "", ""),
        ("", "", ""),
    ],
)
def test_which_bits_a_job_keeps(level: str, order: str, bits: str) -> None:
    (column,) = (column for column in JOBS if column.heading == "bits")
    assert column.cell(wire.JobStatus(determinism=level, order=order)) == bits


def test_each_reason_to_wait_is_said_once_and_in_full() -> None:
    whys = ["no server is here"] * 3 + ["can run nowhere: [red]\x1b[2J"] + [f"reason {n}" for n in range(9)]
    waiting = [wire.JobStatus(job_id=n, state="waiting", reason=why) for n, why in enumerate(whys)]
    lines = reasons([*waiting, RUNNING, FAILED], [ASIDE])
    assert lines[0] == "job 0 and 2 more wait: no server is here"
    assert lines[1].startswith("job 3 waits: can run nowhere: [red]")
    assert "\x1b" not in lines[1]
    assert any(line.startswith("job 7 was cancelled: exit code 1: [red]no such file[/]") for line in lines)
    assert lines[-1] == "server-2 is put aside: 3 different jobs failed there shortly after launch"
    many = [wire.JobStatus(job_id=n, state="waiting", reason=f"reason {n}") for n in range(500)]
    assert reasons(many, [])[-1] == "480 more reasons: gavelx status JOB says that of one job"


@pytest.mark.parametrize(
    ("total", "said", "steps"),
    [(50.0, 0.0, "7.00 of 50.0"), (0.0, 90.0, "7.00 of ~90.0"), (0.0, 0.0, "7.00")],
)
def test_a_length_that_no_user_told_is_marked(total: float, said: float, steps: str) -> None:
    (column,) = (column for column in JOBS if column.heading == "steps")
    assert column.cell(wire.JobStatus(steps_done=7.0, total_steps=total, said_steps=said)) == steps


def test_a_running_job_that_hangs_or_failed_says_so() -> None:
    hung = wire.JobStatus(job_id=3, state="running", reason="exit code 1", silent_s=95.0, usual_step_s=1.0)
    assert reasons([hung], []) == ["job 3 runs: no step for 95 s (usually 1 s)"]
    again = wire.JobStatus(job_id=4, state="running", reason="exit code 1", failures=2)
    assert reasons([again], []) == ["job 4 runs: it failed 2 times, last: exit code 1"]
    well = wire.JobStatus(job_id=5, state="running", reason="its server is leaving")
    assert reasons([well, wire.JobStatus(job_id=6, state="complete", reason="old", failures=1)], []) == []


def test_a_job_that_never_reported_a_step_has_a_dash() -> None:
    (column,) = (column for column in JOBS if column.heading == "steps")
    assert column.cell(wire.JobStatus()) == "-"


@pytest.mark.parametrize(("state", "elapsed"), [("running", "90 s"), ("failed", "40 s")])
def test_elapsed_time_ends_with_the_job(state: str, elapsed: str) -> None:
    (column,) = (column for column in JOBS if column.heading == "elapsed")
    assert column.cell(wire.JobStatus(state=state, submitted_s_ago=90.0, duration_s=40.0)) == elapsed
