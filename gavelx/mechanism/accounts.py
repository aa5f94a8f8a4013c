"""Accounts of the live jobs: time promised and received, what it cost, what an equal share would have taken.

Leases are accounted for when the figures are needed: when one ends, when its price changes, before the policy is
asked.

Legend: J live jobs, A accelerator types, L leases.
"""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from gavelx.configuration import ALONE, ConfigurationSet, widened
from gavelx.mechanism.attained_service import received_s
from gavelx.mechanism.entitlements import Entitlements
from gavelx.mechanism.live import NO_WAY, LiveJobs
from gavelx.mechanism.priority import Credit
from gavelx.mechanism.rules import Rules
from gavelx.mechanism.tariffs import Tariffs
from gavelx.metrics import equal_share
from gavelx.prices import Prices
from gavelx.snapshot import WAITING

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Charge = tuple[int, int, float, int]
"""The id of a job, the number of an accelerator type, device-seconds of it, and the number of their prices."""


class Accounts:
    """What live jobs were promised, have held and have paid (columns of ``live``), and what each way is owed."""

    charged: Callable[[Charge], None] | None = None  # hears of each

    def __init__(self, live: LiveJobs, prices: Prices, rules: Rules) -> None:
        self.live, self.tariffs, self.rules = live, Tariffs(prices), rules
        self.ways = Entitlements()
        self.priority = Credit(rules.round_s)
        self.most_behind_s = 0.0  # by how much any job ever was behind what it was promised, when a round began
        self._accelerators: list[str] = []
        self._usd_per_s_A = np.zeros(0)  # now
        self._accrued_s = 0.0  # promises have accrued until then

    # -- what is promised -------------------------------------------------------------------------------------

    def allocate(self, ways: Entitlements) -> None:
        """The policy has promised these ways."""
        self.promise(self.priority.allocated(self.ways, ways))

    def promise(self, ways: Entitlements) -> None:
        """These are the ways to run from now on; those who run do so in one of them, or in none."""
        live = self.live
        self.ways = ways
        live.share[:] = ways.share_J(len(live))
        j_L = live.holders()
        live.way[j_L] = self.ways.find(self.as_they_run(j_L))

    def let_go(self) -> None:
        """Jobs that are gone are promised nothing any more, nor are those who were to share devices with them."""
        here_J, ways = np.append(~self.live.gone, True), self.ways  # ALONE is the last
        self.promise(ways.take(here_J[ways.job] & here_J[ways.partner]))

    def as_they_run(self, j_L: Ints) -> ConfigurationSet:
        """The configurations in which these jobs run now."""
        live = self.live
        k_L = live.partner[j_L]
        if np.count_nonzero(k_L != ALONE):
            k_L = live.rows(k_L)  # ALONE is no job's id
        together = np.zeros(len(j_L), dtype=bool)
        held = live.type[j_L], live.held_devices[j_L], together, live.held_batch[j_L]
        return ConfigurationSet.of(j_L, k_L, *held, others=live.others[j_L] if live.has_mixes else None)

    def accrue(self, now_s: float) -> None:
        """Promises accrue until now."""
        seconds = now_s - self._accrued_s
        if seconds > 0:
            self.priority.passed(self.ways, seconds)
            self.live.promised_s[:] += self.live.share * seconds
            self._accrued_s = now_s

    def promised_s(self, j: int, now_s: float) -> float:
        """What a live job has been promised, as of now."""
        return float(self.live.promised_s[j] + self.live.share[j] * (now_s - self._accrued_s))

    # -- what is received -------------------------------------------------------------------------------------

    def settle(self, j_L: Ints, now_s: float) -> None:
        """These running jobs have held their devices until now, as far as we know."""
        seconds_L = now_s - self.live.since_s[j_L]
        if np.count_nonzero(seconds_L):
            self.live.since_s[j_L] = now_s
            self._received(j_L, seconds_L)

    def settle_all(self, now_s: float) -> None:
        """All leases are accounted for until now."""
        self.settle(self.live.holders(), now_s)

    def ended(self, j: int, held_s: float, now_s: float) -> None:
        """The lease of this job has ended, and says for how long it was held."""
        live, j_L = self.live, np.array([j])
        for k, seconds in self.tariffs.pieces(float(live.since_s[j]), held_s - float(live.lease_held_s[j])):
            self._received(j_L, np.array([seconds]), k)
        live.since_s[j] = now_s

    def got_ready(self, j: int, new: Mapping[int, int], warm_s: float) -> None:
        """New devices of a lease that continues another, by type, are paid for while they got ready."""
        for a, devices in new.items():
            held = np.array([j]), np.array([a]), np.array([devices]), None, np.array([warm_s])
            self._charge(*held, k=self.tariffs.last)

    def ended_late(
        self, held: ConfigurationSet, over_s: float, seconds: float, *, price: float, received: bool
    ) -> None:
        """A job has held its devices, at a part of their price, for longer than until then (or less: negative).

        ``received``: that counts against what it was promised. Where shares are quotas, the time of its last
        checkpoint does, too.
        """
        self.live.held_s[held.job] += seconds
        for k, some_s in self.tariffs.pieces(over_s, seconds):
            self._charge(held.job, held.type, held.devices, held.others, np.array([some_s * price]), k=k)
        if received:
            way = self.ways.find(held)
            if way[0] != NO_WAY:
                self.priority.received(self.ways, way, np.array([seconds]))

    def _received(self, j_L: Ints, seconds_L: Floats, k: int | None = None) -> None:
        """These jobs have held devices for so much longer, at the prices of that number (None: of now)."""
        live = self.live
        live.lease_held_s[j_L] += seconds_L
        live.held_s[j_L] += seconds_L
        if live.has_untold:
            self._worked(j_L, seconds_L)
        half_s_L = self._halved(j_L, seconds_L)
        self._charge(*self._paid(j_L), half_s_L, k=self.tariffs.last if k is None else k)
        way_L = live.way[j_L]
        known_L = way_L != NO_WAY
        self.priority.received(self.ways, way_L[known_L], half_s_L[known_L])  # of a pair, half comes from each

    def _halved(self, j_L: Ints, seconds_L: Floats) -> Floats:
        """Half of the time, of jobs that share their devices."""
        shared_L = self.live.partner[j_L] != ALONE
        return np.where(shared_L, 0.5, 1.0) * seconds_L if np.count_nonzero(shared_L) else seconds_L

    def _worked(self, j_L: Ints, seconds_L: Floats) -> None:
        """Time counts for the believed length of a job by how fast its devices are, of those that it can use."""
        live = self.live
        untold_L = np.isinf(live.total_steps[j_L])
        if np.count_nonzero(untold_L):
            j_L, seconds_L = j_L[untold_L], seconds_L[untold_L]
            speed_L = np.fmax(live.pace(j_L), 0.0)
            live.worked_s[j_L] += seconds_L * speed_L / live.best_speed(j_L)

    def received_s_J(self, now_s: float) -> Floats:
        """What each live job has received, as of now."""
        return received_s(self.live, now_s)

    def note_who_is_behind(self, now_s: float) -> None:
        """A round begins: the job that is furthest behind may be further than any ever was."""
        behind_s_J = self.live.promised_s - self.received_s_J(now_s)
        self.most_behind_s = max(self.most_behind_s, float(behind_s_J.max(initial=0.0)))

    # -- what it costs ----------------------------------------------------------------------------------------

    @property
    def prices(self) -> Prices:
        """What devices cost now."""
        return self.tariffs[self.tariffs.last]

    def reprice(self, now_s: float, prices: Prices) -> None:
        """Devices cost so much from now on."""
        self.tariffs.change(now_s, prices)
        self.know_types(self._accelerators)

    def know_types(self, accelerators: list[str]) -> None:
        """These are the types of devices that there are."""
        self._accelerators = accelerators
        self._usd_per_s_A = self._usd_per_s(self.tariffs.last)

    def _usd_per_s(self, k: int) -> Floats:
        """By type, at the prices of that number; NaN without a known price, as all that they add to."""
        return self.tariffs[k].array(self._accelerators) / 3600.0

    def spent_usd(self, j: int, now_s: float) -> float:
        """What a live job has cost, with what it holds, as of now."""
        live, j_L = self.live, np.array([j])
        if live.type[j] == WAITING:
            return float(live.spent_usd[j])
        _, a_L, devices_L, others_LA = self._paid(j_L)
        seconds_L = self._halved(j_L, now_s - live.since_s[j_L])
        return float(live.spent_usd[j] + self._usd(a_L, devices_L, others_LA, seconds_L, self._usd_per_s_A)[0])

    def not_charged_yet(self, now_s: float) -> Iterator[tuple[int, int, float]]:
        """What jobs hold now, since they were last charged for it: device-seconds of each job and type."""
        j_L = self.live.holders()
        return self._each(*self._paid(j_L), self._halved(j_L, now_s - self.live.since_s[j_L]))

    def _paid(self, j_L: Ints) -> tuple[Ints, Ints, Ints, Ints | None]:
        """The devices for which running jobs pay."""
        live = self.live
        others_LA = live.paid_others[j_L] if live.has_mixes else None
        return j_L, live.paid_type[j_L], live.paid_devices[j_L], others_LA

    def _charge(
        self,
        j_L: Ints,
        a_L: Ints,
        devices_L: Ints,
        others_LA: Ints | None,
        seconds_L: Floats,
        *,
        k: int,
    ) -> None:
        """Jobs pay for devices of a type, and in a mix for those of its others, at the prices of that number."""
        usd_per_s_A = self._usd_per_s_A if k == self.tariffs.last else self._usd_per_s(k)
        self.live.spent_usd[j_L] += self._usd(a_L, devices_L, others_LA, seconds_L, usd_per_s_A)
        if self.charged is not None:
            for job_id, a, device_s in self._each(j_L, a_L, devices_L, others_LA, seconds_L):
                self.charged((job_id, a, device_s, k))

    def _usd(
        self, a_L: Ints, devices_L: Ints, others_LA: Ints | None, seconds_L: Floats, usd_per_s_A: Floats
    ) -> Floats:
        """What that costs; nothing costs nothing, also where no price is known."""
        usd_L = seconds_L * usd_per_s_A[a_L] * devices_L
        if others_LA is not None and others_LA.shape[1]:
            others_LA = widened(others_LA, len(usd_per_s_A))
            usd_per_s_LA = np.where(others_LA > 0, others_LA * usd_per_s_A, 0.0)
            usd_L += seconds_L * usd_per_s_LA.sum(axis=1)
        return np.where(seconds_L == 0.0, 0.0, usd_L)

    def _each(
        self, j_L: Ints, a_L: Ints, devices_L: Ints, others_LA: Ints | None, seconds_L: Floats
    ) -> Iterator[tuple[int, int, float]]:
        """The device-seconds of each job and type."""
        for n, job_id in enumerate(self.live.id[j_L].tolist()):
            yield job_id, int(a_L[n]), float(devices_L[n] * seconds_L[n])
            if others_LA is not None:
                for a in np.flatnonzero(others_LA[n]).tolist():
                    yield job_id, a, float(others_LA[n, a] * seconds_L[n])

    def compare_with_equal_share(self, devices_A: Ints) -> None:
        """Time and dollars that the steps done since the last time would have taken with the equal share of then.

        And from now on, the speed and the price of the equal share among the jobs that live now.
        """
        live = self.live
        done_J, untold = live.steps_done.copy(), live.untold()
        done_J[untold] = live.worked_s[untold]  # they may show no steps, or begin to show some
        steps_J, speed_J = done_J - live.steps_then, live.equal_share_speed
        steps_J[untold] *= live.best_speed(untold)
        seconds_J = np.divide(steps_J, speed_J, out=np.zeros(len(live)), where=speed_J > 0)
        live.equal_share_s[:] += seconds_J
        live.equal_share_usd[:] += np.where(seconds_J > 0, seconds_J * live.equal_share_usd_per_s, 0.0)
        live.steps_then[:] = done_J
        scale_J = live.wanted_devices
        share_JA, known_JA = equal_share(scale_J, devices_A, len(live)), ~np.isnan(live.throughput)
        live.equal_share_speed[:] = np.where(known_JA, live.throughput * share_JA, 0.0).sum(axis=1)
        usd_per_s_A = np.where(devices_A > 0, self._usd_per_s_A, 0.0)
        live.equal_share_usd_per_s[:] = (share_JA * usd_per_s_A).sum(axis=1) * scale_J
