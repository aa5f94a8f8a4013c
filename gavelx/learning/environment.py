"""A simulation as a `gymnasium` environment (the extra ``gym``), for learners that are not ours."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from gavelx.cluster import Cluster
from gavelx.execution import Execution
from gavelx.jobs import Job
from gavelx.policies.dl2 import Reads
from gavelx.policies.lookahead import Model
from gavelx.simulator.asked import asked
from gavelx.slots.greedy import Steps
from gavelx.slots.model import NONE, Bools, Ints, Slots
from gavelx.slots.moves import Moves
from gavelx.slots.turns import Turn
from gavelx.slots.window import Window
from gavelx.snapshot import Snapshot
from gavelx.throughputs import Throughputs

MOST = 1e6
"""Of an observation."""
Observation = NDArray[np.float32]


class Scheduling(gymnasium.Env[Observation, np.int64]):
    """Hand out the devices of a cluster, action by action, as DL2's network does (:class:`Window`).

    * Observation: of the oldest jobs, their type, age, what is left, dominant share, and size on each accelerator
      type;
    * action: the next size of one of them on one type, or, last, to stop: then the devices are used until the
      simulation asks again. One without room is to stop; ``info["open"]`` says which have room;
    * reward: 0 until it stops, and then minus the slots of ``reads.slot_s`` that the jobs were there until the
      next question. The last one makes the sum over an episode minus the total time of all jobs, in slots.

    ``trace``: the jobs of an episode, from a seed that the environment draws. An episode ends with its last job.
    """

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012  (gymnasium's own)

    def __init__(
        self, trace: Callable[[int], Sequence[Job]], cluster: Cluster, throughputs: Throughputs, reads: Reads
    ) -> None:
        assert tuple(cluster.accelerators) == reads.accelerators, "the cluster is not what `reads` says"
        self.trace, self.cluster, self.throughputs, self.reads = trace, cluster, throughputs, reads
        A = len(reads.accelerators)
        shape = (reads.jobs * (len(reads.types) + 3 + A),)
        self.observation_space = gymnasium.spaces.Box(0.0, MOST, shape, np.float32)
        self.action_space = gymnasium.spaces.Discrete(reads.jobs * A + 1)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """The first question of another trace."""
        super().reset(seed=seed)
        jobs = self.trace(int(self.np_random.integers(2**31)))
        self._run = asked(jobs, self.cluster, self.throughputs, opens=frozenset({"sizes"}))
        self._questions: Iterator[Snapshot] = iter(self._run)
        self._snapshot: Snapshot | None = None
        self._earned = 0.0
        self._next()
        return self._seen(), {"open": self._open_A()}

    def step(self, action: np.int64) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """One action."""
        reward = 0.0
        if self._open_A()[action] and action != self._window.actions - 1:
            j, m = divmod(int(action), self._window.moves.next_NWM.shape[2])
            self._size_KJ[0, j] = self._window.moves.next_NWM[self._slots.kind_KJ[0, j], self._size_KJ[0, j], m]
        else:
            reward = self._stop()
        return self._seen(), reward, self._snapshot is None, False, {"open": self._open_A()}

    def _stop(self) -> float:
        """Use the devices until the next question."""
        before, model = self._snapshot, self._model
        assert before is not None, "the episode is over"
        execution = Execution(refresh_s=self.reads.slot_s, whole_devices=True)
        answer = model.choices.allocation(model.chosen_V(self._size_KJ[0]), execution, path="action", seconds=0.0)
        self._run.answer(answer)
        self._next()
        if self._snapshot is None:
            return -float(self._run.result.jct_s_J.sum()) / self.reads.slot_s - self._earned
        passed_s, there = self._snapshot.time_s - before.time_s, {job.id for job in self._snapshot.jobs}
        runs_J = (answer.throughput_J > 0.0) & np.array([job.id not in there for job in before.jobs])
        ends_s_J = np.full(len(runs_J), np.inf)
        ends_s_J[runs_J] = before.steps_left_J[runs_J] / answer.throughput_J[runs_J]
        reward = -float(np.minimum(ends_s_J, passed_s).sum()) / self.reads.slot_s
        self._earned += reward
        return reward

    def _next(self) -> None:
        """The next snapshot in which a job can run; after the last, there is none."""
        while (snapshot := next(self._questions, None)) is not None:
            snapshot = snapshot.open("sizes")
            model = Model.of(snapshot)
            if len(model.job_N):
                break
            self._run.answer(model.choices.none(Execution(refresh_s=self.reads.slot_s, whole_devices=True)))
        self._snapshot = snapshot
        if snapshot is not None:
            moves = Moves.along(Steps.hull(model.sizes, snapshot.devices_A.astype(float)))
            types = [snapshot.jobs[j].job_type for j in model.job_N]
            self._model, self._window = model, self.reads.window(moves, types)
            left_J, elapsed_J = snapshot.steps_left_J[None, :], snapshot.elapsed_s_J
            self._slots: Slots = model.slots(left_J, elapsed_s_J=elapsed_J)
            self._size_KJ: Ints = np.full(self._slots.kind_KJ.shape, NONE)

    def _seen(self) -> Observation:
        if self._snapshot is None:
            return np.zeros(self.observation_space.shape or (), dtype=np.float32)
        return np.asarray(np.clip(self._window.seen(self._slots, self._size_KJ)[0], 0.0, MOST), dtype=np.float32)

    def _open_A(self) -> Bools:
        """The actions for which there is room."""
        window: Window = self._window
        if self._snapshot is None:
            return np.asarray(np.arange(window.actions) == window.actions - 1)
        allowed_KJM = window.moves.allowed_KJM(self._slots, self._size_KJ)
        return np.asarray(window.open_KA(Turn(self._slots, self._size_KJ, allowed_KJM, np.arange(1)))[0])
