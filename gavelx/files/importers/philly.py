"""The Philly trace of Microsoft: its job log, and the job lists that others made of it.

The log (``cluster_job_log``, msr-fiddle/philly-traces) is a JSON list of jobs with ``status`` (Pass, Killed or
Failed), ``vc``, ``user``, ``jobid``, ``submitted_time`` and ``attempts``: each with ``start_time``,
``end_time`` and ``detail``, a list of servers with their ``gpus``. A job may have no attempt; an attempt may
lack a time (a gap in the log); where the last one has no end, the job was still running. The device-time of a
job is that of all its attempts, its width that of the widest. It started with its first attempt. A job that was
killed is a cancelled one.

Source: M. Jeon et al., Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads (ATC 2019).
"""

from gavelx.files.csvs import Row
from gavelx.files.importers.recorded import (
    EARLIEST_S,
    NEVER_STARTED,
    NO_END,
    STILL_RUNNING,
    Ending,
    Outcome,
    Recorded,
    devices,
    either,
    lasted,
    moment,
    parsed_moment,
    ran,
    seconds,
    started,
)
from gavelx.files.jsons import Node
from gavelx.files.texts import shown

STATUSES = {"Pass": Ending.COMPLETED, "Killed": Ending.CANCELLED, "Failed": Ending.FAILED}
LISTED_STATUSES = {
    "failed": Ending.FAILED,
    **dict.fromkeys(("killed", "cancelled", "canceled", "timeout"), Ending.CANCELLED),
}
"""What a list may say of its jobs, in any case; with any other word, or none, a job counts as completed."""


def listed_job(row: Row) -> Outcome:
    """A job of a list with submit time, duration, number of GPUs, and perhaps status, start and GPU type."""
    gpus = devices(row, "num_gpus")
    duration_s = seconds(row, either(row, "duration_s", "duration"))
    arrival_s = moment(row, either(row, "submit_time", "timestamp"))
    start_s = started(row, "start_time")
    duration_s = lasted(row, either(row, "duration_s", "duration"), duration_s, start_s, end="end_time")
    return ran(gpus, duration_s) or Recorded(
        arrival_s=arrival_s,
        gpus=gpus,
        ended=LISTED_STATUSES.get(row.text("status", "").lower(), Ending.COMPLETED),
        start_s=start_s,
        duration_s=duration_s,
        owner=row.text("cluster", ""),
        accelerator=row.text("gpu_type", ""),
        name=row.text("job_id", ""),
    )


def logged_job(node: Node) -> Outcome:
    """A job of the published log."""
    status = node["status"].text()
    if status not in STATUSES:
        raise node["status"].mistake(f"{shown(status)} is not known", expected=", ".join(STATUSES))
    arrival_s = _time(node, "submitted_time")
    if arrival_s is None:
        raise node.mistake("submitted_time is missing", expected="a time such as 2017-10-07 01:11:39")
    width, device_s = 0, 0.0
    starts: list[float] = []
    end_s: float | None = None
    attempts = _elements(node, "attempts")
    for attempt in attempts:
        start_s, end_s = _time(attempt, "start_time"), _time(attempt, "end_time")
        gpus = sum(len(_elements(server, "gpus")) for server in _elements(attempt, "detail"))
        if start_s is not None:
            starts.append(start_s)
        if start_s is not None and end_s is not None:
            if end_s < start_s:
                raise attempt.mistake("end_time comes before start_time")
            width, device_s = max(width, gpus), device_s + gpus * (end_s - start_s)
    if not attempts:
        return NEVER_STARTED
    if end_s is None:
        return NO_END if status == "Failed" else STILL_RUNNING
    duration_s = device_s / width if width else 0.0
    owner = "/".join(node[key].text("") for key in ("vc", "user") if key in node).strip("/")
    return ran(width, duration_s) or Recorded(
        arrival_s=arrival_s,
        gpus=width,
        ended=STATUSES[status],
        start_s=min(starts),
        duration_s=duration_s,
        owner=owner,
        name=node["jobid"].text("") if "jobid" in node else "",
    )


def _elements(node: Node, key: str) -> list[Node]:
    """The elements of a list; none where the log says null."""
    return [] if node[key].value is None else list(node[key].elements())


def _time(node: Node, key: str) -> float | None:
    """Seconds since 1970; None where the log says nothing (null, or the word None)."""
    if key not in node or (text := node[key].text("")) in ("", "None"):
        return None
    time_s = parsed_moment(text)
    if time_s is None or time_s < EARLIEST_S:
        expected = "a time such as 2017-10-07 01:12:09"
        raise node[key].mistake(f"{shown(text)} cannot be used", expected=expected)
    return time_s
