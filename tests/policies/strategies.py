"""Generated snapshots for our own tests: those of the public kit."""

from gavelx.testing.changes import permuted, renamed
from gavelx.testing.snapshots import POSITIVE, clusters, snapshot_of, snapshots

__all__ = ["POSITIVE", "clusters", "permuted", "renamed", "snapshot_of", "snapshots"]
