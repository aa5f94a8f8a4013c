"""How little has to be measured: cells of the published tables are hidden, estimated, and compared.

    python -m experiments.estimation [--tables simulation] [--seeds 0 1 ...] [--estimators completion ...] [--tiny]

Three ways to hide cells, each with several seeds:

* so many per cent of pairs measured (both speeds of a pair at once), all job types alone;
* an accelerator type of which only the cells of two job types (and their pairs) are known: any two, and once the
  two that `completion` would choose to measure there;
* four job types of which only two cells alone are known each, and no pair.

Writes estimation.json, RESULTS.md and estimation.png into ``results``. Errors are relative, of hidden cells that
run; a cell that is wrongly said not to run has an error of 100 %. Coverage is the share of those cells that 90 %
intervals hold. `hiding` hides, `scores` compares, `page` writes.
"""
