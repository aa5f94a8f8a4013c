"""Max-min fairness level by level, by its other name."""

from gavelx.policies.max_min_fairness import MaxMinFairness


class WaterFilling(MaxMinFairness):
    """Raise all jobs together against their proportional slices; a job that can rise no further keeps its share.

    That is the lexicographic optimum of max-min fairness, and ``max_min_fairness`` is just that here: this is its
    name in the literature (Gavel, OSDI'20, section 4.3, by a MILP with big M that stops at 0.01 %). Its form for
    teams is ``hierarchical(max_min_fairness)``.
    """

    name = "water_filling"
