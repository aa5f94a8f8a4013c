import json
import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from gavelx.cli.failures import Failed
from gavelx.cli.parallel import Outcome, _Worker, run_policies
from gavelx.cli.scenario import RunOptions, load_scenario
from gavelx.errors import GavelxError, PolicyError, ProgramError
from tests.waiting import wait_until

POLICIES = """
import os
from gavelx.errors import ProgramError
from gavelx.policies import Linear, Maximize, Policy, Worst
from gavelx.solvers import settings

class Infeasible(Policy):
    def allocate(self, snapshot):
        raise ProgramError("no allocation meets it", where="Cost() <= 0", expected="a limit above 0")

class Seen(Policy):
    def allocate(self, snapshot):
        raise ProgramError(str(settings()))

class Unreadable(ProgramError):
    def __init__(self):
        Exception.__init__(self, "only its own process can read it")

class Odd(Policy):
    def allocate(self, snapshot):
        raise Unreadable

class Vanishing(Policy):
    def allocate(self, snapshot):
        os._exit(3)

class Gone(Linear):
    def linear(self, view):
        os._exit(3)

vanishing_worker = Maximize(Worst(Gone()))
"""


@pytest.fixture
def policies(tmp_path: Path) -> str:
    file = tmp_path / "bad_policies.py"
    file.write_text(POLICIES)
    return str(file)


def test_progress_reaches_the_end_of_every_policy() -> None:
    scenario = load_scenario(RunOptions("v100=2", jobs=3))
    seen: list[tuple[int, int, int]] = []
    run_policies(["fifo", "isolated"], scenario, lambda *report: seen.append(report), workers=1)
    for position in (0, 1):
        done = [completed for at, completed, total in seen if at == position]
        assert done == sorted(set(done))
        assert done[-1] == 3
    assert {total for _, _, total in seen} == {3}


@pytest.mark.slow
def test_a_mistake_in_a_worker_keeps_its_parts(policies: str) -> None:
    scenario = load_scenario(RunOptions("v100=2", jobs=3))
    with pytest.raises(ProgramError) as caught:
        run_policies(["fifo", f"{policies}:Infeasible"], scenario, lambda *_: None, workers=2)
    assert caught.value.where == "Cost() <= 0"
    assert str(caught.value) == "Cost() <= 0: no allocation meets it; expected a limit above 0"
    assert caught.value.__notes__ == [f"while running {policies}:Infeasible"]


@pytest.mark.slow
def test_a_worker_that_vanishes_is_our_failure(policies: str) -> None:
    scenario = load_scenario(RunOptions("v100=2", jobs=3))
    with pytest.raises(GavelxError, match="worker process ended"):
        run_policies(["fifo", f"{policies}:vanishing_worker"], scenario, lambda *_: None, workers=2)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_policy_that_ends_its_process_is_its_authors_mistake(policies: str, workers: int) -> None:
    scenario = load_scenario(RunOptions("v100=2", jobs=3))
    with pytest.raises(PolicyError, match="Vanishing: it ended the process"):
        run_policies([f"{policies}:Vanishing", "fifo"], scenario, lambda *_: None, workers=workers)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_the_solver_and_its_budget_reach_every_run(policies: str, workers: int) -> None:
    scenario = load_scenario(RunOptions("v100=2", jobs=3, solver="highs", time_budget=7.5))
    with pytest.raises(ProgramError, match=r"Settings\(solver='highs', budget_s=7\.5, "):
        run_policies([f"{policies}:Seen"] * 2, scenario, lambda *_: None, workers=workers)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_what_goes_wrong_with_one_policy_is_no_matter_of_the_others(policies: str, workers: int) -> None:
    scenario = load_scenario(RunOptions("v100=2", jobs=3))
    ended: dict[int, Outcome] = {}
    texts = [
        f"{policies}:Infeasible",
        "fifo",
        *[f"{policies}:Vanishing"] * (workers > 1),
        f"{policies}:Odd",
        "srtf",
    ]
    results = run_policies(texts, scenario, lambda *_: None, workers, ended.__setitem__)
    assert [result.policy for result in results] == ["fifo", "srtf"]
    assert ended.keys() == set(range(len(texts)))
    failed = {texts[i]: outcome for i, outcome in ended.items() if isinstance(outcome, Failed)}
    messages = {text.rpartition(":")[2]: (each.exit_code, each.message) for text, each in failed.items()}
    assert messages["Infeasible"] == (2, "Cost() <= 0: no allocation meets it; expected a limit above 0")
    assert messages["Odd"] == (2, "only its own process can read it")
    if workers > 1:
        assert messages["Vanishing"][0] == 2  # it was asked in a process of its own, which ended
        assert "it ended the process that asked it" in messages["Vanishing"][1]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_mistake_of_ours_is_placed_where_it_was_made(policies: str, workers: int) -> None:
    """The place is lost when an exception goes to another process, so the message is made before."""
    scenario = load_scenario(RunOptions("v100=2", jobs=3))
    ended: dict[int, Outcome] = {}
    scenario = replace(scenario, cluster=None)  # type: ignore[arg-type]
    run_policies(["fifo", "srtf"], scenario, lambda *_: None, workers, ended.__setitem__)
    for outcome in ended.values():
        assert isinstance(outcome, Failed)
        assert outcome.exit_code == 1
        assert re.match(r"a mistake of ours: AttributeError: .* \(workload\.py, line \d+\)", outcome.message)


@pytest.mark.slow
def test_a_worker_that_still_starts_ends_quietly_at_ctrl_c(capfd: pytest.CaptureFixture[str]) -> None:
    """It wrote a traceback of its imports to the terminal."""
    worker = _Worker.started()
    try:
        os.kill(worker.process.pid or 0, signal.SIGINT)
        worker.tell(load_scenario(RunOptions("v100=2", jobs=3)))
        assert worker.heard() is None
        worker.process.join()
        assert worker.process.exitcode == -signal.SIGINT
        assert capfd.readouterr().err == ""
    finally:
        worker.stop()


LOUD = """
print("loading")
from gavelx.policies import Maximize, NormalizedThroughput, Policy, Worst, load_policy

class Mine(Policy):
    def allocate(self, snapshot):
        print("asked")
        return load_policy("fifo").allocate(snapshot)

class Term(NormalizedThroughput):
    def linear(self, view):
        print("built")
        return super().linear(view)

mine, term = Mine(), Maximize(Worst(Term()))
"""


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_what_a_policy_prints_is_not_among_the_figures(tmp_path: Path, workers: int) -> None:
    (tmp_path / "loud.py").write_text(LOUD)
    words = ["--policies", "loud:mine,loud:term", "--cluster", "v100=2", "--jobs", "2", "--json", "-"]
    command = [sys.executable, "-m", "gavelx", "compare", *words, "--workers", str(workers)]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert len(json.loads(ran.stdout)["runs"]) == 2
    assert {"loading", "asked", "built"} <= set(ran.stderr.split())


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="no word of other processes")
def test_workers_end_with_the_command_that_was_killed(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import os, time\nfrom gavelx.policies import Policy\n\n"
        "class Slow(Policy):\n    def allocate(self, snapshot):\n"
        "        open(f'asked-{os.getppid()}', 'w').close()\n        time.sleep(10000)\n\n"
        "slow = Slow()\n"
    )
    words = [
        "--policies",
        "slow:slow,slow:slow",
        "--cluster",
        "v100=2",
        "--jobs",
        "2",
        "--workers",
        "2",
        "--time-budget",
        "10000",
    ]
    command = subprocess.Popen([sys.executable, "-m", "gavelx", "compare", *words], cwd=tmp_path)

    def workers() -> list[int]:
        return [int(path.name.removeprefix("asked-")) for path in tmp_path.glob("asked-*")]

    try:
        wait_until(lambda: len(workers()) == 2, "both policies are asked")
    finally:
        command.kill()
        command.wait()
    wait_until(lambda: not any(map(alive, workers())), "the workers are gone", workers)


def alive(process: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False
