"""The scheduler daemon under load; ``python -m benchmarks.service --help``."""
