"""Budgets: ceilings on what owners may spend per hour, for any policy.

Legend: J jobs, A accelerator types, C configurations.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from gavelx.allocation import Allocation
from gavelx.asking import ask
from gavelx.errors import PolicyError
from gavelx.job_table import column
from gavelx.policies.base import Policy
from gavelx.policies.modifiers import Modifier, with_constraints
from gavelx.policies.program import Maximize
from gavelx.policies.terms import Constraint, Cost, Linear, digits
from gavelx.policies.view import View
from gavelx.snapshot import WAITING, Snapshot
from gavelx.solvers.program.statement import Affine

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
TOTAL = "total"
"""Stands for all owners together."""
HAIR = 1e-9
"""Part of a budget by which sums of shares may round."""


@dataclass(frozen=True, repr=False)
class OwnerCost(Linear):
    """Dollars per hour of the devices in use by jobs of this owner and of those below: ``ml`` has ``ml/ann``."""

    owner: str

    def __post_init__(self) -> None:
        if not (isinstance(self.owner, str) and self.owner):
            raise PolicyError(f"{self.owner!r} is no owner", where=repr(self), expected="OwnerCost('team/user')")

    def linear(self, view: View) -> Affine:
        return view.usd_per_hour_of_job.where(_is_of(view.snapshot, self.owner)).total()

    def __repr__(self) -> str:
        return f"OwnerCost({self.owner!r})"


class budgeted(Modifier):  # noqa: N801  (used like a function: budgeted(max_min_fairness, {"ml": 5}))
    """The same policy within budgets: dollars per hour that each owner, or all in ``total``, may spend at most.

    An owner is a path such as ``team/user``; what those below spend counts. Of a program each budget is a further
    constraint, so the others get what is left. A policy that hands out whole devices is asked again with jobs
    barred from the types that would pass their owner's budget: jobs that run go first, then the oldest.
    Of any other policy the shares of the jobs of an owner who would spend too much are cut, all by the same part,
    and what that frees stays idle. Shares are then ceilings (``Execution.quota``): idle devices are not filled,
    and averaged over time no owner spends more.

    Raises :class:`PolicyError` for a budget that is no number of 0 or more, and where a type has no known price.
    """

    def __init__(self, policy: Policy, budgets: Mapping[str, float]) -> None:
        super().__init__(policy)
        paths = sorted(budgets, key=lambda path: (path == TOTAL, -path.count("/")))  # those below first
        self.budgets = {path.strip("/ "): float(budgets[path]) for path in paths}
        where, expected = self._named(str(policy)), "dollars per hour for an owner, or for total: ml=5, total=40"
        if not self.budgets or len(self.budgets) < len(budgets):
            raise PolicyError(
                "an owner is named twice" if budgets else "no budget", where=where, expected=expected
            )
        for path, usd in self.budgets.items():
            if not path or not (usd >= 0 and np.isfinite(usd)):
                raise PolicyError(f"{path}={usd:g}", where=where, expected=expected)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        shown = barred(snapshot, self._without_any(snapshot))
        if _is_program(self.policy):
            answer = ask(with_constraints(self.policy, self.constraints), shown)
        else:
            answer = self._kept(ask(self.policy, shown))
        snapshot = snapshot.replace(opened=answer.snapshot.opened)
        execution = replace(answer.execution, backfill=False, quota=not answer.execution.whole_devices)
        return replace(answer, snapshot=snapshot, execution=execution)

    @property
    def constraints(self) -> list[Constraint]:
        """The budgets as constraints of a program."""
        return [
            (Cost() if path == TOTAL else OwnerCost(path)) <= usd for path, usd in self.budgets.items() if usd > 0
        ]

    def _without_any(self, snapshot: Snapshot) -> Bools:
        """Configurations that cost something of which a member has no budget at all."""
        none_J = np.zeros(len(snapshot.jobs), dtype=bool)
        for path, usd in self.budgets.items():
            none_J |= (usd == 0) & _is_of(snapshot, path)
        table = snapshot.known
        barred_C = np.zeros(len(table), dtype=bool)
        barred_C[table.configuration_M[none_J[table.job_M]]] = True
        barred_C[table.usd_C(snapshot.usd_per_hour_A) == 0] = False
        return barred_C

    def _kept(self, answer: Allocation) -> Allocation:
        """The answer of a policy that knows no constraints, within the budgets."""
        while answer.execution.whole_devices and (wrong_C := self._too_dear(answer)).any():
            answer = ask(self.policy, barred(answer.snapshot, wrong_C))
        if answer.execution.whole_devices:
            return answer
        share_C, notes = answer.share_C, []
        for path, usd in self.budgets.items():
            mine_J = _is_of(answer.snapshot, path)
            spent = float((_usd_J(answer.snapshot, share_C) * mine_J).sum())
            if spent > usd * (1.0 + HAIR):
                table = answer.snapshot.configurations
                cut_C = np.zeros(len(table), dtype=bool)
                cut_C[table.configuration_M[mine_J[table.job_M]]] = True
                share_C = np.where(cut_C, share_C * (usd / spent), share_C)
                notes.append(f"{path} would spend ${spent:.2f} an hour; its shares are cut to {usd / spent:.1%}")
        certificate = replace(answer.certificate, objective=None, bound=None) if notes else answer.certificate
        return replace(answer, share_C=share_C, certificate=certificate).with_notes(notes)

    def _too_dear(self, answer: Allocation) -> Bools:
        """Ways to run that would pass the first budget that is passed, given the jobs that keep their devices."""
        snapshot, table = answer.snapshot, answer.snapshot.known
        usd_J, wrong_C = _usd_J(snapshot, answer.share_C), np.zeros(len(table), dtype=bool)
        for path, usd in self.budgets.items():
            mine_J = _is_of(snapshot, path)
            if usd_J[mine_J].sum() > usd * (1.0 + HAIR):
                keeps_J, left = _keeps(snapshot, np.where(mine_J, usd_J, 0.0), usd)
                usd_M = table.usd_C(snapshot.usd_per_hour_A)[table.configuration_M]
                wrong_M = (mine_J & ~keeps_J)[table.job_M] & (usd_M > left * (1.0 + HAIR))
                wrong_C[table.configuration_M[wrong_M]] = True
                break
        return wrong_C & ~table.barred_C

    def __repr__(self) -> str:
        return self._named(repr(self.policy))

    def __str__(self) -> str:
        return self._named(str(self.policy))

    def _named(self, policy: str) -> str:
        return f"budgeted({', '.join([policy, *(f'{path}={digits(usd)}' for path, usd in self.budgets.items())])})"


def barred(snapshot: Snapshot, wrong_C: Bools) -> Snapshot:
    """The same instant for a policy that must not use these of the known configurations."""
    if not wrong_C.any():
        return snapshot
    table = snapshot.known
    return snapshot.replace(known=replace(table, barred_C=table.barred_C | wrong_C, kind_J=None))


def _keeps(snapshot: Snapshot, usd_J: Floats, usd: float) -> tuple[Bools, float]:
    """Which of the jobs that spend keep their devices, and what is left of so many dollars then.

    Those that run come first, then the oldest, then the lowest ids; one that is too dear is passed over.
    """
    id_J = snapshot.id_J
    arrival_s_J = column(snapshot.jobs, "arrival_s")
    keeps_J, left = np.zeros(len(usd_J), dtype=bool), usd * (1.0 + HAIR)
    for j in np.lexsort((id_J, arrival_s_J, snapshot.running_J == WAITING)).tolist():
        if 0.0 < usd_J[j] <= left:
            keeps_J[j], left = True, left - usd_J[j]
    return keeps_J, left


def refuse_budgets_inside(modifier: Modifier, why: str) -> None:
    """Raise :class:`PolicyError` where the policy of a modifier has a budget that its answers might pass."""
    policy = modifier.policy
    while isinstance(policy, Modifier):
        if isinstance(policy, budgeted):
            hint = f"budgeted({type(modifier).__name__}(...), total=40)"
            raise PolicyError(f"{policy} is inside, and {why}", where=f"{type(modifier).__name__}(...)", hint=hint)
        policy = policy.policy


def _is_program(policy: Policy) -> bool:
    """Whether constraints can be added to it, and hold for all its jobs together."""
    while isinstance(policy, Modifier) and policy.whole:
        policy = policy.policy
    return isinstance(policy, Maximize)


def _is_of(snapshot: Snapshot, path: str) -> Bools:
    """Whether each job is this owner's, or of one below."""
    whose = (f"{job.owner}/" for job in snapshot.jobs)
    return np.array([path == TOTAL or owner.startswith(f"{path}/") for owner in whose], dtype=bool)


def _usd_J(snapshot: Snapshot, share_C: Floats) -> Floats:
    """What each job spends per hour."""
    return View(snapshot).usd_per_hour_of_job(share_C)
