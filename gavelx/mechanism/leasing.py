"""Leasing: who holds which devices. Ways to run become leases, and leases become commands.

Jobs that are to stay where they are keep their devices. The others give them up before anything is launched, the
widest gang first, so that it finds whole servers; narrower jobs make room for it where that loses less than it
gains. Legend: J live jobs.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from gavelx.cluster import Server
from gavelx.configuration import ALONE, Configuration, widened
from gavelx.mechanism.commands import Command, Device, Extend, Launch, Lease, Resize, Stop, by_server
from gavelx.mechanism.events import ServerOffers, WorkerLost
from gavelx.mechanism.failures import Failures
from gavelx.mechanism.hardware import Hardware
from gavelx.mechanism.live import NO_WAY, LiveJobs
from gavelx.mechanism.protection import may_keep
from gavelx.mechanism.room import Tenant, make_room
from gavelx.mechanism.selection import Choice, Choices, at_risk_s, loss_s, steps_left
from gavelx.mechanism.stopped import Stopped, StoppedLeases
from gavelx.mixes import Mix, mixes, speed_on
from gavelx.sizes import OWN_BATCH, Sized, sizes, speed
from gavelx.snapshot import WAITING
from gavelx.throughputs import Throughputs

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


PORTION = 1024
"""Leases that one event gives out at most, and a plan takes back at once: a service hears others in between."""
Given = tuple[Choice, tuple[Device, ...]]
"""Devices, and the way to run on them."""
Tenants = dict[int, list[Tenant]]
"""Jobs that may move, by the server that they are on."""


class Leasing:
    """Leases, and the changes to them. ``settle`` accounts for the time of these running jobs until then."""

    def __init__(
        self,
        live: LiveJobs,
        hardware: Hardware,
        throughputs: Throughputs,
        settle: Callable[[Ints, float], None],
        failures: Failures,
    ) -> None:
        rules, self.failures = failures.rules, failures
        self.live, self.hardware, self.throughputs, self.rules = live, hardware, throughputs, rules
        self._settle = settle
        self.now_s = 0.0
        self.leases: dict[int, Lease] = {}  # by job id
        self.stopped = StoppedLeases()
        self.may_move = True  # the present allocation lets running jobs be moved to other devices of their type
        self.left_out: list[Choice] = []  # gangs for which the last plan found no place
        self.unfinished = False  # the last plan was more than a portion: the rest is to be planned at once
        self.waits_to_grow = (
            False  # somebody has a smaller size than the last plan gave it, until the larger one pays
        )
        self._movable: dict[tuple[int, int], Tenants] = {}  # by type and width, as far as a plan asked for them
        self._left_alone: set[int] = set()  # by job id, whose partners left since devices were last arranged
        self._last_lease_id = 0

    # -- servers ----------------------------------------------------------------------------------------------

    def join(self, server: Server, epoch: int) -> list[Command] | None:
        """A server lends its devices; None if that is no news. One that comes back has lost what ran on it."""
        if not self.hardware.comes_anew(server.id, epoch):
            return None
        stops = self._leave(server.id, fall_back=True)
        self.hardware.join(server, epoch)
        return stops

    def lose(self, server_id: int, epoch: int) -> list[Command] | None:
        """A server is gone; None if that is no news. Its gangs go on from what is known to be saved."""
        return self._leave(server_id, fall_back=True) if self.hardware.hears_of_end(server_id, epoch) else None

    def drain(self, server_id: int, epoch: int) -> list[Command] | None:
        """A server lends no devices any more; None if that is no news. Its gangs stop as at any preemption."""
        return self._leave(server_id, fall_back=False) if self.hardware.hears_of_end(server_id, epoch) else None

    def _leave(self, server_id: int, *, fall_back: bool) -> list[Command]:
        if not self.hardware.leave(server_id):
            return []
        hit = [lease for lease in self.leases.values() if any(d.server_id == server_id for d in lease.devices)]
        rows = [self.live.index[lease.job_id] for lease in hit]
        if fall_back:
            lost_J = [j for j in rows if not self.live.done[j]]
            self.live.steps_done[lost_J] = self.live.saved_steps[lost_J]
        return self.stop_all(rows)

    def offer(self, offer: ServerOffers, until_s: float, *, may_resize: bool) -> list[Command] | None:
        """A server lends more devices or fewer; None if that changes nothing.

        Jobs on devices that it takes back shrink to those that they keep, if they ``may_resize`` and can; the
        others stop as at any preemption. An offer may be heard before the news that its server came.
        """
        if not self.hardware.hears_offer(offer) or not self.hardware.lend(offer.server_id, offer.devices):
            return None
        hit, commands = list[int](), list[Command]()
        for lease in list(self.leases.values()):
            left = tuple(d for d in lease.devices if d.server_id != offer.server_id or d.slot < offer.devices)
            if len(left) == len(lease.devices):
                continue
            j = self.live.index[lease.job_id]
            if may_resize and (way := self._shrunk(j, left)) is not None:
                commands += self._resize(way, until_s, left)
            else:
                hit.append(j)
        return [*self.stop_all(hit), *commands]

    def _shrunk(self, j: int, left: Sequence[Device]) -> Choice | None:
        """The fastest way to run on some of these devices to which a job can go over while it runs."""
        live, job = self.live, self.live.jobs[j]
        if not self._may_resize()[j] or live.done[j]:
            return None
        most_A = [
            sum(self.hardware.type_of(device) == a for device in left)
            for a in range(len(self.hardware.accelerators))
        ]
        fits = list[tuple[float, Choice]]()
        for a in live.uses_of(j):
            own = Sized(job.scale_factor, OWN_BATCH, float(np.nan_to_num(live.throughput[j, a])))
            fits += [
                (size.steps_per_s, Choice(j, ALONE, a, size.devices, int(live.way[j]), size.batch))
                for size in (own, *sizes(job, self.hardware.accelerators[a], self.throughputs))
                if size.devices <= most_A[a] and size.steps_per_s > 0.0
            ]
        for mix in mixes(job, self.hardware.accelerators, self.throughputs, most_A) if live.others_of(j) else ():
            (first, devices), *others = ((self.hardware.accelerators.index(name), count) for name, count in mix)
            others_A = tuple(dict(others).get(a, 0) for a in range(len(most_A)))
            speed_ = speed_on(job, mix, OWN_BATCH, self.throughputs) or 0.0
            fits.append((speed_, Choice(j, ALONE, first, devices, int(live.way[j]), OWN_BATCH, others_A)))
        return max(fits, key=lambda fit: fit[0])[1] if fits else None

    # -- giving out -------------------------------------------------------------------------------------------

    def arrange(self, chosen: Choices, until_s: float) -> list[Command]:
        """From now on just these ways to run, or a portion of what is to change for that."""
        self._movable.clear()
        live, resizes = self.live, dict[int, Choice]()
        stays_J = self._stays(chosen)
        self.waits_to_grow = False
        if np.count_nonzero(live.elastic):
            stays_J[self._stays_in_size(chosen.one_by_one())] = True
            resizes = self._resizes(chosen.take(~stays_J[chosen.job]).one_by_one())
        going_J = live.running() & ~stays_J
        going_J[list(resizes)] = False
        going = going_J.nonzero()[0].tolist()
        if len(going) > PORTION:
            self.unfinished = True
            return self.stop_all(going[:PORTION])
        commands = self.stop_all(going)
        commands += self.stop_all([j for j in self._to_consolidate() if j not in resizes])
        if self._left_alone:
            self._run_on_alone(chosen.one_by_one())
        commands += self.extend(until_s)
        for way in sorted(resizes.values(), key=self._grows):
            commands += self._resize(way, until_s)
        return commands + self.launch(chosen, until_s)

    def _stays_in_size(self, chosen: Sequence[Choice]) -> list[int]:
        """Rows that would be faster in another size on their type, but not by what the change costs.

        It has to gain that in a round, or in as long as the job has had its present size, as it is not known for
        how long it will have the next one. So it waits for at most as long as makes up for the change, and changes
        the less often the more that costs (ski rental: Karlin et al., "Competitive randomized algorithms for
        nonuniform problems", 1994). And it has to gain that before the job is done, as far as that is known.
        """
        live, stays = self.live, list[int]()
        for way in chosen:
            held = self._as_it_runs(way.job)
            same = held.uses == way.uses and held.batch == way.batch
            fewer = any(way.uses.get(a, 0) < devices for a, devices in held.uses.items())
            if live.type[way.job] == WAITING or same or way.partner != ALONE or fewer:
                continue
            if not self._pays(way):
                stays.append(way.job)
                self._settle(np.array([way.job]), self.now_s)
                live.way[way.job] = way.number
        self.waits_to_grow = bool(stays)
        return stays

    def _pays(self, way: Choice) -> bool:
        """Whether the job gains more in this size than to go over to it costs."""
        live, j = self.live, np.array([way.job])
        faster = speed_on(live.jobs[way.job], self._mix(way), way.batch, self.throughputs)
        pace = float(live.pace(j)[0])
        if not faster:
            return True
        left_s = float(steps_left(live, j, self.now_s)[0]) / pace if pace else np.inf
        if np.isnan(live.resize_s[way.job]):
            cost_s = float(loss_s(live, j)[0] + at_risk_s(live, j, self.now_s)[0])
        else:  # it works on as it is while new devices get ready
            cost_s = float(live.resize_s[way.job])
            left_s -= float(live.restart_s[way.job]) if self._grows(way) > 0 else 0.0
        in_size_s = float(live.lease_held_s[way.job] + self.now_s - live.since_s[way.job])
        gain_s = (1.0 - pace / faster) * min(left_s, max(self.rules.round_s, in_size_s))
        return gain_s >= cost_s

    def _resizes(self, chosen: Sequence[Choice]) -> dict[int, Choice]:
        """Rows that get other devices without a restart: some are of a type that they have."""
        able_J, uses_of = self._may_resize(), self.live.uses_of
        return {
            way.job: way
            for way in chosen
            if way.partner == ALONE and able_J[way.job] and not way.uses.keys().isdisjoint(uses_of(way.job))
        }

    def _grows(self, way: Choice) -> int:
        """By how many devices the job has more in this way than it holds."""
        return sum(way.uses.values()) - sum(self.live.uses_of(way.job).values())

    def _may_resize(self) -> Bools:
        """Which jobs can go over to other devices while they run."""
        live = self.live
        able_J: Bools = ~np.isnan(live.resize_s) & (live.partner == ALONE) & ~live.resizing
        return able_J

    def _resize(self, way: Choice, until_s: float, own: tuple[Device, ...] | None = None) -> list[Command]:
        """The job goes over to a lease on other devices, most of them its own; it is stopped if it finds too few.

        So it is where it would be spread over servers, and lose more by that in a round than by a restart.
        ``own``: those of its own that it may keep; default: all.
        """
        live, j, uses = self.live, way.job, way.uses
        before = self.leases[live.jobs[j].id]
        own = before.devices if own is None else own
        kept = {
            a: _most_together([d for d in own if self.hardware.type_of(d) == a], devices)
            for a, devices in uses.items()
        }
        more = {a: devices - len(kept[a]) for a, devices in uses.items()}
        if any(devices > len(self.hardware.free[a]) for a, devices in more.items()):
            return self.stop_all([j])
        new = [d for a, n in more.items() if n for d in self.hardware.free[a].take(n, near=kept[a])]
        mine = [device for devices in kept.values() for device in devices]
        if not way.others and self._is_spread((*mine, *new), way.type):
            loss = way.devices * float(loss_s(live, np.array([j]))[0])
            had_choice = bool(new or live.others_of(j))
            if self._spread_speed(way) == 0.0 or (had_choice and self._gain_s(way) > loss):
                self.hardware.free[way.type].give_back(new)  # it is better launched together
                return self.stop_all([j])
        launched_s, held = float(live.launched_s[j]), live.held(j)
        self._settle(np.array([j]), self.now_s)
        kept_A = tuple((a, len(devices)) for a, devices in kept.items())
        self.stopped.put(before.id, self._as_stopped(np.array([j]))[0]._replace(kept=kept_A))
        for a in live.uses_of(j):
            self.hardware.free[a].give_back(device for device in before.devices if device not in mine)
        lease = self._leases([(j, (way, (*mine, *new)))], until_s)[0]._replace(continues=before.id)
        self.leases[lease.job_id] = lease
        live.pays(j, held)
        live.launched_s[j], live.resizing[j] = launched_s, True
        live.steps_at_s[j] = self.now_s + live.resize_s[j]
        return [Resize(lease)]

    def _run_on_alone(self, chosen: Sequence[Choice]) -> None:
        """A job that keeps its devices as its partner leaves runs in another way from now on."""
        left = {self.live.index[i] for i in self._left_alone if i in self.leases}
        self._left_alone.clear()
        for way in chosen:
            if way.job in left and way.partner == ALONE and way.number != NO_WAY:
                self._settle(np.array([way.job]), self.now_s)
                self.live.way[way.job] = way.number

    def _stays(self, chosen: Choices) -> Bools:
        """Which jobs keep their devices. Of a pair that ran apart, one member stays and the other comes to it."""
        live, stays_J = self.live, np.zeros(len(self.live), dtype=bool)
        if np.count_nonzero(live.partner != ALONE) or np.count_nonzero(chosen.partner != ALONE):
            stays_J[self._stays_in_pairs(chosen.one_by_one())] = True
            return stays_J
        j = chosen.job
        same_V = (live.type[j] == chosen.type) & (live.held_devices[j] == chosen.devices)
        if live.has_mixes or chosen.has_mixes:
            same_V &= (live.others[j] == widened(chosen.others, live.types)).all(axis=1)
        stays_J[j[same_V & (live.held_batch[j] == chosen.batch)]] = True
        return stays_J

    def _stays_in_pairs(self, chosen: Sequence[Choice]) -> list[int]:
        live, claimed, stays = self.live, set[tuple[Device, ...]](), list[int]()
        others = map(live.others_of, range(len(live))) if live.has_mixes else [()] * len(live)
        held = list(
            zip(live.type.tolist(), live.held_devices.tolist(), live.held_batch.tolist(), others, strict=True)
        )
        for way in chosen:
            members = [m for m in (way.job, way.partner) if m != ALONE]
            here = [m for m in members if held[m] == (way.type, way.devices, way.batch, way.others)]
            if not here:
                continue
            devices = [self.leases[live.jobs[m].id].devices for m in here]
            host = next((d for d in devices if d not in claimed), None)
            if host is not None:
                claimed.add(host)
                stays += [m for m, d in zip(here, devices, strict=True) if d == host]
        return stays

    def _to_consolidate(self) -> list[int]:
        """Spread gangs that can be put together, where running faster for a round gains more than moving loses."""
        moves: list[int] = []
        spread = self.live.spread.nonzero()[0]
        if not len(spread):
            return moves
        for j in spread[self._may_move(spread) & self.live.saves[spread]].tolist():
            way, devices = self._as_it_runs(j), self.leases[self.live.jobs[j].id].devices
            gain_s = self._gain_s(way) - len(devices) * float(loss_s(self.live, np.array([j]))[0])
            if gain_s > 0 and self._room(way, gain_s, devices) is not None:
                moves.append(j)
        return moves

    def launch(self, ways: Choices, until_s: float) -> list[Command]:
        """Leases for those of these jobs that do not run yet; the widest gangs first, to find whole servers.

        A portion of them at most, and then it is ``unfinished``.
        """
        commands, given, placed = list[Command](), list[Given](), set[int]()
        self.left_out = []
        self._movable.clear()
        waits_J, pair_V = self.live.type == WAITING, ways.partner != ALONE
        new_V = waits_J[ways.job]
        new_V[pair_V] |= waits_J[ways.partner[pair_V]]
        if not np.count_nonzero(new_V):
            return commands
        queue = (ways if new_V.all() else ways.take(new_V)).one_by_one()
        queue.sort(key=lambda way: -(way.devices + sum(way.others)))
        for way in queue:  # it grows: a job that makes room is narrower, and comes later
            if way.job in placed:  # with a new partner
                continue
            if len(placed) > PORTION:
                self.unfinished = True
                break
            devices, moved = self._devices(way)
            if moved:
                queue += [self._as_it_runs(j) for j in moved]
                queue.sort(key=lambda way: -(way.devices + sum(way.others)))
                commands += [*self._let(given, until_s), *self.stop_all(moved)]
                self._have_moved(moved)
                given.clear()
                devices, _ = self._devices(way)
            if devices is None:
                self.left_out.append(way)
            else:
                given.append((way, devices))
                placed |= {way.job, way.partner}
        return commands + self._let(given, until_s)

    def _as_it_runs(self, j: int) -> Choice:
        """How a job runs alone, to be given the same again elsewhere."""
        live = self.live
        held = int(live.type[j]), int(live.held_devices[j])
        return Choice(j, ALONE, *held, int(live.way[j]), int(live.held_batch[j]), live.others_of(j))

    def _devices(self, way: Choice) -> tuple[tuple[Device, ...] | None, list[int]]:  # noqa: PLR0911
        """Devices for this way to run, or who has to move first; None where a gang can only run together."""
        for member in (way.job, way.partner) if way.partner != ALONE else ():
            if (beside := self.leases.get(self.live.jobs[member].id)) is not None:
                return beside.devices, []
        avoid = self._avoided(way)
        waits = avoid and any(self.failures.waits(job_id, self.now_s) for job_id in self._ids(way))
        if waits and any(self.hardware.free[a].besides(avoid) < count for a, count in way.uses.items()):
            return None, []
        if way.others:
            taken = [self.hardware.free[a].take(count, avoid=avoid) for a, count in way.uses.items()]
            return tuple(device for devices in taken for device in devices), []
        free, width = self.hardware.free[way.type], way.devices
        if width > 1 and not free.holds_together(width):
            gain_s = self._gain_s(way)
            if gain_s > 0 and (moved := self._room(way, gain_s)):
                return None, moved
            if self._spread_speed(way) == 0.0:
                return None, []
        if avoid and width > 1 and not free.holds_together(width, avoid):
            if waits:
                return None, []
            avoid = frozenset()  # a gang is not spread to get away from a server
        return free.take(width, avoid=avoid), []

    def _ids(self, way: Choice) -> list[int]:
        return [self.live.jobs[member].id for member in (way.job, way.partner) if member != ALONE]

    def _avoided(self, way: Choice) -> frozenset[int]:
        """The servers on which a job of this way failed."""
        return frozenset[int]().union(*map(self.failures.avoided, self._ids(way)))

    def _room(self, way: Choice, gain_s: float, besides: Sequence[Device] = ()) -> list[int] | None:
        """Narrower jobs that would make room for a gang and lose less than it gains; None where it must be spread.

        Free devices are there for it, and these ``besides``. For a gang that would only be faster, no job moves
        that would lose its work.
        """
        a, width = way.type, way.devices
        free = self.hardware.free[a].by_server()
        for device in besides:
            free[device.server_id] += 1
        if (a, width) not in self._movable:
            self._movable[a, width] = self._tenants(a, width)
        tenants = self._movable[a, width]
        if self._spread_speed(way) > 0.0:
            tenants = {on: [one for one in some if self.live.saves[one.job]] for on, some in tenants.items()}
        moves = make_room(width, self.hardware.free[a].fewest(width), free, tenants)
        if moves is None or sum(one.loss_s * one.devices for one in moves) >= gain_s:
            return None
        return list(dict.fromkeys(one.job for one in moves))

    def _tenants(self, a: int, width: int) -> Tenants:
        """The jobs of a type that may move for a gang of this width, and can run wherever they go."""
        live, tenants = self.live, Tenants()
        movable_J = (live.type == a) & (live.held_devices < width) & (live.partner == ALONE) & ~live.mixed()
        rows = np.flatnonzero(movable_J)
        rows = rows[self._may_move(rows)]
        losses_s = loss_s(live, rows) + at_risk_s(live, rows, self.now_s)
        for j, seconds in zip(rows.tolist(), losses_s.tolist(), strict=True):
            devices = self.leases[live.jobs[j].id].devices
            if len(devices) == 1 or self._spread_speed(self._as_it_runs(j)) > 0.0:
                for server_id, held in by_server(devices).items():
                    tenants.setdefault(server_id, []).append(Tenant(j, held, seconds))
        return tenants

    def _have_moved(self, jobs: list[int]) -> None:
        """They are no tenants any more; those who were launched meanwhile are wider than any gang to come."""
        for on_server in self._movable.values():
            for server_id, tenants in on_server.items():
                on_server[server_id] = [one for one in tenants if one.job not in jobs]

    def _gain_s(self, way: Choice) -> float:
        """Device-seconds that a gang gains in a round by being together."""
        return (1.0 - self._spread_speed(way)) * self.rules.round_s * way.devices

    def _may_move(self, j_L: Ints) -> Bools:
        """Which of these jobs may be restarted on other devices of their type."""
        if not self.may_move:
            return np.zeros(len(j_L), dtype=bool)
        may_L: Bools = ~(self.live.resizing[j_L] | may_keep(self.live, self.rules, j_L, self.now_s))
        return may_L

    def _spread_speed(self, way: Choice) -> float:
        """The speed over several servers, as a part of that in one; where nothing is known of it, the same."""
        live, j, a = self.live, way.job, way.type
        spread, whole = live.spread_throughput[j, a], live.throughput[j, a]
        if live.elastic[j] and (way.devices, way.batch) != (live.wanted_devices[j], OWN_BATCH):
            of = live.jobs[j], self.hardware.accelerators[a], way.devices, way.batch, self.throughputs
            spread, whole = (speed(*of, consolidated=here) for here in (False, True))
            if spread is None or not whole:
                return 1.0
        return 1.0 if np.isnan(spread) else float(spread / whole)

    def _let(self, given: Sequence[Given], until_s: float) -> list[Launch]:
        """Launch the members of these ways that do not run yet on these devices."""
        new = list[tuple[int, Given]]()
        for one in given:
            if one[0].partner == ALONE:
                new.append((one[0].job, one))
            else:
                new += [(member, one) for member in self._beside(one[0])]
        return [Launch(lease) for lease in self._leases(new, until_s)] if new else []

    def _beside(self, pair: Choice) -> list[int]:
        """The members of a pair that do not run yet; one that does, alone until now, shares from now on."""
        live, new = self.live, list[int]()
        for member, other in ((pair.job, pair.partner), (pair.partner, pair.job)):
            if live.jobs[member].id in self.leases:
                self._settle(np.array([member]), self.now_s)
                live.partner[member], live.way[member] = live.jobs[other].id, pair.number
            else:
                new.append(member)
        return new

    def _leases(self, new: Sequence[tuple[int, Given]], until_s: float) -> list[Lease]:
        """These jobs hold their devices from now on, each in a lease of its own."""
        live = self.live
        rows, given = zip(*new, strict=True)
        job, partner, type_, devices, number, batch, others = zip(*(way for way, _ in given), strict=True)
        j_L, partner_L, first = np.array(rows), np.array(partner), self._last_lease_id + 1
        if np.count_nonzero(pair_L := partner_L != ALONE):
            partner_L[pair_L] = live.id[np.where(j_L == np.array(job), partner_L, job)[pair_L]]
        live.type[j_L], live.partner[j_L], live.way[j_L], live.held_batch[j_L] = type_, partner_L, number, batch
        live.paid_type[j_L], live.held_devices[j_L], live.paid_devices[j_L] = type_, devices, devices
        live.has_mixes |= any(others)
        if live.has_mixes:
            others_LA = [widened(np.array([more], dtype=np.int64), live.types)[0] for more in others]
            live.others[j_L] = live.paid_others[j_L] = others_LA
        self.believe(j_L)
        named = zip(rows, live.id[j_L].tolist(), self._named(j_L, given), given, strict=True)
        leases = [
            Lease(i, job_id, how, on, until_s, live.jobs[j].total_steps, self.now_s)
            for i, (j, job_id, how, (_, on)) in enumerate(named, first)
        ]
        self._last_lease_id = leases[-1].id
        self.leases |= {lease.job_id: lease for lease in leases}
        live.spread[j_L] = [lease.configuration.spread for lease in leases]
        live.lease[j_L] = range(first, first + len(leases))
        live.lease_held_s[j_L], live.heard[j_L] = 0.0, False
        live.launched_s[j_L] = live.since_s[j_L] = self.now_s
        live.steps_at_s[j_L] = self.now_s + live.restart_s[j_L]
        return leases

    def _named(self, j_L: Ints, given: Sequence[Given]) -> Iterator[Configuration]:
        """How jobs are launched, under the ids of the members."""
        ids = self.live.id[j_L].tolist(), self.live.partner[j_L].tolist()
        for i, k, (way, devices) in zip(*ids, given, strict=True):
            members = (i,) if k == ALONE else (i, k) if i < k else (k, i)
            others = self._mix(way)[1:] if way.others else ()
            spread = len(devices) > 1 and not others and self._is_spread(devices, way.type)
            yield Configuration(
                members, self.hardware.accelerators[way.type], way.devices, spread, way.batch, others
            )

    def believe(self, j_L: Ints) -> None:
        """How fast these jobs are that have a size other than their own, by the present table."""
        live = self.live
        other_L = (live.held_devices[j_L] != live.wanted_devices[j_L]) | (live.held_batch[j_L] != OWN_BATCH)
        if live.has_mixes:
            other_L |= live.others[j_L].any(axis=1)
        live.size_speed[j_L] = 0.0
        for j in j_L[other_L].tolist():
            way = self._as_it_runs(j)
            live.size_speed[j] = speed_on(live.jobs[j], self._mix(way), way.batch, self.throughputs) or 0.0

    def _mix(self, way: Choice) -> Mix:
        """The types of a way to run, by name, with the devices of each."""
        return tuple((self.hardware.accelerators[a], devices) for a, devices in way.uses.items())

    def _is_spread(self, devices: tuple[Device, ...], a: int) -> bool:
        servers = len({device.server_id for device in devices})
        return servers > 1 and servers > self.hardware.free[a].fewest(len(devices))

    def extend(self, until_s: float) -> list[Command]:
        """All leases run on, past the end of the round."""
        return [Extend(until_s)] if self.leases else []

    # -- taking back ------------------------------------------------------------------------------------------

    def stop_all(self, rows: Sequence[int]) -> list[Command]:
        """These jobs give their devices up; what they did since their last report, they have yet to say."""
        if not rows:
            return []
        live, j_L = self.live, np.array(rows)
        self._settle(j_L, self.now_s)
        for j in j_L[live.resizing[j_L]].tolist():
            self._has_not_gone_over(j)
        stops = list[Command]()
        for j, stopped in zip(rows, self._as_stopped(j_L), strict=True):
            lease = self._give_back(j)
            self.stopped.put(lease.id, stopped)
            stops.append(Stop(lease.id))
        self._wait(j_L)
        return stops

    def _as_stopped(self, j_L: Ints) -> list[Stopped]:
        """The leases of these jobs, as they are accounted for until now."""
        live = self.live
        price_L = np.where(live.partner[j_L] != ALONE, 0.5, 1.0)
        how = (live.id, live.type, live.held_devices, live.held_batch, live.lease_held_s)
        columns = (*(column[j_L].tolist() for column in how), price_L.tolist(), map(live.others_of, j_L.tolist()))
        return [
            Stopped(
                job_id,
                a,
                devices,
                batch,
                held_s,
                price,
                self.now_s - held_s,
                servers_of(self.leases[job_id]),
                more,
            )
            for job_id, a, devices, batch, held_s, price, more in zip(*columns, strict=True)
        ]

    def _has_not_gone_over(self, j: int) -> None:
        """Until now the job held the devices of the lease that it was to go over from, not those of the next."""
        live, before_id = self.live, self.leases[self.live.jobs[j].id].continues
        if before_id is not None and (before := self.stopped.get(before_id)) is not None:
            self.stopped.put(before_id, before._replace(held_s=before.held_s + float(live.lease_held_s[j])))
            live.lease_held_s[j] = 0.0

    def release(self, j: int) -> None:
        """The job waits again; its devices are free, but for those that its partner keeps."""
        self._give_back(j)
        self._wait(np.array([j]))

    def _give_back(self, j: int) -> Lease:
        """The devices of a job are free, or its partner's alone; the lease, which it no longer holds."""
        live, lease = self.live, self.leases.pop(self.live.jobs[j].id)
        if (partner := int(live.partner[j])) != ALONE and partner in self.leases:
            k_L = np.array([live.index[partner]])
            self._settle(k_L, self.now_s)  # until now it had half of the devices' time
            self._left_alone.add(partner)
            live.partner[k_L] = ALONE
        else:
            for a in self._as_it_runs(j).uses if live.has_mixes else (int(live.type[j]),):
                self.hardware.free[a].give_back(lease.devices)
        return lease

    def _wait(self, j_L: Ints) -> None:
        """These jobs hold nothing any more."""
        live = self.live
        live.type[j_L], live.partner[j_L], live.way[j_L] = WAITING, ALONE, NO_WAY
        live.held_devices[j_L] = live.paid_devices[j_L] = live.held_batch[j_L] = 0
        if live.has_mixes:
            live.others[j_L] = live.paid_others[j_L] = 0
        live.resizing[j_L] = False
        live.size_speed[j_L] = 0.0
        live.spread[j_L] = False
        live.stopped_s[j_L] = self.now_s

    def lapsed(self, lost: WorkerLost) -> list[tuple[Stopped, float]]:
        """Leases taken back after they had ended on a lost server; and how much longer (or less) each was held."""
        if lost.lapsed_s is None or not self.hardware.is_epoch(lost.server_id, lost.epoch):
            return []  # it is not known when, or the server came back since
        return self.stopped.lose(lost.server_id, lost.over_s)

    def last_word(self, lease_id: int, held_s: float) -> tuple[Stopped, float] | None:
        """A lease that was taken back says for how long it was held: it, and what was not accounted for yet."""
        if (stopped := self.stopped.get(lease_id)) is None:
            return None
        after = self.leases.get(stopped.job_id)
        if after is not None and after.continues == lease_id:  # its job is in that one from now on
            j = self.live.index[after.job_id]
            self._settle(np.array([j]), self.now_s)
            self._has_not_gone_over(j)
            self.live.pays(j)
        stopped = self.stopped.pop(lease_id)
        return stopped, held_s - stopped.held_s


def _most_together(devices: Sequence[Device], count: int) -> tuple[Device, ...]:
    """So many of these devices, those first of which most are in one server; all if they are not as many."""
    on = Counter(device.server_id for device in devices)
    return tuple(sorted(devices, key=lambda device: (-on[device.server_id], device)))[:count]


def servers_of(lease: Lease) -> frozenset[int]:
    """The servers on which a lease holds devices."""
    return frozenset([device.server_id for device in lease.devices])
