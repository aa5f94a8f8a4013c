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
                 else 0), ``running`` (the accelerator type that it holds; else it waits) and ``restart_s``
                 (seconds that it loses when it goes to other devices; else not known); and where
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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
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
from gavelx.files.configuration_rows import rows_of
from gavelx.files.instances import is_instance, snapshot_of_instance
from gavelx.files.json_columns import Column, Table, elements_of
from gavelx.files.jsons import Node, read_json
from gavelx.files.limits import DEVICES_MAX, SCALE_FACTOR_MAX
from gavelx.files.snapshot_fields import device_counts, job_indices, member_index, usd_per_hour
from gavelx.jobs import PREEMPTIBLE, WEIGHT_MAX, WEIGHT_MIN, Job, Preemptible
from gavelx.memory import Memory
from gavelx.memory import from_json as memory_from_json
from gavelx.memory import to_json as memory_to_json
from gavelx.metrics import known
from gavelx.promises import Promises
from gavelx.snapshot import WAITING, Snapshot

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
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
                **({"others": {types[a]: n for a, n in row.others}} if row.others else {}),
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
                **({} if np.isnan(snapshot.restart_s_J[j]) else {"restart_s": float(snapshot.restart_s_J[j])}),
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
    cluster, listed = _cluster(node["cluster"]), Table(node["jobs"])
    jobs = _jobs(listed)
    index_of = job_indices(jobs, node["jobs"])
    type_of = {name: a for a, name in enumerate(cluster.accelerators)}
    known = _of_kinds(node, _configurations(Table(node["throughputs"]), index_of, type_of), jobs)
    if (wrong := known.misjudged()) is not None:
        problem = f"job {jobs[wrong[0]].id} on {cluster.accelerators[wrong[1]]} has not one row in its own size"
        raise node["throughputs"].mistake(problem, expected="one row without 'own': false, by which it is judged")
    return Snapshot(
        cluster=cluster,
        jobs=jobs,
        known=known,
        **_progress(node["progress"], index_of, type_of),
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
    kind_J = elements_of(node["kinds"]).wholes(low=0)
    if len(kind_J) != len(jobs):
        raise node["kinds"].mistake(f"there are {len(kind_J)} kinds", expected=f"{len(jobs)}, one per job")
    number_J = np.unique(kind_J, return_inverse=True)[1].astype(np.int64)  # a file may use any numbers
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
    type_of = {name: a for a, name in enumerate(accelerators)}
    servers = tuple(_server(server, type_of) for server in node["servers"].elements())
    return Cluster(servers, accelerators)


def _server(node: Node, type_of: Mapping[str, int]) -> Server:
    return Server(
        id=node["id"].whole(low=0),
        accelerator=tuple(type_of)[_type_index(node["accelerator"], type_of)],
        device_count=node["device_count"].whole(low=0, high=DEVICES_MAX),
        region=node["region"].text("") if "region" in node else "",
        instance_type=node["instance_type"].text("") if "instance_type" in node else "",
    )


def _type_index(node: Node, type_of: Mapping[str, int]) -> int:
    if (name := node.text().lower()) not in type_of:
        raise node.mistake(f"{name!r:.60} is not in the cluster", expected="one of " + ", ".join(type_of))
    return type_of[name]


def _jobs(table: Table) -> tuple[Job, ...]:
    slo_J, duration_s_J = (table.numbers(key, np.nan, above=0) for key in ("slo", "duration_s"))
    columns = (
        table.column("job_id").wholes(low=0).tolist(),
        table.column("job_type").texts(),
        table.numbers("total_steps", math.inf, above=0).tolist(),
        table.wholes("scale_factor", 1, low=1, high=SCALE_FACTOR_MAX).tolist(),
        table.numbers("priority_weight", 1.0, low=WEIGHT_MIN, high=WEIGHT_MAX).tolist(),
        table.numbers("arrival_s", 0.0, low=0).tolist(),
        map(known, slo_J.tolist()),
        map(known, duration_s_J.tolist()),
        table.each("owner", lambda owner: owner.text(""), ""),
        table.each("preemptible", _preemptible, "auto"),
        table.truths("checkpoints", default=True).tolist(),
        table.each("elasticity", _elastic, None),
    )
    return tuple(map(Job, *columns))


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


def _configurations(table: Table, index_of: Mapping[int, int], type_of: Mapping[str, int]) -> Configurations:
    members_C, job_M = _members(
        table, lambda jobs: jobs.looked_up(index_of, partial(member_index, index_of=index_of))
    )
    speeds_C, speeds = table.column("steps_per_second").lists()
    speed_M, first_C = speeds.numbers(low=0), np.cumsum(members_C) - members_C
    if len(wrong := np.flatnonzero(speeds_C != members_C)):
        problem, expected = f"there are {speeds_C[wrong[0]]} speeds", f"{members_C[wrong[0]]}, one per job"
        raise table.node(int(wrong[0]))["steps_per_second"].mistake(problem, expected=expected)
    range_M2 = np.column_stack([speed_M, speed_M])
    there, ranges = table.rare("ranges")
    for i, c in enumerate(there):
        part = slice(first_C[c], first_C[c] + members_C[c])
        range_M2[part] = _ranges(ranges.node(i), speed_M[part].tolist())
    exact = (range_M2 == speed_M[:, None]).all()
    return Configurations(
        shape=(len(index_of), len(type_of)),
        accelerator_C=table.column("accelerator").looked_up(type_of, partial(_type_index, type_of=type_of)),
        devices_C=table.column("devices").wholes(low=1, high=SCALE_FACTOR_MAX),
        job_M=job_M,
        configuration_M=np.arange(len(table)).repeat(members_C),
        throughput_M=speed_M,
        spread_C=table.truths("spread", default=False),
        batch_C=table.wholes("batch", 0, low=0, high=BATCH_MOST),
        own_C=table.truths("own", default=True),
        others_CA=_others(table, type_of),
        lower_M=None if exact else range_M2[:, 0],
        upper_M=None if exact else range_M2[:, 1],
    )


def _others(table: Table, type_of: Mapping[str, int]) -> Ints:
    """The devices of further types of each configuration, a column a type; no columns where there are none."""
    there, column = table.rare("others")
    others_CA = np.zeros((len(table), len(type_of) if there else 0), dtype=np.int64)
    for c, node in zip(there, column.each(lambda node: node), strict=True):
        first = str(table.rows[c]["accelerator"]).lower()
        for name, devices in node.items():
            if (lower := name.lower()) not in type_of or lower == first:
                expected = "one of " + ", ".join(other for other in type_of if other != first)
                raise devices.mistake(f"{name!r:.60} is no further type", expected=expected)
            others_CA[c, type_of[lower]] = devices.whole(low=1, high=SCALE_FACTOR_MAX)
    return others_CA


def _members(table: Table, read: Callable[[Column], Ints]) -> tuple[Ints, Ints]:
    """How many jobs each configuration has, and all of them: one, or two that differ."""
    members_C, jobs = table.column("jobs").lists()
    job_M, first_C = read(jobs), np.cumsum(members_C) - members_C
    fits_C, pair_C = members_C == 1, np.flatnonzero(members_C == 2)
    fits_C[pair_C] = job_M[first_C[pair_C]] != job_M[first_C[pair_C] + 1]
    if not fits_C.all():
        wrong = table.node(int(fits_C.argmin()))["jobs"]
        raise wrong.mistake(f"{wrong.value!r:.60} cannot share devices", expected="one job, or two")
    return members_C, job_M


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
            **({"others": dict(one.others)} if one.others else {}),
        }
        for one, share in each
    ]


def _promises(node: Node) -> Promises:
    """The promises of a file; they may name jobs that have left since."""
    table = Table(node)
    members_P, job_M = _members(table, lambda jobs: jobs.wholes(low=0))
    first_P = np.cumsum(members_P) - members_P
    job_P, other_P = job_M[first_P], job_M[first_P + members_P - 1]
    names = [name.lower() for name in table.column("accelerator").texts()]
    further = [name.lower() for mix in table.rare("others")[1].each(Node.items) for name, _ in mix]
    type_of = {name: a for a, name in enumerate(dict.fromkeys([*names, *further]))}
    configurations = ConfigurationSet.of(
        np.minimum(job_P, other_P),
        np.where(members_P == 2, np.maximum(job_P, other_P), ALONE),
        np.array([type_of[name] for name in names], dtype=np.int64),
        table.wholes("devices", AS_ASKED, low=1),
        table.truths("spread", default=False),
        table.wholes("batch", 0, low=0),
        _others(table, type_of),
    )
    return Promises(tuple(type_of), configurations, table.column("share").numbers(low=0))


def _progress(node: Node, index_of: Mapping[int, int], type_of: Mapping[str, int]) -> dict[str, Any]:
    """The progress of each job, as the arrays of a snapshot."""
    table = Table(node)
    job_E = table.column("job_id").looked_up(index_of, partial(member_index, index_of=index_of))
    entries_J = np.bincount(job_E, minlength=len(index_of))
    if (entries_J > 1).any():
        again = int(np.flatnonzero(job_E == entries_J.argmax())[1])
        told = f"job {table.rows[again]['job_id']} is there twice"
        raise table.node(again).mistake(told, expected="each job once")
    if not entries_J.all():
        missing = list(index_of)[int(entries_J.argmin())]
        raise node.mistake(f"nothing is said of job {missing}", expected="an entry for each job")
    entry_J = np.argsort(job_E)

    def dollars(key: str) -> Floats:
        unknown_E = [key in row and row[key] is None for row in table.rows]
        return np.where(unknown_E, np.nan, table.numbers(key, 0.0, low=0))[entry_J]

    left_E, (running, names) = table.column("steps_left").numbers(low=0), table.rare("running")
    running_E = np.full(len(table), WAITING)
    running_E[running] = names.looked_up(type_of, partial(_type_index, type_of=type_of))
    range_E2 = _left_ranges(table, left_E)
    return {
        "steps_left_J": left_E[entry_J],
        "left_range_JE": None if range_E2 is None else range_E2[entry_J],
        "elapsed_s_J": table.column("elapsed_s").numbers(low=0)[entry_J],
        "equal_share_s_J": table.numbers("equal_share_s", 0.0, low=0)[entry_J],
        "spent_usd_J": dollars("spent_usd"),
        "equal_share_usd_J": dollars("equal_share_usd"),
        "held_s_J": table.numbers("held_s", 0.0, low=0)[entry_J],
        "running_J": running_E[entry_J],
        "restart_s_J": table.numbers("restart_s", np.nan, low=0)[entry_J],
    }


def _left_range_to_json(snapshot: Snapshot, j: int) -> dict[str, Any]:
    """The interval of a believed number of steps."""
    if snapshot.left_range_JE is None or snapshot.jobs[j].has_length:
        return {}
    return {"steps_left_range": snapshot.left_range_JE[j].tolist()}


def _left_ranges(table: Table, left_E: Floats) -> Floats | None:
    """The intervals of the numbers of steps left; None if all are exact."""
    there, column = table.rare("steps_left_range")
    if not there:
        return None
    range_E2 = np.column_stack([left_E, left_E])
    for i, (row, ends) in enumerate(zip(there, column.each(Node.elements), strict=True)):
        numbers, left = [end.number(low=0) for end in ends], left_E[row]
        if len(numbers) != 2 or not numbers[0] <= left <= numbers[1]:
            told = f"{column.values[i]!r:.60} is no range of {left:g}"
            raise column.node(i).mistake(told, expected="[lower, upper] around it")
        range_E2[row] = numbers
    return range_E2


def _range(count: int) -> str:
    return f"a number from 0 to {count - 1}" if count else "a file with at least one snapshot"
