"""A simulation as a generator of questions, for whoever answers them other than by a policy: a learner, say."""

from collections.abc import Iterator, Sequence

from gavelx.allocation import Allocation
from gavelx.asking import ask
from gavelx.cluster import Cluster
from gavelx.drive import questions
from gavelx.jobs import Job
from gavelx.mechanism import DEFAULT, Mechanism, Rules
from gavelx.prices import Prices
from gavelx.result import Result
from gavelx.simulator.backend import SimulatedCluster
from gavelx.simulator.ledger import Ledger, usd_between
from gavelx.simulator.simulate import known_by, result_of
from gavelx.snapshot import Kind, Snapshot
from gavelx.throughputs import Throughputs
from gavelx.workload import check_workload


class asked:  # noqa: N801  (used like a function)
    """A simulation that waits for an answer to each of its snapshots::

        run = asked(jobs, cluster, throughputs)
        for snapshot in run:
            run.answer(policy.allocate(snapshot))
        print(run.result.summary())

    ``opens``: kinds of configuration that snapshots have beyond the plain ones. Answers are checked as those of a
    policy; the same answers make the same run as :func:`gavelx.simulator.simulate`. Raises :class:`WorkloadError`
    and :class:`PolicyError` as that does.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        cluster: Cluster,
        throughputs: Throughputs,
        prices: Prices | None = None,
        *,
        rules: Rules = DEFAULT,
        opens: frozenset[Kind] = frozenset(),
    ) -> None:
        check_workload(jobs, cluster, throughputs, opens=opens)
        in_order = sorted(jobs, key=lambda job: job.arrival_s)
        self._prices = prices or Prices({})
        ledger = Ledger(usd_between(self._prices, ()))
        self._backend = SimulatedCluster(in_order, cluster, throughputs, rules, ledger=ledger)
        self._mechanism = Mechanism(throughputs, self._prices, rules, opens)
        self._answers: list[Allocation] = []
        self._result: Result | None = None

    def __iter__(self) -> Iterator[Snapshot]:
        steps = questions(self._mechanism, self._backend)
        snapshot = next(steps, None)
        while snapshot is not None:
            self._answers.clear()
            yield snapshot
            assert self._answers, "each snapshot wants an answer before the next one comes"
            try:
                snapshot = steps.send(ask(_Given(self._answers[-1]), snapshot))
            except StopIteration:
                break
        self._result = result_of(self._backend, known_by(self._mechanism), self._prices)

    def answer(self, allocation: Allocation) -> None:
        """The answer to the last snapshot; a later one takes its place."""
        self._answers.append(allocation)

    @property
    def result(self) -> Result:
        """What has happened, once all snapshots are answered."""
        assert self._result is not None, "the simulation is not over"
        return self._result


class _Given:
    """An answer that is there already, to be checked."""

    def __init__(self, allocation: Allocation) -> None:
        self._allocation = allocation

    def allocate(self, snapshot: Snapshot) -> Allocation:
        return self._allocation
