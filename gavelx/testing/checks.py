"""The base of all checks: it asks a policy on generated snapshots, and words the failures."""

import json
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from typing import Any, NoReturn, TypeVar, cast

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, Verbosity, given, reject, settings
from hypothesis import strategies as st
from hypothesis.errors import Flaky, HypothesisWarning

from gavelx.allocation import Allocation
from gavelx.cluster import Cluster
from gavelx.errors import ProgramError
from gavelx.files.snapshots import snapshot_to_json
from gavelx.policies import Maximize, Policy
from gavelx.snapshot import Snapshot
from gavelx.testing.snapshots import snapshots

DEFAULTS: dict[str, Any] = {
    "scale_factor": 1,
    "priority_weight": 1.0,
    "arrival_s": 0.0,
    "slo": None,
    "duration_s": None,
    "owner": "",
    "equal_share_s": 0.0,
    "spent_usd": 0.0,
    "equal_share_usd": 0.0,
    "held_s": 0.0,
    "running": None,
}
"""Fields of a job and its progress that need not be written, because they are the defaults."""


class NonConformance(AssertionError):  # noqa: N818  (what it is called in a report)
    """A policy breaks a property; the message names policy, property, job and figures, with the snapshot."""


class RefusedError(Exception):
    """The policy says that no allocation meets its constraints, which is allowed for it."""


Check = TypeVar("Check", bound=Callable[..., None])


def only_if(applies: Callable[[Any], bool]) -> Callable[[Check], Check]:
    """A check for some policies: a test class for which ``applies(test)`` is false does not have it.

    Where that is known only in a test, as a fixture makes the policy, the check is skipped.
    """

    def mark(check: Check) -> Check:
        @wraps(check)
        def checked(test: Any) -> None:
            __tracebackhide__ = True
            if not applies(test):
                pytest.skip("it does not apply to the policy")
            check(test)

        checked.applies = applies  # type: ignore[attr-defined]
        return cast(Check, checked)

    return mark


class Checks:
    """The attributes that a subclass sets for its policy, and the tools of all checks.

    * ``policy``: the policy, or a class made without arguments; or override :meth:`make_policy`;
    * ``unique``: its effective throughputs are unique, so invariance is checked on them; if False, on the
      objective alone. By default on the objective, and on throughputs if there is none;
    * ``amounts``: units in which the policy itself states amounts, ``"usd"`` (a budget) or ``"steps"`` (a floor in
      steps/s); it may then depend on the unit;
    * ``may_refuse``: on some clusters its constraints cannot be met, and it raises
      :class:`~gavelx.errors.ProgramError`;
    * ``idle_slices``: it gives time on types where a job cannot run, as the isolated allocation does;
    * ``by_the_clock``: it depends on the time of day, or changes from time to time (such as a random order);
    * ``patience``: how many times as long as max-min fairness it may take for an answer;
    * ``gangs``: False for a policy that is only for jobs of one device;
    * ``among_equals``: promises of fairness are meant among one-device jobs of equal weight; False: among all;
    * ``examples``: generated snapshots per check; ``tolerance``: relative, in throughput and objective.

    To remove a check that does not apply, set it to None in the subclass. Checks that do not apply by
    what the policy or the class says (promises, weights, units) are removed already.
    """

    policy: Policy | type[Policy]
    unique: bool | None = None
    amounts: tuple[str, ...] = ()
    may_refuse = False
    idle_slices = False
    by_the_clock = False
    patience = 60.0
    gangs = True
    among_equals = True
    examples = 25
    tolerance = 1e-6

    _without: frozenset[str] = frozenset()
    """Checks that this class removed, as they do not apply to its policy."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Remove the checks that do not apply to the policy, if it can be made already."""
        super().__init_subclass__(**kwargs)
        cls._without = frozenset()
        for name in {name for kind in cls.__mro__ for name in vars(kind) if name.startswith("test_")}:
            kinds = (vars(kind) for kind in cls.__mro__ if name in vars(kind))
            check = next(kind[name] for kind in kinds if name not in kind.get("_without", ()))
            with suppress(Exception, pytest.skip.Exception):  # a policy that is made later, in a test
                if hasattr(check, "applies") and not check.applies(cls()):
                    cls._without |= {name}
                    check = None
            if getattr(cls, name) is not check:
                setattr(cls, name, check)

    def make_policy(self) -> Policy:
        """The policy under test, anew."""
        return self.policy() if isinstance(self.policy, type) else self.policy

    def snapshots(self, **changes: Any) -> st.SearchStrategy[Snapshot]:
        """Generated snapshots of the kind that the policy is for."""
        return snapshots(**changes) if self.gangs else snapshots(**{**changes, "scale_factors": st.just(1)})

    def for_all(self, *strategies: st.SearchStrategy[Any]) -> Callable[[Callable[..., None]], None]:
        """Run a check on ``examples`` draws of these strategies, at once.

        The draws are made inside the test method, so that subclasses may set ``examples`` and inherited methods
        never share a hypothesis test between classes.
        """

        def run(check: Callable[..., None]) -> None:
            def drawn(values: tuple[Any, ...]) -> None:
                __tracebackhide__ = True
                try:
                    check(*values)
                except RefusedError:
                    reject()

            # draws follow from the name, and should differ from check to check
            drawn.__name__ = re.sub(r"\W", "_", f"{type(self).__name__}_{check.__qualname__}")
            quietly = settings(
                max_examples=self.examples,
                deadline=None,
                report_multiple_bugs=False,
                phases=[phase for phase in settings().phases if phase is not Phase.explain],
                verbosity=Verbosity.quiet,  # our own message has the snapshot
                suppress_health_check=list(HealthCheck),
            )
            __tracebackhide__ = True
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "Generating overly large repr", HypothesisWarning)
                try:
                    quietly(given(st.tuples(*strategies))(drawn))()
                except Flaky as error:
                    raise _first(error) from None

        return run

    def ask(self, snapshot: Snapshot, policy: Policy | None = None) -> Allocation:
        """The policy's answer: an allocation of this snapshot's jobs with one finite share a configuration."""
        __tracebackhide__ = True
        with self._worded(snapshot):
            allocation = (policy or self.make_policy()).allocate(snapshot)
        if not isinstance(allocation, Allocation):
            seen = f"allocate() returned a {type(allocation).__name__}"
            self.fail("a policy returns an Allocation", seen, snapshot, "gavelx.solvers.certified makes one")
        answered, share_C = allocation.snapshot, np.asarray(allocation.share_C)
        if answered.jobs != snapshot.jobs or answered.cluster != snapshot.cluster:
            seen = "the allocation holds a snapshot with other jobs or another cluster"
            self.fail("a policy answers for the snapshot it is given", seen, snapshot)
        right = share_C.shape == (len(answered.configurations),) and share_C.dtype.kind in "fiu"
        if not (right and np.isfinite(share_C).all()):
            seen = f"{share_C.size} shares for {len(answered.configurations)} configurations: {share_C}"
            self.fail("there is one finite share per configuration", seen, snapshot)
        return allocation

    @contextmanager
    def _worded(self, snapshot: Snapshot) -> Iterator[None]:
        """Turn what a policy raises into a failure that says on which snapshot."""
        __tracebackhide__ = True
        try:
            yield
        except ProgramError as error:
            if self.may_refuse:
                raise RefusedError from error
            hint = "may_refuse = True in the test class, if there are clusters on which it cannot be met"
            self.fail("a policy answers every snapshot", f"it refused: {error}", snapshot, hint)
        except (Exception, SystemExit) as error:
            seen = f"it raised {type(error).__name__}: {error}"
            raise self._failure("a policy answers every snapshot", seen, snapshot) from error

    def fail(self, rule: str, seen: str, snapshot: Snapshot, hint: str = "") -> NoReturn:
        """Raise :class:`NonConformance` saying which rule is broken, by what figures, where, and what to try."""
        __tracebackhide__ = True
        raise self._failure(rule, seen, snapshot, hint)

    def _failure(self, rule: str, seen: str, snapshot: Snapshot, hint: str = "") -> NonConformance:
        lines = [f"{self.make_policy()} breaks a rule: {rule}", f"  seen:     {seen}"]
        lines += [f"  try:      {hint}"] if hint else []
        return NonConformance("\n".join([*lines, f"  snapshot: {short_json(snapshot)}"]))


def _first(flaky: Flaky) -> BaseException:
    """The first failure of a check that gave another result when repeated."""
    for error in getattr(flaky, "exceptions", ()):
        if isinstance(error, NonConformance):
            return NonConformance(
                f"{error}\n  but:      not again on the same snapshot; the policy is not deterministic"
            )
    return flaky


def program_of(policy: Policy) -> Maximize | None:
    """The policy as a program that can state itself, or None."""
    return policy if isinstance(policy, Maximize) else None


def short_json(snapshot: Snapshot) -> str:
    """The snapshot as JSON on one line, without default values."""
    value = snapshot_to_json(snapshot)
    for part in ("jobs", "progress"):
        value[part] = [
            {name: seen for name, seen in entry.items() if name not in DEFAULTS or seen != DEFAULTS[name]}
            for entry in value[part]
        ]
    counts = dict(zip(snapshot.accelerators, snapshot.devices_A.tolist(), strict=True))
    if Cluster.of(counts) == snapshot.cluster:
        value["cluster"] = counts
    return json.dumps(value, ensure_ascii=False)
