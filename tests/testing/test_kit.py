"""The kit catches what it should, and only that: each planted fault breaks exactly its own checks."""

import json
import random
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from gavelx.allocation import Allocation
from gavelx.cluster import Cluster
from gavelx.errors import ProgramError
from gavelx.files.configuration_rows import rows_of
from gavelx.files.snapshots import snapshot_from_json
from gavelx.jobs import Job
from gavelx.policies import (
    Cost,
    Devices,
    Fifo,
    Isolated,
    Maximize,
    MaxMinFairness,
    NormalizedThroughput,
    Policy,
    Worst,
    packed,
)
from gavelx.snapshot import Snapshot
from gavelx.testing import NonConformance, PolicyConformance, snapshot_of, snapshots
from gavelx.testing.changes import PER_JOB, permuted
from gavelx.testing.checks import short_json
from tests.testing import planted
from tests.testing.planted import Floor, Fragile, Snob, Starving, Wasteful
from tests.testing.snapshots_alike import assert_alike

pytestmark = pytest.mark.slow

CASES = {
    *("test_no_job", "test_one_job", "test_more_jobs_than_devices", "test_jobs_that_can_run_nowhere"),
    *("test_identical_jobs", "test_gangs_wider_than_a_type", "test_types_without_devices"),
    *("test_one_job_on_one_type", "test_several_jobs_on_one_type", "test_a_job_that_is_as_good_as_done"),
}
COMPARISONS = {
    *("test_the_same_snapshot_gets_the_same_answer", "test_a_saved_snapshot_gets_the_same_answer"),
    *("test_the_order_of_jobs_does_not_matter", "test_the_names_of_types_do_not_matter"),
    *("test_the_names_of_job_types_do_not_matter", "test_the_names_of_owners_do_not_matter"),
    *("test_the_unit_of_steps_does_not_matter", "test_the_currency_does_not_matter"),
    "test_configurations_that_are_not_opened_do_not_matter",
}

FAULTS = [
    (planted.Greedy, {"test_allocations_are_feasible", "test_no_share_where_a_job_cannot_run",
        "test_the_certificate_is_honest"} | CASES - {"test_no_job", "test_one_job_on_one_type"}),
    (planted.Boaster, {"test_the_certificate_is_honest"} | CASES - {"test_no_job"}),
    (planted.SureOfItself, {"test_the_certificate_is_honest"} | CASES - {"test_no_job"}),
    (planted.Queue, {"test_the_order_of_jobs_does_not_matter"}),
    (planted.Snob, {"test_the_names_of_types_do_not_matter"}),
    (planted.Dice, COMPARISONS),
    (planted.Memory, {"test_the_same_snapshot_gets_the_same_answer"}),
    (planted.Vandal, {"test_the_snapshot_is_left_as_it_was"}),
    (planted.Parked, {"test_no_share_where_a_job_cannot_run", "test_jobs_that_can_run_nowhere",
        "test_gangs_wider_than_a_type", "test_types_without_devices", "test_several_jobs_on_one_type"}),
    (planted.Peeper, {"test_configurations_that_are_not_opened_do_not_matter"}),
    (planted.Dollars, {"test_the_currency_does_not_matter"}),
    (planted.Steps, {"test_the_unit_of_steps_does_not_matter"}),
    (planted.Faster, {"test_allocations_are_feasible"} | CASES - {"test_no_job"}),
    (planted.Wasteful, {"test_pareto_efficiency"}),
    (planted.Starving, {"test_sharing_incentive"}),
    (planted.Envied, {"test_envy_freeness"}),
    (planted.Gullible, {"test_strategy_proofness"}),
    (planted.OwnerStarving, {"test_owner_sharing_incentive"}),
    (planted.DeviceCounting, {"test_value_fairness"}),
    (planted.Vague, {"test_promises_are_known_words"}),
]  # fmt: skip


BEHAVIOUR = {
    *("test_the_certificate_of_a_class_can_be_believed", "test_a_heavier_job_is_never_worse_off"),
    *("test_weights_count", "test_many_jobs_are_served", "test_weights_do_not_matter_where_they_are_ignored"),
    *("test_every_job_is_done_in_a_short_simulation", "test_a_second_run_is_like_the_first"),
    "test_what_it_remembers_may_be_forgotten",
    *("test_the_time_of_day_does_not_matter", "test_the_wall_clock_does_not_matter"),
    *("test_an_answer_waits_for_nothing", "test_an_answer_takes_no_longer_than_it_must"),
}
"""Checks of what a policy does over time; those faults that were planted for other checks may break these, too."""
FOUND_BY = [
    (planted.Liar, "test_the_certificate_of_a_class_can_be_believed", "the objective is 123 for"),
    (planted.TwoFaced, "test_the_certificate_of_a_class_can_be_believed", "above the objective, and"),
    (planted.Overvalued, "test_the_certificate_of_a_class_can_be_believed", "gain() of its shares"),
    (planted.Leveller, "test_weights_count", "a weight of 5 instead of 1 changes nothing"),
    (planted.UpsideDown, "test_a_heavier_job_is_never_worse_off", "of two identical jobs that of weight 5"),
    (planted.Narrow, "test_every_job_is_done_in_a_short_simulation", "devices) is never done"),
    (planted.Alone, "test_gangs_are_served_beside_other_jobs", "gets no time beside"),
    (planted.ShortNames, "test_the_names_of_job_types_do_not_matter", "and with other names"),
    (planted.SmallFirst, "test_the_unit_of_steps_does_not_matter", "steps/s and gets"),
    (planted.Alphabetical, "test_the_names_of_job_types_do_not_matter", "steps/s and gets"),
    (planted.AnyOwner, "test_the_names_of_owners_do_not_matter", "and with other names"),
    (planted.SixtyFour, "test_many_jobs_are_served", "AssertionError"),
    (planted.Few, "test_many_jobs_are_served", "of 100 gets no time, and devices idle"),
    (planted.Rounded, "test_many_jobs_are_served", "of 100 gets no time, and devices idle"),
    (planted.Owned, "test_many_jobs_are_served", "of 100 gets no time, and devices idle"),
    (planted.Due, "test_many_jobs_are_served", "of 100 gets no time, and devices idle"),
    (planted.Impatient, "test_the_unit_of_steps_does_not_matter", "steps/s and gets"),
    (planted.Divides, "test_types_without_devices", "AssertionError"),
    (planted.Nearly, "test_a_job_that_is_as_good_as_done", "AssertionError"),
    (planted.Sleeper, "test_an_answer_waits_for_nothing", "s in which it does not compute"),
    (planted.Exponential, "test_an_answer_takes_no_longer_than_it_must", "of processor time, more than"),
    (planted.OddSeconds, "test_the_time_of_day_does_not_matter", "steps/s and gets"),
    (planted.Nights, "test_the_time_of_day_does_not_matter", "steps/s and gets"),
    (planted.Clock, "test_the_wall_clock_does_not_matter", "by the clock"),
    (planted.Calendar, "test_the_wall_clock_does_not_matter", "by the clock"),
    (planted.Wristwatch, "test_the_wall_clock_does_not_matter", "by the clock"),
    (planted.Sundial, "test_the_wall_clock_does_not_matter", "by the clock"),
    (planted.ClockInATerm, "test_the_wall_clock_does_not_matter", "by the clock"),
    (planted.Doorkeeper, "test_what_it_remembers_may_be_forgotten", "policy's memory is sometimes dropped"),
    (planted.Grateful, "test_a_second_run_is_like_the_first", "and in a second run at"),
]


@pytest.mark.parametrize(("policy", "check", "words"), FOUND_BY, ids=lambda value: getattr(value, "__name__", ""))
def test_a_fault_over_time_is_found(policy: type[Policy], check: str, words: str) -> None:
    found = failures(conformance(policy, examples=100), [check])
    assert words in found[check], found


def test_a_good_policy_passes_what_those_break() -> None:
    assert failures(conformance(planted.Plain), BEHAVIOUR) == {}


def test_what_is_by_design_can_be_said() -> None:
    class Flat(planted.Leveller):
        ignores = ("weights",)

    weights = [check for check in BEHAVIOUR if "weight" in check or "heavier" in check]
    assert failures(conformance(Flat), weights) == {}
    found = failures(conformance(type("Claims", (planted.Plain,), {"ignores": ("weights",)})), weights)
    assert found.keys() == {"test_weights_do_not_matter_where_they_are_ignored"}
    by_the_clock = conformance(planted.OddSeconds, by_the_clock=True)
    assert failures(by_the_clock, ["test_the_time_of_day_does_not_matter"]) == {}


@pytest.fixture(autouse=True)
def unshrunk() -> Iterator[None]:
    """Failures as they are found: making them small takes most of the time and is tried once, below."""
    before = settings.default
    settings.register_profile("unshrunk", parent=before, phases=[Phase.generate, Phase.target])
    settings.load_profile("unshrunk")
    yield
    settings.register_profile("as before", parent=before)
    settings.load_profile("as before")


def failures(kind: type[PolicyConformance], names: Iterable[str] = ()) -> dict[str, str]:
    """The checks that fail, of all but BEHAVIOUR or of these, with their messages; run as plain methods."""
    found = {}
    every = {name for name in dir(kind) if name.startswith("test_") and callable(getattr(kind, name))}
    for name in sorted(every.intersection(names) if names else every - BEHAVIOUR):
        try:
            getattr(kind(), name)()
        except (NonConformance, pytest.fail.Exception) as failure:
            found[name] = str(failure)
    return found


def conformance(policy: Policy | type[Policy], **attributes: object) -> type[PolicyConformance]:
    attributes = {"unique": True, "examples": 12, **attributes, "policy": policy}
    return type("Planted", (PolicyConformance,), attributes)


@pytest.mark.parametrize(("policy", "expected"), FAULTS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_planted_fault_breaks_its_own_checks(policy: type[Policy], expected: set[str]) -> None:
    kind = conformance(policy, unique=not issubclass(policy, Starving))
    found = failures(kind)
    assert set(found) == expected, found
    for message in found.values():
        assert str(policy()) in message


def test_a_modifier_keeps_the_constraints_of_the_program_inside() -> None:
    """What `agnostic` did around `packed`: the program kept them, and the modifier changed its shares."""
    program = Maximize(Worst(NormalizedThroughput()), [Devices() <= 0.5])
    check = "test_the_certificate_is_honest"
    found = failures(conformance(planted.Unbound(program)), [check])
    assert "the constraints are met" in found[check] and "Devices() <= 0.5 is missed by" in found[check], found
    assert not failures(conformance(packed(program)), [check])


def test_a_failure_reads_well() -> None:
    """Policy, rule, job, figures, what to try, and a snapshot that shows it again, made small."""
    settings.load_profile("repeat")
    message = failures(conformance(Wasteful))["test_pareto_efficiency"]
    lines = message.splitlines()
    assert lines[0] == "Wasteful breaks a rule: Pareto efficiency"
    assert [line.partition(":")[0].strip() for line in lines[1:]] == ["seen", "try", "snapshot"]
    assert "without a loss to any job, jobs could gain 0.5" in lines[1]
    assert "leave the word out of the policy's promises" in lines[2]
    shown = snapshot_from_json(json.loads(lines[3].partition(":")[2]))
    assert len(shown.jobs) == 3  # promises are tried on three jobs or more
    assert np.isclose(Wasteful().allocate(shown).share_JA.sum(), 0.5)


def test_a_fault_that_does_not_happen_again_is_told_as_what_it_is() -> None:
    kind = conformance(planted.Warming)()
    one = snapshot_of([Job(0, "net", 1.0)], Cluster.of({"a": 1}), np.array([[1.0]]))

    def all_is_used(snapshot: Snapshot) -> None:
        if (used := kind.ask(snapshot).share_C.sum()) < 1.0:
            kind.fail("all is used", f"{used} of 1", snapshot)

    with pytest.raises(NonConformance) as caught:
        kind.for_all(st.just(one))(all_is_used)
    assert "0.5 of 1" in str(caught.value)
    assert "the policy is not deterministic" in str(caught.value)


def test_a_policy_that_raises_is_named_with_the_error() -> None:
    found = failures(conformance(Fragile))
    assert "test_no_job" in found
    assert "it raised IndexError: tuple index out of range" in found["test_no_job"]


def test_a_refusal_is_a_failure_unless_the_author_says_that_it_may_happen() -> None:
    found = failures(conformance(Floor, amounts=("steps",)))
    assert "may_refuse = True" in found["test_jobs_that_can_run_nowhere"]
    assert "Throughput() >= 0.001 cannot be met" in found["test_jobs_that_can_run_nowhere"]
    assert failures(conformance(Floor, amounts=("steps",), may_refuse=True)) == {}


def test_a_policy_that_refuses_everything_does_not_pass() -> None:
    class Never(Policy):
        def allocate(self, snapshot: Snapshot) -> Allocation:
            raise ProgramError("I would rather not")

    with pytest.raises(Unsatisfiable):
        conformance(Never, may_refuse=True)().test_allocations_are_feasible()


def test_an_amount_that_the_policy_states_ties_it_to_its_unit() -> None:
    policy = Maximize(Worst(NormalizedThroughput()), [Cost() <= 2.0])
    assert set(failures(conformance(policy))) == {"test_the_currency_does_not_matter"}
    assert failures(conformance(policy, amounts=("usd",))) == {}


@pytest.mark.parametrize(
    ("policy", "check"),
    [
        (planted.Queue, "test_the_order_of_jobs_does_not_matter"),
        (planted.SmallFirst, "test_the_unit_of_steps_does_not_matter"),
    ],
)
def test_without_an_objective_throughputs_are_compared(policy: type[Policy], check: str) -> None:
    assert failures(conformance(policy, unique=None, examples=100), [check]).keys() == {check}
    assert failures(conformance(policy, unique=False), [check]) == {}


def test_time_that_is_of_no_use_may_be_meant() -> None:
    assert failures(conformance(Isolated, idle_slices=True)) == {}


def test_a_policy_for_jobs_of_one_device_is_not_asked_about_gangs() -> None:
    class Singles(MaxMinFairness):
        def allocate(self, snapshot: Snapshot) -> Allocation:
            assert (snapshot.scale_factor_J == 1).all()
            return super().allocate(snapshot)

    assert "it raised AssertionError" in failures(conformance(Singles))["test_gangs_wider_than_a_type"]
    assert failures(conformance(Singles, gangs=False)) == {}


def test_a_promise_is_among_equals_unless_the_author_says_more() -> None:
    """Max-min fairness gives a job of weight 0.3 less than an equal share, as it should."""
    promising = MaxMinFairness()
    assert failures(conformance(promising)) == {}
    assert "test_sharing_incentive" in failures(conformance(promising, among_equals=False))


def test_a_check_is_taken_out_by_none() -> None:
    assert failures(type("Lax", (conformance(Snob),), {"test_the_names_of_types_do_not_matter": None})) == {}


def test_what_a_policy_does_not_promise_is_no_test_of_it() -> None:
    assert conformance(Fifo).test_envy_freeness is None
    assert conformance(MaxMinFairness).test_envy_freeness is None
    assert callable(conformance(MaxMinFairness).test_sharing_incentive)


def test_a_subclass_with_another_policy_has_the_checks_of_that_policy() -> None:
    lax = type("Lax", (conformance(Fifo),), {"test_pareto_efficiency": None})
    kind = type("Other", (lax,), {"policy": MaxMinFairness})
    assert callable(kind.test_sharing_incentive)
    assert kind.test_pareto_efficiency is None, "the author removed it"
    assert type("Again", (kind,), {"policy": Fifo}).test_sharing_incentive is None


def test_a_policy_that_cannot_be_made_yet_keeps_every_check() -> None:
    class Later(PolicyConformance):
        def make_policy(self) -> Policy:
            raise RuntimeError("its file is written by a fixture")

    assert all(callable(getattr(Later, name)) for name in dir(Later) if name.startswith("test_"))
    ready = Later()
    ready.make_policy = Fifo  # type: ignore[method-assign]
    with pytest.raises(pytest.skip.Exception, match="does not apply"):
        ready.test_envy_freeness()


def test_a_check_of_the_authors_own_stays() -> None:
    def own(test: PolicyConformance) -> None:
        """Another way to check it."""

    assert type("Own", (conformance(Fifo),), {"test_envy_freeness": own}).test_envy_freeness is own
    assert (
        type("Own", (conformance(MaxMinFairness),), {"test_sharing_incentive": own}).test_sharing_incentive is own
    )


@given(snapshots())
def test_the_json_of_a_failure_is_the_snapshot(snapshot: Snapshot) -> None:
    assert_alike(snapshot_from_json(json.loads(short_json(snapshot))), snapshot)


@given(snapshots(), st.randoms(use_true_random=False))
def test_jobs_permuted_and_put_back_are_as_before(snapshot: Snapshot, chance: random.Random) -> None:
    order = list(range(len(snapshot.jobs)))
    chance.shuffle(order)
    back = permuted(permuted(snapshot, order), np.argsort(order).tolist() if order else [])
    assert back.jobs == snapshot.jobs
    assert sorted(rows_of(back.known)) == sorted(rows_of(snapshot.known))
    for name in PER_JOB:
        np.testing.assert_array_equal(getattr(back, name), getattr(snapshot, name))


def test_without_hypothesis_the_kit_says_what_to_install() -> None:
    code = "import sys; sys.modules['hypothesis'] = None; import gavelx.testing"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = run.stderr.splitlines()[-1]
    assert re.fullmatch(r"ImportError: gavelx.testing needs hypothesis.*pip install 'gavelx\[testing\]'", last), (
        last
    )
