"""A job that counts steps, badly behaved at times, and keeps a diary: ``job.py TOTAL STEP_S EVERY HABITS``.

The diary is the judge's only witness of what really ran. Every process of the job appends lines to it, each in one
write: ``[monotonic seconds, what, n, lease, rank, pid]``. Locks in the kernel tell at once, and exactly, whether a
process of another lease of this job still lives, and whether somebody else has our device.

Habits: ``deaf`` ignores SIGTERM, ``forks`` leaves a child that calls setsid and ignores SIGTERM as well, ``trips``
fails once halfway, ``lingers`` does not exit when complete, ``plain`` knows nothing of gavelx, ``doomed`` always
fails.

An elastic job changes its size as docs/training.md says. Its processes meet by files, named by the lease to which
they go over: a process that joins writes ``ready``; then rank 0 writes ``go`` with its step, and all write
``here``; then the new rank 0 writes ``met``. If one does not come, the others exit.
"""

import fcntl
import json
import os
import signal
import sys
import time

TOTAL, STEP_S, EVERY, HABITS = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]), sys.argv[4].split(",")
LEASE, RANK = int(os.environ["GAVELX_LEASE_ID"]), int(os.environ["RANK"])
ELASTIC = json.loads(os.environ.get("GAVELX_ELASTIC", "null"))
SIZE = ELASTIC["size"] if ELASTIC else None
LEFT, RESIZE_FAILED, MEET_S, PAUSE_S = 79, 80, 5.0, 0.2
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
        said |= {"generation": SIZE["generation"], "world_size": SIZE["world_size"]} if SIZE else {}
        try:
            replace(os.environ["GAVELX_REPORT_FILE"], said)
        except OSError:
            note("unreported", done)  # a full disk


def save(done):
    replace("checkpoint", {"steps": done})
    note("saved", done)
    report(done, done, done >= TOTAL)


def lead(done):
    """Rank 0: count on from here. Another one goes on from the step that is returned, if any is."""
    saved = checkpoint()
    report(done, saved)
    while done < TOTAL:
        if asked:
            save(done)
            return None
        if (coming := next_size()) is not None and all(is_there("ready", coming, n) for n in joiners(coming)):
            write("go", coming, "", done)
            go_over(coming, done)
            if RANK != 0:
                return done
            report(done, saved)
        time.sleep(STEP_S / (SIZE["world_size"] ** 0.8 if SIZE else 1.0))
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
    return None


def follow():
    """Other ranks: be there until the job is done. We lead from the step that is returned, if one is."""
    note("start")
    while not asked and checkpoint() < TOTAL:
        time.sleep(ALIVE_S)
        note("alive")
        coming = next_size()
        if coming is not None and is_there("go", coming):
            done = read("go", coming)
            go_over(coming, done)
            if RANK == 0:
                return done
    return None


def work(done):
    """In every rank that we have, one after the other; to the end."""
    while done is not None:
        done = lead(done) if RANK == 0 else follow()


def begin():
    """As the scheduler launched us: from the checkpoint."""
    if RANK == 0:
        note("start", checkpoint())
    work(checkpoint())


# -- changes of size --


def named(what, size, n=""):
    return f"{what}.{size['lease_id']}{n and '.'}{n}"


def is_there(what, size, n=""):
    return os.path.exists(named(what, size, n))  # noqa: PTH110


def write(what, size, n, value):
    replace(named(what, size, n), value)


def read(what, size):
    with open(named(what, size)) as file:  # noqa: PTH123
        return json.load(file)


def next_size():
    """The size in the lease file, if it is another one than ours."""
    if SIZE is None:
        return None
    try:
        with open(os.environ["GAVELX_LEASE_FILE"]) as file:  # noqa: PTH123
            words = json.load(file)
    except (OSError, ValueError):
        return None
    return words if words.get("generation", 0) > SIZE["generation"] else None


def joiners(coming):
    return sorted(set(coming["rank_of_slot"]) - set(SIZE["rank_of_slot"]))


def wait_for(there, size):
    """Wait until it is there; else a process is missing, and the resize has failed."""
    until_s = time.monotonic() + MEET_S
    while not there():
        if time.monotonic() > until_s:
            note("missed", size["lease_id"])
            sys.exit(RESIZE_FAILED)
        time.sleep(0.01)


def go_over(coming, done):
    """The pause: meet those of the next size, or leave."""
    global SIZE, LEASE, RANK
    rank = coming["rank_of_slot"].get(str(ELASTIC["slot"]))
    if rank is None:
        note("left")
        sys.exit(LEFT)
    time.sleep(PAUSE_S)
    write("here", coming, rank, True)
    if rank == 0:
        wait_for(lambda: all(is_there("here", coming, n) for n in range(coming["world_size"])), coming)
        write("met", coming, "", True)
    else:
        wait_for(lambda: is_there("met", coming), coming)
    SIZE, LEASE, RANK = coming, coming["lease_id"], rank
    note("over", done)


def join():
    """Get ready, and go over with the others."""
    coming = SIZE | {"lease_id": LEASE}
    note("joining")
    write("ready", coming, ELASTIC["slot"], True)
    while not is_there("go", coming):
        if asked or checkpoint() >= TOTAL:
            sys.exit(LEFT)
        time.sleep(0.01)
        note("joining")
    done = read("go", coming)
    go_over(coming, done)
    work(done)


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
join() if ELASTIC and ELASTIC["joins"] else begin()
note("end")
while "lingers" in HABITS and not asked:
    time.sleep(ALIVE_S)
    note("alive")
