"""What every solver shares: the program as arrays, its answer, its check.

`statement` is what a policy asks for (`convex` where cvxpy has a part in it), `answer` what a solver gives back
and `errors` how it says that it has none. `collapse` finds classes of identical jobs, `assemble_lp` makes rows of
a program over them, `certify` checks shares, `settings` say which solver and how long.
"""
