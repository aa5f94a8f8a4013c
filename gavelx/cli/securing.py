"""``gavelx certs`` and ``gavelx token``: the files that a service beyond loopback needs."""

from collections.abc import Sequence
from pathlib import Path

from gavelx.cli.extras import service_installed
from gavelx.cli.output import print_json, stderr
from gavelx.cli.secrets import warn_if_printed_openly
from gavelx.files.atomic import ensure_writable, write_atomically

with service_installed():
    from gavelx.rpc.certificates import make_certificates
    from gavelx.rpc.convert import name_of, owner_of
    from gavelx.rpc.tokens import add_token, new_token


def run_certs(folder: str, hosts: Sequence[str], agents: Sequence[str], days: float, as_json: bool) -> None:
    """Make the missing certificates, and print where all of them are."""
    for agent in agents:
        name_of(agent, "--agent")
    there = {path.stem for path in Path(folder).glob("*.pem")}
    pairs = make_certificates(folder, hosts, agents, days)
    if as_json:
        rows = {
            name: {"certificate": str(pair.certificate), "key": str(pair.key), "made": name not in there}
            for name, pair in pairs.items()
        }
        print_json(rows)
        return
    for name, pair in pairs.items():
        print(f"{name}: {pair.certificate} {pair.key}" + (" (was there, stays as it is)" if name in there else ""))


def run_token(file: str, owner: str, role: str, days: float | None, *, out: str | None, as_json: bool) -> None:
    """Make a token; print it this once, or write it to a file that only its owner can read."""
    owner_of(owner, "--owner")
    text, token = new_token(owner, role, days)
    said = {"owner": owner, "role": role, "expires": token.expires}
    if out is not None:
        ensure_writable(out, file)
    add_token(file, token)
    if out is not None:
        write_atomically(out, text + "\n", private=True)
        said |= {"file": out}
    else:
        warn_if_printed_openly()
        said |= {"token": text}
    if as_json:
        print_json(said)
        return
    if out is None:
        print(text)
    kept = "keep it, it is not shown again" if out is None else f"written to {out}"
    stderr().print(f"for {owner}, role {role}; {kept}", markup=False)
