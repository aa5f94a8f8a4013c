"""The agent on a machine with devices: it takes leases from the scheduler and keeps what they promise.

`agent` is what it says and does, without a socket; `connection` joins it to the scheduler's stream. What runs is
behind `Runner` (`running`): real processes (`runner`, each lease below a `shim` that outlives the agent), or jobs
that only sleep (`emulation`).
"""
