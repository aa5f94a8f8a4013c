"""A job of real processes goes over to other leases: what the agent starts, says and keeps."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gavelx.rpc import wire_pb2 as wire
from gavelx.worker.devices import Devices
from gavelx.worker.runner import ProcessRunner
from gavelx.worker.shim import LEFT
from gavelx.worker.state import Folder
from tests.waiting import PATIENCE_S
from tests.worker.machines import pids_of

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).with_name("elastic_script.py")
FOREVER = 1e6


class Server:
    """An agent's runner, and the job 7 on it; ``numbers`` are those of the job's processes by rank."""

    def __init__(self, folder: Path, habits: str = "", total: float = FOREVER) -> None:
        self.folder, self.habits, self.total = folder, habits, total
        self.numbers, self.numbered, self.generation, self.lease_id = list[int](), 0, 0, 0
        self.ends: dict[int, wire.Ended] = {}
        self.begin()

    def begin(self) -> None:
        """An agent starts, perhaps again."""
        self.runner = ProcessRunner(
            Folder(self.folder / "agent"), self.folder / "shared", Devices("cpu", tuple("0123")), grace_s=5.0
        )

    def again(self) -> None:
        """The agent ends without a word, and another one takes its place."""
        self.runner.close()
        self.begin()

    def launch(self, processes: int) -> None:
        self.lease_id, self.generation = self.lease_id + 1, 0
        self.numbers, self.numbered = list(range(processes)), processes
        self.runner.start(self._message(range(processes)), time.monotonic() + 600.0)

    def resize(self, keep: list[int], more: int = 0, here: bool = True) -> None:
        """Processes with these numbers stay, and more come; not ``here``: all of ours leave for another server."""
        new = list(range(self.numbered, self.numbered + more))
        self.numbered, self.generation = self.numbered + more, self.generation + 1
        self.numbers, before, self.lease_id = [*keep, *new], self.lease_id, self.lease_id + 1
        message = self._message(range(len(self.numbers)) if here else ())
        message.continues = before
        self.runner.resize(message)

    def _message(self, slots: Any) -> wire.Launch:
        ranks = {number: rank for rank, number in enumerate(self.numbers)}
        return wire.Launch(
            lease_id=self.lease_id,
            job_id=7,
            command=[sys.executable, "-S", str(SCRIPT), self.habits],
            slots=slots,
            world_size=len(ranks),
            processes=len(slots),
            until_step=self.total,
            folder="7",
            elasticity="workers:1-4",
            workers=4,
            size=wire.Size(generation=self.generation, rank_of_number=ranks),
            numbers=self.numbers if len(slots) else (),
        )

    def until(self, holds: Callable[[], Any], what: str) -> Any:
        """Poll until it is so."""
        end_s = time.monotonic() + PATIENCE_S
        while True:
            self.runner.poll()
            self.ends |= {ended.lease_id: ended for ended in self.runner.ended()}
            if found := holds():
                return found
            assert time.monotonic() < end_s, f"{what} did not come: {self.runner.reports()} {self.ends}"
            time.sleep(0.01)

    def report(self, lease_id: int) -> wire.LeaseReport | None:
        return next((report for report in self.runner.reports() if report.lease_id == lease_id), None)

    def runs(self, steps: float = 3.0) -> None:
        """Until the present lease is the job's, and it does steps there that it can be resized after."""

        def there() -> bool:
            report = self.report(self.lease_id)
            return (
                report is not None and report.sizes == self.generation + 1 and report.steps_done >= begun + steps
            )

        first = self.report(self.lease_id)
        begun = first.steps_done if first is not None else 0.0
        self.until(there, f"generation {self.generation}")

    def gone_over(self) -> wire.LeaseReport:
        """The report in which rank 0 says that the job has gone over, with none left that is to leave."""

        def there() -> wire.LeaseReport | None:
            report, before = self.report(self.lease_id), self.report(self.lease_id - 1)
            over = report is not None and report.HasField("handover") and before is not None and not before.leaving
            return report if over else None

        report: wire.LeaseReport = self.until(there, "the handover")
        return report

    def go_over(self) -> None:
        """The scheduler knows."""
        self.gone_over()
        self.runner.go_over(self.lease_id - 1)

    def ended(self, *lease_ids: int) -> list[wire.Ended]:
        """The final reports on these leases."""
        self.until(lambda: self.ends.keys() >= set(lease_ids), f"the end of {lease_ids}")
        return [self.ends[lease_id] for lease_id in lease_ids]

    def worlds(self) -> list[int]:
        """With how many processes steps were done, in their order, each number of them once in a row."""
        log = self.folder / "agent" / "leases" / "1"
        lines = [json.loads(line) for path in log.glob("out.*.log") for line in path.read_text().splitlines()]
        steps = [step for step, _ in sorted(lines)]
        assert steps == list(range(1, len(steps) + 1)), "a step is lost, or was done twice"
        worlds = [world for _, world in sorted(lines)]
        return [now for now, before in zip(worlds, [0, *worlds], strict=False) if now != before]

    def pids(self) -> list[int]:
        return pids_of(self.folder / "agent" / "leases" / "1")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    one = Server(tmp_path)
    yield one
    one.runner.close()


def test_processes_join_and_leave_while_the_job_runs(server: Server) -> None:
    server.launch(1)
    server.runs()
    (first,) = server.pids()
    server.resize([0], more=2)
    assert set(server.runner.standing()) == {1, 2}
    report = server.gone_over()
    assert report.handover.before_id == 1
    assert server.runner.continued_by(1) == 2
    server.go_over()
    assert set(server.runner.standing()) == {2}
    server.runs()
    assert first in server.pids()
    server.resize([0])
    server.go_over()
    server.until(lambda: server.pids() == [first], "the others leave")
    server.runs()
    server.runner.stop(3, "enough")
    (last,) = server.ended(3)
    assert (last.failed, last.complete, last.left) == (False, False, False)
    assert last.steps_done == server.until(lambda: last.steps_done, "steps")
    assert server.worlds() == [1, 3, 1]


def test_times_of_the_leases_add_up(server: Server) -> None:
    begun_s = time.monotonic()
    server.launch(1)
    server.runs()
    server.resize([0], more=1)
    handover = server.gone_over().handover
    assert 0.0 < handover.warm_s < handover.held_s <= time.monotonic() - begun_s
    server.go_over()
    server.runs()
    server.runner.stop(2, "enough")
    (last,) = server.ended(2)
    assert handover.held_s + last.held_s <= time.monotonic() - begun_s


def test_rank_0_may_move_to_another_process(server: Server) -> None:
    server.launch(2)
    server.runs()
    server.resize([1], more=1)
    server.go_over()
    server.runs()
    server.runner.stop(2, "enough")
    (last,) = server.ended(2)
    assert not last.failed
    assert server.worlds() == [2]


def test_all_processes_of_a_server_leave_for_others(server: Server) -> None:
    """The rest of the job is played by a file that says that all may go."""
    server.launch(1)
    server.runs()
    server.resize([], more=1, here=False)
    assert server.report(1).next_id == 2  # type: ignore[union-attr]
    folder = server.folder / "shared" / "jobs" / "7"
    (folder / "ready.1.1").write_text("true")
    (last,) = server.ended(1)
    assert (last.left, last.failed, last.exit_code) == (True, False, LEFT)
    assert not server.runner.standing()


@pytest.mark.parametrize("when", ["before", "over", "known"])
def test_an_agent_that_is_killed_on_the_way_finds_the_job_where_it_is(server: Server, when: str) -> None:
    server.launch(1)
    server.runs()
    server.resize([0], more=1)
    said = server.gone_over().handover if when != "before" else None
    if when == "known":
        server.go_over()
    server.again()
    if when == "over":
        assert server.gone_over().handover == said
    assert set(server.runner.standing()) == ({2} if when == "known" else {1, 2})
    if when != "known":
        server.go_over()
    server.runs()
    server.runner.stop(2, "enough")
    (last,) = server.ended(2)
    assert not last.failed
    assert server.worlds() == [1, 2]


def test_what_a_killed_agent_had_begun_to_write_is_forgotten(server: Server) -> None:
    server.launch(1)
    server.runs()
    launch = json.loads((server.folder / "agent" / "leases" / "1" / "launch.json").read_text())
    half = server.folder / "agent" / "leases" / "2"
    half.mkdir()
    (half / "launch.json").write_text(json.dumps(launch | {"lease_id": 2, "continues": 1}))
    server.again()
    assert set(server.runner.standing()) == {1}
    assert not half.exists()
    server.resize([0], more=1)
    server.go_over()


@pytest.mark.parametrize("habit", ["broken", "misses"])
def test_a_resize_that_fails_ends_both_leases(server: Server, habit: str) -> None:
    server.habits = habit
    server.launch(1)
    server.until(lambda: (server.report(1) or wire.LeaseReport()).saved_steps, "a checkpoint")
    server.resize([0], more=1)
    first, second = server.ended(1, 2)
    assert second.held_s == 0.0
    assert first.failed == second.failed == (habit == "broken")
    assert first.steps_done >= 5
    assert not (first.complete or second.complete)
    assert not server.pids()


def test_a_job_that_is_stopped_on_the_way_ends_in_both(server: Server) -> None:
    server.habits = "alone"
    server.launch(1)
    server.runs()
    server.resize([0], more=1)
    server.until(lambda: len(server.pids()) == 2, "the joiner")
    server.runner.stop(2, "preempted")
    first, second = server.ended(1, 2)
    assert not (first.failed or second.failed or first.left)
    assert first.steps_done >= 3
    assert second.held_s == 0.0


def test_a_job_that_is_complete_on_the_way_is_complete(server: Server) -> None:
    server.habits, server.total = "alone,patient", 40.0
    server.launch(1)
    server.runs()
    server.resize([0], more=1)
    first, second = server.ended(1, 2)
    assert first.complete
    assert first.steps_done == 40.0
    assert second.held_s == 0.0


def test_a_shim_that_is_killed_takes_both_leases_with_it(server: Server) -> None:
    server.habits = "alone"
    server.launch(1)
    server.runs()
    server.resize([0], more=1)
    shim = json.loads((server.folder / "agent" / "leases" / "1" / "shim.json").read_text())
    os.kill(shim["pid"], signal.SIGKILL)
    first, _ = server.ended(1, 2)
    assert first.failed
    assert not server.pids()


def test_a_message_that_comes_twice_or_too_late_changes_nothing(server: Server) -> None:
    server.launch(1)
    server.runs()
    server.resize([0], more=1)
    server.runner.resize(wire.Launch(lease_id=9, job_id=7, continues=1, slots=[0]))
    server.go_over()
    server.runner.resize(wire.Launch(lease_id=9, job_id=7, continues=1, slots=[0]))
    assert set(server.runner.standing()) == {2}


def test_devices_of_a_joiner_are_those_of_its_place(server: Server) -> None:
    server.launch(1)
    server.runs()
    server.resize([0], more=2)
    sizes = json.loads((server.folder / "agent" / "leases" / "1" / "sizes.json").read_text())
    places = [one["environment"]["LOCAL_RANK"] for one in sizes["joiners"]]
    assert places == ["1", "2"]
    assert {one["environment"]["CUDA_VISIBLE_DEVICES"] for one in sizes["joiners"]} == {"0,1,2"}
    server.go_over()
