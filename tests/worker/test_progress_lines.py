"""What a job prints is progress, or is not; whatever it prints, it does no harm."""

import math
import os
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from gavelx.worker.printed import READ_MAX, Printed
from gavelx.worker.progress_lines import COUNT_MAX, ProgressLines

TQDM = "\r{0:3d}%|###   | {0}/1000 [00:{0:02d}<00:12, 44.31it/s]"


def read(*pieces: str | bytes) -> tuple[float, float]:
    """Steps and total after these pieces of output, one a second."""
    lines = ProgressLines()
    for second, piece in enumerate(pieces):
        lines.read(piece.encode() if isinstance(piece, str) else piece, float(second))
    return lines.progress()


@pytest.mark.parametrize(
    ("text", "steps", "total"),
    [
        ("step 120/5000\n", 120, 5000),
        ("Step: 120 of 5,000\n", 120, 5000),
        ("[iter 120 of 5000] loss 0.3\n", 120, 5000),
        ("Iteration 1_200/5_000: loss=0.1\n", 1200, 5000),
        ("global_step=120 loss=3\n", 120, 0),
        ("{'train_step': 120, 'loss': 2.5}\n", 120, 0),
        ('{"step": 120, "loss": 2.5}\n', 120, 0),
        ("INFO:root:step 7\nINFO:root:step 8\n", 8, 0),
        ("Epoch [3/90], Step [120/5000], Loss: 0.1\n", 120, 5000),
        ("epoch 3/90\n", 3, 90),
        ("{'loss': 0.3, 'epoch': 0.34}\n", 0.34, 0),
        ("Train Epoch: 1 [640/60000 (1%)]\tLoss: 2.3\n", 1, 0),
        ("\x1b[32mstep\x1b[0m \x1b[1m7\x1b[0m/9\n", 7, 9),
        ("".join(TQDM.format(n) for n in range(10)) + "\r", 9, 1000),
        (TQDM.format(45), 45, 1000),
        ("step 7/9", 0, 0),  # the number may go on
        ("a step in the right direction\n", 0, 0),
        ("stepwise 3/4, missteps 5\n", 0, 0),
        ("steps: 10%\n", 0, 0),
        ("step 500 it/s\n", 0, 0),
        ("2024-01-02 03/04 7/9\n", 0, 0),
        ("hello\n", 0, 0),
        ("", 0, 0),
    ],
)
def test_lines_that_people_print(text: str, steps: float, total: float) -> None:
    assert read(text) == (steps, total)


def test_a_rate_alone_gives_steps_by_time() -> None:
    assert read(*["speed 12.5 it/s\n"] * 5) == (50.0, 0.0)
    assert read(*["0.08s/it\n"] * 5) == (pytest.approx(50.0), 0.0)


def test_a_count_is_better_than_a_rate() -> None:
    assert read("step 10, 99 it/s\n", "step 20, 99 it/s\n") == (20.0, 0.0)


def test_epochs_with_a_bar_each_add_up() -> None:
    epoch = [f"step {n}/100\n" for n in range(10, 101, 10)]
    assert read(*epoch, *epoch, *epoch[:3]) == (230.0, 0.0), "and their length is not the job's"


def test_two_bars_count_apart() -> None:
    """Training and validation print in turns; what counts is how much they rise."""
    assert read("step 10/100\n", "step 1/5\n", "step 20/100\n", "step 2/5\n") == (22.0, 0.0)


def test_a_count_that_wavers_is_not_a_new_one() -> None:
    """Processes of one job print in any order."""
    assert read(*(f"step {n}\n" for n in (10, 9, 11, 10, 12, 11))) == (12.0, 0.0)


@pytest.mark.parametrize(
    ("line", "steps", "total"),
    [
        (lambda i: f"step {i}/{1000 + i}", 20, 1020),  # the total grows
        (lambda i: f"step {i}/{1000 * (i % 7 + 1)}", 20, 7000),
        (lambda i: f"step {i}\nstep {i}/5000", 20, 5000),  # said twice
        (lambda i: f"step {1001 - i}/1000", 1000, 1000),  # a countdown
        (lambda i: f"step {1001 - i}", 1000, 0),
        (lambda i: f"step {9999999 + i}/10", 0, 0),
        (lambda i: f"epoch {i + 3}/3", 0, 0),
        (lambda i: f"step {i}/5000 epoch {50 - i}/3, 1e9 it/s", 20, 5000),
        (lambda i: "step 10/10", 10, 10),
        (lambda i: "step " + "9" * 200_000, 0, 0),
        (lambda i: f"step {i} {'x' * 200_000}", 20, 0),
        (lambda i: "-3.5 it/s, speed: -2 s/it", 0, 0),
        (lambda i: "1e400 it/s nan it/s", 0, 0),
        (lambda i: f"step {10**i}", 1e12, 0),
        (lambda i: f"{i * 50}%|##| {i}/0 [00:00<?, ?it/s]", 20, 0),
    ],
)
def test_outputs_that_lie(line: Callable[[int], str], steps: float, total: float) -> None:
    """Twenty lines, one a second. What cannot be is no progress, and what can is believed."""
    assert read(*(line(i) + "\n" for i in range(1, 21))) == (steps, total)


LIES = (
    *("step 1e400\n", "step nan\n", "step inf/5\n", "step -5\n", "step 10/5\n", "step 0/0\n", "step /\n"),
    *("1e400 it/s\n", "nan it/s\n", "-3 it/s\n", "0 s/it\n", "inf s/it\n", "1e-400 s/it\n", "9e999it/s\n"),
    *("step 99999999999999999999999999999\n", "step 1/99999999999999999999999\n", "epoch 9999999999999\n"),
    *("steps: 1,2,3,4\n", "step 1.2.3\n", "step 0x10\n", "step ١٢/٣٤\n", "step ½\n", "\x1b[2Kstep \x1b[\n"),
)


@pytest.mark.parametrize("text", LIES)
def test_a_lie_is_no_number_that_hurts(text: str) -> None:
    steps, total = read(*[text] * 3)
    assert 0.0 <= steps <= COUNT_MAX
    assert 0.0 <= total <= COUNT_MAX


WORDS = (
    *(
        b"step ",
        b"steps: ",
        b"iter",
        b"epoch ",
        b"it/s",
        b" s/it",
        b"/",
        b" of ",
        b"[",
        b"]",
        b"00:10",
        b"\r",
        b"\n",
    ),
    *(b"\x1b[", b"\x1b]", b"31m", b"\x07", b"\x00", b"\xff\xfe", b"1e400", b"nan", b"-", b".", b",", b"9" * 40),
    *(b"120", b"5000", b"0", b"1", b" ", b"%", "é".encode(), b"x" * 3000),
)


@pytest.mark.parametrize("seed", range(300))
def test_whatever_is_printed(seed: int) -> None:
    """Counts are finite and never fall, and pieces may end anywhere."""
    chance, lines, before, now_s = random.Random(seed), ProgressLines(), {"steps": 0.0, "by": ""}, 0.0
    for _ in range(30):
        now_s += chance.choice((0.0, 1.0, 1e6))
        lines.read(b"".join(chance.choices(WORDS, k=chance.randrange(40))), now_s)
        steps, total = lines.progress()
        assert math.isfinite(steps)
        assert 0.0 <= steps <= COUNT_MAX
        assert 0.0 <= total <= COUNT_MAX
        kinds = next((kind for kind in ("steps", "bars", "epochs") if lines._counts.get(kind)), "rate")
        assert steps >= before["steps"] or kinds != before["by"]
        before = {"steps": steps, "by": kinds}
        assert sum(map(len, lines._counts.values())) <= 3 * 16
        assert len(lines._rest) <= 1024


@pytest.mark.parametrize(
    "evil",
    [b"1" * 4000, b"step " * 800, b"1/1" * 1300, b"step 1" * 700, b"step \x1b[" * 800, b"1,111,111,111 " * 300],
)
def test_no_line_takes_long(evil: bytes) -> None:
    lines, began_s = ProgressLines(), time.process_time()
    for _ in range(20):
        lines.read(evil + b"\n" + b"step " + b" " * 4000 + b"1\n", 0.0)
    assert time.process_time() - began_s < 2.0


def test_the_files_of_a_lease_are_read_as_they_grow(tmp_path: Path) -> None:
    printed = Printed(tmp_path, 0)
    assert printed.progress() == (0.0, 0.0)
    head = tmp_path / "out.0.log"
    head.write_text("step 1/50\nstep 2/50\nst")
    assert printed.progress() == (2.0, 50.0)
    with head.open("a") as file:
        file.write("ep 3/50\n")
    (tmp_path / "out.1.log").write_text("step 40/50\n")  # of another rank
    assert printed.progress() == (3.0, 50.0)
    (tmp_path / f"out.0.{head.stat().st_size}.log").write_text("step 4/50\n")
    assert printed.progress() == (4.0, 50.0)
    head.unlink()  # the oldest output is dropped
    assert printed.progress() == (4.0, 50.0)


def test_of_much_output_the_latest_is_read(tmp_path: Path) -> None:
    printed = Printed(tmp_path, 0)
    (tmp_path / "out.0.log").write_text("step 1/9000000\n" * READ_MAX + "x" * 100 + "\nstep 77/9000000\n")
    assert printed.progress() == (77.0, 9000000.0)


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "out.0.log").write_text("step 1/50\n")
    os.mkfifo(tmp_path / "out.0.10.log")
    (tmp_path / "out.0.20.log").symlink_to("/dev/zero")
    (tmp_path / "out.0.30.log").mkdir()
    (tmp_path / f"out.0.{10**30}.log").write_text("step 9/50\n")
    assert Printed(tmp_path, 0).progress().total in (0.0, 50.0)
    assert Printed(tmp_path / "gone", 0).progress() == (0.0, 0.0)


def test_thousands_of_files_take_no_time(tmp_path: Path) -> None:
    for n in range(3000):
        (tmp_path / f"out.0.{n}.log").touch()
    began_s = time.process_time()
    Printed(tmp_path, 0).progress()
    assert time.process_time() - began_s < 0.5
