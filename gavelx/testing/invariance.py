"""Changes that must not matter: the order of jobs, names, units, and kinds of configuration that are not opened.

Throughputs are compared if the policy says that its answer is unique. Otherwise both answers are compared by the
objective of the original snapshot, if the policy is a program, or by their certificates. Where these state no
objective, throughputs are compared unless the policy says that they are not unique.

Legend: J jobs, A accelerator types, C configurations.
"""

from contextlib import suppress
from random import Random

from hypothesis import strategies as st

from gavelx.allocation import Allocation
from gavelx.snapshot import Snapshot
from gavelx.testing import changes, plain
from gavelx.testing.checks import Checks, RefusedError, only_if, program_of
from gavelx.testing.snapshots import CONTESTED, of_size

FACTORS = 7.3e-4, 7.3e4
"""Between two units: steps of an hour, and of a microsecond. No powers of two, so that rounding differs."""
LATER_S = 86_400.0 + 3_600.0 + 60.0 + 1.0


class Invariance(Checks):
    """Equivalent snapshots get the same decision."""

    def test_the_order_of_jobs_does_not_matter(self) -> None:
        """Jobs in another order get the same."""

        @self.for_all(self.snapshots(), st.randoms(use_true_random=False))
        def check(snapshot: Snapshot, random: Random) -> None:
            order = list(range(len(snapshot.jobs)))
            random.shuffle(order)
            other = changes.permuted(snapshot, order)
            self._check_same(snapshot, other, "the order of jobs does not matter", "order jobs by arrival or id")

    def test_the_names_of_types_do_not_matter(self) -> None:
        """With other names for the types, the shares are exactly the same."""

        @self.for_all(self.snapshots())
        def check(snapshot: Snapshot) -> None:
            A, rule = len(snapshot.accelerators), "the names of accelerator types do not matter"
            other = changes.renamed(snapshot, [f"type {a} of another name" for a in range(A)][::-1])
            self._check_same_shares(snapshot, other, rule, "go by throughput, devices and price")

    def test_the_names_of_job_types_do_not_matter(self) -> None:
        """With other names for the types of jobs, which sort as before, the shares are exactly the same. Where all
        jobs differ, these may sort the other way round as well.
        """
        rule, hint = (
            "the names of job types do not matter",
            "go by throughput, age and weight; a name may only break a tie",
        )

        @self.for_all(self.snapshots(**CONTESTED))
        def check(snapshot: Snapshot) -> None:
            self._check_same_shares(snapshot, changes.with_job_types_called_otherwise(snapshot), rule, hint)

        snapshot = of_size(6, widest=2 if self.gangs else 1)
        with suppress(RefusedError):
            other = changes.with_job_types_called_otherwise(snapshot, backwards=True)
            self._check_same(snapshot, other, rule, hint)

    def test_the_names_of_owners_do_not_matter(self) -> None:
        """With other names for owners, which sort as before, the shares are exactly the same."""

        @self.for_all(self.snapshots(**CONTESTED))
        def check(snapshot: Snapshot) -> None:
            rule, hint = (
                "the names of owners do not matter",
                "sorted(...) in place of a set; or None in the test class, if it names owners",
            )
            self._check_same_shares(snapshot, changes.with_owners_called_otherwise(snapshot), rule, hint)

    @only_if(lambda test: "steps" not in test.amounts)
    def test_the_unit_of_steps_does_not_matter(self) -> None:
        """Speeds and steps of work, both counted in smaller steps."""

        @self.for_all(self.snapshots())
        def check(snapshot: Snapshot) -> None:
            rule, hint = "the unit of steps does not matter", 'amounts = ("steps",) if the policy states steps'
            for factor in FACTORS:
                self._check_same(snapshot, changes.in_other_steps(snapshot, factor), rule, hint, same_units=False)

    @only_if(lambda test: "usd" not in test.amounts)
    def test_the_currency_does_not_matter(self) -> None:
        """All prices and bills in another currency."""

        @self.for_all(self.snapshots())
        def check(snapshot: Snapshot) -> None:
            rule, hint = "the currency does not matter", 'amounts = ("usd",) if the policy states a budget'
            for factor in FACTORS:
                self._check_same(snapshot, changes.in_other_money(snapshot, factor), rule, hint, same_units=False)

    @only_if(lambda test: not test.by_the_clock)
    def test_the_time_of_day_does_not_matter(self) -> None:
        """Everything later, by an odd number of days, hours, minutes and seconds, or by half a day."""

        @self.for_all(self.snapshots(), st.sampled_from((LATER_S, 43_201.0)))
        def check(snapshot: Snapshot, seconds: float) -> None:
            hint = "snapshot.elapsed_s_J instead of time_s, or by_the_clock = True in the test class"
            self._check_same(snapshot, changes.later(snapshot, seconds), "the time of day does not matter", hint)

    @only_if(lambda test: "weights" in test.make_policy().ignores)
    def test_weights_do_not_matter_where_they_are_ignored(self) -> None:
        """A policy that declares that it ignores weights gives the same for all weights."""

        @self.for_all(self.snapshots())
        def check(snapshot: Snapshot) -> None:
            other, hint = changes.weighing(snapshot, 1.0), "leave the word out of the policy's ignores"
            self._check_same(snapshot, other, "weights do not matter where they are ignored", hint)

    def test_configurations_that_are_not_opened_do_not_matter(self) -> None:
        """Pairs and placements that are known, but not opened for this policy, change nothing."""

        @self.for_all(self.snapshots(extras=True))
        def check(snapshot: Snapshot) -> None:
            one = self.ask(snapshot)
            two = self.ask(changes.knowing_only(snapshot, one.snapshot.opened))
            if plain.shares_by_key(one) != plain.shares_by_key(two):
                seen = f"{one.share_C.tolist()} became {two.share_C.tolist()} without them"
                hint = "read snapshot.configurations rather than snapshot.known"
                self.fail("what is not opened for a policy does not matter", seen, snapshot, hint)

    def _both(self, snapshot: Snapshot, other: Snapshot, rule: str) -> tuple[Allocation, Allocation]:
        """The answers to both; a policy that refuses one refuses the other."""
        one = self.ask(snapshot)
        try:
            return one, self.ask(other)
        except RefusedError as refused:
            self.fail(rule, f"the other way it refused: {refused.__cause__}", snapshot)

    def _check_same_shares(self, snapshot: Snapshot, other: Snapshot, rule: str, hint: str) -> None:
        """Check that both get the same shares, to the last bit."""
        one, two = self._both(snapshot, other, rule)
        if one.share_C.tobytes() != two.share_C.tobytes():
            seen = f"the shares were {one.share_C.tolist()}, and with other names {two.share_C.tolist()}"
            self.fail(rule, seen, snapshot, hint)

    def _check_same(
        self, snapshot: Snapshot, other: Snapshot, rule: str, hint: str, same_units: bool = True
    ) -> None:
        """Check that the other snapshot's answer is as good for this one, comparing objectives if units agree."""
        one, two = self._both(snapshot, other, rule)
        back_C = plain.in_the_order_of(two, one.snapshot)
        program = program_of(self.make_policy())
        before, after = one.certificate.objective, two.certificate.objective
        if self.unique or (self.unique is None and program is None and None in (before, after)):
            self._check_throughputs(one, back_C, snapshot, rule, hint)
        elif program is not None:
            objective = program.state(snapshot).objective
            self._check_objectives(objective(one.share_C), objective(back_C), snapshot, rule, hint)
        if program is None and same_units and before is not None and after is not None:
            self._check_objectives(before, after, snapshot, rule, hint)

    def _check_throughputs(
        self, one: Allocation, back_C: plain.Floats, snapshot: Snapshot, rule: str, hint: str
    ) -> None:
        table = one.snapshot.configurations
        before, after = plain.use(table, one.share_C), plain.use(table, back_C)
        top_J = table.throughput_JC.max(axis=1).toarray().ravel() if len(table) else before.throughput_J
        wrong_J = abs(before.throughput_J - after.throughput_J) > self.tolerance * top_J
        for j in wrong_J.nonzero()[0].tolist():
            speeds = f"{before.throughput_J[j]:.9g} steps/s and gets {after.throughput_J[j]:.9g}"
            seen = f"job {snapshot.jobs[j].id} had {speeds}"
            self.fail(rule, seen, snapshot, f"{hint}, or unique = False in the test class")

    def _check_objectives(self, before: float, after: float, snapshot: Snapshot, rule: str, hint: str) -> None:
        if before != after and not abs(before - after) <= self.tolerance * max(1.0, abs(before)):
            self.fail(rule, f"the objective was {before:.9g} and is {after:.9g}", snapshot, hint)
