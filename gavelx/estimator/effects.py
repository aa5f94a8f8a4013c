"""The model of speeds: a sum of effects, each with a kernel that says which ways to run share it, and how far.

The logarithm of a speed is a sum

    log T(a, d, s)      = prior(d, s) + sum of effects of job type a, device d and shape s           (alone)
    log T(a, d beside b) = log T(a, d, one device) + slowdown,  slowdown = sum of effects of a, d and partner b

What a job type has on all devices is its level: that of its model, with a large variance, since each model counts
its own steps; a trend in the logarithm of the batch size; and deviations, which near batch sizes share. So a batch
size of which little is known has the level that the others of its model suggest.

An effect is a product of kernels, one for each side, so a line of ``EFFECTS`` reads: *what jobs of one kin have in
common on one device*. The rest is noise, with its own variance alone and for pairs on each device. So a job that
is known on one device is known on others as far as their data sheets tell, and every further measurement informs
about the job, its kin, the device, and similar ones. Slowdowns have an amplitude on each device
(``interference_scale``).

=================  =============================================================================================
of job types       ``all`` are one; ``near`` have batch sizes near each other, ``batch`` a trend in the batch
                   size; ``model``, ``kin`` and ``trend`` are the same three within one model; ``own``;
                   ``either``: of two that run together, for both
of devices         ``all``; ``specs`` (linear in the logarithms of bandwidth, fp32 and tensor arithmetic);
                   ``speed`` (the one figure that the prior makes of them); ``alike`` (near in their
                   specifications); ``own``; ``learnt`` (as ``own``, until speeds say which devices suit the
                   same jobs: ``device_similarity``); ``unnamed`` (devices without specifications)
of shapes          ``one``: all are; ``several`` devices, more so the more there are; ``spread`` over several
                   servers, likewise; ``apart``: marked as spread, even a single device; ``growth``: a power of
                   the number of devices; ``curve``: near numbers of devices, in as many servers; ``size``:
                   exactly this number of devices
=================  =============================================================================================

The prior variances come from other data: in vendors' published figures of 131 workloads on 17 accelerators, 0.65
log(bandwidth) + 0.3 log(fp32) + 0.05 log(tensor) leaves 0.13 of a workload's speed from device to device (the
standard deviation of the logarithm). docs/throughputs.md has more.

Legend: J job types, D devices, S shapes, N and M cells, P effects, G groups of noise.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from gavelx.accelerators import DataSheets
from gavelx.estimator.gaussian_process import Floats, Whole
from gavelx.estimator.interference_scale import foretold_amplitudes
from gavelx.estimator.names import read_name
from gavelx.measurements import Way
from gavelx.throughputs import Pairing

SPEED = np.array([0.65, 0.3, 0.05])
"""Weights of log bandwidth, log fp32 and log tensor arithmetic in a device's speed."""
USUAL = np.log([700.0, 15.0, 60.0])
"""The specifications assumed for a device without any: one in the middle of the market."""
OCTAVES, OCTAVES_OF_ALL = 3.0, 5.0
"""Length scales of batch sizes, in doublings, of one model and of all: beyond it, two have little in common."""
OCTAVES_OF_GANGS = 2.0
"""Length scale of numbers of devices, in doublings; gangs in one server and in several are as far apart."""
USUAL_BATCH = 32
"""The batch size of a name without one; trends are about it."""
SCALING, SPREADING, BESIDE = 0.8, -0.15, -0.5
"""Prior: n devices have n^0.8 times the speed, a seventh less over several servers; jobs of a pair 0.6 each."""
ALONE_NOISE, PAIR_NOISE = 0.002, 0.01
"""Prior variances of noise."""


Side = Literal["job_N", "partner_N"]


class Effect(NamedTuple):
    """A kernel for each side, and the prior variance; an effect with a partner is for pairs only."""

    mode: float
    job: str
    device: str
    shape: str = "one"
    partner: str = ""

    @property
    def differs(self) -> bool:
        """Whether pairs differ by it; an effect that all pairs have in common is not scaled by the amplitude."""
        return bool(self.partner) and (self.job, self.partner) != ("all", "all")


def _alone() -> list[Effect]:
    effects = [
        Effect(4.0, "model", "all"),  # the unit of steps
        Effect(0.1, "all", "all"),
        # the level of a batch size: a trend and a curve that all models have, those of the model, and the rest
        Effect(0.1, "batch", "all"),
        Effect(0.1, "near", "all"),
        Effect(0.03, "trend", "all"),
        Effect(0.03, "kin", "all"),
        Effect(0.002, "own", "all"),
        # the same on devices
        Effect(0.001, "batch", "specs"),
        Effect(0.01, "model", "learnt"),
        Effect(0.001, "trend", "own"),
        # and in gangs
        Effect(0.02, "model", "all", "several"),
        Effect(0.002, "trend", "all", "several"),
        Effect(0.1, "all", "all", "growth"),
        Effect(0.005, "model", "all", "growth"),
        Effect(0.0005, "all", "own", "growth"),
        Effect(0.01, "model", "own", "several"),
        Effect(0.01, "near", "all", "curve"),
        Effect(0.005, "near", "own", "curve"),
        Effect(0.01, "kin", "all", "curve"),
        Effect(0.005, "kin", "own", "curve"),
    ]
    for job, part in (("all", 1.0), ("kin", 1.0), ("own", 0.1)):
        shared = job == "all"
        sizes = {
            ("specs", "one"): 0.02,
            ("own", "one"): 0.02 if shared else 0.01,
            ("unnamed", "one"): 0.5 if shared else 0.05,
            ("all", "several"): 0.05,
            ("all", "spread"): 0.05,
            ("all", "apart"): 0.002,
            ("own", "several"): 0.01,
            ("own", "spread"): 0.01,
            ("own", "apart"): 0.002,
            ("speed", "spread"): 0.1,  # the network limits fast devices to the speed of others
            ("speed", "several"): 0.03,
        }
        effects += [Effect(size * part, job, device, shape) for (device, shape), size in sizes.items()]
    # gangs of each size run on server models of their own, which differ by device
    return [*effects, Effect(0.005, "all", "own", "size")]


def _slowdown() -> list[Effect]:
    sizes = {
        ("all", "all"): 0.1,
        ("kin", "all"): 0.03,
        ("own", "all"): 0.02,
        ("all", "kin"): 0.03,
        ("all", "own"): 0.02,
        ("kin", "kin"): 0.01,
        ("kin", "own"): 0.005,
        ("own", "kin"): 0.005,
        ("either", "kin"): 0.01,
        ("either", "own"): 0.005,
    }
    everywhere = [Effect(size, job, "all", partner=partner) for (job, partner), size in sizes.items()]
    return everywhere + [Effect(size / 2, job, "alike", partner=partner) for (job, partner), size in sizes.items()]


EFFECTS = (*_alone(), *_slowdown())
MODE_P = np.array([effect.mode for effect in EFFECTS])


def _group(effect: Effect) -> tuple[str, str]:
    """The effects whose variances tend to be large or small together: by kind of job types, of gangs or not.

    Each part of a level is on its own.
    """
    if effect.partner:
        return "slowdown", ""
    if (effect.device, effect.shape) == ("all", "one"):
        return f"level of {effect.job}", ""
    if effect.shape == "growth":
        return f"growth of {effect.job}", effect.device
    kind = {"near": "all", "batch": "all", "model": "kin", "trend": "kin"}.get(effect.job, effect.job)
    return kind, {"one": "", "apart": "apart"}.get(effect.shape, "gangs")


GROUPS = sorted({_group(effect) for effect in EFFECTS})
GROUP_P = np.array([GROUPS.index(_group(effect)) for effect in EFFECTS])
(LEARNT,) = (p for p, effect in enumerate(EFFECTS) if effect.device == "learnt")


@dataclass(frozen=True)
class Cells:
    """Ways to run as indices; ``partner_N`` is -1 alone. ``prior_N`` is their logarithm before any measurement."""

    job_N: Whole
    device_N: Whole
    shape_N: Whole
    partner_N: Whole
    prior_N: Floats

    def __len__(self) -> int:
        return len(self.job_N)

    def __getitem__(self, some: Whole | slice) -> "Cells":
        whole = (self.job_N[some], self.device_N[some], self.shape_N[some], self.partner_N[some])
        return Cells(*whole, self.prior_N[some])

    @property
    def is_pair_N(self) -> NDArray[np.bool_]:
        return self.partner_N >= 0

    @property
    def group_N(self) -> Whole:
        """The group of noise: 0 alone, 1 + d for pairs on device d."""
        return np.where(self.is_pair_N, 1 + self.device_N, 0)


class Space:
    """The job types, devices and shapes of some ways to run, and the kernels of each."""

    def __init__(self, ways: Sequence[Way], data_sheets: DataSheets) -> None:
        pairs = [way for way in ways if isinstance(way, Pairing)]
        jobs = sorted({way.job_type for way in ways} | {way.partner for way in pairs})
        self.devices = sorted({way.accelerator for way in ways})
        shapes = sorted(
            {(1, True), *((w.scale_factor, w.consolidated) for w in ways if not isinstance(w, Pairing))}
        )
        self._job_of = {name: index for index, name in enumerate(jobs)}
        self._device_of = {name: index for index, name in enumerate(self.devices)}
        self._shape_of = {shape: index for index, shape in enumerate(shapes)}
        names = [read_name(job) for job in jobs]
        _, self.model_J = np.unique([name.model for name in names], return_inverse=True)
        self.octave_J = np.nan_to_num(np.log2([name.batch_size / USUAL_BATCH for name in names]))
        self.job = _job_kernels(self.model_J, self.octave_J)
        self.device, self._speed_D = _device_kernels(self.devices, data_sheets)
        self.octave_S = np.log2([devices for devices, _ in shapes])
        self.apart_S = np.array([not together for _, together in shapes]) * 1.0
        self.shape, self._prior_S = _shape_kernels(self.octave_S, self.apart_S)
        self.amplitude_D, self.doubt_D = np.ones(len(self.devices)), np.zeros(len(self.devices))

    def cells(self, ways: Sequence[Way]) -> Cells:
        job_N, device_N, shape_N, partner_N = np.array([self._indices(way) for way in ways], int).reshape(-1, 4).T
        prior_N = self._speed_D[device_N] + self._prior_S[shape_N] + BESIDE * (partner_N >= 0)
        return Cells(job_N, device_N, shape_N, partner_N, prior_N)

    def _indices(self, way: Way) -> tuple[int, int, int, int]:
        job, device = self._job_of[way.job_type], self._device_of[way.accelerator]
        if isinstance(way, Pairing):
            return job, device, self._shape_of[1, True], self._job_of[way.partner]
        return job, device, self._shape_of[way.scale_factor, way.consolidated], -1

    def learn_likeness(self, C_DD: Floats, devices: Sequence[str]) -> None:
        """Set the similarity of these devices. Others are independent, with the mean variance."""
        at = [self._device_of[name] for name in devices]
        learnt_DD = np.diag(C_DD).max(initial=0.0) * np.eye(len(self.devices))
        learnt_DD[np.ix_(at, at)] = C_DD
        self.device["learnt"] = learnt_DD

    def learn_amplitudes(self, log_D: Floats, devices: Sequence[str]) -> None:
        """Set the amplitudes of these devices; where it is NaN, and for other devices, they are predicted."""
        known_D = np.full(len(self.devices), np.nan)
        known_D[[self._device_of[name] for name in devices]] = log_D
        mean_D, self.doubt_D = foretold_amplitudes(known_D, self._speed_D)
        self.amplitude_D = np.exp(mean_D)

    @property
    def usual_noise_G(self) -> Floats:
        """The prior variance of each group of noise; for pairs it grows with the amplitude."""
        return np.concatenate([[ALONE_NOISE], PAIR_NOISE * self.amplitude_D**2])

    def shared(self, cells: Cells) -> Whole:
        """The effects that any of these cells have; the kernels of all others are 0."""
        job, device, shape = (
            {name: bool(K[np.ix_(at, at)].any()) for name, K in kernels.items()}
            for kernels, at in (
                (self.job, np.unique(cells.job_N)),
                (self.device, np.unique(cells.device_N)),
                (self.shape, np.unique(cells.shape_N)),
            )
        )
        pairs = bool(cells.is_pair_N.any())
        return np.flatnonzero(
            [device[e.device] and (pairs if e.partner else job[e.job] and shape[e.shape]) for e in EFFECTS]
        )

    def kernels(self, cells: Cells, some: Whole) -> Floats:
        """The kernels of some effects among these cells (P x N x N)."""
        job, device, shape = (
            {name: K[np.ix_(index_N, index_N)] for name, K in kernels.items()}
            for kernels, index_N in (
                (self.job, cells.job_N),
                (self.device, cells.device_N),
                (self.shape, cells.shape_N),
            )
        )
        is_pair_N, beside = cells.is_pair_N * 1.0, self.beside(cells, cells)
        amplitude_N = self.amplitude_D[cells.device_N] * is_pair_N
        pairs = {effect: np.outer(a_N, a_N) for effect, a_N in ((False, is_pair_N), (True, amplitude_N))}
        return np.array(
            [
                device[e.device]
                * (beside(e.job, e.partner) * pairs[e.differs] if e.partner else job[e.job] * shape[e.shape])
                for e in (EFFECTS[p] for p in some)
            ]
        )

    def beside(self, a: Cells, b: Cells) -> Callable[[str, str], Floats]:
        """The kernel of job and partner by their names (M x N), symmetric in the two for ``either``."""

        @cache
        def kernel(name: str, of_a: Side, of_b: Side) -> Floats:
            found: Floats = self.job[name][np.ix_(getattr(a, of_a), getattr(b, of_b))]
            return found

        def both(job: str, partner: str) -> Floats:
            straight = kernel(partner, "partner_N", "partner_N")
            if job != "either":
                return kernel(job, "job_N", "job_N") * straight
            crossed = kernel(partner, "job_N", "partner_N") * kernel(partner, "partner_N", "job_N")
            return (kernel(partner, "job_N", "job_N") * straight + crossed) / 2

        return both

    def covariance(self, variance_P: Floats) -> "Covariance":
        """The covariance of any two cells with these variances of the effects."""
        return Covariance(self, variance_P)


class Covariance:
    """The covariance of any two cells; sums of effects that share a side are computed once."""

    def __init__(self, space: Space, variance_P: Floats) -> None:
        self._space, self._variance_P = space, variance_P
        self._alone: dict[str, Floats] = defaultdict(lambda: np.zeros(()))
        self._slowdown: dict[tuple[str, str], Floats] = defaultdict(lambda: np.zeros(()))
        for effect, variance in zip(EFFECTS, variance_P, strict=True):
            device = variance * space.device[effect.device]
            if effect.partner:
                if effect.differs:
                    device = device * np.outer(space.amplitude_D, space.amplitude_D)
                self._slowdown[effect.job, effect.partner] = self._slowdown[effect.job, effect.partner] + device
            else:
                self._alone[effect.job] = self._alone[effect.job] + np.kron(device, space.shape[effect.shape])

    def between(self, a: Cells, b: Cells) -> Floats:
        """cov(a, b) without noise (M x N)."""
        space, S = self._space, len(self._space.shape["one"])
        total = np.zeros((len(a), len(b)))
        for name, table in self._alone.items():
            place = table[np.ix_(a.device_N * S + a.shape_N, b.device_N * S + b.shape_N)]
            total += space.job[name][np.ix_(a.job_N, b.job_N)] * place
        pair_M, pair_N = np.flatnonzero(a.is_pair_N), np.flatnonzero(b.is_pair_N)
        if len(pair_M) and len(pair_N):
            total[np.ix_(pair_M, pair_N)] += self._of_slowdowns(a[pair_M], b[pair_N])
        return total

    def _of_slowdowns(self, a: Cells, b: Cells) -> Floats:
        total, beside = np.zeros((len(a), len(b))), self._space.beside(a, b)
        for (job, partner), device in self._slowdown.items():
            total += beside(job, partner) * device[np.ix_(a.device_N, b.device_N)]
        return total

    def of(self, cells: Cells) -> Floats:
        """The variance of each cell, without noise."""
        space, (j, d, s, p) = self._space, (cells.job_N, cells.device_N, cells.shape_N, cells.partner_N)
        job, total_N = space.job, np.zeros(len(cells))
        # the amplitude itself is uncertain: E[g^2] of a lognormal
        square_N = (space.amplitude_D**2 * np.exp(space.doubt_D**2))[d]
        for effect, variance in zip(EFFECTS, self._variance_P, strict=True):
            pairs_N = cells.is_pair_N * (square_N if effect.differs else 1.0)
            if effect.job == "either":
                K = job[effect.partner]
                rest_N = (K[j, j] * K[p, p] + K[j, p] ** 2) / 2 * pairs_N
            elif effect.partner:
                rest_N = job[effect.job][j, j] * job[effect.partner][p, p] * pairs_N
            else:
                rest_N = job[effect.job][j, j] * space.shape[effect.shape][s, s]
            total_N += variance * space.device[effect.device][d, d] * rest_N
        return total_N


def _job_kernels(model_J: Whole, octave_J: Floats) -> dict[str, Floats]:
    apart_JJ, J = octave_J[:, None] - octave_J[None, :], len(model_J)
    model_JJ, batch_JJ = (model_J[:, None] == model_J[None, :]) * 1.0, np.outer(octave_J, octave_J)
    return {
        "all": np.ones((J, J)),
        "near": np.exp(-0.5 * (apart_JJ / OCTAVES_OF_ALL) ** 2),
        "batch": batch_JJ,
        "model": model_JJ,
        "trend": model_JJ * batch_JJ,
        "kin": model_JJ * np.exp(-0.5 * (apart_JJ / OCTAVES) ** 2),
        "own": np.eye(J),
    }


def _device_kernels(devices: Sequence[str], data_sheets: DataSheets) -> tuple[dict[str, Floats], Floats]:
    """The kernels, and the logarithm of each device's speed from its specifications."""
    found = [data_sheets.find(device) for device in devices]
    figures = [(one.bandwidth_gb_s, one.fp32_tflops, one.tensor_tflops) for one in found]
    x_DX = np.log(np.array(figures, float).reshape(-1, 3)) - USUAL
    named_D = ~np.isnan(x_DX).all(axis=1)
    x_DX = np.where(np.isnan(x_DX), 0.0, x_DX)
    apart_DD = ((x_DX[:, None] - x_DX[None, :]) ** 2).sum(axis=2)
    near_DD = np.exp(-0.5 * apart_DD) * np.outer(named_D, named_D)
    np.fill_diagonal(near_DD, 1.0)
    D, speed_D = len(devices), x_DX @ SPEED
    return {
        "all": np.ones((D, D)),
        "specs": reduce(np.add, (w * np.outer(x, x) for w, x in zip((1.0, 1.0, 0.25), x_DX.T, strict=True))),
        "speed": np.outer(speed_D, speed_D),
        "alike": (near_DD + np.eye(D)) / 2,
        "own": np.eye(D),
        "learnt": np.eye(D),
        "unnamed": np.diag(np.where(named_D, 0.0, 1.0)),
    }, speed_D


def _shape_kernels(octave_S: Floats, apart_S: Floats) -> tuple[dict[str, Floats], Floats]:
    """The kernels, and the expected change of each shape, as a logarithm."""
    several_S = (octave_S > 0) * 1.0
    apart_SS = (octave_S[:, None] - octave_S) ** 2 + OCTAVES_OF_GANGS**2 * (apart_S[:, None] != apart_S)
    growing_SS = 0.8 * np.outer(several_S, several_S) + 0.1 * np.outer(octave_S, octave_S)
    return {
        "one": np.ones((len(octave_S),) * 2),
        "several": growing_SS,
        "growth": np.outer(octave_S, octave_S),
        "curve": np.exp(-0.5 * apart_SS / OCTAVES_OF_GANGS**2),
        "size": (octave_S[:, None] == octave_S) * np.outer(several_S, several_S),
        "spread": growing_SS * np.outer(apart_S, apart_S),
        "apart": np.outer(apart_S, apart_S),
    }, SCALING * np.log(2) * octave_S + SPREADING * apart_S * several_S
