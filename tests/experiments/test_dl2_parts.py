"""What was found is not looked for again, unless the settings are others."""

from pathlib import Path

from experiments.dl2.parts import Parts


def test_a_run_goes_on_where_it_stopped(tmp_path: Path) -> None:
    looked: list[str] = []

    def find(what: str) -> list[float]:
        looked.append(what)
        return [1.0, float(len(looked))]

    first = Parts(tmp_path / "parts.json", {"rounds": 1})
    assert first.of("a", lambda: find("a")) == [1.0, 1.0]
    again = Parts(tmp_path / "parts.json", {"rounds": 1})
    assert again.of("a", lambda: find("a")) == [1.0, 1.0]
    assert again.of("b", lambda: find("b")) == [1.0, 2.0]
    other = Parts(tmp_path / "parts.json", {"rounds": 2})
    assert other.of("a", lambda: find("a again")) == [1.0, 3.0]
    assert looked == ["a", "b", "a again"]
