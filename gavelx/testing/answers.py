"""Answers: feasible, honest about themselves, the same every time, and an answer to every snapshot.

Legend: J jobs, A accelerator types, C configurations.
"""

import json
from contextlib import suppress
from itertools import product
from typing import Any

import numpy as np

from gavelx.allocation import FEASIBLE, Allocation
from gavelx.asking import OFFERED, foreign_row
from gavelx.cluster import Cluster
from gavelx.files.configuration_rows import rows_of
from gavelx.files.snapshots import snapshot_from_json, snapshot_to_json
from gavelx.jobs import Job
from gavelx.policies import Minimize, Modifier, Policy
from gavelx.snapshot import Snapshot
from gavelx.solvers import RatioStatement, Statement
from gavelx.solvers.program.certify import missing
from gavelx.testing import plain
from gavelx.testing.checks import Checks, RefusedError, only_if, program_of
from gavelx.testing.snapshots import of_size, snapshot_of

NAN = float("nan")
REPAIR = "gavelx.solvers.repaired(snapshot, share_C) takes out rounding"


class Answers(Checks):
    """Checks of a policy's answers, on generated snapshots and on edge cases."""

    def test_allocations_are_feasible(self) -> None:
        """No share below 0, no job in two places, no type oversubscribed; counted row by row."""
        self.for_all(self.snapshots())(self.check_feasible)

    def test_no_share_where_a_job_cannot_run(self) -> None:
        """A job gets no time on a type where it makes no progress, or that has too few devices for it."""
        self.for_all(self.snapshots())(self.check_useful)

    def test_the_certificate_is_honest(self) -> None:
        """Violation and objective are those of the shares, and no allocation passes the bound."""
        self.for_all(self.snapshots())(self.check_certificate)

    @only_if(lambda test: program_of(test.make_policy()) is None)  # that of a program is recomputed
    def test_the_certificate_of_a_class_can_be_believed(self) -> None:
        """Checks of an objective that cannot be recomputed: it differs between different jobs, its bound is on one
        side of it, and it agrees with ``gain``, if the policy has that.
        """
        policy, answers = self.make_policy(), list[Allocation]()
        for J in range(3, 11):
            with suppress(RefusedError):
                answers.append(self.ask(of_size(J, widest=2 if self.gangs else 1)))
        if not answers:
            return
        said = [a.certificate for a in answers if a.certificate.objective is not None]
        snapshot = answers[-1].snapshot
        if len({round(float(c.objective or 0.0), 9) for c in said}) == 1 and len(said) > 1 and said[0].objective:
            figures = (
                f"the objective is {said[0].objective:g} for {len(said)} snapshots that have nothing in common"
            )
            self.fail("an objective is that of the shares", figures, snapshot, "objective=None, if there is none")
        gaps = [c.bound - c.objective for c in said if c.bound is not None and c.objective is not None]
        size = self.tolerance * max((abs(c.objective or 0.0) for c in said), default=0.0)
        if min(gaps, default=0.0) < -size and max(gaps, default=0.0) > size:
            figures = (
                f"the bound is up to {max(gaps):.6g} above the objective, and {-min(gaps):.6g} below it elsewhere"
            )
            self.fail(
                "a bound is on one side of the objective", figures, snapshot, "bound=None, if none is proven"
            )
        if type(policy).gain is not Policy.gain and not isinstance(policy, Modifier):
            for answer in answers:
                self._check_gain(policy, answer)

    def _check_gain(self, policy: Policy, answer: Allocation) -> None:
        """The objective is the gain of the shares, or its negative; no other shares gain more than the bound."""
        gain, c = policy.gain(answer.snapshot, answer.share_C), answer.certificate
        if gain is None or c.objective is None:
            return
        sign, size = (-1.0 if gain * c.objective < 0 else 1.0), self.tolerance * max(1.0, abs(gain))
        if abs(sign * c.objective - gain) > size:
            figures = f"certificate.objective is {c.objective:.9g}, gain() of its shares {gain:.9g}"
            self.fail("an objective is that of the shares", figures, answer.snapshot)
        if c.bound is not None and sign * c.bound < gain - size:
            figures = f"bound {c.bound:.9g}, objective {c.objective:.9g}, gain() of its shares {gain:.9g}"
            self.fail("no allocation passes the bound, this one included", figures, answer.snapshot)

    def test_the_same_snapshot_gets_the_same_answer(self) -> None:
        """Bit for bit: from the same policy after another question, from a new one, and from a saved snapshot."""

        @self.for_all(self.snapshots(), self.snapshots())
        def check(snapshot: Snapshot, other: Snapshot) -> None:
            first = self.ask(snapshot, policy := self.make_policy())
            self._ask_in_between(other, policy)
            for again in (self.ask(snapshot.replace(), policy), self.ask(snapshot.replace())):
                self._check_same_bits(first, again, snapshot, "the same snapshot gets the same answer")

    def test_a_saved_snapshot_gets_the_same_answer(self) -> None:
        """A snapshot written as JSON and read again gets the same bits, and the answer can be written as JSON."""

        @self.for_all(self.snapshots())
        def check(snapshot: Snapshot) -> None:
            text = json.dumps(snapshot_to_json(snapshot), allow_nan=False)
            first, again = self.ask(snapshot), self.ask(snapshot_from_json(json.loads(text)))
            self._check_same_bits(first, again, snapshot, "a snapshot read from its JSON gets the same answer")
            self._check_json(first, snapshot)

    def test_the_snapshot_is_left_as_it_was(self) -> None:
        """A policy must not change the snapshot, because others read it afterwards."""

        @self.for_all(self.snapshots())
        def check(snapshot: Snapshot) -> None:
            before = _contents(snapshot)
            self.ask(snapshot)
            after = _contents(snapshot)
            if changed := [name for name, value in before.items() if after[name] != value]:
                seen = f"allocate() changed {', '.join(changed)}"
                self.fail("a policy leaves its snapshot as it was", seen, snapshot, "work on a copy: array.copy()")

    def test_no_job(self) -> None:
        """A snapshot without jobs gets an empty allocation."""
        self._check_case([])

    def test_one_job(self) -> None:
        """One job with the cluster to itself, several types of it."""
        self._check_case([[2.0, 1.0]])

    def test_one_job_on_one_type(self) -> None:
        """The end of every run on a cluster of one type: a single configuration, and no choice."""
        self._check_case([[2.0]], {"v100": 3})

    def test_several_jobs_on_one_type(self) -> None:
        """As many configurations as jobs; or a single one, if only one of them can run."""
        self._check_case([[2.0], [1.0], [2.0]], {"v100": 2})
        self._check_case([[0.0], [1.0], [0.0]], {"v100": 2})

    def test_more_jobs_than_devices(self) -> None:
        """Thirty jobs for six devices."""
        self._check_case([[2.0, 1.0], [1.0, 3.0], [4.0, NAN]] * 10)

    def test_jobs_that_can_run_nowhere(self) -> None:
        """Jobs that cannot run, with unknown speeds, or too wide: the other jobs are still served."""
        self._check_case(
            [[0.0, 0.0], [2.0, 1.0], [NAN, NAN], [0.0, NAN], [3.0, 3.0]], scale_factors=[1, 1, 1, 1, 9]
        )
        self._check_case([[0.0, 0.0], [NAN, NAN]])

    def test_identical_jobs(self) -> None:
        """Jobs that differ only in their id."""
        self._check_case([[2.0, 1.0]] * 9)

    def test_gangs_wider_than_a_type(self) -> None:
        """Eight devices at once, and one type has only four: only the other type can be used."""
        self._check_case([[2.0, 1.0], [2.0, 1.0], [9.0, 1.0]], {"v100": 4, "k80": 8}, scale_factors=[8, 1, 4])

    @only_if(lambda test: test.gangs)
    def test_gangs_are_served_beside_other_jobs(self) -> None:
        """A gang gets time where there are cheap devices enough for all; it is the first and the fastest job."""
        for width, others in product((2, 4), (1, 2, 4)):
            jobs = [
                Job(0, "gang", 1000.0, width),
                *(Job(n + 1, "alone", 1000.0, arrival_s=60.0) for n in range(others)),
            ]
            cluster = Cluster.of({"v100": others + width})
            snapshot = snapshot_of(jobs, cluster, np.array([[50.0], *[[2.0]] * others]))
            snapshot = snapshot.replace(usd_per_hour_A=np.array([0.01]))
            with suppress(RefusedError):
                used = plain.use((answer := self.ask(snapshot)).snapshot.configurations, answer.share_C)
                if not used.time_J[0] > 0:
                    seen = f"a gang of {width} gets no time beside {others} jobs of one device, and devices idle"
                    hint = "give gangs shares as other jobs, or gangs = False in the test class"
                    self.fail("gangs are served beside other jobs", seen, snapshot, hint)

    def test_many_jobs_are_served(self) -> None:
        """Each of a hundred jobs gets time where there are cheap devices for twice as many.

        Light ones do as well, and those without an owner or a deadline beside others that have one.
        """
        jobs = [
            Job(
                id=j,
                job_type=f"kind {j % 3}",
                total_steps=1000.0,
                weight=(1.0, 0.3, 5.0)[j // 3 % 3],
                arrival_s=60.0 * j,
                slo=(None, 50.0)[j % 2],
                duration_s=3600.0,
                owner=("", "a", "b/cy")[j // 9 % 3],
            )
            for j in range(100)
        ]
        speeds = np.array([[(2.0, 1.0, 4.0)[j % 3]] for j in range(100)])
        snapshot = snapshot_of(jobs, Cluster.of({"v100": 200}), speeds)
        snapshot = snapshot.replace(usd_per_hour_A=np.array([0.01]))
        with suppress(RefusedError):
            answer = self.ask(snapshot)
            time_J = plain.use(answer.snapshot.configurations, answer.share_C).time_J
            if not (time_J > 0).all():
                seen = f"job {jobs[int(time_J.argmin())].id} of 100 gets no time, and devices idle"
                self.fail("many jobs are served", seen, snapshot, "shares for every job while there is room")

    def test_types_without_devices(self) -> None:
        """A type may be known and have no device at this instant, and then no price either, or be free."""
        for usd in (3.0, 0.0, NAN):
            prices_A = np.array([usd, 0.5])
            self._check_case([[9.0, 1.0], [9.0, 0.0]], {"v100": 0, "k80": 3}, usd_per_hour_A=prices_A)

    def test_a_job_that_is_as_good_as_done(self) -> None:
        """Rounding has left a trace of its steps."""
        self._check_case([[2.0, 1.0], [1.0, 3.0], [4.0, 1.0]], steps_left_J=np.array([500.0, 1e-12, 20.0]))

    def _check_case(
        self,
        speeds: list[list[float]],
        devices: dict[str, int] | None = None,
        scale_factors: list[int] | None = None,
        **fields: Any,
    ) -> None:
        """Every check of one answer, on one snapshot; ``fields`` of it are others than usual."""
        scales = (scale_factors if self.gangs else None) or [1] * len(speeds)
        jobs = [
            Job(j, f"kind {row}", 1000.0, scale_factor=s)
            for j, (row, s) in enumerate(zip(speeds, scales, strict=True))
        ]
        cluster = Cluster.of(devices or {"v100": 2, "k80": 4})
        T_JA = np.array(speeds, dtype=float).reshape(len(jobs), len(cluster.accelerators))
        snapshot = snapshot_of(jobs, cluster, T_JA).replace(**fields)
        with suppress(RefusedError):
            self._check_json(self.ask(snapshot), snapshot)
            self.check_feasible(snapshot)
            self.check_useful(snapshot)
            self.check_certificate(snapshot)

    def check_feasible(self, snapshot: Snapshot) -> None:
        """Raise :class:`NonConformance` unless the answer is feasible."""
        allocation = self.ask(snapshot)
        self._check_rows(allocation, snapshot)
        share_C, rule = allocation.share_C, "allocations are feasible"
        used, devices_A = plain.use(allocation.snapshot.configurations, share_C), snapshot.devices_A
        if share_C.min(initial=0.0) < -FEASIBLE:
            self.fail(rule, f"a share is {share_C.min():.9g}", snapshot, REPAIR)
        for job, time in zip(snapshot.jobs, used.time_J, strict=True):
            if time > 1.0 + FEASIBLE:
                self.fail(
                    rule, f"job {job.id} gets {time:.12g} of its time, more than all of it", snapshot, REPAIR
                )
        for name, busy, there in zip(snapshot.accelerators, used.devices_A, devices_A, strict=True):
            if busy > there + FEASIBLE:
                self.fail(
                    rule, f"{busy:.12g} devices of {name!r} are in use, and there are {there}", snapshot, REPAIR
                )

    def _check_rows(self, allocation: Allocation, snapshot: Snapshot) -> None:
        """Every configuration of the answer is one of the snapshot's, at its speeds."""
        if row := foreign_row(allocation.snapshot, snapshot):
            figures = f"the answer has {row[0]}, the snapshot {row[1]}"
            self.fail("an answer shares out the configurations of its snapshot", figures, snapshot, OFFERED)

    def check_useful(self, snapshot: Snapshot) -> None:
        """Raise :class:`NonConformance` if a job gets time in which it cannot run."""
        allocation = self.ask(snapshot)
        if self.idle_slices:
            return
        for row, share in zip(rows_of(allocation.snapshot.configurations), allocation.share_C, strict=True):
            if share > 0 and not plain.can_run(snapshot, row):
                ids = " and ".join(str(snapshot.jobs[j].id) for j in row.jobs)
                name, there = snapshot.accelerators[row.accelerator], snapshot.devices_A[row.accelerator]
                speeds = ", ".join(f"{speed:g}" for speed in row.steps_per_second)
                seen = (
                    f"job {ids}: share {share:.6g} of {row.devices} x {name!r} ({speeds} steps/s, {there} devices)"
                )
                hint = "share_C[~snapshot.usable_C] = 0, or idle_slices = True in the test class"
                self.fail("no share where a job cannot run", seen, snapshot, hint)

    def check_certificate(self, snapshot: Snapshot) -> None:
        """Raise :class:`NonConformance` if the certificate does not agree with the shares."""
        allocation = self.ask(snapshot)
        used, seen = plain.use(allocation.snapshot.configurations, allocation.share_C), allocation.certificate
        excess = max(
            float((used.time_J - 1.0).max(initial=0.0)),
            float((used.devices_A - snapshot.devices_A).max(initial=0.0)),
            float((-allocation.share_C).max(initial=0.0)),
        )
        if not excess - 1e-12 <= seen.violation <= FEASIBLE:
            figures = f"certificate.violation is {seen.violation:.3g}, the shares exceed a limit by {excess:.3g}"
            self.fail("the certificate's violation is that of the shares", figures, snapshot)
        for name, value in (("objective", seen.objective), ("bound", seen.bound)):
            if value is not None and not np.isfinite(value):
                self.fail("a certificate holds finite numbers, or None", f"{name} is {value}", snapshot)
        policy = self.make_policy()
        if program_of(policy) is not None and allocation.snapshot.runs_J.any():
            self._check_program(allocation, snapshot)
        elif isinstance(policy, Modifier) and (inside := policy.stated(allocation.snapshot)) is not None:
            self._check_constraints(inside, allocation.share_C, snapshot, most=self.tolerance)

    def _check_program(self, allocation: Allocation, snapshot: Snapshot) -> None:
        """Objective, constraints and bound of a policy that can state its program."""
        policy, seen = program_of(self.make_policy()), allocation.certificate
        assert policy is not None
        statement = policy.state(snapshot)
        sign = getattr(statement, "sign", 1.0)
        value = sign * statement.objective(allocation.share_C)
        size = self.tolerance * max(1.0, abs(value))
        if seen.objective is None or not abs(seen.objective - value) <= 1e-9 * max(1.0, abs(value)):
            figures = f"certificate.objective is {seen.objective}, the shares give {value:.12g}"
            self.fail("the certificate's objective is that of the shares", figures, snapshot)
        self._check_constraints(statement, allocation.share_C, snapshot)
        better = -1.0 if isinstance(policy, Minimize) else 1.0
        if seen.bound is not None and better * (seen.bound - seen.objective) < -size:
            figures = f"bound {seen.bound:.12g}, objective {seen.objective:.12g}"
            self.fail("no allocation passes the bound, this one included", figures, snapshot)

    def _check_constraints(
        self,
        statement: Statement | RatioStatement,
        share_C: plain.Floats,
        snapshot: Snapshot,
        most: float = FEASIBLE,
    ) -> None:
        """The shares meet what a program requires."""
        if (short := missing(statement.required, share_C)) > most:
            names = " or ".join(each.text for each in statement.required)
            self.fail("the constraints are met", f"{names} is missed by {short:.3g}", snapshot)

    def _ask_in_between(self, snapshot: Snapshot, policy: Any) -> None:
        with suppress(RefusedError):
            self.ask(snapshot, policy)

    def _check_same_bits(self, one: Allocation, other: Allocation, snapshot: Snapshot, rule: str) -> None:
        facts = [
            (a.certificate.objective, a.certificate.bound, dict(a.marginal_A), a.execution) for a in (one, other)
        ]
        if one.share_C.tobytes() == other.share_C.tobytes() and facts[0] == facts[1]:
            return
        seen = f"the shares {one.share_C.tolist()} became {other.share_C.tolist()}"
        if one.share_C.tobytes() == other.share_C.tobytes():
            seen = f"objective, bound, marginal values and execution {facts[0]} became {facts[1]}"
        hint = "no clock, no chance without a seed, no memory between calls, no iteration over sets"
        self.fail(rule, seen, snapshot, hint)

    def _check_json(self, allocation: Allocation, snapshot: Snapshot) -> None:
        try:
            json.dumps(allocation.to_json(), allow_nan=False)
        except (TypeError, ValueError) as error:
            self.fail("an allocation can be written as JSON", str(error), snapshot, "float(...), int(...)")


def _contents(snapshot: Snapshot) -> dict[str, Any]:
    """Everything in a snapshot that could be changed, for a comparison."""
    fields = {**vars(snapshot), **{f"known.{name}": value for name, value in vars(snapshot.known).items()}}
    arrays = {name: value.tobytes() for name, value in fields.items() if isinstance(value, np.ndarray)}
    return {**arrays, "jobs": snapshot.jobs, "cluster": snapshot.cluster, "opened": snapshot.opened}
