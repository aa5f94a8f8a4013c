"""Linear programs and ratios, lexicographically: what the worst row leaves free goes to the next.

`lexicographic` solves any linear statement, and raises level after level where it is max-min; `ratio` brings the
largest of several ratios down to that. `unconstrained` answers without a solver where devices suffice, and
`vertex_rounding` divides what a class of identical jobs got so that few members mix types.
"""
