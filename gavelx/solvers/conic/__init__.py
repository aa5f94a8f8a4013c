"""Programs that are not linear, by Clarabel or through cvxpy.

`clarabel` takes arrays; `logarithms` are stated programs for it, and `tie_spreading` a quadratic program that
divides time over types. `reference` solves any statement through cvxpy, `tangent` proves a bound on its answer.
"""
