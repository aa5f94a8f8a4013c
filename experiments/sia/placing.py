"""Which devices of which servers jobs get, as the two schedulers of Sia's simulator deal them.

For widths that are powers of two both give whole servers and parts of one. Other widths may be spread over more
servers than they need.
"""

from collections.abc import Mapping, Sequence

from experiments.sia.rounds import Place, Servers

Wanted = Mapping[str, tuple[str, int]]
"""By name of a job: a type, and how many devices of it."""


def anew(wanted: Wanted, servers: Servers) -> dict[str, Place]:
    """Sia: the largest first, full servers first, the rest wherever devices are free; each round anew."""
    places = {}
    for name in servers.count:
        free, n = [servers.devices[name]] * servers.count[name], 0
        jobs = {job: devices for job, (its, devices) in wanted.items() if its == name}
        for job in sorted(jobs, key=lambda job: -jobs[job]):
            held, n = _taken(jobs[job], free, n, servers.devices[name])
            places[job] = Place(name, tuple(held))
    return places


def _taken(devices: int, free: list[int], n: int, each: int) -> tuple[list[int], int]:
    """The devices taken on one server after another, from server ``n`` on, and where to go on."""
    held = []
    for _ in range(len(free)):
        if devices < each:
            break
        if free[n] == each:
            held.append(each)
            free[n], devices = 0, devices - each
        n = (n + 1) % len(free)
    while devices:
        took = min(devices, free[n])
        if took:
            held.append(took)
            free[n], devices = free[n] - took, devices - took
        n = (n + 1) % len(free)
    return held, n


class Stays:
    """Gavel: jobs stay on the devices they had, the widest first; others get the first free ones."""

    def __init__(self, servers: Servers) -> None:
        self.servers = servers
        self.had: dict[str, tuple[str, tuple[int, ...]]] = {}

    def place(self, wanted: Wanted) -> dict[str, Place]:
        """The places of this round; ``wanted`` is in order of priority."""
        has = dict[str, tuple[str, tuple[int, ...]]]()
        for name in self.servers.count:
            taken = set[int]()
            jobs = {job: devices for job, (its, devices) in wanted.items() if its == name}
            for width in sorted(set(jobs.values()), reverse=True):
                alike = [job for job, devices in jobs.items() if devices == width]
                for job in alike:
                    its, devices = self.had.get(job, ("", ()))
                    if its == name and not taken & set(devices):
                        has[job] = name, devices
                        taken |= set(devices)
                for job in alike:
                    if job not in has:
                        free = [n for n in range(self.servers.total(name)) if n not in taken]
                        has[job] = name, tuple(free[:width])
                        taken |= set(free[:width])
        self.had = has
        return {job: Place(name, self._on_servers(name, devices)) for job, (name, devices) in has.items()}

    def _on_servers(self, name: str, devices: Sequence[int]) -> tuple[int, ...]:
        of = [n // self.servers.devices[name] for n in devices]
        return tuple(of.count(server) for server in dict.fromkeys(of))
