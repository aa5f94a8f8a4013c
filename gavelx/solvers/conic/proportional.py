"""Sums of logarithms of each job's own speed (proportional fairness): an interior point that eliminates every job.

    maximise sum_g weight_g log(gain_g . x_g)   subject to   sum_a x_ga <= 1,  sum_g load_g x_ga <= W_a,  x >= 0

Newton's system couples jobs through the A devices' rows only. Within a job it is a diagonal and two outer products
(of the logarithm, and of its time), inverted in closed form, so a step costs as much as reading the matrix and one
A x A system. Several such programs over the same gains, with other weights and loads, are solved side by side.

For any lambda > 0, ``w log e <= w log(w / lambda) - w + lambda e``; with lambda = w / e and any prices p that
bounds the program: ``sum_g (w log(w / lambda) - w) + p.W + sum_g max_a (lambda gain_ga - load_g p_a)^+``.

Source: S. Mehrotra, "On the implementation of a primal-dual interior point method" (SIAM Journal on Optimization
2, 1992): the choice of the centring, and the second-order term, of which only so much is used as the step that is
free of it could go.

Legend: B programs, G rows (jobs, or classes of identical ones), A accelerator types.
"""

from copy import copy
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gavelx.dense import solved
from gavelx.solvers.program.errors import OUT_OF_TIME, UnsolvedError
from gavelx.solvers.program.settings import time_is_up

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
STEPS = 60
CLOSE = 1e-13
"""Gap at which the search ends, as a part of all weights together."""
ENOUGH = 1e-9
"""The same with which an answer is one."""
NEARLY = 1e-6
"""Products of variables and multipliers, together, from which on it is worth looking at the gap."""
HALFWAY = 1e-3
"""The same of the point from which programs with nearly the same rows start."""
STALLED = 3
"""Steps without a smaller gap after which rounding has won."""
BOUNDARY = 0.98
"""How far a step goes towards the first variable that becomes zero, until it is close to the optimum."""
LEAST = 1e-6
"""The least part of the present products at which a step aims."""
TOGETHER = 0.1
"""Nor at less than this part of what left-over costs add to them, for products are not to vanish first."""
CELLS = 25_000
"""Size of the arrays of programs solved side by side: they stay in the cache."""


@dataclass(frozen=True, eq=False)
class Proportional:
    """Shares, the sum of logarithms that they reach and what none pass, and the worth of one more device."""

    share_GA: Floats
    value: float
    bound: float
    price_A: Floats
    steps: int


class ProportionalProgram:
    """The program over all rows. Each has a weight and, on a type with devices, a gain above 0."""

    def __init__(self, gain_GA: Floats, weight_G: Floats, load_G: Floats, devices_A: Floats) -> None:
        self._used_A = devices_A > 0
        self._unit_G = np.where(self._used_A, gain_GA, 0.0).max(axis=1)
        self._gain_GA = np.ascontiguousarray(gain_GA[:, self._used_A] / self._unit_G[:, None])
        self._weight_G, self._load_G, self._devices_A = weight_G, load_G, devices_A[self._used_A]
        self._start: _Point | None = None

    def solve(self) -> Proportional:
        """The optimum. Raises :class:`UnsolvedError` unless value and bound meet within 1e-9 of all weights."""
        point = self._point(self._weight_G[None], self._load_G[None])
        share, value_B, bound_B, price_BA, steps = self._run(point, keep=True)
        share_GA, price_A = np.zeros((len(self._unit_G), len(self._used_A))), np.zeros(len(self._used_A))
        share_GA[:, self._used_A], price_A[self._used_A] = share[0], price_BA[0]
        constant = float((self._weight_G * np.log(self._unit_G)).sum())
        return Proportional(share_GA, float(value_B[0]) + constant, float(bound_B[0]) + constant, price_A, steps)

    def without(self, weight_G: Floats, load_G: Floats) -> Floats:
        """For each row, the optimum of the others' logarithms if it had less weight and load by this.

        Gains count as parts of each row's best, in all of them. Raises :class:`UnsolvedError` as :meth:`solve`.
        """
        if self._start is None:
            self.solve()
        assert self._start is not None
        G, each = len(weight_G), max(1, CELLS // self._start.x.size)
        value_G = np.empty(G)
        for first in range(0, G, each):
            row_B = np.arange(first, min(first + each, G))
            point = self._point(
                self._weight_G[None].repeat(len(row_B), 0), self._load_G[None].repeat(len(row_B), 0)
            )
            point.begin_at(self._start, row_B, weight_G[row_B], load_G[row_B])
            _, value_G[row_B], bound_B, _, _ = self._run(point)
            value_G[row_B] = (value_G[row_B] + bound_B) / 2.0
        return value_G

    def value(self, speed_G: Floats) -> Floats:
        """Each row's logarithm of such a speed, as a part of its best."""
        return np.asarray(np.log(speed_G / self._unit_G))

    def _point(self, weight_BG: Floats, load_BG: Floats) -> "_Point":
        return _Point(self._gain_GA, weight_BG, load_BG, self._devices_A)

    def _run(self, point: "_Point", *, keep: bool = False) -> tuple[Floats, Floats, Floats, Floats, int]:
        """Step until value and bound of every program meet, or rounding wins."""
        best, here, steps = point.proven(), np.arange(len(point.weight)), 0
        gap_B, stalled_B = best[2] / point.weight.sum(axis=1), np.zeros(len(here), dtype=int)
        while len(here) and steps < STEPS:
            if time_is_up():
                raise UnsolvedError(OUT_OF_TIME)
            steps += 1
            try:
                with np.errstate(all="ignore"):
                    point.step()
            except ZeroDivisionError:  # rounding has won: what was proven stands
                break
            total_B = point.weight.sum(axis=1)
            left_B = point.centre() * point.products / total_B
            if keep and self._start is None and left_B[0] <= HALFWAY:
                self._start = point.copy()
            if left_B.min() > NEARLY:
                continue
            new = point.proven()
            new_gap_B = new[2] / total_B
            better_B = new_gap_B < gap_B[here]
            for old, now in zip(best, new, strict=True):
                old[here[better_B]] = now[better_B]
            gap_B[here[better_B]] = new_gap_B[better_B]
            stalled_B[here] = np.where(better_B | (left_B > NEARLY), 0, stalled_B[here] + 1)
            goes_on_B = (gap_B[here] > CLOSE) & (stalled_B[here] < STALLED)
            if not goes_on_B.all():
                here = here[goes_on_B]
                point.only(goes_on_B)
        if not (gap_B <= ENOUGH).all():
            raise UnsolvedError("bound and value did not meet")
        share, value_B, beyond_B, price_BA = best
        return share, value_B, value_B + beyond_B, price_BA, steps


class _Point:
    """Shares x, idleness last, and devices z that are left; multipliers v of x >= 0, nu of times, p of devices."""

    def __init__(self, gain_GA: Floats, weight_BG: Floats, load_BG: Floats, devices_A: Floats) -> None:
        """Equal shares of half of everything."""
        G, A = gain_GA.shape
        self.gain = np.concatenate([gain_GA, np.zeros((G, 1))], axis=1)
        self.weight, self.load, self.devices = weight_BG, load_BG, devices_A
        part_BA = 0.5 * np.minimum(1.0 / A, devices_A / load_BG.sum(axis=1)[:, None])
        self.x = np.concatenate([part_BA, 1.0 - part_BA.sum(axis=1, keepdims=True)], axis=1)[:, None].repeat(G, 1)
        self.z = devices_A - self.used(self.x)
        total_B = weight_BG.sum(axis=1)
        self.nu = 0.5 * np.maximum(weight_BG, 1e-3 * total_B[:, None] / G)
        self.p = 0.5 * total_B[:, None] / (A * devices_A)
        self.v = np.maximum(self.left_over(), 0.1 * self.nu[:, :, None])
        self.products = self.x[0].size + self.z[0].size

    def copy(self) -> "_Point":
        other = copy(self)
        other.x, other.z, other.v, other.nu, other.p = (
            a.copy() for a in (self.x, self.z, self.v, self.nu, self.p)
        )
        return other

    def only(self, keep_B: NDArray[np.bool_]) -> None:
        """Leave out the other programs."""
        for name in ("weight", "load", "x", "z", "v", "nu", "p"):
            setattr(self, name, getattr(self, name)[keep_B])

    def begin_at(self, start: "_Point", row_B: Ints, weight_B: Floats, load_B: Floats) -> None:
        """Begin where the program of all rows passed; each of these has less weight and load in one row."""
        B, V = len(row_B), self.x.shape[2]
        self.x, self.v, self.nu, self.p = (a.repeat(B, 0) for a in (start.x, start.v, start.nu, start.p))
        every, centre = np.arange(B), float(start.centre()[0])
        self.weight[every, row_B] = np.maximum(self.weight[every, row_B] - weight_B, 0.0)
        self.load[every, row_B] = np.maximum(self.load[every, row_B] - load_B, 0.0)
        gone = np.flatnonzero(self.weight[every, row_B] == 0.0)
        self.x[gone, row_B[gone]], self.v[gone, row_B[gone]] = 1.0 / V, centre * V
        self.nu[gone, row_B[gone]] = centre * V
        self.z = self.devices - self.used(self.x)

    def used(self, share: Floats) -> Floats:
        """Devices of each type that shares take."""
        return np.asarray(np.einsum("BG,BGA->BA", self.load, share[:, :, :-1]))

    def speed(self) -> Floats:
        return np.asarray(np.einsum("GV,BGV->BG", self.gain, self.x))

    def cost(self, slope: Floats, nu: Floats, p: Floats) -> Floats:
        """By how much a share costs more than it is worth, at this worth of a unit of speed and these prices."""
        over = nu[:, :, None] - slope[:, :, None] * self.gain
        over[:, :, :-1] += self.load[:, :, None] * p[:, None, :]
        return np.asarray(over)

    def left_over(self) -> Floats:
        return self.cost(self.weight / self.speed(), self.nu, self.p)

    def centre(self) -> Floats:
        """The mean product of variables and their multipliers."""
        sums = np.einsum("BGV,BGV->B", self.x, self.v) + np.einsum("BA,BA->B", self.z, self.p)
        return np.asarray(sums / self.products)

    def step(self) -> None:
        """One step towards the optimum, centred as far as a step straight at it would fall short.

        Variables and multipliers go equally far, for the logarithm ties them.
        """
        newton, centre_B = _Newton(self), self.centre()
        dx, dz, dv, _, dp = newton.towards(-self.x * self.v, -self.z * self.p)
        length_B = np.minimum(1.0, self._longest(dx, dz, dv, dp))
        bent_B = (np.einsum("BGV,BGV->B", dx, dv) + np.einsum("BA,BA->B", dz, dp)) / self.products
        part_B = np.clip(1.0 - length_B + length_B * length_B * bent_B / centre_B, 0.0, 1.0)
        part_B *= part_B * part_B  # a power would differ by processor
        left_B = np.einsum("BGV,BGV->B", self.x, np.abs(newton.residual)) / (self.products * centre_B)
        part_B = np.clip(np.maximum(part_B, TOGETHER * left_B), LEAST, 1.0)
        aim_B1, bend_B1 = (part_B * centre_B)[:, None], (length_B * length_B)[:, None]
        dx, dz, dv, dnu, dp = newton.towards(
            aim_B1[:, :, None] - self.x * self.v - bend_B1[:, :, None] * dx * dv,
            aim_B1 - self.z * self.p - bend_B1 * dz * dp,
        )
        length_B = np.maximum(BOUNDARY, 1.0 - np.sqrt(part_B)) * self._longest(dx, dz, dv, dp)
        length_B = np.minimum(1.0, length_B)
        along, across = length_B[:, None], length_B[:, None, None]
        self.z, self.nu, self.p = self.z + along * dz, self.nu + along * dnu, self.p + along * dp
        self.x, self.v = self.x + across * dx, self.v + across * dv
        self.x /= self.x.sum(axis=2, keepdims=True)

    def _longest(self, dx: Floats, dz: Floats, dv: Floats, dp: Floats) -> Floats:
        """How far each program can go before one of its variables becomes zero."""
        pairs = ((self.x, dx), (self.z, dz), (self.v, dv), (self.p, dp))
        down = [(change / value).reshape(len(value), -1).min(axis=1) for value, change in pairs]
        return np.asarray(1.0 / np.maximum(-np.minimum.reduce(down), 1e-300))

    def proven(self) -> list[Floats]:
        """Feasible shares near here, their value, by how much none pass it, and the prices that prove that.

        By how much has no logarithm in it: those differ by processor, and this says when to stop.
        """
        fits_BA = np.minimum(1.0, self.devices / np.maximum(self.used(self.x), 1e-300))
        share = self.x[:, :, :-1] * fits_BA[:, None, :]
        speed = np.einsum("GA,BGA->BG", self.gain[:, :-1], share)
        speed = np.where(self.weight > 0, speed, 1.0)
        value_B = np.einsum("BG,BG->B", self.weight, np.log(speed))
        time_BG = -self.cost(self.weight / speed, np.zeros_like(self.nu), self.p).min(axis=2)
        worth_B = np.einsum("BA,A->B", self.p, self.devices) + time_BG.sum(axis=1)
        return [share, value_B, worth_B - self.weight.sum(axis=1), self.p.copy()]


class _Newton:
    """The linear system of a point, factorised: every row by the formula of Woodbury, then the devices' A x A.

    A row's times add up to 1, so its largest share follows from the others. Over these its system is the diagonal
    v / x, plus two outer products: of ones (times v / x of the largest), and of gains less that of the largest.
    Taken in this way, no small number is the difference of large ones.
    """

    def __init__(self, point: _Point) -> None:
        self.at, (B, G, V) = point, point.x.shape
        self.ratio = point.x / point.v
        main = self.ratio.argmax(axis=2)
        self.main = main + V * np.arange(B * G).reshape(B, G)  # its place in an array B x G x V
        self.curve = np.sqrt(point.weight) / point.speed()
        self.gain_main = point.gain[np.arange(G), main]
        stiff = 1.0 / self.ratio.take(self.main)
        self.others = others = self.ratio.copy()
        others.put(self.main, 0.0)
        sum_others, apart = np.einsum("BGV->BG", others), point.gain - self.gain_main[:, :, None]
        k11 = 1.0 + stiff * sum_others
        k12 = self.curve * np.einsum("BGV,BGV->BG", others, apart) / k11  # over the root of ``stiff``
        two = self.curve[:, :, None] * apart - (stiff * k12)[:, :, None]
        one_others = others * np.sqrt(stiff / k11)[:, :, None]
        two_others = others * two
        k22 = 1.0 + stiff * k12**2 + np.einsum("BGV,BGV->BG", two, two_others)
        self.one, self.two = self._whole(one_others), self._whole(two_others / np.sqrt(k22)[:, :, None])
        load = point.load[:, :, None]
        weighed, is_main = load * load * others, np.zeros(others.shape)
        is_main.put(self.main, 1.0)
        self.system = -_products(weighed, is_main)
        self.system += self.system.transpose(0, 2, 1)
        for outer in (load * self.one, load * self.two):
            self.system -= _products(outer, outer)
        every = np.arange(V - 1)
        of_main = np.einsum("BG,BGV->BV", point.load**2 * sum_others, is_main) + np.einsum("BGV->BV", weighed)
        self.system[:, every, every] += of_main[:, :-1] + point.z / point.p
        self.residual = point.v - point.left_over()

    def _whole(self, change: Floats) -> Floats:
        """A change of the others, and with it that of the largest share: the sum stays."""
        change.put(self.main, -np.einsum("BGV->BG", change))
        return change

    def row(self, right: Floats) -> Floats:
        """The changes of every row's shares."""
        right = right - right.take(self.main)[:, :, None]
        one = np.einsum("BGV,BGV->BG", self.one, right)[:, :, None] * self.one
        two = np.einsum("BGV,BGV->BG", self.two, right)[:, :, None] * self.two
        return np.asarray(self._whole(self.others * right) - one - two)

    def towards(self, rx: Floats, rz: Floats) -> tuple[Floats, ...]:
        """The changes of all variables that change the products x v and z p by so much, in the first order."""
        at = self.at
        over_z = at.used(at.x) + at.z - at.devices
        right = self.residual + rx / at.x
        dp = solved(self.system, at.used(self.row(right)) + rz / at.p + over_z)
        right[:, :, :-1] -= at.load[:, :, None] * dp[:, None, :]
        dx = self.row(right)  # in one: the difference of two would round
        dz, dv = (rz - at.z * dp) / at.p, (rx - at.v * dx) / at.x
        gained = np.einsum("GV,BGV->BG", at.gain, dx) * self.curve**2
        dnu = (right - dx / self.ratio).take(self.main) - self.gain_main * gained
        return dx, dz, dv, dnu, dp


def _products(left: Floats, right: Floats) -> Floats:
    """Sums over rows of the products of two columns, but idleness: A x A for each program."""
    both = [np.ascontiguousarray(each[:, :, :-1].transpose(0, 2, 1)) for each in (left, right)]
    return np.asarray(np.einsum("BAG,BCG->BAC", *both))
