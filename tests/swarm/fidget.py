"""A policy that changes its mind about sizes at every opportunity, to try what resizes do."""

from random import Random

import numpy as np

from gavelx.allocation import Allocation
from gavelx.execution import Execution
from gavelx.policies.base import Policy
from gavelx.snapshot import Kind, Snapshot
from gavelx.solvers import certified


class Fidget(Policy):
    """Jobs in some order each get some size or mix that still fits, mostly with the type where they are."""

    name = "fidget"
    ignores = ("weights",)
    opens = frozenset[Kind]({"sizes", "mixes"})

    def allocate(self, snapshot: Snapshot) -> Allocation:
        snapshot, random = snapshot.open("sizes").open("mixes"), Random(f"{snapshot.time_s}")
        table, free_A = snapshot.configurations, snapshot.devices_A.copy()
        devices_CA = table.devices_AC.toarray().T.astype(np.int64)
        share_C = np.zeros(len(table))
        for j in random.sample(range(len(snapshot.jobs)), len(snapshot.jobs)):
            mine = [
                int(c)
                for c in table.configuration_M[table.job_M == j]
                if snapshot.usable_C[c] and (devices_CA[c] <= free_A).all()
            ]
            if here := [c for c in mine if table.accelerator_C[c] == snapshot.running_J[j]]:
                mine = here if random.random() < 0.9 else mine
            if mine:
                c = random.choice(mine)
                share_C[c] = 1.0
                free_A -= devices_CA[c]
        execution = Execution(whole_devices=True, backfill=random.random() < 0.5, refresh_s=30.0)
        return certified(snapshot, share_C, path="whim", seconds=0.0, execution=execution)


fidget = Fidget()
