"""Steps of a job: from its reports, whatever it writes there, and from what it prints."""

import json
import math
import re
import time
from pathlib import Path

from gavelx.profiler.steps import Printed, Reported
from gavelx.worker.state import LeaseFolder


def lease(tmp_path: Path) -> LeaseFolder:
    folder = LeaseFolder(tmp_path / "7")
    folder.path.mkdir()
    return folder


def report(folder: LeaseFolder, **said: object) -> None:
    folder.report_file.write_text(json.dumps({"lease_id": 7} | said))


def test_reports_say_when_they_were(tmp_path: Path) -> None:
    folder = lease(tmp_path)
    steps = Reported(folder)
    steps.look()
    now_s = time.monotonic()
    report(folder, steps_done=5, monotonic_s=now_s - 3.0)
    steps.look()
    steps.look()
    assert steps.samples == [(now_s - 3.0, 5.0)]
    report(folder, steps_done=9)
    steps.look()
    assert steps.samples[1].steps == 9.0 and steps.samples[1].time_s >= now_s


def test_reports_that_make_no_sense(tmp_path: Path) -> None:
    folder = lease(tmp_path)
    steps = Reported(folder)
    for said in ({}, {"steps_done": "many"}, {"steps_done": None}):
        report(folder, **said)
        steps.look()
    assert not steps.samples
    report(folder, steps_done=math.nan, monotonic_s=math.inf)
    steps.look()
    assert math.isnan(steps.samples[0].steps) and steps.samples[0].time_s <= time.monotonic()


def printed(tmp_path: Path, pattern: str, *parts: str) -> list[float]:
    folder = lease(tmp_path)
    steps, log = Printed(folder, re.compile(pattern)), folder.path / "out.0.log"
    for part in parts:
        with log.open("a") as file:
            file.write(part)
        steps.look()
    return [sample.steps for sample in steps.samples]


def test_lines_that_count(tmp_path: Path) -> None:
    parts = "step 1 loss 2\nother\nstep 1,0", "02 loss 1\nstep 1003\n", "st"
    assert printed(tmp_path, r"step ([\d,]+)", *parts) == [1.0, 1003.0]


def test_lines_of_which_each_is_a_step(tmp_path: Path) -> None:
    assert printed(tmp_path, "done", "a done\nb\n", "c done\nd done\n") == [1.0, 3.0]


def test_lines_that_do_not_count(tmp_path: Path) -> None:
    (found,) = printed(tmp_path, r"step (\w+)", "step x\n")
    assert math.isnan(found)


def test_output_of_which_the_beginning_was_dropped(tmp_path: Path) -> None:
    folder = lease(tmp_path)
    steps = Printed(folder, re.compile(r"step (\d+)"))
    (folder.path / "out.0.log").write_text("step 1\n")
    steps.look()
    (folder.path / "out.0.5000.log").write_text("step 700\n")
    steps.look()
    steps.look()
    assert [sample.steps for sample in steps.samples] == [1.0, 700.0]
