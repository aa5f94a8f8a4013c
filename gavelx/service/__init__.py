"""The scheduler daemon: the mechanism that was simulated, run for real.

Its rooms, from the ground up; each imports only those below it:

* ``store``: the log, durable and append-only, its records, and what it was made with;
* ``state``: all that follows from the log: the mechanism, the records of jobs, the servers, the leases. A restart
  is a replay;
* ``agents``: who is connected, what is said to them and heard from them, and how leases end;
* ``loop``: the one actor that changes the state. Events are stamped, written in one transaction, handed to the
  state, and only then are commands carried out and callers answered. Policies are asked in another process;
* ``api``: users and agents call it: authentication, admission, and one file a topic.
"""
