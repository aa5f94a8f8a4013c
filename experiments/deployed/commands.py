"""Commands of users, as scripts: twenty kinds, and twenty whose output lies.

Those that count take a step ``PACE`` times a second, which each agent has in its environment, as far as the
machine lets them. Each writes into a file, by its own clock, when it took which step: that is the truth
(:func:`true_speed`).
"""

import sys
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from gavelx.rpc import wire_pb2 as wire

LOOP = """import os, sys, time
pace, n = float(os.environ["PACE"]), {steps}
began, clock = time.monotonic(), open(f"{{__file__}}.{{pace:g}}", "a")
for i in range(1, n + 1):
    time.sleep(max(0.0, began + i / pace - time.monotonic()))
    now = time.monotonic()
    rate = i / (now - began)
    print(i, now, file=clock, flush=True)
    {say}
    sys.stdout.flush()
"""
COUNTING = {
    "steps.py": 'print(f"step {i}/{n}")',
    "bar.py": 'print(f"\\r{100 * i // n:3d}%|##| {i}/{n} [00:01<00:02, {rate:.2f}it/s]", end="")',
    "rates.py": 'print(f"loss {1 / i:.3f} {rate:.2f} it/s")',
    "slowly.py": 'print(f"{1 / rate:.4f} s/it")',
    "colours.py": 'print(f"\\x1b[32m[iter {i} of {n}]\\x1b[0m")',
    "logs.py": 'print({"loss": 0.5, "train_step": i})',
    "epochs.py": 'print(f"epoch {i}/{n}")',
}
"""Scripts that say how far they are, each in its own way."""
OTHERS = {
    "hello.sh": "#!/bin/sh\necho hello; sleep 1\n",
    "silent.sh": "#!/bin/sh\nsleep 2\n",
    "long.sh": "#!/bin/sh\nsleep {long_s}\n",
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
LYING = """import os, time
for i in range(1, {lines} + 1):
    text = {say}
    os.write(1, (text if isinstance(text, bytes) else text.encode()) + b"\\n")
    time.sleep(0.2)
"""
LIES = {
    "beyond.py": 'f"step {9999999 + i}/10"',
    "huge.py": '"step 9999999"',
    "negative.py": '"-3.5 it/s, step -7"',
    "nan.py": '"nan it/s, step nan/inf"',
    "fast.py": '"999999999 it/s"',
    "infinite.py": '"1e400 it/s, 1e-400 s/it"',
    "countdown.py": 'f"step {1001 - i}/1000"',
    "totals.py": 'f"step {i}/{1000 * (i % 7 + 1)}"',
    "epochs.py": 'f"epoch {i + 5}/3"',
    "endless.py": 'f"step {10 ** i}"',
    "restarts.py": 'f"step {i % 3 * 1000}/3000"',
    "giant.py": '"step " + "9" * 200_000',
    "binary.py": "os.urandom(3000)",
    "done.py": '"step 10/10"',
    "zero.py": '"step 0/0, 0 s/it"',
    "contradicts.py": 'f"step {i}/5000 epoch {50 - i}/3, 1e9 it/s"',
    "unicode.py": '"step \u0661\u0662/\u0663\u0664 \uff53\uff54\uff45\uff50 5"',
    "escapes.py": '"\\x1b[2Jstep \\x1b[31m" + str(i) + "\\x1b[0m/20\\x1b]0;x"',
    "jumps.py": 'f"step {i if i < 5 else 10**9 + i}/{2 * 10**9}"',
    "percent.py": 'f"{i * 50}%|##| {i}/0 [00:00<?, ?it/s]"',
}
"""What lying scripts print, line by line."""


def twenty(long_s: float = 12.0, steps: int = 60) -> dict[str, str]:
    """Twenty kinds of scripts; the longest does nothing for ``long_s``."""
    counting = {name: LOOP.format(steps=steps, say=say) for name, say in COUNTING.items()}
    return counting | OTHERS | {"long.sh": OTHERS["long.sh"].format(long_s=long_s)}


def crowded(times: int = 1) -> dict[str, str]:
    """Three of them that save nothing, so many times as long."""
    return {
        "deaf.py": OTHERS["deaf.py"].replace("sleep(3)", f"sleep({3 * times})"),
        "steps.py": LOOP.format(steps=60 * times, say=COUNTING["steps.py"]),
        "silent.sh": OTHERS["silent.sh"].replace("sleep 2", f"sleep {2 * times}"),
    }


def liars(lines: int = 15) -> dict[str, str]:
    """Twenty scripts that say what is not so, five lines a second."""
    return {name: LYING.format(lines=lines, say=say) for name, say in LIES.items()}


def true_speed(script: Path, pace: float) -> float | None:
    """Steps/s of all runs of a script at this pace, by its own clock; None if it took no two steps."""
    clock, steps, seconds = Path(f"{script}.{pace:g}"), 0, 0.0
    lines = [line.split() for line in clock.read_text().splitlines()] if clock.exists() else []
    taken = [(int(words[0]), float(words[1])) for words in lines if len(words) == 2]
    for (before, before_s), (after, after_s) in pairwise(taken):
        if after == before + 1:  # else another run begins
            steps, seconds = steps + 1, seconds + after_s - before_s
    return steps / seconds if steps else None


def submissions(folder: Path, scripts: Mapping[str, str]) -> dict[str, wire.JobSpec]:
    """The scripts, written into this folder, and what is submitted of each: its words."""
    specs = {}
    for name, text in scripts.items():
        path = folder / name
        path.write_text(text)
        path.chmod(0o755)
        words = [sys.executable, str(path)] if name.endswith(".py") else [str(path)]
        specs[name] = wire.JobSpec(command=words)
    return specs
