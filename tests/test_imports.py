"""Imports point the way the data flows, and each heavy library has its home.

Read from the source of every module, so an import inside a function counts as well. Imports for type checkers
only (``if TYPE_CHECKING:``) count for the direction and not for the libraries, as they load nothing.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import gavelx

PACKAGE = Path(gavelx.__file__).parent
NOUNS = {
    *(
        "accelerators",
        "allocation",
        "asking",
        "authors",
        "cluster",
        "configuration",
        "configurations",
        "dense",
        "errors",
        "execution",
        "fixed",
        "frames",
        "job_table",
        "jobs",
        "measurements",
        "memory",
        "metrics",
        "overheads",
        "elastic",
        "sizes",
        "mixes",
        "part_plans",
        "prices",
        "promises",
        "result",
        "snapshot",
    ),
    *("spelling", "throughputs", "training_report", "ways_to_run", "workload"),
}
MAY_IMPORT = {
    "nouns": {"nouns"},
    "solvers": {"nouns", "solvers"},
    "slots": {"slots"},
    "policies": {"nouns", "solvers", "slots", "policies"},
    "mechanism": {"nouns", "mechanism"},
    "drive": {"nouns", "mechanism", "drive"},
    "fallback": {"nouns", "solvers", "fallback"},
    "simulator": {"nouns", "mechanism", "drive", "fallback", "simulator"},
    "published": {"nouns", "solvers", "policies", "mechanism", "simulator", "published"},
    "files": {"nouns", "files"},
    "estimator": {"nouns", "estimator"},
    "estimated_speeds": {"nouns", "files", "estimator"},
    "pricing": {"nouns", "files", "mechanism", "policies", "simulator", "solvers", "pricing"},
    "report": {"nouns", "report"},
    "testing": {
        *("nouns", "files", "solvers", "policies", "mechanism", "simulator"),
        *("explain", "estimator", "testing"),
    },
    "explain": {"nouns", "solvers", "explain"},
    "rpc": {"nouns", "files", "rpc"},
    "worker": {"nouns", "files", "rpc", "worker"},
    "profiler": {"nouns", "files", "estimator", "rpc", "worker", "profiler"},
    "training": {"nouns", "training"},
    "learning": {"nouns", "slots", "policies", "mechanism", "simulator", "learning"},
    "service": {
        *("nouns", "solvers", "policies", "mechanism", "drive", "fallback"),
        *("files", "explain", "rpc", "estimator", "estimated_speeds", "service"),
    },
    "cli": {
        *("nouns", "solvers", "policies", "mechanism", "drive", "simulator"),
        *(
            "files",
            "report",
            "explain",
            "estimator",
            "estimated_speeds",
            "pricing",
            "rpc",
            "service",
            "worker",
            "profiler",
            "cli",
            "package",
            "published",
            "learning",
        ),
    },
    "package": {"nouns", "files", "policies", "mechanism", "simulator"},
}
"""Which rooms each room may import from.

``package`` is gavelx/__init__.py itself, which loads names when asked.
"""
FLOORS = {
    "service": ("store", "state", "agents", "loop", "api"),
    "solvers": ("program", "lp", "price_engine", "planning", "maxmin", "conic"),
}
"""Rooms with rooms of their own, from the ground up: each imports only from itself and from those before it."""
DISPATCH = "simulator/simulate.py"
"""The only file, but for the command line, that knows of the published simulator: rules choose between the two."""
HOMES = {
    "clarabel": {"solvers.conic"},
    "highspy": {"solvers.lp"},
    "scipy.linalg": {"estimator"},  # its sums differ from processor to processor
    "scipy.optimize": {"solvers.planning", "estimator", "testing"},
    "cvxpy": {"policies", "solvers.program", "solvers.conic"},
    "matplotlib": {"report"},
    "jinja2": {"report"},
    "typer": {"cli"},
    "click": {"cli"},
    "rich": {"cli"},
    "pandas": {"frames"},  # and there inside functions only
    "hypothesis": {"testing"},
    "pytest": {"testing"},
    "torch": {"learning", "training"},
    "gymnasium": {"learning"},
    "grpc": {"rpc", "service", "worker"},
    "sqlalchemy": {"service.store"},
    "prometheus_client": {"service.loop"},
    "cryptography": {"rpc"},
    "psutil": {"worker"},
    "pynvml": {"worker"},
}
IMPURE = {
    *("time", "datetime", "random", "numpy.random", "secrets", "uuid"),
    *("socket", "threading", "multiprocessing", "asyncio", "concurrent", "subprocess"),
}
"""What the mechanism must do without: clocks, chance, sockets, threads."""


@dataclass(frozen=True)
class Import:
    """One imported name: where it stands, what it names in full, and how it is reached."""

    module: str
    line: int
    name: str
    in_function: bool
    for_types_only: bool

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.name}"

    def reaches(self, library: str) -> bool:
        return self.name == library or self.name.startswith(library + ".")


def room_of(dotted: str) -> str:
    """The room of ``gavelx.<...>``; nouns share one."""
    parts = dotted.split(".")
    if parts[1:] == ["__main__"]:
        return "cli"  # `python -m gavelx`
    if len(parts) == 1 or parts[1].startswith("__"):
        return "package"
    return "nouns" if parts[1] in NOUNS else parts[1]


def modules() -> list[str]:
    """Every module of the package, as a path below it."""
    return sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


def dotted(module: str) -> str:
    return ".".join(["gavelx", *Path(module).with_suffix("").parts]).removesuffix(".__init__")


def imports_of(module: str, source: str) -> list[Import]:
    """All imports of one module, in whatever form they are written."""
    return list(_walk(ast.parse(source), module, in_function=False, for_types_only=False))


def _walk(node: ast.AST, module: str, in_function: bool, for_types_only: bool) -> Iterator[Import]:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.Call):
        for name in _names(node, module):
            yield Import(module, node.lineno, name, in_function, for_types_only)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        in_function = True
    guarded = node.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test) else []
    for child in ast.iter_child_nodes(node):
        yield from _walk(child, module, in_function, for_types_only or child in guarded)


def _names(node: ast.Import | ast.ImportFrom | ast.Call, module: str) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = ["gavelx", *Path(module).parts[:-1]]
            base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
        return [f"{base}.{alias.name}" for alias in node.names]
    called = ast.unparse(node.func)
    constant = node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
    return [node.args[0].value] if called in ("import_module", "importlib.import_module") and constant else []


def imports(module: str) -> list[Import]:
    return imports_of(module, (PACKAGE / module).read_text(encoding="utf-8"))


@pytest.mark.parametrize("room", FLOORS)
def test_no_arrow_points_up_inside_a_room(room: str) -> None:
    floor = {name: i for i, name in enumerate(FLOORS[room])}
    here = [module for module in modules() if module.startswith(f"{room}/") and module.count("/") > 1]
    assert {module.split("/")[1] for module in here} == floor.keys(), "say in FLOORS where it stands"
    wrong = [
        str(found)
        for module in here
        for found in imports(module)
        if found.reaches(f"gavelx.{room}")
        and floor.get(found.name.split(".")[2], len(floor)) > floor[module.split("/")[1]]
    ]
    assert not wrong, wrong


def circle(files: Mapping[str, Path]) -> list[str]:
    """Modules, by their dotted names, of which each imports the next and the last one the first; empty if none."""
    graph: dict[str, set[str]] = {}
    for name, file in files.items():
        graph[name] = set()
        for found in imports_of(name, file.read_text(encoding="utf-8")):
            there = found.name
            while there and there not in files:
                there = there.rpartition(".")[0]
            if there and there != name and found.name != "gavelx.__version__":
                graph[name].add(there)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def files_of(root: Path, *tops: str) -> dict[str, Path]:
    paths = [path for top in tops for path in sorted((root / top).rglob("*.py"))]
    return {".".join(p.relative_to(root).with_suffix("").parts).removesuffix(".__init__"): p for p in paths}


def test_no_module_imports_itself_through_others() -> None:
    """Nor inside functions or for type checkers only."""
    assert circle(files_of(PACKAGE.parent, "gavelx", "experiments", "benchmarks", "tests")) == []


def test_a_circle_is_seen(tmp_path: Path) -> None:
    for name, imported in {"a": "b", "b": "c", "c": "a", "d": "a"}.items():
        (tmp_path / f"{name}.py").write_text(f"def f():\n    from p.{imported} import f\n")
    files = {f"p.{name}": tmp_path / f"{name}.py" for name in "abcd"}
    assert set(circle(files)) == {"p.a", "p.b", "p.c"}
    del files["p.c"]
    assert circle(files) == []


@pytest.mark.parametrize("module", modules())
def test_rooms_import_only_what_lies_before_them(module: str) -> None:
    room = room_of(dotted(module))
    assert room in MAY_IMPORT, f"gavelx/{module} is in a new room: say in MAY_IMPORT what it may import"
    wrong = [
        str(found)
        for found in imports(module)
        if found.reaches("gavelx") and room_of(found.name) not in MAY_IMPORT[room]
        # the version is a fact of the package, not a room
        if found.name != "gavelx.__version__"
        if (module, room_of(found.name)) != (DISPATCH, "published")
    ]
    assert not wrong, wrong


@pytest.mark.parametrize("module", modules())
def test_heavy_libraries_stay_at_home(module: str) -> None:
    room = room_of(dotted(module))
    here = {room, Path(module).stem} if room == "nouns" else {room, ".".join(module.split("/")[:2])}
    wrong = [
        str(found)
        for found in imports(module)
        for library, homes in HOMES.items()
        if found.reaches(library) and not found.for_types_only and not (homes & here)
    ]
    assert not wrong, wrong


@pytest.mark.slow
def test_pandas_is_imported_only_when_it_is_asked_for() -> None:
    wrong = [
        str(found)
        for module in modules()
        for found in imports(module)
        if found.reaches("pandas") and not (found.in_function or found.for_types_only)
    ]
    assert not wrong, wrong


@pytest.mark.parametrize("module", [name for name in modules() if name.startswith("mechanism/")])
def test_the_mechanism_has_no_clock_and_no_chance(module: str) -> None:
    source = (PACKAGE / module).read_text(encoding="utf-8")
    wrong = [str(found) for found in imports_of(module, source) for library in IMPURE if found.reaches(library)]
    assert not wrong, wrong
    used = {ast.unparse(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)}
    assert not used & {"np.random", "numpy.random"}, module


def test_import_gavelx_is_light() -> None:
    code = "import sys; old = set(sys.modules); import gavelx; print(*(set(sys.modules) - old), sep='\\n')"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    roots = {name.partition(".")[0] for name in run.stdout.split()}
    assert roots - set(sys.stdlib_module_names) == {"gavelx"}


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import highspy", "highspy"),
        ("from scipy import optimize", "scipy.optimize"),
        ("def f():\n    from gavelx.cli import main", "gavelx.cli.main"),
        ("from ..cli import main", "gavelx.cli.main"),
        ("from . import events", "gavelx.mechanism.events"),
        ("from importlib import import_module\nimport_module('torch')", "torch"),
    ],
)
def test_every_form_of_import_is_seen(source: str, name: str) -> None:
    assert name in [found.name for found in imports_of("mechanism/rules.py", source)]
