"""How fast a job is on this machine: run it as an agent would, count its steps, make a row of a table of it.

`steps` (how a job's steps are known), `running` (one run of one job, or of several on the same devices), `profile`
(which runs, and what follows from them). What makes a speed of steps is `gavelx.estimator.steady_speed`.
"""
