"""gavelx: optimization policies for scheduling training jobs on mixed GPU clusters."""

__version__ = "0.1.0"
