"""Programs with very many different rows, exactly, by working on the prices of the few accelerator types.

`dense_program` is the door: it takes stated programs that are a matrix of jobs and types. Behind it are arrays
only: `levels` raises level after level, `ratios` makes the largest ratio small, `sums` the sum large; `search`
finds one level by moving the prices, `direct` does so for few rows by linear programs; `replies` says what every
row would do at given prices, `narrowed` which rows may do otherwise near them, and `fitting` whether devices are
plenty.
"""
