"""Snapshots as JSON: the input of a policy at one instant, saved so that a decision can be repeated.

===============  =================================================================================
``format``       ``gavelx-snapshot-1``
``time_s``       seconds on the trace's clock
``cluster``      ``accelerators`` (names, in order) and ``servers``; by hand, ``{"v100": 5}`` will do
``jobs``         what was submitted: ``job_id, job_type, total_steps``, and what else a trace says; without
                 ``total_steps`` the user did not say how long it is
``throughputs``  the configurations: ``{jobs: [ids], accelerator, devices, steps_per_second: [...]}``,
                 and ``spread: true`` where the devices sit in several servers; ``own: false`` in a size
                 other than submitted, and ``batch`` with other samples in an update; ``ranges: [[lower, upper],
                 ...]`` around the speeds where they are estimated
``progress``     one per job: ``{job_id, steps_left, elapsed_s}`` and, where known, ``equal_share_s`` and
                 ``equal_share_usd`` (seconds and dollars that an equal share would have taken so far; else 0),
                 ``spent_usd`` (dollars so far; else 0, null where unknown), ``held_s`` (seconds on devices;
                 else 0) and ``running`` (the accelerator type that it holds; else it waits); and where
                 ``steps_left`` is believed, ``steps_left_range: [lower, upper]``
``promised``     optional: what the previous allocation promised, as ``{jobs: [ids], accelerator, share}``
                 with ``spread: true`` where over several servers, and ``batch`` where it is another
``memory``       optional: what the policy remembers, by name ``{type, shape, base64}``: the bytes of an array
``kinds``        optional, a number for each job: jobs with the same one can run in the same ways
``prices``       dollars per device-hour by accelerator type; null where unknown
===============  =================================================================================

Writing and reading gives the same arrays, bit for bit, if the members of each configuration are adjacent in them;
otherwise they are made adjacent, which changes only their order.

The instances published with reference results (:mod:`gavelx.files.instances`) are recognised and read as well.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gavelx.cluster import Cluster, Server
from gavelx.configuration import ALONE, AS_ASKED, ConfigurationSet
from gavelx.configurations import Configurations
from gavelx.elastic import BATCH_MOST, Elastic
from gavelx.errors import OptionError, UserError
from gavelx.files.atomic import write_atomically
from gavelx.files.configuration_rows import ConfigurationRow, configurations_of, rows_of
from gavelx.files.instances import is_instance, snapshot_of_instance
from gavelx.files.jsons import Node, read_json
from gavelx.files.limits import DEVICES_MAX, SCALE_FACTOR_MAX
from gavelx.files.snapshot_fields import device_counts, job_indices, member_index, usd_per_hour
from gavelx.jobs import PREEMPTIBLE, Job, Preemptible
from gavelx.memory import Memory
from gavelx.memory import from_json as memory_from_json
from gavelx.memory import to_json as memory_to_json
from gavelx.metrics import known
from gavelx.promises import Promises
from gavelx.snapshot import WAITING, Snapshot

FORMAT = "gavelx-snapshot-1"


def read_snapshot(path: str | Path, index: int | None = None) -> Snapshot:
    """The snapshot in a file; of a file that holds a list, the one at ``index``, counted from 0.

    Raises :class:`InputFileError` naming file and key path, :class:`OptionError` for an index that is missing or
    out of range.
    """
    node = read_json(path)
    if not isinstance(node.value, list):
        if index:
            raise OptionError(f"{path} holds one snapshot, not a list", where="--index", expected="0, or no index")
        return _snapshot(node)
    count = len(node.value)
    if index is None and count != 1:
        raise OptionError(f"{path} holds {count} snapshots", where="--index", expected=_range(count))
    if not 0 <= (index or 0) < count:
        raise OptionError(f"{path} has no snapshot {index}", where="--index", expected=_range(count))
    return _snapshot(node.elements()[index or 0])


def write_snapshot(path: str | Path, snapshot: Snapshot) -> None:
    """Save a snapshot; :func:`read_snapshot` gives it back.

    Raises :class:`OptionError` when the file cannot be written.
    """
    write_atomically(path, json.dumps(snapshot_to_json(snapshot), indent=1, allow_nan=False) + "\n")


def snapshot_to_json(snapshot: Snapshot) -> dict[str, Any]:
    """The snapshot as plain values, in the form described above."""
    ids, types = [job.id for job in snapshot.jobs], snapshot.accelerators
    return {
        "format": FORMAT,
        "time_s": float(snapshot.time_s),
        "cluster": {
            "accelerators": list(types),
            "servers": [asdict(server) for server in snapshot.cluster.servers],
        },
        "jobs": [_job_to_json(job) for job in snapshot.jobs],
        "throughputs": [
            {
                "jobs": [ids[j] for j in row.jobs],
                "accelerator": types[row.accelerator],
                "devices": row.devices,
                "steps_per_second": list(row.steps_per_second),
                **({"spread": True} if row.spread else {}),
                **({} if row.own else {"own": False}),
                **({"batch": row.batch} if row.batch else {}),
                **({"ranges": [list(bounds) for bounds in row.ranges]} if row.ranges else {}),
            }
            for row in rows_of(snapshot.known)
        ],
        "progress": [
            {
                "job_id": ids[j],
                "steps_left": float(snapshot.steps_left_J[j]),
                **_left_range_to_json(snapshot, j),
                "elapsed_s": float(snapshot.elapsed_s_J[j]),
                "equal_share_s": float(snapshot.equal_share_s_J[j]),
                "spent_usd": known(float(snapshot.spent_usd_J[j])),
                "equal_share_usd": known(float(snapshot.equal_share_usd_J[j])),
                "held_s": float(snapshot.held_s_J[j]),
                "running": None if snapshot.running_J[j] == WAITING else types[snapshot.running_J[j]],
            }
            for j in range(len(ids))
        ],
        **({"promised": _promises_to_json(snapshot.promised)} if len(snapshot.promised) else {}),
        **({"memory": memory_to_json(snapshot.memory)} if snapshot.memory else {}),
        **({} if snapshot.known.kind_J is None else {"kinds": snapshot.known.kind_J.tolist()}),
        "prices": {name: known(usd) for name, usd in zip(types, snapshot.usd_per_hour_A.tolist(), strict=True)},
    }


def snapshot_from_json(value: Any, where: str = "snapshot") -> Snapshot:
    """The snapshot that plain values describe, in our own form or the published one.

    ``where`` names their file in messages. Raises :class:`InputFileError` naming the key path.
    """
    return _snapshot(Node(value, where))


def _snapshot(node: Node) -> Snapshot:
    if is_instance(node):
        return snapshot_of_instance(node)
    if "format" in node and node["format"].value != FORMAT:
        raise node["format"].mistake(f"{node['format'].value!r:.60} is not known", expected=repr(FORMAT))
    cluster = _cluster(node["cluster"])
    nodes = node["jobs"].elements()
    jobs = tuple(_job(job) for job in nodes)
    index_of = job_indices(jobs, nodes)
    rows = [_configuration(row, index_of, cluster.accelerators) for row in node["throughputs"].elements()]
    known = _of_kinds(node, configurations_of(rows, (len(jobs), len(cluster.accelerators))), jobs)
    if not known.own_C.all() and (wrong := known.misjudged()) is not None:
        problem = f"job {jobs[wrong[0]].id} on {cluster.accelerators[wrong[1]]} has not one row in its own size"
        raise node["throughputs"].mistake(problem, expected="one row without 'own': false, by which it is judged")
    return Snapshot(
        cluster=cluster,
        jobs=jobs,
        known=known,
        **_progress(node["progress"], index_of, cluster.accelerators),
        usd_per_hour_A=usd_per_hour(node["prices"], cluster.accelerators),
        time_s=node["time_s"].number(low=0) if "time_s" in node else 0.0,
        promised=_promises(node["promised"]) if "promised" in node else Promises(),
        memory=_memory(node["memory"]) if "memory" in node else {},
    )


def _memory(node: Node) -> Memory:
    """What a policy remembers; each array by itself, so that a message names the one that is wrong."""
    memory: dict[str, NDArray[Any]] = {}
    for name, one in node.items():
        try:
            memory |= memory_from_json({name: one.value})
        except (ValueError, KeyError, TypeError) as error:
            told = f"it is no array: {str(error) or type(error).__name__:.80}"
            raise one.mistake(told, expected='{"type": "<f8", "shape": [2], "base64": "..."}') from error
    return memory


def _of_kinds(node: Node, known: Configurations, jobs: Sequence[Job]) -> Configurations:
    """The same table with the kinds of jobs in the file, if it has them."""
    if "kinds" not in node:
        return known
    kinds = [kind.whole(low=0) for kind in node["kinds"].elements()]
    if len(kinds) != len(jobs):
        raise node["kinds"].mistake(f"there are {len(kinds)} kinds", expected=f"{len(jobs)}, one per job")
    number_J = np.unique(kinds, return_inverse=True)[1].astype(np.int64)  # a file may use any numbers
    told = replace(known, kind_J=number_J)
    if (pair := told.unlike()) is not None:
        first, second = (jobs[j].id for j in pair)
        problem = f"jobs {first} and {second} are said to be of one kind, and can run in different ways"
        raise node["kinds"].mistake(problem, hint="leave the kinds out")
    return told


def _cluster(node: Node) -> Cluster:
    if "servers" not in node:
        return Cluster.of(device_counts(node))
    accelerators = tuple(name.text().lower() for name in node["accelerators"].elements())
    if len(set(accelerators)) < len(accelerators):
        raise node["accelerators"].mistake("an accelerator type is named twice")
    servers = tuple(_server(server, accelerators) for server in node["servers"].elements())
    return Cluster(servers, accelerators)


def _server(node: Node, accelerators: Sequence[str]) -> Server:
    return Server(
        id=node["id"].whole(low=0),
        accelerator=accelerators[_type_index(node["accelerator"], accelerators)],
        device_count=node["device_count"].whole(low=0, high=DEVICES_MAX),
        region=node["region"].text("") if "region" in node else "",
        instance_type=node["instance_type"].text("") if "instance_type" in node else "",
    )


def _type_index(node: Node, accelerators: Sequence[str]) -> int:
    if (name := node.text().lower()) not in accelerators:
        raise node.mistake(f"{name!r:.60} is not in the cluster", expected="one of " + ", ".join(accelerators))
    return accelerators.index(name)


def _job(node: Node) -> Job:
    return Job(
        id=node["job_id"].whole(low=0),
        job_type=node["job_type"].text(),
        total_steps=node["total_steps"].number(above=0) if "total_steps" in node else math.inf,
        scale_factor=node["scale_factor"].whole(low=1, high=SCALE_FACTOR_MAX) if "scale_factor" in node else 1,
        weight=node["priority_weight"].number(above=0) if "priority_weight" in node else 1.0,
        arrival_s=node["arrival_s"].number(low=0) if "arrival_s" in node else 0.0,
        slo=node["slo"].number(above=0) if "slo" in node else None,
        duration_s=node["duration_s"].number(above=0) if "duration_s" in node else None,
        owner=node["owner"].text("") if "owner" in node else "",
        preemptible=_preemptible(node["preemptible"]) if "preemptible" in node else "auto",
        checkpoints=node["checkpoints"].truth() if "checkpoints" in node else True,
        elastic=_elastic(node["elasticity"]) if "elasticity" in node else None,
    )


def _preemptible(node: Node) -> Preemptible:
    if (word := node.text()) not in PREEMPTIBLE:
        raise node.mistake(f"{word!r:.60} is not known", expected="one of " + ", ".join(PREEMPTIBLE))
    return word


def _elastic(node: Node) -> Elastic:
    try:
        return Elastic.of(node.text())
    except UserError as error:
        raise node.mistake(error.problem, expected=error.expected) from None


def _job_to_json(job: Job) -> dict[str, Any]:
    return {
        "job_id": job.id,
        "arrival_s": float(job.arrival_s),
        "job_type": job.job_type,
        "scale_factor": job.scale_factor,
        **({"total_steps": float(job.total_steps)} if job.has_length else {}),
        "priority_weight": float(job.weight),
        "slo": job.slo,
        "duration_s": job.duration_s,
        "owner": job.owner,
        **({} if job.preemptible == "auto" else {"preemptible": job.preemptible}),
        **({} if job.checkpoints else {"checkpoints": False}),
        **({} if job.elastic is None else {"elasticity": str(job.elastic)}),
    }


def _configuration(node: Node, index_of: Mapping[int, int], accelerators: Sequence[str]) -> ConfigurationRow:
    members = tuple(member_index(job, index_of) for job in node["jobs"].elements())
    speeds = tuple(speed.number(low=0) for speed in node["steps_per_second"].elements())
    if len(members) not in (1, 2) or len(set(members)) < len(members):
        raise node["jobs"].mistake(f"{node['jobs'].value!r:.60} cannot share devices", expected="one job, or two")
    if len(speeds) != len(members):
        expected = f"{len(members)}, one per job"
        raise node["steps_per_second"].mistake(f"there are {len(speeds)} speeds", expected=expected)
    return ConfigurationRow(
        members,
        _type_index(node["accelerator"], accelerators),
        node["devices"].whole(low=1, high=SCALE_FACTOR_MAX),
        speeds,
        "spread" in node and node["spread"].truth(),
        _ranges(node["ranges"], speeds) if "ranges" in node else (),
        node["batch"].whole(low=0, high=BATCH_MOST) if "batch" in node else 0,
        node["own"].truth() if "own" in node else True,
    )


def _ranges(node: Node, speeds: Sequence[float]) -> tuple[tuple[float, float], ...]:
    """(lower, upper) around each of these speeds."""
    ranges = tuple(tuple(bound.number(low=0) for bound in bounds.elements()) for bounds in node.elements())
    fits = [len(bounds) == 2 and bounds[0] <= s <= bounds[1] for bounds, s in zip(ranges, speeds, strict=False)]
    if len(ranges) != len(speeds) or not all(fits):
        expected = "for each speed [lower, upper] with the speed in between"
        raise node.mistake(f"{node.value!r:.60} are no ranges of {list(speeds)}", expected=expected)
    return tuple((bounds[0], bounds[1]) for bounds in ranges)


def _promises_to_json(promised: Promises) -> list[dict[str, Any]]:
    """Promises as JSON, one entry for each configuration."""
    each = zip(promised.configurations.named(promised.accelerators), promised.share_P.tolist(), strict=True)
    return [
        {
            "jobs": list(one.members),
            "accelerator": one.accelerator,
            **({"devices": one.devices} if one.devices != AS_ASKED else {}),
            "share": share,
            **({"spread": True} if one.spread else {}),
            **({"batch": one.batch} if one.batch else {}),
        }
        for one, share in each
    ]


def _promises(node: Node) -> Promises:
    """The promises of a file; they may name jobs that have left since."""
    rows = node.elements()
    jobs = [[job.whole(low=0) for job in row["jobs"].elements()] for row in rows]
    for row, members in zip(rows, jobs, strict=True):
        if len(members) not in (1, 2) or len(set(members)) < len(members):
            raise row["jobs"].mistake(
                f"{row['jobs'].value!r:.60} cannot share devices", expected="one job, or two"
            )
    names = [row["accelerator"].text().lower() for row in rows]
    accelerators = tuple(dict.fromkeys(names))
    configurations = ConfigurationSet.of(
        np.array([min(members) for members in jobs], dtype=np.int64),
        np.array([max(m) if len(m) == 2 else ALONE for m in jobs], dtype=np.int64),
        np.array([accelerators.index(name) for name in names], dtype=np.int64),
        np.array([row["devices"].whole(low=1) if "devices" in row else AS_ASKED for row in rows], dtype=np.int64),
        np.array(["spread" in row and row["spread"].truth() for row in rows], dtype=bool),
        np.array([row["batch"].whole(low=0) if "batch" in row else 0 for row in rows], dtype=np.int64),
    )
    share_P = np.array([row["share"].number(low=0) for row in rows], dtype=float)
    return Promises(accelerators, configurations, share_P)


def _progress(node: Node, index_of: Mapping[int, int], accelerators: Sequence[str]) -> dict[str, Any]:
    """The progress of each job, as the arrays of a snapshot."""
    entry_of: dict[int, Node] = {}
    for entry in node.elements():
        j = member_index(entry["job_id"], index_of)
        if j in entry_of:
            raise entry.mistake(f"job {entry['job_id'].value} is there twice", expected="each job once")
        entry_of[j] = entry
    if missing := [job_id for job_id, j in index_of.items() if j not in entry_of]:
        raise node.mistake(f"nothing is said of job {missing[0]}", expected="an entry for each job")
    entries = [entry_of[j] for j in range(len(index_of))]

    def numbers(key: str) -> np.ndarray:
        return np.array([entry[key].number(low=0) if key in entry else 0.0 for entry in entries], dtype=float)

    def dollars(key: str) -> np.ndarray:
        unknown_J = [key in entry.value and entry.value[key] is None for entry in entries]
        return np.where(unknown_J, np.nan, numbers(key))

    lefts = [entry["steps_left"].number(low=0) for entry in entries]
    running = [entry["running"] if "running" in entry else Node(None, entry.file) for entry in entries]
    return {
        "steps_left_J": np.array(lefts, dtype=float),
        "left_range_JE": _left_ranges(entries, lefts),
        "elapsed_s_J": np.array([entry["elapsed_s"].number(low=0) for entry in entries], dtype=float),
        "equal_share_s_J": numbers("equal_share_s"),
        "spent_usd_J": dollars("spent_usd"),
        "equal_share_usd_J": dollars("equal_share_usd"),
        "held_s_J": numbers("held_s"),
        "running_J": np.array(
            [WAITING if r.value is None else _type_index(r, accelerators) for r in running], dtype=np.int64
        ),
    }


def _left_range_to_json(snapshot: Snapshot, j: int) -> dict[str, Any]:
    """The interval of a believed number of steps."""
    if snapshot.left_range_JE is None or snapshot.jobs[j].has_length:
        return {}
    return {"steps_left_range": snapshot.left_range_JE[j].tolist()}


def _left_ranges(entries: Sequence[Node], lefts: Sequence[float]) -> np.ndarray | None:
    """The intervals of the numbers of steps left; None if all are exact."""
    if not any("steps_left_range" in entry for entry in entries):
        return None
    ranges = []
    for entry, left in zip(entries, lefts, strict=True):
        if "steps_left_range" not in entry:
            ranges.append((left, left))
            continue
        node = entry["steps_left_range"]
        ends = [end.number(low=0) for end in node.elements()]
        if len(ends) != 2 or not ends[0] <= left <= ends[1]:
            raise node.mistake(f"{node.value!r:.60} is no range of {left:g}", expected="[lower, upper] around it")
        ranges.append((ends[0], ends[1]))
    return np.array(ranges, dtype=float)


def _range(count: int) -> str:
    return f"a number from 0 to {count - 1}" if count else "a file with at least one snapshot"
