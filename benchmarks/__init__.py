"""Benchmarks: the published formulation of a policy against ours, in one process, turn by turn."""
