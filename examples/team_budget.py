"""Max-min fairness in which each team has a budget of its own, in dollars per hour.

A job belongs to the team that its owner's path starts with: ``a`` for ``a/ann``. Jobs of other teams are free to
cost what they do.

    gavelx allocate --policy examples/team_budget.py:policy --snapshot snapshot.json
"""

from dataclasses import dataclass

from gavelx.policies import Linear, Maximize, NormalizedThroughput, Worst


@dataclass(frozen=True)
class TeamCost(Linear):
    """Dollars per hour of the devices that a team's jobs use."""

    team: str

    def linear(self, view):
        return view.usd_per_hour_of_job.where(view.team_J == self.team).total()


policy = Maximize(Worst(NormalizedThroughput()), [TeamCost("a") <= 12, TeamCost("b") <= 20])
