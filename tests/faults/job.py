"""A job that counts steps, badly behaved at times, and keeps a diary: ``job.py TOTAL STEP_S EVERY HABITS``.

The diary is the judge's only witness of what really ran. Every process of the job appends lines to it, each in one
write: ``[monotonic seconds, what, n, lease, rank, pid]``. Locks in the kernel tell at once, and exactly, whether a
process of another lease of this job still lives, and whether somebody else has our device.

Habits: ``deaf`` ignores SIGTERM, ``forks`` leaves a child that calls setsid and ignores SIGTERM as well, ``trips``
fails once halfway, ``lingers`` does not exit when complete, ``plain`` knows nothing of gavelx, ``doomed`` always
fails.
"""

import fcntl
import json
import os
import signal
import sys
import time

TOTAL, STEP_S, EVERY, HABITS = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4].split(",")
LEASE, RANK = int(os.environ["GAVELX_LEASE_ID"]), int(os.environ["RANK"])
ALIVE_S = 0.05
asked = False
diary = os.open("diary", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def note(what, n=0):
    line = json.dumps([time.monotonic(), what, n, LEASE, RANK, os.getpid()])
    os.write(diary, line.encode() + b"\n")


def replace(path, value):
    part = f"{path}.{os.getpid()}.part"
    with open(part, "w") as file:  # noqa: PTH123  (pathlib takes as long to load as the rest)
        json.dump(value, file)
    os.replace(part, path)  # noqa: PTH105


def checkpoint():
    try:
        with open("checkpoint") as file:  # noqa: PTH123
            return json.load(file)["steps"]
    except FileNotFoundError:
        return 0


def hold(path):
    """Hold a lock for as long as we live, or any child of ours; False: somebody else has it."""
    try:
        fcntl.flock(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def is_held(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def claim():
    """Say that we live and what we hold, and note who does so as well and should not."""
    ours = f"lease.{LEASE}."
    hold(f"{ours}{os.getpid()}")
    for name in os.listdir():  # noqa: PTH208
        if name.startswith("lease.") and not name.startswith(ours) and is_held(name):
            note("conflict", name)
    server = os.environ["GAVELX_LEASE_FILE"].split("/")[-4]
    device = os.environ["CUDA_VISIBLE_DEVICES"].split(",")[int(os.environ["LOCAL_RANK"])]
    if not hold(f"{os.environ['DEVICES']}/{server}.{device}.lock"):
        note("conflict", f"device {device} of {server}")


def hear(*_):
    global asked  # noqa: PLW0603
    asked = True


def report(done, saved, complete=False):
    if "plain" not in HABITS:
        said = {"lease_id": LEASE, "steps_done": done, "saved_steps": saved, "complete": complete}
        try:
            replace(os.environ["GAVELX_REPORT_FILE"], said)
        except OSError:
            note("unreported", done)  # a full disk


def save(done):
    replace("checkpoint", {"steps": done})
    note("saved", done)
    report(done, done, done >= TOTAL)


def lead():
    """Rank 0: count."""
    done = saved = checkpoint()
    note("start", done)
    report(done, saved)
    while done < TOTAL:
        if asked:
            save(done)
            return
        time.sleep(STEP_S)
        done += 1
        note("step", done)
        if "trips" in HABITS and done == TOTAL // 2 and not os.path.exists("tripped"):  # noqa: PTH110
            replace("tripped", True)
            sys.exit(3)
        if done % EVERY == 0 or done == TOTAL:
            save(done)
            saved = done
        else:
            report(done, saved)
    report(done, done, complete=True)


def follow():
    """Other ranks: be there until the job is done."""
    note("start")
    while not asked and checkpoint() < TOTAL:
        time.sleep(ALIVE_S)
        note("alive")


def stray():
    """A child that nobody is to forget."""
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        while True:
            note("alive")
            time.sleep(ALIVE_S)


if "plain" not in HABITS:
    signal.signal(signal.SIGTERM, signal.SIG_IGN if "deaf" in HABITS else hear)
claim()
if "doomed" in HABITS:
    note("start")
    sys.exit(4)
if "forks" in HABITS:
    stray()
lead() if RANK == 0 else follow()
note("end")
while "lingers" in HABITS and not asked:
    time.sleep(ALIVE_S)
    note("alive")
