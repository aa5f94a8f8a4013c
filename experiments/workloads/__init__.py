"""Small real PyTorch jobs of the families that the literature schedules; README.md has the table."""
