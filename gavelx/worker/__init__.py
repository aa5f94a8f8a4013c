"""The agent on a machine with devices: it takes leases from the scheduler and runs their jobs.

`agent` is its logic, without a socket; `connection` connects it to the scheduler's stream. Jobs run behind
`Runner` (`running`): as real processes (`runner`, each lease below a `shim` that outlives the agent), or as jobs
that only sleep (`emulation`).
"""
