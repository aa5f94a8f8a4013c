"""What only a GPU can show: ``make test-gpu``. Otherwise nothing here is collected."""

import os

collect_ignore_glob = [] if os.environ.get("TEST_GPU") else ["test_*.py"]
