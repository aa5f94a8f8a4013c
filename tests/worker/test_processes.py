"""Jobs as processes: what they are given, how they end, and that nothing of them stays."""

import asyncio
import json
import math
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gavelx.rpc import wire_pb2 as wire
from gavelx.rpc.ports import free_port
from gavelx.worker.devices import Devices
from gavelx.worker.runner import ProcessRunner
from gavelx.worker.running import CannotRunError
from gavelx.worker.shim import start_ticks
from gavelx.worker.state import Folder
from tests.waiting import until
from tests.worker.machines import Machine, machine
from tests.worker.scheduler import Scheduler

pytestmark = pytest.mark.slow

SAVE_ON_TERM = """
import json, os, signal, sys, time
def report(steps, saved, complete=False):
    part = os.environ["GAVELX_REPORT_FILE"] + "." + os.environ["RANK"]  # each rank its own: both report
    with open(part, "w") as file:
        json.dump({"lease_id": int(os.environ["GAVELX_LEASE_ID"]), "steps_done": steps, "saved_steps": saved,
                   "total_steps": None, "complete": complete, "loss": None}, file)
    os.replace(part, os.environ["GAVELX_REPORT_FILE"])
def leave(*_):
    report(30, 30)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
report(25, 20)
print("ready", flush=True)
"""
"""A job that did 25 steps, has 20 of them in a checkpoint, and saves 30 when it is asked to stop."""
TELLS = """
import signal, sys, time
def leave(*_):
    print(time.monotonic(), flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
print("ready", flush=True)
"""
"""A job that says when it was asked to stop."""
STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True); "
FOREVER = "\nwhile True: time.sleep(60)"


def play(tmp_path: Path, scene: Callable[[Machine], Awaitable[None]], **scheduler: float) -> None:
    """One scene with a scheduler and an agent that know each other."""

    async def run() -> None:
        async with Scheduler(**scheduler) as one, machine(tmp_path, one) as m:
            await m.scheduler.connected()
            await scene(m)

    asyncio.run(run())


async def printed(m: Machine, lease_id: int, text: str = "ready", rank: int = 0) -> None:
    await until(lambda: text in m.output(lease_id, rank), f"lease {lease_id} prints {text!r}")


def test_a_job_that_ends_by_itself_is_complete(tmp_path: Path) -> None:
    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, "print('hello')", until_step=20.0)
        ended = await m.scheduler.end_of(1)
        assert (ended.complete, ended.failed, ended.steps_done, ended.exit_code) == (True, False, 20.0, 0)
        assert ended.job_id == 101
        assert ended.held_s > 0.0
        assert m.output(1) == "hello\n"

    play(tmp_path, scene)


def test_a_job_that_fails_says_why(tmp_path: Path) -> None:
    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, "import sys; print('no data'); sys.exit(3)", saved_steps=7.0)
        m.scheduler.launch_python(2, "import os; os.kill(os.getpid(), 11)")
        ended = await m.scheduler.end_of(1)
        assert (ended.failed, ended.complete, ended.exit_code, ended.steps_done) == (True, False, 3, 7.0)
        assert "exit code 3: no data" in ended.reason
        ended = await m.scheduler.end_of(2)
        assert (ended.failed, ended.exit_code) == (True, -signal.SIGSEGV)
        assert "SIGSEGV" in ended.reason

    play(tmp_path, scene)


def test_a_job_that_is_stopped_keeps_what_it_saved(tmp_path: Path) -> None:
    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, SAVE_ON_TERM + FOREVER, saved_steps=10.0)
        await printed(m, 1)
        progress = [(25.0, 20.0)]
        await until(lambda: m.scheduler.progress() == progress, "a heartbeat knows how far it is")
        m.scheduler.stop_lease(1)
        ended = await m.scheduler.end_of(1)
        assert (ended.failed, ended.complete, ended.steps_done) == (False, False, 30.0)
        assert "make room" in ended.reason

    play(tmp_path, scene)


def test_a_job_that_leaves_in_time_by_itself_is_not_complete(tmp_path: Path) -> None:
    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, SAVE_ON_TERM)
        ended = await m.scheduler.end_of(1)
        assert (ended.failed, ended.complete, ended.steps_done) == (False, False, 20.0)

    play(tmp_path, scene)


REPORT = """
import json, os, shutil, signal, subprocess, sys, time
lease = os.path.dirname(os.environ["GAVELX_LEASE_FILE"])
def report(steps, saved):
    said = {"lease_id": int(os.environ["GAVELX_LEASE_ID"]), "steps_done": steps, "saved_steps": saved}
    with open(os.environ["GAVELX_REPORT_FILE"], "w") as file:
        json.dump(said, file)
def again():
    while True:  # the agent writes that file, too
        yield time.sleep(0.001)
def rewrite(name, **values):
    path = os.path.join(lease, name)
    old = json.load(open(path)) if os.path.exists(path) else {}
    with open(path + ".new", "w") as file:
        json.dump(old | values, file)
    os.replace(path + ".new", path)
"""
KEEPER = "os.kill(os.getppid(), 9); time.sleep(60)"


@pytest.mark.parametrize(
    "code",
    [
        "report(5, 5)",
        "report(50, 5)",
        "report(3, 1)",
        "report('x', None)",
        "report(10**400, 5)",
        "json.dump({'lease_id': []}, open(os.environ['GAVELX_REPORT_FILE'], 'w')); sys.exit(3)",
        "shutil.rmtree(lease)",
        "shutil.rmtree(os.path.dirname(lease))",
        "shutil.rmtree(lease); time.sleep(60)",
        "signal.signal(signal.SIGTERM, signal.SIG_IGN); shutil.rmtree(lease); time.sleep(60)",
        "time.sleep(0.5); shutil.rmtree(lease)",
        "subprocess.run('rm -f *', shell=True, cwd=lease)",
        "time.sleep(0.5); subprocess.run('rm -f *', shell=True, cwd=lease)",
        "subprocess.run('rm -f shim.json exit.json*', shell=True, cwd=lease); " + KEEPER,
        "os.remove(lease + '/lease.json'); os.remove(lease + '/exit.json.part')",
        "for _ in again(): subprocess.run(['rm', '-f', lease + '/lease.json'])",
        "os.kill(os.getppid(), signal.SIGTERM); time.sleep(60)",
        "for _ in again(): rewrite('lease.json', stop=True)",
        "for _ in again(): rewrite('lease.json', until_monotonic_s=0.0)",
        "rewrite('exit.json', stop=True); " + KEEPER,
        "rewrite('exit.json', asked=[], killed=0, failed=7, ended_s='x', exit_codes={'0': None}); " + KEEPER,
        "rewrite('exit.json', asked='x', killed=False, failed=None, ended_s=0.0, exit_codes={'0': 0}); " + KEEPER,
        "rewrite('exit.json', asked='x', killed=False, failed=None, ended_s=1e99, exit_codes={}); " + KEEPER,
        "rewrite('exit.json', asked='x', killed=False, failed=None, ended_s=0.0, exit_codes={'0': 0}); "
        "subprocess.Popen(['sleep', '60'], start_new_session=True); " + KEEPER,
        "rewrite('exit.json', asked='', killed=False, failed={'rank': 0, 'reason': '\\ud800', 'exit_code': 1}, "
        "ended_s=0.0, exit_codes={}); " + KEEPER,
        "rewrite('exit.json', asked='', killed=False, failed={'rank': 0, 'reason': 'x', 'exit_code': 1 << 40}, "
        "ended_s=0.0, exit_codes={}); " + KEEPER,
        KEEPER,
    ],
)
def test_a_job_that_ends_without_a_step_forward_has_failed_and_the_agent_takes_others(
    tmp_path: Path, code: str
) -> None:
    """However it does it; else it would be launched again and again."""

    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, REPORT + code, saved_steps=5.0)
        ended = await m.scheduler.end_of(1)
        assert (ended.failed, ended.complete, ended.steps_done) == (True, False, 5.0), ended
        assert m.runner.ready, "it is no fault of the server's"
        assert not m.pids(1)
        m.scheduler.launch_python(2, "print(2)")
        assert (await m.scheduler.end_of(2)).complete

    play(tmp_path, scene, grace_s=0.5)


def test_a_job_that_takes_its_folder_away_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Its keeper waits out the grace time; the agent goes on."""

    async def scene(m: Machine) -> None:
        code = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        code += "while os.path.exists(lease): shutil.rmtree(lease, ignore_errors=True)\n"  # the agent writes there
        code += "time.sleep(300)"
        m.scheduler.launch_python(1, REPORT + code)
        await until(lambda: 1 in m.runner.standing() and not m.lease(1).exists(), "its folder is gone")
        m.scheduler.launch_python(2, "print(2)")
        assert (await m.scheduler.end_of(2)).complete

    play(tmp_path, scene, valid_for_s=120.0, grace_s=60.0)


def test_a_job_that_ignores_sigterm_is_killed_after_the_grace_time(tmp_path: Path) -> None:
    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, STUBBORN + FOREVER)
        await printed(m, 1)
        m.scheduler.stop_lease(1)
        ended = await m.scheduler.end_of(1)
        assert (ended.failed, ended.exit_code) == (False, -signal.SIGKILL)
        assert "killed" in ended.reason
        assert not m.pids(1)

    play(tmp_path, scene, grace_s=0.3)


def test_a_job_that_is_complete_and_does_not_exit_is_killed(tmp_path: Path) -> None:
    async def scene(m: Machine) -> None:
        code = SAVE_ON_TERM + "signal.signal(signal.SIGTERM, signal.SIG_IGN); report(1000, 1000, True)" + FOREVER
        m.scheduler.launch_python(1, code)
        ended = await m.scheduler.end_of(1)
        assert (ended.failed, ended.complete, ended.steps_done) == (False, True, 1000.0)
        assert not m.pids(1)

    play(tmp_path, scene, grace_s=0.3)


DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("daemon", flush=True)
        while True: time.sleep(60)
    os._exit(0)
"""


@pytest.mark.parametrize("cgroups", [True, False])
def test_a_grandchild_that_called_setsid_is_killed(tmp_path: Path, cgroups: bool) -> None:
    """By the cgroup where one can be made, and by its parents where not."""

    async def scene(m: Machine) -> None:
        if not cgroups:
            m.runner._cgroups = None
        elif m.runner._cgroups is None:
            pytest.skip("no cgroup can be made here")
        m.scheduler.launch_python(1, DAEMON + FOREVER)
        await printed(m, 1, "daemon")
        assert len(m.pids(1)) >= 2
        m.scheduler.stop_lease(1)
        await m.scheduler.end_of(1)
        assert not m.pids(1)
        m.scheduler.launch_python(2, DAEMON + "time.sleep(0.1)")  # and where the job itself ends
        assert (await m.scheduler.end_of(2)).complete
        assert not m.pids(2)
        cgroup = json.loads((m.lease(2) / "launch.json").read_text())["cgroup"]
        assert bool(cgroup) is cgroups
        assert not (cgroup and Path(cgroup).exists())

    play(tmp_path, scene, grace_s=0.5)


def test_the_lease_lapses_without_word_from_the_scheduler(tmp_path: Path) -> None:
    """The job is asked to stop a grace time before, and has all of that to save what it has."""

    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, TELLS + FOREVER)
        await printed(m, 1)
        await m.lapse(1, in_s=m.scheduler.grace_s + 0.3)
        ended = await m.scheduler.end_of(1)
        assert (ended.failed, ended.exit_code) == (False, 0)
        assert "lapsed" in ended.reason
        asked_s = float(m.output(1).split()[-1])
        assert asked_s >= m.lease_file(1)["until_monotonic_s"] - m.scheduler.grace_s

    play(tmp_path, scene)


def test_a_job_that_does_not_stop_is_killed_when_the_lease_lapses(tmp_path: Path) -> None:
    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, STUBBORN + FOREVER)
        await printed(m, 1)
        await m.lapse(1, in_s=0.5)
        await until(lambda: not m.pids(1), "the stubborn one is dead")
        assert time.monotonic() >= m.lease_file(1)["until_monotonic_s"]
        ended = await m.scheduler.end_of(1)
        assert (ended.failed, ended.exit_code) == (False, -signal.SIGKILL)
        assert "lapsed" in ended.reason  # its keeper killed it, or the keeper's guard, or the agent

    play(tmp_path, scene)


def test_leases_are_renewed_on_our_own_clock(tmp_path: Path) -> None:
    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, SAVE_ON_TERM + FOREVER)
        await printed(m, 1)
        first_s = m.lease_file(1)["until_monotonic_s"]
        await until(lambda: m.lease_file(1)["until_monotonic_s"] > first_s + 0.2, "it is renewed")
        sent = {beat.sent_s + m.scheduler.valid_for_s for beat in m.scheduler.beats}
        assert m.lease_file(1)["until_monotonic_s"] in sent

    play(tmp_path, scene)


def test_no_shell_sees_an_argument(tmp_path: Path) -> None:
    odd = [
        "; touch gotcha",
        "$(touch gotcha)",
        "`id`",
        "a b",
        "",
        "*",
        "'\"\\",
        "zwölf\n",
        "--",
        "-c",
        "%s",
        "&& exit",
    ]

    async def scene(m: Machine) -> None:
        code = "import json, sys; print(json.dumps(sys.argv[1:]))"
        m.scheduler.launch_python(1, code, *odd)
        await m.scheduler.end_of(1)
        assert json.loads(m.output(1)) == odd
        assert list((tmp_path / "shared" / "jobs" / "101").iterdir()) == []

    play(tmp_path, scene)


@pytest.mark.parametrize("folder", ["../x", "/etc", "a/b", "-x", "A", "x" * 65])
def test_a_folder_outside_the_shared_one_is_refused(tmp_path: Path, folder: str) -> None:
    devices = Devices("cpu", ("",))
    runner = ProcessRunner(Folder(tmp_path), tmp_path / "shared", devices)
    launch = wire.Launch(lease_id=1, job_id=1, command=["true"], slots=[0], processes=1, folder=folder)
    with pytest.raises(CannotRunError, match="its folder is"):
        runner.start(launch, 1e9)
    runner.close()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("launch.json", {}),
        ("launch.json", {"job_id": [], "job_folder": "/x"}),
        ("launch.json", {"job_id": 3, "job_folder": 7}),
        ("launch.json", {"job_id": math.inf, "job_folder": "/x"}),
        ("launch.json", {"job_id": 3, "job_folder": "/x", "until_monotonic_s": "soon", "size": {}}),
        ("launch.json", {"job_id": 3, "job_folder": "/x", "until_monotonic_s": 1.0, "size": {"devices": 1}}),
        ("ended.json", {}),
        ("ended.json", {"report_id": "r", "lease_id": "x"}),
        ("ended.json", {"report_id": "r", "no such field": 1}),
    ],
)
def test_files_that_a_job_wrote_over_stop_no_agent(tmp_path: Path, name: str, content: Any) -> None:
    folder = Folder(tmp_path)
    (folder.create(3).path / name).write_text(json.dumps(content))
    runner = ProcessRunner(folder, tmp_path / "shared", Devices("cpu", ("",)))
    assert not list(folder.all())
    runner.close()


def test_what_a_job_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAVELX_TOKEN", "secret")
    monkeypatch.setenv("SLURM_JOB_ID", "7")

    async def scene(m: Machine) -> None:
        code = "import json, os; print(json.dumps([dict(os.environ), os.getcwd(), os.getpgid(0) == os.getpid()]))"
        mine = {"SEED": "1", "RANK": "99", "GAVELX_LEASE_FILE": "/etc/passwd"}
        m.scheduler.launch_python(1, code, environment=mine, slots=[1, 2], until_step=1234567.0)
        await m.scheduler.end_of(1)
        given, folder, leads = json.loads(m.output(1))
        lease, job = m.lease(1), tmp_path / "shared" / "jobs" / "101"
        assert leads and folder == str(job) == given["GAVELX_JOB_DIR"]
        assert given["SEED"] == "1" and "GAVELX_TOKEN" not in given and "SLURM_JOB_ID" not in given
        assert given["GAVELX_LEASE_FILE"] == str(lease / "lease.json")
        assert given["GAVELX_REPORT_FILE"] == str(lease / "report.json")
        assert (given["GAVELX_JOB_ID"], given["GAVELX_LEASE_ID"], given["GAVELX_TOTAL_STEPS"]) == (
            *("101", "1"),
            "1234567",
        )
        assert (given["RANK"], given["WORLD_SIZE"], given["LOCAL_RANK"], given["LOCAL_WORLD_SIZE"]) == (
            *("0", "1"),
            *("0", "1"),
        )
        assert given["PATH"] and lease.stat().st_mode & 0o777 == job.stat().st_mode & 0o777 == 0o700

    play(tmp_path, scene)


def test_two_ranks_on_one_server_meet(tmp_path: Path) -> None:
    """With the rendezvous data of their lease, over TCP, as gloo would."""
    meet = """
import os, socket, time
rank, address = int(os.environ["RANK"]), (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 2:
    server = socket.create_server(address)
    peer, _ = server.accept()
    print("heard", peer.recv(9).decode())
else:
    while True:
        try:
            peer = socket.create_connection(address)
            break
        except ConnectionRefusedError:
            time.sleep(0.01)
    peer.sendall(f"rank {rank}/{os.environ['WORLD_SIZE']}".encode())
print("local", os.environ["LOCAL_RANK"], os.environ["LOCAL_WORLD_SIZE"])
"""

    async def scene(m: Machine) -> None:
        gang = {"slots": [0, 1], "world_size": 4, "first_rank": 2, "processes": 2, "master_port": free_port()}
        m.scheduler.launch_python(1, meet, **gang)
        assert (await m.scheduler.end_of(1)).complete
        assert m.output(1, 2) == "heard rank 3/4\nlocal 0 2\n"
        assert m.output(1, 3) == "local 1 2\n"

    play(tmp_path, scene)


def test_a_report_that_never_ends_stops_nobody(tmp_path: Path) -> None:
    """A job's files are the job's: a pipe in place of its report, or nonsense in it, harms itself alone."""

    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, "import os; os.mkfifo(os.environ['GAVELX_REPORT_FILE'])", until_step=9.0)
        assert (await m.scheduler.end_of(1)).steps_done == 9.0
        nonsense = '{"lease_id": 2, "steps_done": NaN, "saved_steps": -1e400, "complete": "yes"}'
        code = f"import os, sys; open(os.environ['GAVELX_REPORT_FILE'], 'w').write({nonsense!r}); sys.exit(1)"
        m.scheduler.launch_python(2, code, saved_steps=4.0)
        ended = await m.scheduler.end_of(2)
        assert (ended.failed, ended.steps_done) == (True, 4.0)

    play(tmp_path, scene)


@pytest.mark.parametrize(
    "odd",
    [
        "os.mkdir(path)",
        "os.mkfifo(path)",
        "os.mkfifo(path); os.open(path, os.O_RDWR)",
        "os.symlink('/dev/zero', path)",
    ],
)
def test_whatever_a_job_puts_in_place_of_its_files_stops_no_agent(tmp_path: Path, odd: str) -> None:
    """A folder, a pipe without a writer, or with one that says nothing, a file that does not end."""
    go = tmp_path / "go"

    async def scene(m: Machine) -> None:
        code = f"""
import os, sys, time
report = os.environ["GAVELX_REPORT_FILE"]
for path in (report, os.path.join(os.path.dirname(report), "out.0.1000000.log")):
    {odd}
print("ready", flush=True)
while not os.path.exists({str(go)!r}):
    time.sleep(0.01)
sys.exit(7)
"""
        m.scheduler.launch_python(1, code)
        await printed(m, 1)
        opened = open_files()
        for _ in range(50):
            m.runner.poll()
            m.runner.reports()
        assert open_files() < opened + 50
        go.touch()
        ended = await m.scheduler.end_of(1)
        assert (ended.failed, ended.exit_code) == (True, 7)
        m.scheduler.send(send_log={"request_id": "r", "job_id": 101})
        await until(lambda: m.scheduler.log_parts and m.scheduler.log_parts[-1].last, "the log is sent")
        assert b"".join(part.chunk.text for part in m.scheduler.log_parts) == b"ready\n"

    play(tmp_path, scene)


def test_a_lease_whose_shim_file_is_not_the_shims_is_not_measured(tmp_path: Path) -> None:
    """Others are: a job that writes over it ends no thread that measures all."""
    code = """
import os
with open(os.path.join(os.path.dirname(os.environ["GAVELX_LEASE_FILE"]), "shim.json"), "w") as file:
    file.write('{"pid": "x"}')
print("ready", flush=True)
"""

    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, code + "import time" + FOREVER)
        await printed(m, 1)
        assert m.runner.measured() == {}

    play(tmp_path, scene)


def open_files() -> int:
    """Files that this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


def test_two_ranks_train_over_gloo(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    code = """
import torch, torch.distributed as dist
dist.init_process_group("gloo", init_method="env://")
total = torch.tensor([float(dist.get_rank() + 1)])
dist.all_reduce(total)
print("sum", total.item(), flush=True)
dist.barrier()
dist.destroy_process_group()
"""

    async def scene(m: Machine) -> None:
        gang = {"slots": [0, 1], "world_size": 2, "processes": 2, "master_port": free_port()}
        m.scheduler.launch(1, sys.executable, "-c", code, **gang)
        ended = await m.scheduler.end_of(1)
        assert ended.complete, ended.reason
        assert [m.output(1, rank).splitlines()[-1] for rank in (0, 1)] == ["sum 3.0", "sum 3.0"]

    play(tmp_path, scene)


def test_one_rank_that_fails_stops_the_others(tmp_path: Path) -> None:
    code = SAVE_ON_TERM + "if os.environ['RANK'] == '1': sys.exit(5)" + FOREVER

    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, code, slots=[0, 1], world_size=2, processes=2)
        ended = await m.scheduler.end_of(1)
        assert (ended.failed, ended.exit_code) == (True, 5)
        assert "rank 1" in ended.reason
        assert not m.pids(1)

    play(tmp_path, scene)


def test_of_ranks_that_failed_the_first_is_named_however_late_it_is_seen(tmp_path: Path) -> None:
    """Its peers fail for lack of it, and say so; why it failed itself is what its owner needs to know."""
    code = """
import os, sys, time
print("ready", os.getpid(), flush=True)
while not os.path.exists("go" + os.environ["RANK"]): time.sleep(0.01)
sys.exit(("connection closed by peer", "out of memory")[int(os.environ["RANK"])])
"""

    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, code, slots=[0, 1], world_size=2, processes=2)
        await printed(m, 1)
        await printed(m, 1, rank=1)
        shim = json.loads((m.lease(1) / "shim.json").read_text())["pid"]
        ranks = [int(m.output(1, rank).split()[1]) for rank in (0, 1)]
        os.kill(shim, signal.SIGSTOP)  # it has its hands full
        try:
            for rank in (1, 0):
                (tmp_path / "shared" / "jobs" / "101" / f"go{rank}").touch()
                over = lambda pid=ranks[rank]: start_ticks(pid) is None  # noqa: E731  (not as long as it ends)
                await until(over, f"rank {rank} has ended")
        finally:
            os.kill(shim, signal.SIGCONT)
        reason = (await m.scheduler.end_of(1)).reason
        assert reason == "its process of rank 1 ended with exit code 1: out of memory"

    play(tmp_path, scene)


def script(folder: Path, name: str, text: str, mode: int) -> str:
    path = folder / name
    path.write_text(text)
    path.chmod(mode)
    return str(path)


def test_commands_that_cannot_be_started_say_why(tmp_path: Path) -> None:
    cases = [
        ("no-such-command", "no command 'no-such-command' in PATH="),
        ("./no-such-file", "no command './no-such-file' in"),
        (script(tmp_path, "lost", "#!/no/such/python\n", 0o755), "'/no/such/python', which is missing"),
        (script(tmp_path, "closed", "#!/bin/sh\n", 0o600), "permission denied"),
        (script(tmp_path, "text", "hello\n", 0o755), "neither a program nor a script"),
        (str(tmp_path), "is a folder"),
    ]

    async def scene(m: Machine) -> None:
        for lease_id, (command, _) in enumerate(cases, 1):
            m.scheduler.launch(lease_id, command)
        for lease_id, (command, why) in enumerate(cases, 1):
            ended = await m.scheduler.end_of(lease_id)
            assert ended.failed, command
            assert ended.exit_code in (126, 127), command
            assert why in ended.reason

    play(tmp_path, scene)


def test_launches_that_make_no_sense_are_refused_or_fail(tmp_path: Path) -> None:
    async def scene(m: Machine) -> None:
        m.scheduler.launch(1)
        m.scheduler.launch(2, "true", slots=[4])
        m.scheduler.launch(3, "true", processes=0)
        await until(lambda: len(m.scheduler.refused) == 3, "three are refused")
        assert [refused.lease_id for refused in m.scheduler.refused] == [1, 2, 3]
        assert m.scheduler.refused[0].job_id == 101
        m.scheduler.launch(4, "true", environment={"A": "a\0b"})
        assert (await m.scheduler.end_of(4)).failed
        m.scheduler.launch(5, "true\0")
        assert (await m.scheduler.end_of(5)).failed

    play(tmp_path, scene)


def test_logs_are_kept_to_their_limit(tmp_path: Path) -> None:
    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, "for n in range(100000): print(f'line {n:06}')")
        await m.scheduler.end_of(1)
        files = list(m.lease(1).glob("out.*.log"))
        assert sum(path.stat().st_size for path in files) <= m.scheduler.log_bytes
        assert m.output(1).startswith("line 000000\n")
        exit = json.loads((m.lease(1) / "exit.json").read_text())
        assert exit["log_bytes"] == 1_200_000
        assert exit["log_bytes_dropped"] == 1_200_000 - sum(path.stat().st_size for path in files)
        m.scheduler.send(send_log={"request_id": "r", "job_id": 101})
        await until(lambda: m.scheduler.log_parts and m.scheduler.log_parts[-1].last, "the log is sent")
        chunks = [part.chunk for part in m.scheduler.log_parts]
        assert b"".join(chunk.text for chunk in chunks).endswith(b"line 099999\n")
        assert sum(chunk.dropped for chunk in chunks) == exit["log_bytes_dropped"]

    play(tmp_path, scene)


def test_a_log_is_followed(tmp_path: Path) -> None:
    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, "import time; print('one', flush=True)" + FOREVER)
        await printed(m, 1, "one")
        m.scheduler.send(send_log={"request_id": "r", "job_id": 101, "offset": 1, "follow": True})
        await until(lambda: m.scheduler.log_parts, "a part comes")
        assert m.scheduler.log_parts[0].chunk.text == b"ne\n"
        assert m.scheduler.log_parts[0].chunk.server == "server"
        m.scheduler.stop_lease(1)
        m.scheduler.launch_python(2, "print('two')", job_id=101)
        await until(lambda: len(m.scheduler.log_parts) == 2, "the next lease's output comes")
        assert (m.scheduler.log_parts[1].chunk.text, m.scheduler.log_parts[1].chunk.lease_id) == (b"two\n", 2)
        m.scheduler.send(send_log={"request_id": "r", "end": True})
        await until(lambda: not m.agent._tails, "it ends")

    play(tmp_path, scene, grace_s=0.5)


def test_the_shim_is_small_and_needs_nothing_but_python(tmp_path: Path) -> None:
    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, SAVE_ON_TERM + FOREVER)
        await printed(m, 1)
        shim = json.loads((m.lease(1) / "shim.json").read_text())
        maps = Path(f"/proc/{shim['pid']}/maps").read_text()
        assert "numpy" not in maps
        assert "grpc" not in maps
        assert (m.lease(1) / "shim.log").read_bytes() == b""

    play(tmp_path, scene)


def test_a_process_that_takes_long_to_die_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a driver that gives a device back: it has no environment any more by which it would be found."""

    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, STUBBORN + FOREVER)
        await printed(m, 1)
        running = m.runner._running[1]
        with monkeypatch.context() as dying:
            dying.setattr("gavelx.worker.runner.kill", lambda pid: None)
            dying.setattr("gavelx.worker.runner.kill_cgroup", lambda cgroup: True)
            assert not m.runner._nothing_left(running)
            dying.setattr("gavelx.worker.runner.marked", lambda mark: [])
            assert not m.runner._nothing_left(running)
        await until(lambda: m.runner._nothing_left(running), "it is dead")

    play(tmp_path, scene)


def test_the_agent_ends_a_lease_whose_shim_is_stuck(tmp_path: Path) -> None:
    async def scene(m: Machine) -> None:
        m.scheduler.launch_python(1, STUBBORN + FOREVER)
        await printed(m, 1)
        shim = json.loads((m.lease(1) / "shim.json").read_text())["pid"]
        os.kill(shim, signal.SIGSTOP)
        try:
            await m.lapse(1, in_s=0.0)
            await until(lambda: not m.pids(1), "the job is killed when its lease has lapsed")
        finally:
            os.kill(shim, signal.SIGCONT)
        ended = await m.scheduler.end_of(1)
        assert not ended.failed
        assert "lapsed" in ended.reason

    play(tmp_path, scene)
