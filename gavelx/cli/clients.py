"""Commands that call a scheduler: one call, then a table or JSON."""

import json as jsons
import os
import re
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from gavelx.allocation import CARRIED_OVER
from gavelx.cli.addresses import parse_address
from gavelx.cli.cluster_options import Address, JobOptions
from gavelx.cli.command_line import check_can_be_run, with_whole_paths
from gavelx.cli.extras import service_installed
from gavelx.cli.job_sizes import job_sizes
from gavelx.cli.output import print_json, stderr, stdout
from gavelx.cli.secrets import token_in, warn_if_open
from gavelx.cli.status_tables import JOBS, SERVERS, print_rows, reasons
from gavelx.cli.tables import plain_table, policy_cell
from gavelx.errors import OptionError
from gavelx.jobs import PREEMPTIBLE
from gavelx.report.words import between, dollars, number, percent, printable, whole_seconds

with service_installed():
    from google.protobuf.json_format import MessageToDict

    from gavelx.rpc import wire_pb2 as wire
    from gavelx.rpc.channels import Access, call, channel, stream, stub_of

TOKEN = "GAVELX_TOKEN"
POLL_S = 0.2
CONTROLS = re.compile(rb"[\x00-\x07\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]|\xc2[\x80-\x9f]|\x1b(?!\[[0-9;]*m)")
"""What moves the cursor, sets the title or answers in the name of who reads; not line ends, tabs and colours."""


def access_of(address: Address) -> Access:
    """Address and credentials of the scheduler; the token from its file, or from the variable ``GAVELX_TOKEN``."""
    parse_address(address.scheduler)
    token, where, file = os.environ.get(TOKEN) or None, TOKEN, address.token_file
    if file is not None:
        warn_if_open("--token-file", file)
        try:
            token, where = Path(file).read_text(encoding="utf-8", errors="replace"), f"--token-file {file}"
        except OSError as error:
            raise OptionError(f"cannot read {file} ({error.strerror})", where="--token-file") from None
    return Access(address.scheduler, None if token is None else token_in(token, where), address.ca)


def _call(access: Access, request: Any) -> Any:
    """Send a ``NameRequest`` to the method ``Name``, and return the reply."""
    method = type(request).__name__.removesuffix("Request")
    with channel(access) as opened:
        return call(access, getattr(stub_of(opened), method), request)


def _plain(message: Any) -> dict[str, Any]:
    """A message as JSON: field names as in wire.proto, numbers as numbers, zeros included."""
    document = MessageToDict(message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True)
    return dict(_whole(document))


def _whole(value: Any) -> Any:
    """Undo protobuf's JSON, in which long numbers and NaN are text: numbers become numbers, NaN becomes None."""
    if isinstance(value, list):
        return [_whole(each) for each in value]
    if isinstance(value, dict):
        return {name: READ[name](each) if name in READ else _whole(each) for name, each in value.items()}
    return value


IDS = ("job_id", "server_id", "lease_id", "rounds", "dropped")
READ: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(IDS, int),
    "spent_usd": lambda usd: None if usd == "NaN" else usd,
}


def run_submit(access: Access, wanted: JobOptions, as_json: bool) -> None:
    """Submit one or more jobs; print their numbers."""
    if wanted.preemptible not in PREEMPTIBLE:
        problem = f"{wanted.preemptible!r} is not known"
        raise OptionError(problem, where="--preemptible", expected=", ".join(PREEMPTIBLE))
    if wanted.weight == 0:  # which in a message is a weight that was not given
        raise OptionError("a weight of 0", where="--weight", expected="a number above 0, such as 0.1")
    if wanted.slo and not wanted.duration:
        raise OptionError(
            f"a deadline of {wanted.slo:g} times a duration that is not given",
            where="--slo",
            expected="--duration with it",
            hint=f"--slo {wanted.slo:g} --duration SECONDS",
        )
    for word in (*wanted.command, *(wanted.env or ())):
        _check_text(word)
    check_can_be_run(wanted.command)
    devices, elastic = job_sizes(wanted.workers, wanted.batch, wanted.parts, mixed=wanted.mixed)
    spec = wire.JobSpec(
        name=wanted.name,
        job_type=wanted.type,
        workers=devices,
        elasticity="" if elastic is None else str(elastic),
        total_steps=wanted.steps,
        weight=wanted.weight,
        command=with_whole_paths(wanted.command),
        environment=dict(_pairs(wanted.env or (), "--env")),
        one_process_per_server=wanted.one_process_per_server,
        slo=wanted.slo,
        preemptible="" if wanted.preemptible == "auto" else wanted.preemptible,
        retries=wanted.retries,
        restart_if_silent_s=wanted.restart_if_silent,
        duration_s=wanted.duration,
        steps_per_s=_speeds(wanted.speed or ()),
    )
    jobs = []
    for n in range(wanted.count):
        jobs.append(wire.JobSpec())
        jobs[-1].CopyFrom(spec)
        if wanted.request_id:
            jobs[-1].request_id = wanted.request_id if wanted.count == 1 else f"{wanted.request_id}-{n}"
    reply = _call(access, wire.SubmitRequest(version=1, jobs=jobs))
    if as_json:
        print_json({"job_ids": list(reply.job_ids)})
    else:
        print(*reply.job_ids, sep="\n")


def _check_text(word: str) -> None:
    """Raises :class:`OptionError` for bytes that are no text, as in a file's name of another encoding."""
    try:
        word.encode()
    except UnicodeEncodeError:
        shown = os.fsencode(word).decode(errors="backslashreplace")
        raise OptionError(f"'{shown}' is no UTF-8", where="submit", expected="text") from None


def _pairs(texts: Sequence[str], option: str) -> list[tuple[str, str]]:
    pairs = [text.partition("=") for text in texts]
    for text, (name, sign, _) in zip(texts, pairs, strict=True):
        if not name or not sign:
            raise OptionError(f"cannot read {text!r}", where=option, expected="NAME=VALUE")
    return [(name, value) for name, _, value in pairs]


def _speeds(texts: Sequence[str]) -> dict[str, float]:
    """Steps per second by accelerator type."""
    speeds: dict[str, float] = {}
    for name, text in _pairs(texts, "--speed"):
        if name.lower() in speeds:
            raise OptionError(
                f"{name.lower()!r} is named twice", where="--speed", expected="one speed on each type"
            )
        speeds[name.lower()] = _speed(name, text)
    return speeds


def _speed(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise OptionError(
            f"{text!r} on {name} is no number", where="--speed", expected="steps per second"
        ) from None


def run_status(access: Access, jobs: list[int], *, ended: bool, limit: int, as_json: bool) -> None:
    """Print jobs, servers and the policy."""
    request = wire.StatusRequest(version=1, job_ids=jobs, ended=ended or bool(jobs), limit=limit)
    reply = _call(access, request)
    if as_json:
        document = _plain(reply)
        document["certificate"] = jsons.loads(document.pop("certificate_json") or "null")
        print_json(document)
        return
    console = stdout()
    print_rows(console, JOBS, reply.jobs)
    print_rows(console, SERVERS, reply.servers)
    for line in reasons(reply.jobs, reply.servers):
        console.print(line, markup=False)
    more = f", {reply.left_out:,} more are not shown" if reply.left_out else ""
    counts = f"{reply.waiting:,} waiting, {reply.running:,} running, {reply.ended:,} ended{more}"
    line = f"{counts}; policy {reply.policy}, {reply.rounds:,} rounds of {reply.round_s:g} s"
    console.print(line, markup=False)
    path = (jsons.loads(reply.certificate_json or "null") or {"path": ""})["path"]
    if path.startswith(CARRIED_OVER):
        reason = printable(path.removeprefix(CARRIED_OVER))
        console.print(f"it did not answer, so the previous allocation is used: {reason}", markup=False)


def speeds_of(access: Access, text: str) -> str:
    """The speeds that a scheduler knows, as JSON."""
    return str(_call(access, wire.SpeedsRequest(version=1, job_type=text)).speeds_json)


def run_explain(access: Access, job_id: int, history: bool, as_json: bool) -> None:
    """Print why a job waits; with ``history``, every decision about it so far."""
    reply = _call(access, wire.ExplainRequest(version=1, job_id=job_id))
    document = jsons.loads(reply.explanation_json)
    if as_json:
        print_json(document)
        return
    console = stdout()
    why = "" if document["why"] == document["state"] else f": {document['why']}"
    console.print(f"job {job_id} is {document['state']}{why}", markup=False, soft_wrap=True)
    table = plain_table(show_header=False)
    for name, text in _facts(document):
        table.add_row(name, policy_cell(text))
    console.print(table)
    if history:
        now_s = time.time()
        for decision in document["history"]:
            when = datetime.fromtimestamp(now_s - decision["s_ago"]).isoformat(" ", "seconds")
            console.print(f"{when}  {decision['what']}", markup=False, soft_wrap=True)


FACTS: tuple[tuple[str, str, Callable[[Any], str]], ...] = (
    ("age", "age_s", whole_seconds),
    ("took", "took_s", whole_seconds),
    ("promised now", "promised_share", lambda share: percent(share) + " of its time"),
    ("promised so far", "promised_s", whole_seconds),
    ("received so far", "received_s", whole_seconds),
    ("steps done", "steps_done", number),
    ("steps in all", "total_steps", lambda steps: "unknown" if steps is None else number(steps)),
    ("left, as believed", "left_s", lambda ends: between(*ends)),
    ("believed from", "left_from", str),
    ("work lost", "lost_s", whole_seconds),
    ("cost", "spent_usd", dollars),
)


def _facts(document: dict[str, Any]) -> list[tuple[str, str]]:
    facts = [("type", f"{document['type']} ({document['type_is']})"), ("policy", document["policy"])]
    facts += [(name, show(document[key])) for name, key, show in FACTS if key in document]
    if "behind_s" in document:
        facts.append(_behind(document["behind_s"]))
    if document.get("allocation"):
        shares = ", ".join(
            f"{name} {percent(share)}" for name, share in document["allocation"].items() if share > 0
        )
        facts += [("allocation", shares or "nothing"), ("steps/s by it", number(document["steps_per_s"]))]
        facts += [("what binds", document["limited_by"])]
    if "size" in document:
        facts.append(("size now", _size_in_words(document["size"])))
    if document.get("sizes"):
        of_sizes = [
            f"{size['accelerator']} {_size_in_words(size)} {percent(size['share'])}" for size in document["sizes"]
        ]
        facts += [("sizes", "; ".join(of_sizes)), ("why no larger", document["no_larger"])]
    if document.get("speeds"):
        facts.append(("speeds", "; ".join(map(_speed_in_words, document["speeds"].items()))))
    return [*facts, ("failures", str(document["failures"])), ("launches", str(document["launches"]))]


def _size_in_words(size: dict[str, Any]) -> str:
    """A size of an elastic job.

    >>> _size_in_words({"devices": 4, "batch": 256}), _size_in_words({"devices": 1, "batch": 0})
    ('4 devices in batches of 256', '1 device')
    """
    batch = f" in batches of {size['batch']}" if size["batch"] else ""
    return f"{size['devices']} device{'s' if size['devices'] > 1 else ''}{batch}"


def _speed_in_words(speed: tuple[str, dict[str, Any]]) -> str:
    """A speed, and where it comes from.

    >>> _speed_in_words(("k80", {"steps_per_s": 3.0, "from": "measured", "leases": 2}))
    'k80 3 steps/s (measured by 2 leases of its type)'
    >>> _speed_in_words(("v100", {"steps_per_s": None, "not_measured": "it reported no step"}))
    'v100 not measured: it reported no step'
    """
    name, known = speed
    if known["steps_per_s"] is None:
        return f"{name} not measured: {known['not_measured']}"
    if leases := known.get("leases"):
        known = known | {"from": f"measured by {leases} lease{'s' if leases > 1 else ''} of its type"}
    ends = f", {number(known['range'][0])} to {number(known['range'][1])}" if "range" in known else ""
    why = f"; a lease did not measure it: {known['not_measured']}" if "not_measured" in known else ""
    return f"{name} {number(known['steps_per_s'])} steps/s ({known['from']}{ends}{why})"


def _behind(behind_s: float) -> tuple[str, str]:
    """Seconds by which a job is behind its promises, or ahead of them, as a row.

    >>> [_behind(seconds) for seconds in (12.4, -0.3, -7.0)]
    [('behind by', '12 s'), ('behind by', '0 s'), ('ahead by', '7 s')]
    """
    return (
        ("ahead by", whole_seconds(-behind_s)) if round(behind_s) < 0 else ("behind by", whole_seconds(behind_s))
    )


def shown(output: bytes) -> bytes:
    """Output of a job without its power over a terminal: a ``?`` for each control character.

    Line ends, tabs, backspaces and carriage returns stay, as progress bars use them, and so do colours.
    """
    return CONTROLS.sub(b"?", output)


def run_logs(access: Access, job_id: int, *, follow: bool, raw: bool, as_json: bool) -> None:
    """Print the output of a job, unchanged unless it goes to a terminal."""
    guarded = sys.stdout.isatty() and not raw
    request = wire.LogsRequest(version=1, job_id=job_id, follow=follow)
    has_text, removed = False, list[wire.LogChunk]()
    with channel(access) as opened:
        for chunk in stream(access, stub_of(opened).Logs, request):
            has_text = has_text or not chunk.removed
            removed += [chunk] if chunk.removed else []
            if as_json and chunk.removed:
                print(jsons.dumps({"server": chunk.server, "removed": chunk.removed}), flush=True)
            elif as_json:
                text = chunk.text.decode(errors="replace")
                line = {"server": chunk.server, "rank": chunk.rank, "lease_id": chunk.lease_id, "text": text}
                print(jsons.dumps(line | {"dropped": chunk.dropped}), flush=True)
            else:
                sys.stdout.buffer.write(shown(chunk.text) if guarded else chunk.text)
                sys.stdout.buffer.flush()
    for chunk in removed:
        some = "some of its output" if has_text else "its output"
        words = f"job {job_id}: {some} on {chunk.server} {printable(chunk.removed)}"
        stderr().print(words, markup=False, soft_wrap=True)
    if not has_text and not removed:
        stderr().print(f"job {job_id} has printed nothing so far", markup=False)


def run_cancel(access: Access, job_id: int, as_json: bool) -> None:
    """Cancel a job."""
    reply = _call(access, wire.CancelRequest(version=1, job_id=job_id))
    if as_json:
        print_json({"job_id": job_id, "state": reply.state})
    else:
        print(f"job {job_id} is {reply.state}")


def run_drain(access: Access, server: str, *, undo: bool, as_json: bool) -> None:
    """Drain a server, or undo that."""
    reply = _call(access, wire.DrainRequest(version=1, server=server, undo=undo))
    if as_json:
        print_json({"server": server, "drained": not undo, "leases": reply.leases})
    elif undo:
        print(f"{server} may have leases again")
    else:
        print(f"{server} takes no more leases; {reply.leases} still to stop")


def run_offer(access: Access, server: str, devices: int, *, notice_s: float, wait: bool, as_json: bool) -> None:
    """Lend some devices of a server; with ``wait``, until no job holds any of the others."""
    request = wire.OfferRequest(version=1, server=server, devices=devices, notice_s=notice_s)
    begun_s = time.monotonic()
    leases = _call(access, request).leases
    while wait and leases:
        time.sleep(POLL_S)
        leases = _call(access, request).leases
    if as_json:
        print_json({"server": server, "devices": devices, "leases": leases, "seconds": time.monotonic() - begun_s})
    else:
        left = f"; {leases} leases have yet to leave the others" if leases else ""
        print(f"{server} lends {devices} of its devices{left}")


def set_policy(access: Access, policy: str) -> str:
    """Change the policy of the scheduler; the one before."""
    return str(_call(access, wire.SetPolicyRequest(version=1, policy=policy)).before)


def run_set_policy(access: Access, policy: str, as_json: bool) -> None:
    """Change the policy of the scheduler, and say so."""
    before = set_policy(access, policy)
    if as_json:
        print_json({"policy": policy, "before": before})
    else:
        print(f"{policy} decides from now on; it was {before}")
