"""``gavelx submit -- ./anything`` just runs: twenty kinds of commands, of which nothing is said but the words.

Real processes on real and emulated agents; the jobs take seconds where those of users take minutes.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments.deployed.local import LocalCluster, Machine
from gavelx.mechanism import DEFAULT
from gavelx.mechanism.lengths import Lengths
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.rpc import wire_pb2 as wire
from gavelx.service.agents.timing import Timing
from gavelx.service.state.replay import read_recorded
from gavelx.service.store.configuration import Configuration
from gavelx.simulator import simulate
from gavelx.throughputs import Setting, Throughputs
from tests.service.running import run

pytestmark = pytest.mark.slow

PATIENCE_S = 150.0
PACES = {"cpu": 10.0, "v100": 30.0}
"""Steps per second of the scripts that count them, on the real agents of each type."""
TIMING = Timing(heartbeat_s=0.25, valid_for_s=8.0, grace_s=1.0, measured_s=1.5, measured_again_s=3.0)
LOOP = """import os, sys, time
pace, n = float(os.environ["PACE"]), {steps}
began = time.monotonic()
for i in range(1, n + 1):
    time.sleep(max(0.0, began + i / pace - time.monotonic()))
    {say}
    sys.stdout.flush()
"""
COUNTING = {
    "steps.py": 'print(f"step {i}/{n}")',
    "bar.py": 'print(f"\\r{100 * i // n:3d}%|##| {i}/{n} [00:01<00:02, {pace:.2f}it/s]", end="")',
    "rates.py": 'print(f"loss {1 / i:.3f} {pace:.2f} it/s")',
    "slowly.py": 'print(f"{1 / pace:.4f} s/it")',
    "colours.py": 'print(f"\\x1b[32m[iter {i} of {n}]\\x1b[0m")',
    "logs.py": 'print({"loss": 0.5, "train_step": i})',
    "epochs.py": 'print(f"epoch {i}/{n}")',
}
"""Scripts that say how far they are, each in its own way."""
OTHERS = {
    "hello.sh": "#!/bin/sh\necho hello; sleep 1\n",
    "silent.sh": "#!/bin/sh\nsleep 2\n",
    "long.sh": "#!/bin/sh\nsleep 12\n",
    "fails.sh": "#!/bin/sh\nexit 3\n",
    "crashes.py": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n",
    "forks.sh": "#!/bin/sh\n(sleep 1; echo child) &\nwait\n",
    "leaves.py": "import subprocess\nsubprocess.Popen(['sleep', '300'], start_new_session=True)\n",
    "floods.py": "import sys\nfor _ in range(200): sys.stdout.write('9/9 step ' * 10_000)\n",
    "nonsense.py": "import os, time\nfor _ in range(20): os.write(1, os.urandom(3000)); time.sleep(0.1)\n",
    "lies.py": (
        "import time\nfor i in range(20):\n"
        "    print(f'step {99999 * i}/10\\nstep 10/10\\n1e400 it/s\\nstep nan/inf', flush=True); time.sleep(0.1)\n"
    ),
    "deaf.py": "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(3)\n",
    "torch_plain.py": "import torch\nfor i in range(3): print('epoch', i, float(torch.ones(3).sum()))\n",
    "with_library.py": (
        "import time, torch\nfrom gavelx.training import Training\n"
        "model = torch.nn.Linear(1, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "with Training(model=model, optimizer=optimizer, total_steps=40) as training:\n"
        "    for _ in training.steps():\n"
        "        model(torch.ones(1, 1)).sum().backward(); optimizer.step(); training.done(); time.sleep(0.02)\n"
    ),
}
MAY_FAIL = {"fails.sh", "crashes.py"}
"""On a real agent they do; an emulated one only sleeps."""


def configuration(round_s: float) -> Configuration:
    table = Throughputs({Setting("other", "v100"): 1.0})
    return Configuration(table, Prices(dict.fromkeys(("cpu", "v100", "k80"), 1.0)), DEFAULT.with_round(round_s))


def commands(folder: Path) -> dict[str, wire.JobSpec]:
    """The scripts, written into this folder, and their submissions by name."""
    scripts = {name: LOOP.format(steps=60, say=say) for name, say in COUNTING.items()} | OTHERS
    specs = {}
    for name, text in scripts.items():
        path = folder / name
        path.write_text(text)
        path.chmod(0o755)
        words = [sys.executable, str(path)] if name.endswith(".py") else [str(path)]
        specs[name] = wire.JobSpec(command=words)
    return specs


async def explained(cluster: LocalCluster, job_id: int) -> dict[str, Any]:
    reply = await cluster.call("Explain", wire.ExplainRequest(version=1, job_id=job_id))
    return dict(json.loads(reply.explanation_json))


def test_twenty_kinds_of_commands(tmp_path: Path) -> None:
    specs = commands(tmp_path)
    assert len(specs) == 20

    async def main() -> None:
        async with LocalCluster(tmp_path / "cluster", configuration(4.0), timing=TIMING) as cluster:
            await cluster.join(
                Machine("one", "cpu", 3, environment={"PACE": str(PACES["cpu"])}),
                Machine("two", "v100", 2, environment={"PACE": str(PACES["v100"])}),
                Machine("three", "k80", 2, emulate=True),
            )
            ids = await cluster.submit(*specs.values())
            name_of = dict(zip(ids, specs, strict=True))
            for job in await cluster.jobs(ids):
                assert job.job_type == name_of[job.job_id], "its type is its name"
                assert job.total_steps == 0.0
                assert job.reason or job.state != "waiting", "it says why it waits"
            told = [await explained(cluster, job_id) for job_id in ids]
            assert all("name of its command" in one["type_is"] for one in told)
            jobs = await cluster.until_ended(PATIENCE_S, at_least=20)
            for job in jobs:
                expected = ("complete", "failed") if name_of[job.job_id] in MAY_FAIL else ("complete",)
                assert job.state in expected, (name_of[job.job_id], job.state, job.reason)
            state = cluster._service.scheduler.state
            check_speeds(state)
            check_lengths(state)
            complete.append(state.ended["complete"])

    complete = list[int]()
    run(main())
    check_replay(str(tmp_path / "cluster" / "log"), *complete)


def check_replay(log: str, complete: int) -> None:
    """The recorded commands, as long as they were, simulated by a scheduler that does not know that either."""
    recorded = read_recorded(log)
    assert recorded.untold
    assert len(recorded.jobs) == len(recorded.completion_s) == complete
    rules, table = recorded.configuration.rules, recorded.throughputs
    policy = load_policy("max_min_fairness")
    result = simulate(policy, recorded.jobs, recorded.cluster, table, rules=rules, lengths="believed")
    assert not result.unfinished
    T_JA = table.matrix(result.jobs, recorded.cluster.accelerators)
    steps_J = np.array([job.total_steps for job in result.jobs])
    longest_s = float((steps_J / np.nanmax(T_JA, axis=1)).max())
    one_by_one_s = float((steps_J / np.nanmin(T_JA, axis=1) + 2.0 * rules.round_s).sum())
    assert longest_s <= result.end_s <= one_by_one_s + max(job.arrival_s for job in result.jobs)


def check_speeds(state: Any) -> None:
    """Measured ones are within 15 % of the truth, and the ranges of most of the others hold it."""
    of_name = {known.spec["type"]: known.job.job_type for known in state.jobs.values()}
    measured, held = dict[tuple[str, str], float](), list[bool]()
    for name in COUNTING:
        found = [way for way in state.online if way.job_type == of_name[name] and way.accelerator in PACES]
        for way in found:
            measured[name, way.accelerator] = state.speeds[way] / PACES[way.accelerator]
        for accelerator in PACES.keys() - {way.accelerator for way in found} if found else ():
            lower, upper = state.untold.ranges[Setting(of_name[name], accelerator)]
            held.append(lower <= PACES[accelerator] <= upper)
    assert len(measured) >= 4, measured
    assert all(abs(ratio - 1.0) <= 0.15 for ratio in measured.values()), measured
    assert sum(held) >= 0.8 * len(held)


def check_lengths(state: Any) -> None:
    """What is believed of a job by the others of its owner holds how long it really was, for most."""
    ended, held = [known for known in state.jobs.values() if known.ended == "complete"], list[bool]()
    for known in ended:
        lengths = Lengths()
        for other in ended:
            if other is not known:
                lengths.ended(other.job, other.worked_s)
        left = lengths.left([known.job], np.zeros(1), np.zeros(1))
        held.append(bool(left.lower[0] <= known.worked_s <= left.upper[0]))
    assert sum(held) >= 0.8 * len(held), held


def test_commands_that_are_preempted_in_every_round_still_end(tmp_path: Path) -> None:
    """Three scripts that save nothing, and one device: none ends within its turn."""
    specs = commands(tmp_path)
    names = ("deaf.py", "steps.py", "silent.sh")

    async def main() -> None:
        async with LocalCluster(tmp_path / "cluster", configuration(1.0), timing=TIMING) as cluster:
            await cluster.join(Machine("one", "cpu", environment={"PACE": "12"}))
            await cluster.submit(*(specs[name] for name in names))
            jobs = await cluster.until_ended(PATIENCE_S, at_least=3)
            assert [job.state for job in jobs] == ["complete"] * 3
            assert sum(job.restarts for job in jobs) >= 2, "they were preempted"

    run(main())
