"""What a long experiment has found so far, part by part in a file: run again, it goes on where it stopped."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gavelx.files.atomic import write_atomically


class Parts:
    """Parts by name, written as soon as each is found. Those of other settings are not used, and overwritten."""

    def __init__(self, path: Path, settings: dict[str, Any]) -> None:
        self._path, self._settings = path, settings
        said = json.loads(path.read_text()) if path.exists() else {}
        self._found: dict[str, Any] = said["parts"] if said.get("settings") == settings else {}

    def of(self, name: str, find: Callable[[], Any]) -> Any:
        """The part as JSON gives it back, whether it was found now or before."""
        if name not in self._found:
            self._found[name] = find()
            lines = ",\n".join(f"{json.dumps(key)}: {json.dumps(value)}" for key, value in self._found.items())
            text = f'{{"settings": {json.dumps(self._settings)}, "parts": {{\n{lines}\n}}}}\n'
            write_atomically(self._path, text)
        return json.loads(json.dumps(self._found[name]))
