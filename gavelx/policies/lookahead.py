"""Look ahead: a policy whose answer is played to its end in a model, beside others, before it is given.

Legend: J jobs, A accelerator types, N jobs in order of arrival, V sizes of a job, D draws, C choices.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import FEASIBLE, Allocation
from gavelx.asking import ask
from gavelx.errors import PolicyError
from gavelx.execution import Execution
from gavelx.memory import Memory
from gavelx.policies.base import Policy
from gavelx.policies.budgets import refuse_budgets_inside
from gavelx.policies.choices import Choices
from gavelx.policies.modifiers import Modifier
from gavelx.slots.ahead import CANDIDATES, Ahead
from gavelx.slots.greedy import Steps, Weights
from gavelx.slots.model import NONE, ROUNDING, Sizes, Slots
from gavelx.snapshot import WAITING, Kind, Snapshot
from gavelx.solvers.program.certify import missing

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
SLOTS, SLOT_S, DRAWS = 8, 360.0, 8
RESTART_S = 30.0
"""What a job loses with its devices where nothing is known of that."""
WINDOW = 16
"""Answers for which a guard remembers whether they were good."""
ENDS = 2 * 1.6449
"""Standard deviations between the ends of an interval of 90 %."""


class lookahead(Modifier):  # noqa: N801  (used like a function: lookahead(max_min_fairness))
    """The same policy, unless another answer ends better in a model of the jobs that are there.

    The answers of the policy, of ``others`` and of the ``candidates`` (greedy schedules), and what runs now with
    what is free for those that wait, are each played for one slot in the slot model (:mod:`gavelx.slots`), and
    then each candidate to the end; the answer with the least weighted sum of completion times is given. Believed
    speeds and lengths are taken for true; where they have intervals, for one of ``draws`` draws after the other,
    and sums are averaged. A running job that an answer moves, resizes or stops loses ``restart_s``, or what the
    snapshot says that it loses. Of jobs that have not arrived nothing is assumed.

    So any policy becomes one for mean completion time, and is left alone where its answer is good for that. Inside
    ``lookahead(elastic(...))`` candidates have all sizes that can be placed (powers of two and whole servers), and
    mixes.
    Candidates keep the constraints of a program; an answer whose shares are quotas is given as it is. Budgets go
    around it: ``budgeted(lookahead(P), total=40)``.

    ``slot_s``: how often devices change hands in the model. ``slots``: as many are played as they are, and later
    ones are longer and longer.

    Source: rollout (Bertsekas, "Rollout algorithms for discrete optimization", 1997), with Optimus (EuroSys'18,
    section 4.1) among the schedules that are rolled out.
    """

    def __init__(
        self,
        policy: Policy,
        *others: Policy,
        candidates: Sequence[Weights] = CANDIDATES,
        slots: int = SLOTS,
        slot_s: float = SLOT_S,
        restart_s: float | None = None,
        draws: int = DRAWS,
        seed: int = 0,
    ) -> None:
        super().__init__(policy)
        refuse_budgets_inside(self, "other answers would not keep it")
        for other in others:
            Modifier.__init__(copy(self), other)  # it has to be a policy, too
        restarts = restart_s is None or restart_s >= 0.0
        if not (len(candidates) and slots >= 1 and slot_s > 0.0 and restarts and draws >= 1 and seed >= 0):
            raise PolicyError(
                f"{len(candidates)} candidates, slots={slots}, slot_s={slot_s:g}, restart_s={restart_s}, "
                f"draws={draws}, seed={seed}",
                where=f"lookahead({policy}, ...)",
                expected="a candidate, a slot and a draw at least, slot_s above 0, restart_s and seed not below",
            )
        self.others, self.candidates = others, tuple(candidates)
        self.slots, self.slot_s = slots, slot_s
        self.restart_s, self.draws, self.seed = restart_s, draws, seed

    @property
    def ignores(self) -> tuple[str, ...]:  # type: ignore[override]
        return ()

    @property
    def opens(self) -> frozenset[Kind]:  # type: ignore[override]
        return self.policy.opens.union(*(other.opens for other in self.others))

    def allocate(self, snapshot: Snapshot) -> Allocation:
        begin_s = perf_counter()
        answers = [ask(policy, snapshot) for policy in (self.policy, *self.others)]
        seen = answers[0]
        opened = seen.snapshot.opened.union(*(answer.snapshot.opened for answer in answers))
        model = Model.of(snapshot.replace(opened=opened))
        if not len(model.job_N) or seen.execution.quota:
            return seen
        room_A = snapshot.devices_A.astype(float)
        ahead = Ahead(Steps.hull(model.sizes, room_A), self.slot_s, self.candidates, self.slots)
        size_CN = model.tried(ahead, snapshot.steps_left_J)
        for best in np.argsort(self._values_C(ahead, model, answers, size_CN), kind="stable").tolist():
            if best < len(answers):
                answer = answers[best]
            else:
                answer = model.choices.allocation(
                    model.chosen_V(size_CN[best - len(answers)]),
                    Execution(refresh_s=self.slot_s, whole_devices=True),
                    path=f"looked ahead, instead of {seen.certificate.path}",
                    seconds=perf_counter() - begin_s,
                )
            if best == 0 or self._is_permitted(answer):
                break
        assert isinstance(answer, Allocation)
        return answer.with_memory(seen.memory)

    def gain(self, snapshot: Snapshot, share_C: Floats) -> None:
        """The measure of the inner policy is not that by which answers are chosen."""
        return

    def _is_permitted(self, answer: Allocation) -> bool:
        """Whether an answer keeps the constraints of the policy, where that is a program."""
        statement = self.stated(answer.snapshot)
        return statement is None or missing(statement.required, answer.share_C) <= FEASIBLE

    def _values_C(self, ahead: Ahead, model: "Model", answers: Sequence[Allocation], size_CN: Ints) -> Floats:
        """What each choice costs in seconds: the answers of policies, then the candidates."""
        snapshot = model.choices.snapshot
        drawn = model.slots(self._left_DJ(snapshot))
        speed_CN = [answer.throughput_J[model.job_N] for answer in answers] + [
            model.speed_N(one) for one in size_CN
        ]
        moved_CN = [_moved_J(answer)[model.job_N] for answer in answers] + [model.moved_N(one) for one in size_CN]
        lost_s_J = np.where(np.isnan(snapshot.restart_s_J), RESTART_S, snapshot.restart_s_J)
        lost_s_N = (snapshot.weight_J * (lost_s_J if self.restart_s is None else self.restart_s))[model.job_N]
        values_CD = ahead.values_CK(drawn, [np.tile(speed_N, (len(drawn.kind_KJ), 1)) for speed_N in speed_CN])
        return np.asarray(values_CD.mean(axis=1) + (np.array(moved_CN) * lost_s_N).sum(axis=1))

    def _left_DJ(self, snapshot: Snapshot) -> Floats:
        """Steps that are left by each draw, at the believed speeds: a job that is slower has more to do."""
        spread_J = _spread_J(snapshot)
        if not spread_J.any():
            return snapshot.steps_left_J[None, :]
        order = np.lexsort((snapshot.id_J,))
        normal_DJ = np.empty((self.draws, len(order)))
        normal_DJ[:, order] = snapshot.random(self.seed).normal(size=(self.draws, len(order)))
        return np.asarray(snapshot.steps_left_J * np.exp(spread_J * normal_DJ))

    def __repr__(self) -> str:
        usual = {"slots": SLOTS, "slot_s": SLOT_S, "restart_s": None, "draws": DRAWS, "seed": 0}
        told = [f"{name}={getattr(self, name):g}" for name, value in usual.items() if getattr(self, name) != value]
        if self.candidates != CANDIDATES:
            told.insert(0, f"candidates={list(self.candidates)!r}")
        return f"lookahead({', '.join([*map(repr, (self.policy, *self.others)), *told])})"


class guarded(lookahead):  # noqa: N801  (used like a function: guarded(Learned("weights.npz"), srtf))
    """A teacher's answers, until the policy has shown that its own end no worse: for policies that were learned.

    Each time both answers are played as `lookahead` plays them. The policy's own is given if it ends no worse than
    the teacher's, by more than ``tolerance`` (a part of the sum of completion times), and at most a quarter of its
    last ``WINDOW`` answers ended worse; those that are not known count as worse. A teacher's answer that breaks a
    constraint of the policy is not given. So a policy has to earn
    trust, also after the memory of it is lost, and loses it where the jobs are others than those it learned from.
    """

    def __init__(self, policy: Policy, teacher: Policy, tolerance: float = 0.0, **options: Any) -> None:
        super().__init__(policy, teacher, **options)
        if not tolerance >= 0.0:
            raise PolicyError(f"tolerance={tolerance:g}", where=f"guarded({policy}, ...)", expected="0 or more")
        self.tolerance = tolerance

    def allocate(self, snapshot: Snapshot) -> Allocation:
        own, teachers = (ask(policy, snapshot) for policy in (self.policy, *self.others))
        model = Model.of(snapshot.replace(opened=own.snapshot.opened | teachers.snapshot.opened))
        if not len(model.job_N):
            return teachers.with_memory({**own.memory, **_verdicts(snapshot)})
        steps = Steps.hull(model.sizes, snapshot.devices_A.astype(float))
        none_CN = np.zeros((0, len(model.job_N)), dtype=np.int64)
        ahead = Ahead(steps, self.slot_s, self.candidates, self.slots)
        mine, theirs = self._values_C(ahead, model, (own, teachers), none_CN).tolist()
        is_worse = mine > theirs * (1.0 + self.tolerance + ROUNDING)
        verdicts = _verdicts(snapshot, is_worse)
        trusted = not is_worse and verdicts["worse"].sum() <= WINDOW // 4
        answer = own if trusted or not self._is_permitted(teachers) else teachers
        return answer.with_memory({**own.memory, **verdicts})

    def __repr__(self) -> str:
        tolerance = f", tolerance={self.tolerance:g}" if self.tolerance else ""
        return f"guarded({self.policy!r}, {self.others[0]!r}{tolerance})"


def _verdicts(snapshot: Snapshot, *latest: bool) -> Memory:
    """Whether each of the last answers ended worse than the teacher's, the latest last."""
    before = snapshot.memory.get("worse", np.zeros(0))
    known = before.astype(bool) if before.shape == (WINDOW,) else np.ones(WINDOW, dtype=bool)
    return {"worse": np.append(known, np.array(latest, dtype=bool))[-WINDOW:]}


def _spread_J(snapshot: Snapshot) -> Floats:
    """The standard deviation of the logarithm of the time that each job takes, from its intervals."""
    variance_J, table = np.zeros(len(snapshot.jobs)), snapshot.configurations
    if (left_JE := snapshot.left_range_JE) is not None:
        variance_J += (np.log(np.maximum(left_JE[:, 1], 1e-300) / np.maximum(left_JE[:, 0], 1e-300)) / ENDS) ** 2
    if table.lower_M is not None and table.upper_M is not None:
        known_M = (table.lower_M > 0.0) & table.plain_M
        wide_J = np.zeros(len(snapshot.jobs))
        ratio_M = np.log(table.upper_M[known_M] / table.lower_M[known_M]) / ENDS
        np.maximum.at(wide_J, table.job_M[known_M], ratio_M)
        variance_J += wide_J**2
    return np.asarray(np.sqrt(variance_J))


def _moved_J(seen: Allocation) -> Bools:
    """Running jobs that have no share in a policy's own answer where they run, or not in their present size."""
    choices, running_J = Choices.of(seen.snapshot), seen.snapshot.running_J
    stays_J = seen.share_JA[np.arange(len(running_J)), running_J] > 0.0
    now_V = np.flatnonzero(choices.now_V())
    stays_J[choices.job_V[now_V]] = False
    stays_J[choices.job_V[now_V[seen.share_C[choices.configuration_V[now_V]] > 0.0]]] = True
    return np.asarray((running_J != WAITING) & ~stays_J)


@dataclass(frozen=True, eq=False)
class Model:
    """The jobs of a snapshot in the slot model: those that can run, in order of arrival."""

    choices: Choices
    job_N: Ints
    sizes: Sizes
    first_N: Ints
    now_V: Bools

    @staticmethod
    def of(snapshot: Snapshot) -> "Model":
        """Every size that can be placed."""
        choices = Choices.of(snapshot)
        first_N = np.flatnonzero(np.diff(choices.job_V, prepend=-1))
        rank_V = choices.rank_V
        place_V = np.arange(len(rank_V)) - first_N[rank_V]
        shape = (len(first_N), int(place_V.max(initial=-1)) + 1)
        use_NVA, speed_NV = np.zeros((*shape, len(snapshot.accelerators))), np.zeros(shape)
        group_NV = np.zeros(shape, dtype=np.int64)
        use_NVA[rank_V, place_V] = choices.use_VA
        speed_NV[rank_V, place_V] = choices.speed_V
        group_V, mixed_V = choices.type_V.copy(), choices.mixed_V
        types_VA, A = choices.use_VA[mixed_V] > 0, len(snapshot.accelerators)
        group_V[mixed_V] = A + np.unique(types_VA, axis=0, return_inverse=True)[1].ravel()
        group_NV[rank_V, place_V] = group_V
        return Model(choices, choices.job_V[first_N], Sizes(use_NVA, speed_NV, group_NV), first_N, choices.now_V())

    def slots(self, left_DJ: Floats, elapsed_s_J: Floats | None = None) -> Slots:
        """A cluster for each draw of what is left; with ``elapsed_s_J``, of jobs that arrived so long ago."""
        D, snapshot = len(left_DJ), self.choices.snapshot
        kind_DN = np.tile(np.arange(len(self.job_N)), (D, 1))
        weight_DN = np.tile(snapshot.weight_J[self.job_N], (D, 1))
        devices_A = snapshot.devices_A.astype(float)
        arrival_s_DN = None if elapsed_s_J is None else np.tile(-elapsed_s_J[self.job_N], (D, 1))
        return Slots.of(
            self.sizes,
            devices_A,
            kind_DN,
            left_DJ[:, self.job_N],
            arrival_s_KJ=arrival_s_DN,
            weight_KJ=weight_DN,
        )

    def tried(self, ahead: Ahead, left_J: Floats) -> Ints:
        """What each candidate would do; and all that runs as it runs, where the first fills what is free."""
        slots, now_N = self.slots(left_J[None, :]), self.now_N()
        tried_CN, free_KR = ahead.first_CKJ(slots)[:, 0], slots.room_KR - slots.use_KR(now_N[None, :])
        if (free_KR < 0.0).any():  # devices are gone, or shares were promised, of which not all run at once
            return tried_CN
        waits_KN = (now_N == NONE)[None, :]
        rest = replace(slots, room_KR=free_KR, left_KJ=np.where(waits_KN, slots.left_KJ, 0.0))
        filled_KN = replace(ahead, candidates=ahead.candidates[:1]).first_CKJ(rest)[0]
        return np.concatenate([tried_CN, np.where(waits_KN, filled_KN, now_N)])

    def now_N(self) -> Ints:
        """The present size of each job."""
        now_N, now_V = np.full(len(self.job_N), NONE), np.flatnonzero(self.now_V)
        rank_V = self.choices.rank_V[now_V]
        now_N[rank_V] = now_V - self.first_N[rank_V]
        return now_N

    def speed_N(self, size_N: Ints) -> Floats:
        """Steps/s of each job in its size."""
        speed_N = self.sizes.speed_NV[np.arange(len(size_N)), size_N]
        return np.where(size_N != NONE, speed_N, 0.0)

    def chosen_V(self, size_N: Ints) -> Bools:
        """The same as a choice for each job."""
        chosen_V = np.zeros(len(self.choices.job_V), dtype=bool)
        chosen_V[(self.first_N + size_N)[size_N != NONE]] = True
        return chosen_V

    def moved_N(self, size_N: Ints) -> Bools:
        """Running jobs that have another size than now, or none."""
        runs_N = self.choices.snapshot.running_J[self.job_N] != WAITING
        stays_N = np.zeros(len(size_N), dtype=bool)
        stays_N[self.choices.rank_V[self.chosen_V(size_N) & self.now_V]] = True
        return np.asarray(runs_N & ~stays_N)
