"""Decoding and checks of messages that need no knowledge of the cluster.

Names are letters, digits, dot, dash and underscore, so that no name can be mistaken for a path, an option or
markup. The checks raise :class:`UserError` that names the field.
"""

import math
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from gavelx.elastic import Elastic
from gavelx.errors import UserError
from gavelx.jobs import PREEMPTIBLE, RETRIES_MAX
from gavelx.rpc import wire_pb2 as wire
from gavelx.training_report import NO_BITS_SAID, NOTHING_SAID, Reproducibility, TrainingReport

VERSION = 1
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
NAME_FORM = "letters, digits, dots, dashes, underscores; a letter or digit first"
OWNER_MAX = 256
JOB_TYPE = re.compile(r"[A-Za-z0-9][\w .,:()+/=-]{0,127}")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
WORKERS_MAX = 1024
WORDS_MAX = 1000
COMMAND_BYTES_MAX = 65536  # Linux starts nothing with a word of 131,072 or more
STEPS_MAX = 1e15
LEAST = 1e-9
"""Of numbers that users and agents say: no solver computes with 1e-50, and nothing is divided by 1e-310."""
LEASES_MAX = 4096
IDS_MAX = 10_000
"""Jobs that one call may ask about."""
UNREADABLE = {
    "problem": "the bytes are no message",
    "expected": "what wire.proto says",
    "hint": "the same gavelx here as at the scheduler",
}
OURS = re.compile(
    r"GAVELX_.*|RANK|LOCAL_RANK|WORLD_SIZE|LOCAL_WORLD_SIZE|MASTER_ADDR|MASTER_PORT"
    r"|(CUDA|HIP|ROCR|NVIDIA)_VISIBLE_DEVICES|GPU_DEVICE_ORDINAL"
)
"""Variables that a lease sets, so that a job cannot."""


def check_message(message: Message) -> None:
    """Check the version, and that there are no unknown fields. Raises :class:`UserError`."""
    version = getattr(message, "version", VERSION)
    if version != VERSION:
        raise UserError(
            f"version is {version}", expected=f"version {VERSION}", hint="the same gavelx here as at the scheduler"
        )
    if unknown := sorted({field.field_number for field in UnknownFieldSet(message)}):  # type: ignore[attr-defined]
        where = type(message).__name__
        raise UserError(
            f"unknown fields {unknown[:10]}", where=where, expected="what wire.proto says", hint="an upgrade"
        )


def check_ids(job_ids: Collection[int]) -> None:
    """Check the number of jobs in one call. Raises :class:`UserError`."""
    if len(job_ids) > IDS_MAX:
        raise UserError(f"{len(job_ids)} job ids", expected=f"at most {IDS_MAX} in a call")


def name_of(text: str, what: str) -> str:
    """The text, checked to be safe in a file name, a command and a table. Raises :class:`UserError`."""
    if not NAME.fullmatch(text):
        raise UserError(f"{what} is {text[:80]!r}", expected=f"1 to 64 {NAME_FORM}")
    return text


def owner_of(text: str, what: str) -> str:
    """The text, checked to be an owner: a name, or a path of names (``ml/ann``). Raises :class:`UserError`."""
    if len(text) > OWNER_MAX or not all(map(NAME.fullmatch, text.split("/"))):
        form = f"names of {NAME_FORM}; of a team's member team/member; {OWNER_MAX} characters at most"
        raise UserError(f"{what} is {text[:80]!r}", expected=form)
    return text


def check_spec(spec: wire.JobSpec) -> None:
    """Check that a job can be run somewhere. Raises :class:`UserError` that names the field."""
    check_message(spec)
    if spec.name:
        name_of(spec.name, "name")
    if spec.job_type and not JOB_TYPE.fullmatch(spec.job_type):
        raise UserError(f"job_type is {spec.job_type[:80]!r}", expected="a job type of the throughput table")
    if spec.workers > WORKERS_MAX:
        raise UserError(f"workers is {spec.workers}", expected=f"1 to {WORKERS_MAX}")
    for field in ("total_steps", "weight", "slo", "duration_s", "restart_if_silent_s"):
        if getattr(spec, field) != 0.0:
            most = STEPS_MAX if field == "total_steps" else 1e12
            _number(getattr(spec, field), field, most)
    for accelerator, speed in spec.steps_per_s.items():
        name_of(accelerator, "an accelerator of steps_per_s")
        _number(speed, f"steps_per_s of {accelerator}", most=1e12)
    if len({name.lower() for name in spec.steps_per_s}) < len(spec.steps_per_s):
        raise UserError("steps_per_s names a type twice", expected="one speed on each type")
    if spec.preemptible not in ("", *PREEMPTIBLE):
        raise UserError(f"preemptible is {spec.preemptible[:80]!r}", expected=", ".join(PREEMPTIBLE))
    if spec.retries > RETRIES_MAX:
        raise UserError(f"retries is {spec.retries}", expected=f"0 to {RETRIES_MAX}")
    if spec.elasticity:
        elastic = Elastic.of(spec.elasticity[:200])
        if max(elastic.most, elastic.parts) > WORKERS_MAX:  # each is looked at whenever a policy is asked
            raise UserError(f"elasticity is {elastic}", expected=f"at most {WORKERS_MAX} devices and parts")
    _check_command(spec.command, spec.environment)
    if len(spec.request_id) > 128:
        raise UserError(f"request_id has {len(spec.request_id)} characters", expected="at most 128")


def _number(value: float, field: str, most: float) -> None:
    if not LEAST <= value <= most:
        raise UserError(f"{field} is {value}", expected=f"a number from {LEAST:g} to {most:g}")


def _check_command(command: Sequence[str], environment: Mapping[str, str]) -> None:
    if not command or not command[0]:
        raise UserError("command is empty", expected="a program and its arguments")
    if len(command) > WORDS_MAX or len(environment) > WORDS_MAX:
        raise UserError("command or environment is too long", expected=f"at most {WORDS_MAX} entries")
    size = sum(len(text.encode()) for text in (*command, *environment, *environment.values()))
    if size > COMMAND_BYTES_MAX:
        raise UserError(
            f"command and environment have {size} bytes", expected=f"at most {COMMAND_BYTES_MAX} in all"
        )
    if any("\0" in text for text in (*command, *environment.values())):
        raise UserError("command or environment holds a zero byte", expected="text without it")
    for name in environment:
        if not VARIABLE.fullmatch(name):
            expected = "letters, digits, underscores; no digit first"
            raise UserError(f"environment variable {name[:80]!r}", expected=expected)
        if OURS.fullmatch(name):
            expected = (
                "another name: GAVELX_..., RANK, WORLD_SIZE, CUDA_VISIBLE_DEVICES and the like are the lease's"
            )
            raise UserError(f"environment variable {name[:80]!r}", expected=expected)


def note_of(spec: wire.JobSpec) -> dict[str, Any]:
    """The fields of a job that the mechanism does not use, as plain values; without empty ones."""
    said = {
        "name": spec.name,
        "type": spec.job_type,
        "command": list(spec.command),
        "environment": dict(spec.environment),
        "one_process_per_server": spec.one_process_per_server,
        "request_id": spec.request_id,
        "restart_if_silent_s": spec.restart_if_silent_s,
    }
    return {name: value for name, value in said.items() if value}


def safe_number(value: float, most: float = STEPS_MAX) -> float:
    """A number from an agent, safe for arithmetic: one that is not finite, negative or next to 0 counts as 0."""
    return min(value, most) if LEAST <= value < math.inf else 0.0


def training_message(report: TrainingReport | None, bits: Reproducibility = NO_BITS_SAID) -> wire.Training:
    """A job's report of its training as a message."""
    said = (report or NOTHING_SAID)._asdict()
    numbers = {name: value for name, value in said.items() if not math.isnan(value)}
    return wire.Training(**numbers, determinism=bits.level, order=bits.order)


def training_report(message: wire.Training) -> TrainingReport | None:
    """The report that an agent sent; None if it does not count passes through the data."""
    return TrainingReport.of(_said(message))


def reproducibility(message: wire.Training) -> Reproducibility:
    """Which bits a job keeps, as its agent sent it."""
    return Reproducibility.of(_said(message))


def _said(message: wire.Training) -> dict[str, object]:
    return {field.name: value for field, value in message.ListFields()}


def check_from_agent(message: wire.FromAgent | UserError, *, first: bool) -> None:
    """Check that an agent may send this message now, and that it was decoded. Raises :class:`UserError`."""
    if isinstance(message, UserError):
        raise message
    kind = message.WhichOneof("message")
    if (kind == "hello") is not first:
        raise UserError(
            "the first message is no hello" if first else "another hello", expected="one, first of all"
        )
    beat, report_id = message.heartbeat, message.ended.report_id
    if not (math.isfinite(beat.sent_s) and beat.sent_s >= 0.0):
        raise UserError(f"sent_s is {beat.sent_s}", expected="seconds on the agent's clock")
    if max(len(beat.leases), len(message.hello.leases)) > LEASES_MAX:
        raise UserError(f"reports on more than {LEASES_MAX} leases", expected="those that run here")
    if len(report_id) > 256:
        raise UserError(f"report_id has {len(report_id)} characters", expected="at most 256")


def check_hello(hello: wire.Hello) -> None:
    """Check an agent's hello. Raises :class:`UserError` that names the field."""
    check_message(hello)
    name_of(hello.name, "name")
    name_of(hello.accelerator, "accelerator")
    if not 1 <= hello.devices <= WORKERS_MAX:
        raise UserError(f"devices is {hello.devices}", expected=f"1 to {WORKERS_MAX}")
    if not hello.boot_id or max(len(hello.boot_id), len(hello.agent_id)) > 128:
        raise UserError("boot_id is empty, or it or agent_id too long", expected="1 to 128 characters")
    if not re.fullmatch(r"[A-Za-z0-9.:\[\]_-]{0,255}", hello.address):
        raise UserError(f"address is {hello.address[:80]!r}", expected="a host name or an address")
