"""The throughput estimator: measure little, know much, say how sure."""
