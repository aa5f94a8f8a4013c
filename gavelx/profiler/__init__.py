"""Measure the speed of a job on this machine: run it as an agent would, count its steps, make a row of a table.

`steps` counts a job's steps, `running` makes one run of one job or of several on the same devices, `profile` plans
the runs and combines their results. `gavelx.estimator.steady_speed` computes a speed from steps.
"""
