"""Print the oldest versions that pyproject.toml takes, as constraints for pip: CI tries these without extras."""

import re
import tomllib
from pathlib import Path

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
taken = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
print(*(re.sub(r"(\[\w+\])?>=", "==", one) for one in sorted(set(taken))), sep="\n")
