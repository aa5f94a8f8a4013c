"""The scheduler daemon: the mechanism that was simulated, run for real.

``state`` is all that follows from the log, and nothing else: the mechanism, the book of jobs, the servers, who
runs where. ``scheduler`` is the one actor that changes it: events are stamped, written to ``log`` in one
transaction, handed to ``state``, and only then are commands carried out and callers answered. A restart is a
replay.

``attendance`` speaks with the agents (with ``launches``, ``endings``, ``progress`` and ``reading``), ``solving``
with the process in which policies are asked (``elsewhere``), ``server`` with users.
"""
