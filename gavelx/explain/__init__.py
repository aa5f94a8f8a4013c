"""Explanations of an allocation of any policy.

`properties` computes each job's gain over an equal share, its envy, and the slack to Pareto efficiency; `reasons`
finds what limits each job, and the value of one more device; `explanation` combines both as data.
"""
