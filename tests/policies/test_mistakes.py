"""Mistakes of authors, by the hundred: each is told as theirs, with their line and in their words."""

import itertools
import re
from pathlib import Path

import pytest

from gavelx.asking import ask
from gavelx.cluster import Cluster
from gavelx.errors import UserError
from gavelx.files.snapshots import write_snapshot
from gavelx.jobs import Job
from gavelx.policies import load_policy
from gavelx.prices import Prices
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Setting, Throughputs
from tests.cli.conftest import shell as shell  # noqa: PLC0414  (a fixture)
from tests.cli.running import Shell

HEAD = """\
import numpy as np
from gavelx.allocation import Allocation, Certificate
from gavelx.execution import Execution
from gavelx.cluster import Cluster
from gavelx.policies import *
from gavelx.solvers import certified, repaired
"""
SPEEDS = {"a": (4.0, 1.0), "b": (3.0, 3.0), "c": (0.0, 2.0)}
TABLE = Throughputs(
    {
        Setting(kind, name): speed
        for kind, row in SPEEDS.items()
        for name, speed in zip(("fast", "slow"), row, strict=True)
    }
)
JOBS = [Job(i, kind, 1000.0, owner=f"team/{kind}") for i, kind in enumerate(SPEEDS)]
SNAPSHOT = Snapshot.of(JOBS, Cluster.parse("fast=1,slow=2"), TABLE, Prices({"fast": 3.0, "slow": 1.0}))

# -- terms ----------------------------------------------------------------------------------------------------

TERM = """
class Mine(FORM):
    def linear(self, view):
        return (
            BODY
        )
    numerator = linear
    def denominator(self, view):
        return view.throughput
    def __repr__(self):
        return "Mine()"

policy = POLICY
"""
CALLED = {"Linear": "linear()", "Fractional": "numerator()"}
USES = {
    "Maximize(Worst(Mine()))": "Linear",
    "Maximize(SumThroughput() + 2 * Sum(Mine()))": "Linear",
    "Maximize(SumThroughput(), [Sum(Mine()) - Cost() <= 3])": "Linear",
    "with_constraints(agnostic(Maximize(Worst(NormalizedThroughput()))), [Sum(Mine()) >= -1e9])": "Linear",
    "hierarchical(Maximize(Worst(Mine())), {'team': 2})": "Linear",
    "partitioned(Maximize(Worst(Mine())), 2)": "Linear",
    "Minimize(Largest(Mine()))": "Fractional",
    "Maximize(SumThroughput(), [Mine() <= 1e9])": "Fractional",
}
"""Where a term of one's own can stand, and of which kind it then is."""
STATED = {
    "view.troughput": "AttributeError: 'View' object has no attribute 'troughput'; did you mean 'throughput'",
    "view.weigth_J": "did you mean 'weight_J'",
    "view.snapshot.job": "'Snapshot' object has no attribute 'job'; did you mean 'jobs'",
    "view.throughput.scale(2)": "has no attribute 'scale'; did you mean 'scaled'?",
    "view.throughput.sum()": "one of base_RC, constant_R",
    "undefined * 2": "NameError: name 'undefined' is not defined",
    "Troughput()": "did you mean 'Throughput'",
    "view.throughput.scaled(np.ones(7))": "scaled() takes one number, or # (one per job); it got shape (7,)",
    "view.throughput.shifted(np.ones(7))": "shifted() takes one number, or # (one per job); it got shape (7,)",
    "view.throughput.where(np.ones(7))": "where() takes one number, or # (one per job); it got shape (7,)",
    "view.throughput.scaled(np.ones((len(view.weight_J), 2)))": "it got shape (#, 2)",
    "view.throughput.scaled([1, 2, 3, 4, 5])": "it got [1, 2, 3, 4, 5]",
    "view.throughput.scaled('two')": "it got 'two'",
    "view.throughput.scaled(Cost())": "it got Cost()",
    "view.throughput.scaled(1j)": "it got 1j",
    "view.throughput.where(view.team_J)": "where() takes one number",
    "view.devices.scaled(np.ones(5))": "scaled() takes one number, or 2 (one per accelerator)",
    "view.usd_per_hour.shifted(np.ones(3))": "shifted() takes one number; it got shape (3,)",
    "view.throughput.plus(3)": "plus() takes an expression, not 3; shifted() adds plain numbers",
    "view.throughput.plus(view.devices)": "plus() of one row per job and one per accelerator; total()",
    "view.throughput * 2": "scaled(factors), shifted(numbers) and plus(another)",
    "2 * view.throughput": "scaled(factors), shifted(numbers) and plus(another)",
    "view.throughput + view.devices": "scaled(factors), shifted(numbers) and plus(another)",
    "-view.throughput": "scaled(factors), shifted(numbers) and plus(another)",
    "view.throughput[0]": "scaled(factors), shifted(numbers) and plus(another)",
    "view.throughput >= 1": "scaled(factors), shifted(numbers) and plus(another)",
    "np.log(view.throughput)": "scaled(factors), shifted(numbers) and plus(another)",
    "view.throughput.scaled()": "missing 1 required positional argument",
    "view.weight_J[99]": "IndexError: index 99 is out of bounds",
    "{}['speed']": "KeyError: 'speed'",
    "1 / 0": "ZeroDivisionError: division by zero",
    "int('x')": "ValueError: invalid literal for int()",
    "np.linalg.inv(np.zeros((2, 2)))": "LinAlgError: Singular matrix",
    "view.with_equal_share(np.ones(5))": "could not be broadcast",
    "self.linear(view)": "RecursionError",
    "view.steps_left_J.sort()": "ValueError: ",
    "view.weight_J": "returned an array of float64 with shape (#,); expected an expression of the view. "
    "Try: view.throughput.scaled(0.0).shifted(numbers)",
    "view.throughput_J": "has no attribute 'throughput_J'",
    "3.0": "returned a float; expected an expression of the view. Try: view.throughput.scaled(0.0).shifted(",
    "None": "returned a NoneType; expected an expression of the view",
    "'throughput'": "returned a str; expected an expression",
    "[view.throughput]": "returned a list; expected an expression",
    "view": "returned a View; expected an expression",
    "view.throughput.total": "returned a method; expected an expression",
    "view.throughput.matrix_RC": "returned a csr_array; expected an expression",
    "Throughput()": "returned the term Throughput(); expected an expression of the view. Try: view.throughput for",
    "view.throughput.scaled(np.nan)": "returned a number that is not finite, for job 0",
    "view.throughput.scaled(None)": "returned a number that is not finite, for job 0",
    "view.throughput.shifted(np.inf)": "returned a number that is not finite, for job 0",
    "view.throughput.scaled(view.weight_J / 0)": "not finite, for job 0. Try: look at",
    "view.throughput.scaled(0 / (view.weight_J - 1))": "invalid value encountered in divide",
    "view.throughput.shifted(np.log(-view.weight_J))": "invalid value encountered in log",
    "view.throughput.scaled(1 / (view.steps_left_J * 0))": "divide by zero encountered in divide",
    "view.throughput.scaled(np.float64(1e308) * 10)": "overflow encountered",
    "view.devices.scaled([1.0, np.nan])": "not finite, for type slow",
    "view.usd_per_hour.scaled(np.inf)": "not finite, for the total",
}
"""What ``linear(view)`` or ``numerator(view)`` returns, and what is said of it; # is a number of jobs."""


def wrong(folder: Path, source: str) -> UserError:
    """What is said of the policy of a file; a warning would be an exception here."""
    (folder / "mine.py").write_text(f"{HEAD}{source}")
    with pytest.raises(UserError) as caught:
        ask(load_policy(f"{folder / 'mine.py'}:policy"), SNAPSHOT)
    assert "\n" not in str(caught.value)
    return caught.value


def line_of(part: str, source: str) -> str:
    return f"mine.py, line {next(i for i, line in enumerate((HEAD + source).splitlines(), 1) if part in line)}"


@pytest.mark.slow
@pytest.mark.parametrize(("body", "use"), list(itertools.product(STATED, USES)))
def test_a_mistake_in_a_term_names_the_term_and_the_line(tmp_path: Path, body: str, use: str) -> None:
    source = TERM.replace("POLICY", use).replace("FORM", USES[use]).replace("BODY", body)
    said = wrong(tmp_path, source)
    assert said.where == "Mine()"
    assert CALLED[USES[use]] in said.problem or "self.linear" in body
    assert all(part in str(said) for part in STATED[body].split("#")), str(said)
    at = line_of(body, source), line_of("def linear", source)
    assert any(said.hint.partition(": ")[0].endswith(place) for place in at), said.hint


def test_a_term_without_its_method_is_told_so(tmp_path: Path) -> None:
    """It has inherited one of gavelx, and that is no place to look at."""
    said = wrong(tmp_path, "class Mine(Linear):\n    pass\n\n\npolicy = Maximize(Worst(Mine()))\n")
    assert said.hint.endswith("; give the class a method linear() of its own")


def test_a_policy_that_leaves_jobs_out_by_hand_is_told_how(tmp_path: Path) -> None:
    answer = "MaxMinFairness().allocate(snapshot.replace(jobs=snapshot.jobs[1:]))"
    said = wrong(tmp_path, f"class policy(Policy):\n    def allocate(self, snapshot):\n        return {answer}\n")
    assert "of_jobs() leaves jobs out" in said.problem and "mine.py, line" in said.hint


@pytest.mark.parametrize(
    ("body", "words"),
    list(
        {
            "view.throughput.scaled(-1.0)": "denominator() returned what may be negative, for job 0",
            "view.throughput.shifted(-1.0)": "denominator() returned what may be negative, for job 0",
            "view.weight_J": "denominator() returned an array",
            "view.througput": "denominator() failed with AttributeError",
        }.items()
    ),
)
def test_a_wrong_denominator_is_named(tmp_path: Path, body: str, words: str) -> None:
    source = TERM.replace("return view.throughput\n", f"return {body}\n").replace("BODY", "view.throughput")
    for use in ("Minimize(Largest(Mine()))", "Maximize(SumThroughput(), [Mine() <= 3])"):
        said = wrong(tmp_path, source.replace("FORM", "Fractional").replace("POLICY", use))
        assert said.where == "Mine()"
        assert words in str(said)
        assert "mine.py, line 1" in said.hint


@pytest.mark.parametrize(
    ("body", "words"),
    list(
        {
            "view.troughput": "the view has no 'troughput'; it has J, ",
            "1 / 0": "expression() failed with ZeroDivisionError",
            "view.throughput @ np.ones(5)": "expression() failed with ValueError",
            "None": "expression() returned a NoneType",
            "view.throughput * (view.weight_J / 0)": "expression() returned an expression with a number in it",
        }.items()
    ),
)
def test_a_mistake_in_a_convex_term_names_the_term(tmp_path: Path, body: str, words: str) -> None:
    source = (
        f"class Mine(Convex):\n    def expression(self, view):\n        return {body}\n\npolicy = Maximize(Mine())"
    )
    said = wrong(tmp_path, source)
    assert (said.where, words in said.problem) == ("Mine()", True), str(said)
    assert "failed" not in words or line_of(body, source) in said.hint


# -- formulas -------------------------------------------------------------------------------------------------

FORMULAS = {
    "Maximize(SumThroughput(), [Cost() == 5])": "Cost() == 5 is no constraint. Try: [Cost() <= 5, Cost() >= 5]",
    "Maximize(SumThroughput(), [5 == Cost()])": "Cost() == 5 is no constraint. Try: [Cost() <= 5, Cost() >= 5]",
    "Maximize(SumThroughput(), [Sum(Devices()) == 2])": "Try: [Sum(Devices()) <= 2, Sum(Devices()) >= 2]",
    "Maximize(SumThroughput(), [2 * Cost() - 1 == 5])": "2 * Cost() - 1 == 5 is no constraint",
    "Maximize(Cost() == 5)": "Cost() == 5 is no term",
    "Maximize(SumThroughput(), [Cost() < 5])": "Cost() < 5: there is no constraint with <: shares are "
    "real numbers. Try: Cost() <= 5",
    "Maximize(SumThroughput(), [Throughput() > 1])": "Try: Throughput() >= 1",
    "Maximize(SumThroughput(), [5 > Cost()])": "Cost() < 5: there is no constraint with <",
    "Maximize(SumThroughput() / Cost())": "SumThroughput() / Cost(): a ratio of terms is not linear. "
    "Try: as a constraint, SumThroughput() >= 3 * Cost()",
    "Maximize(1 / Cost())": "1 / Cost(): a number over a term is not linear",
    "Maximize(SumThroughput() / 0)": "SumThroughput() / 0: a division by 0",
    "Maximize(SumThroughput() * Cost())": "a product of terms is not linear",
    "Maximize(1e400 * SumThroughput())": "inf is no finite number",
    "Maximize(SumThroughput(), [Cost() <= 1e400])": "Cost() <= inf: inf is no finite number",
    "Maximize(SumThroughput() + [1])": "SumThroughput() + [1]: [1] is no finite number",
    "Maximize(SumThroughput() - (Cost() <= 5))": "Cost() <= 5 is a constraint, not a term",
    "Maximize(Cost() <= 5)": "Cost() <= 5 is no term",
    "Maximize([SumThroughput()])": "[SumThroughput()] is no term",
    "Maximize(5)": "5 is no term",
    "Maximize(Sum(5))": "5 is no term",
    "Maximize(Worst([Throughput()]))": "[Throughput()] is no term",
    "Maximize(SumThroughput(), Cost() <= 5)": "constraints come in a list. Try: [Cost() <= 5]",
    "Maximize(SumThroughput(), 5)": "constraints come in a list",
    "Maximize(SumThroughput(), [5])": "5 is no constraint",
    "Maximize(SumThroughput(), [5 == 5])": "True is no constraint. Try: [Cost() <= 40]; instead of ==",
    "Maximize(SumThroughput(), [[Cost() <= 5]])": "[Cost() <= 5] is no constraint",
    "Maximize(SumThroughput(), [Cost()])": "Cost() is no constraint",
    "Minimize(Cost(), then=Worst(Throughput()))": "is for what Largest(...) leaves free",
    "Minimize(Largest(TimeLeft()), then=Throughput())": "expected then=Worst(...)",
    "Minimize(Largest(Throughput()))": "Throughput() is no ratio; expected TimeLeft()",
    "Maximize(SumThroughput(), [FinishTimeRatio() >= 1])": "as a constraint, FinishTimeRatio() <= a number",
    "Maximize(Throughput())": "Throughput() has one row per job; an objective is one number",
    "Maximize(Worst(Throughput() + Devices()))": "one row per job on the left and one per accelerator on the",
    "Minimize(Worst(Throughput()))": "Worst(Throughput()) is concave: it can only be made large",
    "Maximize(Sum(Overpaid([1])))": "Overpaid([1]): [1] is no finite number",
    "Maximize(OwnerCost(5))": "5 is no owner",
    "Maximize(SumThroughput(), [Throughput() >= 1e9])": "the constraint Throughput() >= 1e+09 cannot be met",
}
"""The same mistakes typed as a formula and written into a file."""
TYPED = {
    "Maximize(SumThroughput(), [1 <= Cost() <= 5])": "is not understood; .* Try: [1 <= Cost(), Cost() <= 5]",
    "Maximize(SumThroughput(), [Cost() <= 5 and Cost() >= 1])": "Try: [Cost() <= 5, Cost() >= 1]",
    "Maximize(SumThroughput() ** 2)": "SumThroughput() ** 2: is not understood",
    "Maximize(2 / 0)": "division by zero",
    "Maximize(nan * Cost())": "nan: is not understood",
    "Maximize(Plus(Cost(), 3))": "unknown term 'Plus'",
    "agnostic(Maximize(SumThroughput() / Cost()))": "a ratio of terms is not linear",
    "with_constraints(max_min_fairness, Cost() < 5)": "Cost() < 5: there is no constraint with <",
    "with_constraints(max_min_fairness, Cost() == 5)": "Try: [Cost() <= 5, Cost() >= 5]",
    "with_constraints(max_min_fairness, Cost())": "Cost() is no constraint",
    "with_constraints(fifo, Cost() <= 5)": "fifo is no program",
    "partitioned(fifo, -1)": "'-1' parts",
    "hierarchical(max_min_fairness, ml=nan)": "ml weighs nan",
    "capped(shared_cloud_cost_fairness, nan)": "rho_cap is nan",
    "budgeted(fifo, ml=x)": "cannot read 'ml=x'",
    "agnostic()": "no policy is named",
    "robust(3)": "unknown policy '3'",
}
FILED = {
    "Maximize(float('nan') * SumThroughput())": "SumThroughput() * nan: nan is no finite number",
    "Maximize(np.nan * SumThroughput())": "SumThroughput() * nan: nan is no finite number",
    "Maximize(10 ** 400 * SumThroughput())": "is no finite number",
    "Maximize(SumThroughput() * '2')": "SumThroughput() * '2': '2' is no finite number",
    "Maximize(SumThroughput() * None)": "None is no finite number",
    "Maximize(SumThroughput(), [Cost() <= '5'])": "Cost() <= '5': '5' is no finite number",
    "Maximize(SumThroughput(), [Cost() <= None])": "Cost() <= None: None is no finite number",
    "Maximize(Sum(Throughput() * np.ones(3)))": "an array of float64 with shape (3,); expected a finite number. "
    "Try: a Linear term of your own",
    "Maximize(Sum(np.ones(3) * Throughput()))": "an array of float64 with shape (3,); expected a finite number",
    "Maximize(SumThroughput() ** 2)": "SumThroughput() ** 2: a power of a term is not linear",
    "Maximize(SumThroughput() + Cost)": "Cost is no term without brackets. Try: Cost()",
    "Maximize(Cost)": "is no term. Try: Cost()",
    "Maximize(Sum(Throughput))": "Throughput is no term without brackets. Try: Throughput()",
    "Maximize(SumThroughput(), [1 <= Cost() <= 5])": "Cost() >= 1: a constraint is not true or false",
    "Maximize(SumThroughput(), [Cost() <= 5 and Cost() >= 1])": "Cost() <= 5: a constraint is not true or false",
    "Maximize(SumThroughput(), [(Cost() <= 5) & (Cost() >= 1)])": "Try: [Cost() <= 5, Cost() >= 1]",
    "Maximize(SumThroughput(), [Cost() != 5])": "True is no constraint",
    "Maximize(SumThroughput(), (c for c in [Cost() <= -1]))": "the constraint Cost() <= -1 cannot be met",
    "Maximize(SumThroughput(), None)": "constraints come in a list",
    "Maximize(Sum())": "TypeError: Sum.__init__() missing 1 required positional argument: 'term'",
    "Maximize(abs(Cost()))": "TypeError: bad operand type for abs(): 'Cost'",
    "Maximize(max(Cost(), 3))": "there is no constraint with <",
    "Maximise(SumThroughput())": "NameError: name 'Maximise' is not defined; did you mean 'Maximize'",
    "Maximize(Troughput())": "did you mean 'Throughput'",
    "with_constraints(Maximize(SumThroughput()), Cost() <= 5)": "constraints come in a list. Try: [Cost() <= 5]",
    "agnostic(Fifo)": "is no policy. Try: Fifo()",
    "packed('max_min_fairness')": "Try: load_policy('max_min_fairness')",
    "partitioned(Fifo(), 0)": "0 parts; expected a whole number of at least 1",
    "budgeted(Fifo(), {'ml': 'x'})": "ValueError: could not convert string to float: 'x'",
    "5": "it is a int, not a policy",
    "lambda snapshot: None": "it is a function, not a policy",
}


def assert_said(said: UserError, words: str) -> None:
    assert all(part in str(said) for part in words.split(".* ")), str(said)
    assert "\n" not in str(said)


@pytest.mark.parametrize(("text", "words"), list((FORMULAS | TYPED).items()))
def test_a_mistake_in_a_formula_is_told_in_its_words(text: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        ask(load_policy(text), SNAPSHOT)
    assert_said(caught.value, words)


@pytest.mark.parametrize(("text", "words"), list((FORMULAS | FILED).items()))
def test_a_mistake_in_a_file_is_told_in_its_words(tmp_path: Path, text: str, words: str) -> None:
    said = wrong(tmp_path, f"policy = {text}")
    assert_said(said, words)
    told_when_asked = (
        "has one row per",
        "not linear, so",
        "is concave",
        "cannot be met",
        "is no term",
        "not a policy",
    )
    if not any(part in str(said) for part in told_when_asked):
        assert line_of(text, f"policy = {text}") in str(said)


def test_an_equality_of_a_dataclass_is_told_too(tmp_path: Path) -> None:
    """A dataclass has an ``==`` of its own, so the constraint is a plain False by the time anyone sees it."""
    source = (
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass TeamCost(Linear):\n    team: str\n"
        "    def linear(self, view):\n        return view.usd_per_hour\n"
        "policy = Maximize(SumThroughput(), [TeamCost('a') == 5])"
    )
    assert "False is no constraint. Try: [Cost() <= 40]; instead of ==" in str(wrong(tmp_path, source))


def test_a_term_over_a_number_is_a_term() -> None:
    assert repr(load_policy("Maximize(SumThroughput() / 2)")) == "Maximize(0.5 * SumThroughput())"


# -- classes --------------------------------------------------------------------------------------------------

CLASS = """
class Mine(Policy):
    def allocate(self, s):
        C = len(s.configurations)
        def answer(share_C, **said):
            return certified(s, share_C, **{"path": "mine", "seconds": 0.0, **said})
        BODY

policy = POLICY
"""
ANSWERED = {
    "return None": "allocate() returned a NoneType; expected an Allocation; gavelx.solvers.certified makes one",
    "return np.zeros(C)": "allocate() returned a ndarray",
    "return answer(np.ones(C))": "job 0 gets 2 of its time; expected at most 1 over all its configurations",
    "return answer(np.full(C, 0.5 + 1e-7))": "gets 1.0000002 of its time",
    "return answer(-np.ones(C))": "a share is -1; expected 0 or more",
    "return answer(s.configurations.accelerator_C == 0.0 + 0)": "an array of bool with shape",
    "return answer(1.0 * (s.configurations.accelerator_C == 0))": "devices of fast; expected at most 1",
    "return answer(np.ones(2))": "the shares are an array of float64 with shape (2,); expected numbers with shape",
    "return answer(np.ones((3, 2)))": "with shape (3, 2); expected numbers with shape",
    "return answer(0.5)": "with shape (); expected numbers with shape",
    "return answer(None)": "an array of object with shape ()",
    "return answer(np.array(['x'] * C))": "an array of <U1",
    "return answer(np.zeros(C, dtype=complex))": "an array of complex128",
    "return answer(np.full(C, np.nan))": "a share is not a finite number; expected shares from 0 to 1",
    "return answer(np.zeros(C) / 0)": "a share is not a finite number",
    "return answer(repaired(s, np.ones(7)))": "with shape (7,); expected numbers with shape",
    "return answer(np.zeros(C), objective=np.nan)": "the certificate says objective nan",
    "return answer(np.zeros(C), objective='best')": "the certificate says objective best",
    "return answer(np.zeros(C), bound=np.inf)": "bound inf; expected finite numbers, or None",
    "return answer(np.zeros(C), seconds='1')": "seconds 1; expected finite numbers",
    "return answer(np.zeros(C), execution=Execution(refresh_s=-5))": "refresh_s is -5",
    "return answer(np.zeros(C), execution=Execution(refresh_s='soon'))": "refresh_s is 'soon'",
    "return answer(np.zeros(C), marginal_A=np.full(2, np.nan))": "one more device is worth {'fast': nan",
    "return answer(np.zeros(C), execution={'quota': True})": "its execution is a dict; expected an Execution",
    "return answer(np.zeros(C), execution=Execution(quota='no'))": "quota is 'no'; expected True or False",
    "return answer(np.zeros(C), execution=Execution(first_on=(3,)))": "first_on is (3,); expected ids of jobs and",
    "a = answer(np.zeros(C)); a.__dict__['marginal_A'] = {0: 1.0}; return a": "worth {0: 1.0}; expected a number",
    "a = answer(np.zeros(C)); a.__dict__['marginal_A'] = [1.0]; return a": "is worth [1.0]; expected a number for",
    "return answer(np.full(C, 0.3), execution=Execution(whole_devices=True))": "has a share of 0.3; expected",
    "return answer(np.zeros(C), path=None)": "the certificate says path None; expected a text",
    "return answer(np.zeros(C)).with_notes([3])": "its notes are (3,); expected texts",
    "return answer(np.zeros(C), stritc=True)": "got an unexpected keyword argument 'stritc'",
    "return certified(s, np.zeros(C))": "missing 2 required keyword-only arguments",
    "return Allocation(s, np.ones(C), Certificate(None, None, 0.0, '', 0, 0.0))": "job 0 gets 2 of its time",
    "return Allocation(s, np.zeros(7), Certificate(None, None, 0.0, '', 0, 0.0))": "with shape (7,); expected",
    "return Allocation(s, np.zeros(C), Certificate(None, None, 5.0, '', 0, 0.0))": "the shares pass a limit by 5",
    "return answer(s.step_left_J)": "has no attribute 'step_left_J'; did you mean 'steps_left_J'",
    "return answer(s.configurations.throughput)": "did you mean 'throughput_M'",
    "s.steps_left_J[0] = 1": "ValueError: assignment destination is read-only",
    "s.jobs = ()": "FrozenInstanceError: cannot assign to field 'jobs'",
    "np.zeros(C)[99] = 1": "IndexError: index 99 is out of bounds",
    "np.array_split(3, 0)": "TypeError: object of type 'int' has no len()",
    "assert not C, 'no jobs'": "AssertionError: no jobs",
    "raise RuntimeError('two\\nlines')": "RuntimeError: two lines",
    "import sys; sys.exit(3)": "SystemExit: 3",
    "return self.allocate(s)": "RecursionError",
    "return Maximize(Worst(Troughput())).allocate(s)": "NameError: name 'Troughput' is not defined",
}


@pytest.mark.parametrize(
    ("body", "policy"), list(itertools.product(ANSWERED, ("Mine()", "agnostic(Mine())", "partitioned(Mine(), 2)")))
)
def test_a_mistake_in_a_class_names_the_policy_and_the_line(tmp_path: Path, body: str, policy: str) -> None:
    source = CLASS.replace("POLICY", policy).replace("BODY", body)
    said = wrong(tmp_path, source)
    assert said.where == "policy Mine"
    assert ANSWERED[body] in str(said) or policy.startswith("part"), str(said)
    places = [line_of(part, source) for part in (body, "def allocate", "return certified", "C = len(")]
    assert any(said.hint.partition(": ")[0].endswith(place) for place in places), said.hint


@pytest.mark.slow
@pytest.mark.parametrize(
    "source",
    [
        TERM.replace("POLICY", "Maximize(Sum(Mine()))").replace("FORM", "Linear").replace("BODY", body)
        for body in (
            "view.throughput.scaled(np.nan)",
            "view.throughput.scaled(view.weight_J / 0)",
            "view.troughput",
        )
    ]
    + [CLASS.replace("POLICY", "Mine()").replace("BODY", body) for body in list(ANSWERED)[2:5]]
    + ["policy = Maximize(SumThroughput() / Cost())", "policy = Maximize(SumThroughput() * np.log(-1.0))"],
)
def test_the_command_line_says_it_in_one_line(shell: Shell, tmp_path: Path, source: str) -> None:
    snapshot = tmp_path / "snapshot.json"
    write_snapshot(snapshot, SNAPSHOT)
    said = str(wrong(tmp_path, source))
    ran = shell("allocate", "--policy", f"{tmp_path / 'mine.py'}:policy", "--snapshot", snapshot)
    assert (ran.code, ran.out, ran.err) == (2, "", f"gavelx: {said}\n")
    assert not re.search("Warning|mistake of ours|Traceback", ran.err)


# -- classes that are not as they have to be ------------------------------------------------------------------

SUPER = "an __init__() of its own has to call super().__init__(...)"
WHOLE = [
    ("class Mine(Maximize):\n    def __init__(self):\n        self.k = 3", SUPER),
    ("class Mine(Maximize):\n    name = 'mine'\n    def __init__(self):\n        self.k = 3", SUPER),
    ("class Mine(MaxMinFairness):\n    name = 3", "mine.py:Mine: its name failed with TypeError"),
    ("class Mine(MaxMinFairness):\n    def __str__(self):\n        return self.k", "mine.py, line 9"),
    ("class Mine(Policy):\n    def allocate(self):\n        return None", "mine.py, line 8"),
    ("class Mine(Policy):\n    def allocate(self, s, more):\n        return None", "mine.py, line 8"),
    (
        "class Mine(Policy):\n    def allocate(self, s):\n        return certified(s.open('pair'))",
        "ValueError: 'pair' is no kind of configuration; kinds are pairs, placements, sizes, mixes. Try: look at",
    ),
    ("class T(Linear):\n    def linear(self):\n        return 1\nMine = Maximize(T())", "mine.py, line 8"),
]


@pytest.mark.parametrize(("text", "words"), WHOLE)
def test_a_class_that_is_not_as_it_has_to_be_is_its_authors_mistake(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "mine.py").write_text(f"{HEAD}{text}\n")
    with pytest.raises(UserError) as caught:
        ask(load_policy(f"{tmp_path / 'mine.py'}:Mine"), SNAPSHOT)
    assert words in str(caught.value)
