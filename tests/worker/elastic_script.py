"""A job that changes its size as docs/training.md says, without torch: ``elastic_script.py HABITS``.

Its processes meet by files in the job's folder: a joiner writes ``ready.GENERATION.NUMBER``; when all have, the
present leader writes ``go.GENERATION`` with its step, and all go over. Habits: ``broken`` joiners fail at once;
``alone`` joiners never come to be ready; ``misses`` kept processes exit as if another one had not come;
``patient`` ones do not come near the end before they are told of another size.
"""

import json
import os
import signal
import sys
import time

HABITS = sys.argv[1].split(",")
ELASTIC = json.loads(os.environ["GAVELX_ELASTIC"])
NUMBER, TOTAL = ELASTIC["slot"], float(os.environ["GAVELX_TOTAL_STEPS"])
LEFT, RESIZE_FAILED = 79, 80
STEP_S = 0.02
asked = False


def hear(*_):
    global asked  # noqa: PLW0603
    asked = True


def replace(path, value):
    part = f"{path}.{os.getpid()}.part"
    with open(part, "w") as file:  # noqa: PTH123
        json.dump(value, file)
    os.replace(part, path)  # noqa: PTH105


def read(path):
    try:
        with open(path) as file:  # noqa: PTH123
            return json.load(file)
    except (OSError, ValueError):
        return None


def told():
    return read(os.environ["GAVELX_LEASE_FILE"]) or {}


def rank_in(size):
    return size["rank_of_slot"].get(str(NUMBER))


def report(lease_id, size, done, saved, *, complete=False):
    words = {"lease_id": lease_id, "generation": size["generation"], "world_size": size["world_size"]}
    replace(
        os.environ["GAVELX_REPORT_FILE"],
        words | {"steps_done": done, "saved_steps": saved, "complete": complete},
    )


def go_over(size, done):
    """The step at which all go over, if they do by now; the leader says so when all who join are ready."""
    generation, now = size["generation"], read(f"go.{size['generation']}")
    if now is None and done is not None:
        ready = [name for name in os.listdir() if name.startswith(f"ready.{generation}.")]  # noqa: PTH208
        known = set(ELASTIC["size"]["rank_of_slot"]) | set(read("known") or ())
        if len(ready) == len(set(size["rank_of_slot"]) - known):
            replace("known", sorted(known | set(size["rank_of_slot"])))
            replace(f"go.{generation}", done)
            now = done
    return now


def join(size):
    """Get ready, wait for the others, and begin at their step."""
    if "broken" in HABITS:
        sys.exit(5)
    if "alone" not in HABITS:
        replace(f"ready.{size['generation']}.{NUMBER}", True)
    while (done := read(f"go.{size['generation']}")) is None:
        time.sleep(STEP_S)
        if asked or read("complete"):
            sys.exit(LEFT)
    return done


def step(lease_id, size, done, saved):
    """Rank 0 counts; the others are there."""
    if asked:
        if rank_in(size) == 0:
            replace("checkpoint", {"steps": done})
            report(lease_id, size, done, done)
        sys.exit(0)
    if "patient" in HABITS and done >= TOTAL - 5 and told().get("generation", 0) <= size["generation"]:
        pass
    elif rank_in(size) == 0:
        done += 1
        print(json.dumps([done, size["world_size"]]), flush=True)
        if done % 5 == 0:
            replace("checkpoint", {"steps": done})
            saved = done
        report(lease_id, size, done, saved)
    elif read("complete"):
        sys.exit(0)
    time.sleep(STEP_S)
    return done, saved


def main():
    size, lease_id = ELASTIC["size"], int(os.environ["GAVELX_LEASE_ID"])
    saved = (read("checkpoint") or {"steps": 0})["steps"]
    done = join(size) if ELASTIC["joins"] else saved
    if not ELASTIC["joins"] and rank_in(size) == 0:
        replace("known", sorted(size["rank_of_slot"]))
    while done < TOTAL:
        done, saved = step(lease_id, size, done, saved)
        lease = told()
        if lease.get("generation", 0) <= size["generation"]:
            continue
        if "misses" in HABITS:
            sys.exit(RESIZE_FAILED)
        now = go_over(lease, done if rank_in(size) == 0 else None)
        if now is not None:
            size, lease_id, done = lease, lease["lease_id"], now
            if rank_in(size) is None:
                sys.exit(LEFT)
            if rank_in(size) == 0:
                report(lease_id, size, done, saved)
    if rank_in(size) == 0:
        replace("checkpoint", {"steps": done})
        replace("complete", True)
        report(lease_id, size, done, done, complete=True)


signal.signal(signal.SIGTERM, hear)
main()
