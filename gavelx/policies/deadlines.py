"""Meet every deadline that can be met.

Legend: J jobs, A accelerator types, C configurations, K intervals, E entries of the fluid program.
"""

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from gavelx.allocation import Allocation
from gavelx.errors import SolverError
from gavelx.execution import Execution
from gavelx.policies.base import Policy
from gavelx.policies.greedy import usable_throughput_JA
from gavelx.snapshot import Snapshot
from gavelx.solvers import certified, repaired, settings
from gavelx.solvers.lp.highs import LinearProgram
from gavelx.solvers.planning.fluid import Demand, Fluid
from gavelx.solvers.program.errors import UnsolvedError
from gavelx.solvers.program.settings import limited

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
NEAR, FAR = 10, 14
"""Intervals that are planned apart: so many to the next events, and at most so many for the rest of the time."""
MISSED = 1000.0
"""How much worse a missed deadline is than all the work being late."""
LATER = 0.5
"""What a step is worth at its job's deadline, if it is worth 1 now."""
SPARE, SPARE_S = 0.02, 720.0
"""By what part of the time left, and by how much besides, the plan is done before the deadline, where it can."""
SOONEST_S = 60.0


class Deadlines(Policy):
    """Plan the work until all deadlines, and do now what the plan does first.

    The plan is a fluid program (:mod:`gavelx.solvers.planning.fluid`) over the intervals between the deadlines of
    the jobs that are here: as few parts of jobs as possible are undone by their deadlines; of all such plans one
    that does most work early, urgent jobs first, each where it is fast against its own best. ``min_cost_slo`` asks
    that jobs run at an even pace from now to their deadlines; here a long job may wait while a short one is
    urgent. Jobs without a deadline, and those whose deadline has passed, are due when all others are done and they
    could be, too. The plan leaves some time to spare before each deadline, for rounds and for jobs to come, and is
    made anew half-way to the next event. Long turns (``Rules.turn``) are in its way. Source: the program is that
    of Lawler and Labetoulle (JACM 25(4), 1978); the objective is ours.

    Raises :class:`SolverError` where HiGHS does not solve the plan in time.
    """

    name = "deadlines"
    ignores = ("weights",)

    def allocate(self, snapshot: Snapshot) -> Allocation:
        T_JA = usable_throughput_JA(snapshot)
        runs_J = (T_JA > 0).any(axis=1) & (snapshot.steps_left_J > 0)
        share_JA = np.zeros(T_JA.shape)
        again_s = None
        if runs_J.any():
            demand, promised_J = _demand(snapshot, T_JA, np.flatnonzero(runs_J))
            fluid = Fluid(demand, _edges_s(demand))
            share_JA[runs_J] = _first_shares(fluid, snapshot.devices_A, promised_J)
            again_s = max(SOONEST_S, float(fluid.length_s_K[0]))
        table = snapshot.configurations
        share_C = np.zeros(len(table))
        share_C[table.configuration_M] = share_JA[table.job_M, table.accelerator_C[table.configuration_M]]
        share_C = repaired(snapshot, share_C)
        return certified(snapshot, share_C, path="fluid plan", seconds=0.0, execution=Execution(refresh_s=again_s))


def _demand(snapshot: Snapshot, T_JA: Floats, live_J: Ints) -> tuple[Demand, Bools]:
    """The work of these jobs from now on, and whose deadlines can still be met."""
    T_JA, steps_J = T_JA[live_J], snapshot.steps_left_J[live_J]
    scale_J = snapshot.scale_factor_J[live_J].astype(float)
    due_s_J = np.array([snapshot.jobs[j].deadline_s or np.inf for j in live_J.tolist()]) - snapshot.time_s
    promised_J = np.isfinite(due_s_J) & (due_s_J > 0)
    alone_s_J = steps_J / T_JA.max(axis=1)
    at_once = min(float(scale_J.sum()), float(snapshot.devices_A.sum()))
    whole_s = float((alone_s_J * scale_J).sum()) / at_once
    end_s = max(float(alone_s_J.max()), whole_s, float(due_s_J[promised_J].max(initial=0.0)))
    early_s_J = np.maximum(due_s_J * (1.0 - SPARE) - SPARE_S, alone_s_J)
    planned_s_J = np.where(promised_J, np.minimum(due_s_J, early_s_J), end_s)
    return Demand(np.zeros(len(live_J)), planned_s_J, steps_J, scale_J, T_JA), promised_J


def _edges_s(demand: Demand) -> Floats:
    """Half-way to the next event, all the next events, and some of the rest."""
    event_s = demand.edges(len(demand.due_s_J) * 2)
    later_s = event_s[NEAR:]
    if len(later_s) > FAR:
        later_s = np.unique(np.quantile(later_s, np.linspace(0.0, 1.0, FAR), method="nearest"))
    return np.concatenate([[0.0, event_s[1] / 2.0], event_s[1:NEAR], later_s])


def _first_shares(fluid: Fluid, devices_A: Ints, promised_J: Bools) -> Floats:
    """The shares of each job in the first interval of the plan."""
    share_E = _planned(fluid, devices_A, promised_J)
    now_E = fluid.interval_E == 0
    share_JA = np.zeros(fluid.demand.throughput_JP.shape)
    share_JA[fluid.job_E[now_E], fluid.pool_E[now_E]] = share_E[now_E]
    return share_JA


def _planned(fluid: Fluid, devices_A: Ints, promised_J: Bools) -> Floats:
    """The plan as shares of each interval: few parts of jobs undone, then much work early."""
    demand, E, J = fluid.demand, fluid.E, fluid.J
    speed_E = demand.throughput_JP[fluid.job_E, fluid.pool_E]
    work_E = speed_E / demand.throughput_JP.max(axis=1)[fluid.job_E] * fluid.length_s_K[fluid.interval_E]
    work_E *= demand.scale_J[fluid.job_E]
    late_E = fluid.edge_s[:-1][fluid.interval_E] / demand.due_s_J[fluid.job_E]
    all_s = float((demand.scale_J * demand.steps_J / demand.throughput_JP.max(axis=1)).sum())
    program = LinearProgram(
        objective_V=np.concatenate([work_E * (1.0 - LATER * late_E) / all_s, np.full(J, -MISSED) * promised_J]),
        lower_V=np.zeros(E + J),
        upper_V=np.ones(E + J),
        matrix_KV=sparse.block_array(
            [
                [fluid.time_RE, None],
                [fluid.devices_QE, None],
                [fluid.done_JE, sparse.eye_array(J)],
            ],
            format="csr",
        ),
        lower_K=np.concatenate([np.full(len(fluid.window_R) + fluid.P * fluid.K, -np.inf), np.ones(J)]),
        upper_K=np.concatenate([fluid.window_R, devices_A.repeat(fluid.K).astype(float), np.ones(J)]),
    )
    try:
        with limited(settings().budget_s):
            return program.solve()[0][:E]
    except UnsolvedError as failure:
        raise SolverError(f"no plan for the deadlines: {failure.status}") from None
