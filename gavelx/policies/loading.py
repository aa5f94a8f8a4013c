"""Find a policy by what is written on the command line.

max_min_fairness                 a name from the catalog (or a third party's entry point `gavelx.policies`)
packed(agnostic(makespan))       modifiers around any of these
Maximize(Sum(Throughput()))      a formula of terms
weights.npz                      what was learned: weights that `gavelx learn` wrote
my_file:policy                   an object in a module or in my_file.py of the current folder
path/to/my_file.py:policy        an object in a file
"""

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Iterable
from importlib.metadata import entry_points
from inspect import signature
from pathlib import Path
from types import ModuleType

from gavelx.authors import blamed, in_short, look_at, with_line
from gavelx.errors import PolicyError, UserError, did_you_mean
from gavelx.policies.agnostic import agnostic
from gavelx.policies.base import Policy
from gavelx.policies.budgets import budgeted
from gavelx.policies.catalog import ours
from gavelx.policies.dl2 import decided_by
from gavelx.policies.formula import WORDS, read_formula
from gavelx.policies.hierarchical import hierarchical
from gavelx.policies.judged import optimistic, robust
from gavelx.policies.lookahead import guarded, lookahead
from gavelx.policies.modifiers import elastic, packed, placed, with_constraints
from gavelx.policies.partitioned import partitioned
from gavelx.policies.shared_cloud_cost_fairness import SharedCloudCostFairness

ENTRY_POINTS = "gavelx.policies"
NUMBER = re.compile(r"(\d+(\.\d*)?|\.\d+)([eE][-+]?\d{1,2})?", re.ASCII)
TEXT_MAX = 2000
"""Of a policy as text; brackets in brackets in brackets would use up the stack."""


def catalog() -> dict[str, Policy]:
    """Every policy that has a name, ours and those of installed packages that can be loaded."""
    return {name: policy for name, policy in installed().items() if isinstance(policy, Policy)} | ours()


def installed() -> dict[str, Policy | PolicyError]:
    """The policies of installed packages by name; one that cannot be loaded is the error that says why.

    A broken package must not stand in the way of other policies.
    """
    found: dict[str, Policy | PolicyError] = {}
    for entry in entry_points(group=ENTRY_POINTS):
        where = f"entry point {entry.name} = {entry.value}"
        try:
            found[entry.name] = _policy(entry.load(), where)
        except PolicyError as error:
            found[entry.name] = error
        except (Exception, SystemExit) as error:  # whatever the package does wrong is its author's to read
            hint = "mend the package that has it, or uninstall it"
            found[entry.name] = PolicyError(f"cannot be loaded: {in_short(error)}", where=where, hint=hint)
    return found


def modifiers() -> dict[str, Callable[..., Policy]]:
    """Every modifier by name: a policy and perhaps options in, a policy out."""
    return {
        "agnostic": agnostic,
        "budgeted": _budgeted,
        "capped": _capped,
        "elastic": elastic,
        "guarded": _guarded,
        "hierarchical": _hierarchical,
        "lookahead": _lookahead,
        "optimistic": optimistic,
        "packed": packed,
        "partitioned": _partitioned,
        "placed": placed,
        "robust": robust,
        "with_constraints": _with_constraints,
    }


def _budgeted(policy: Policy, *budgets: str) -> Policy:
    """The same policy within budgets of dollars per hour, of owners or in total: budgeted(P, ml=5, total=40)."""
    usd: dict[str, float] = {}
    for budget in budgets:
        path, _, amount = (piece.strip() for piece in budget.partition("="))
        if not NUMBER.fullmatch(amount) or path in usd:
            problem = f"{path} is named twice" if path in usd else f"cannot read {budget!r:.80}"
            raise PolicyError(
                problem,
                where=f"budgeted({policy}, {', '.join(budgets)})",
                expected="OWNER=DOLLARS_PER_HOUR between commas",
                hint=f"budgeted({policy}, ml=5, total=40)",
            )
        usd[path] = float(amount)
    return budgeted(policy, usd)


def _hierarchical(policy: Policy, *owners: str) -> Policy:
    """The same max-min policy between teams and their members: hierarchical(P, ml=2, ml/ann=fifo)."""
    pairs = [owner.partition("=") for owner in owners]
    values = {path.strip(): value.strip() for path, _, value in pairs}
    if len(values) < len(owners):
        raise PolicyError(
            "an owner is named twice", where=f"hierarchical(..., {', '.join(owners)})", expected="each owner once"
        )
    return hierarchical(policy, values)


def _guarded(policy: Policy, teacher: str) -> Policy:
    """The same policy, unless a teacher's answer ends better in a model: guarded(P, srtf)."""
    return guarded(policy, load_policy(teacher))


def _lookahead(policy: Policy, *others: str) -> Policy:
    """The same policy or others, whichever ends best in a model: lookahead(P, Q)."""
    return lookahead(policy, *map(load_policy, others))


def _partitioned(policy: Policy, parts: str = "") -> Policy:
    """The same policy for so many parts of the cluster, each with its part of the jobs: partitioned(P, 4)."""
    if not (parts.isascii() and parts.isdigit() and int(parts)):
        raise PolicyError(
            f"{parts!r} parts" if parts else "the number of parts is missing",
            where=f"partitioned({policy})",
            expected="a whole number of at least 1",
            hint=f"partitioned({policy}, 4)",
        )
    return partitioned(policy, int(parts))


def _capped(policy: Policy, rho_cap: str = "") -> Policy:
    """Fairness in money with another cap on waiting: capped(shared_cloud_cost_fairness, 1.5)."""
    where = f"capped({policy}, {rho_cap})"
    if not isinstance(policy, SharedCloudCostFairness):
        raise PolicyError(f"{policy} has no cap", where=where, hint="capped(shared_cloud_cost_fairness, 1.5)")
    try:
        return SharedCloudCostFairness(float(rho_cap))
    except ValueError:
        raise PolicyError(f"{rho_cap!r} is no cap", where=where, expected="a finite number above 0") from None


def _with_constraints(policy: Policy, *constraints: str) -> Policy:
    """The same program with further constraints: with_constraints(P, Cost() <= 40)."""
    if not constraints:
        raise PolicyError(
            "no constraint is given",
            where=f"with_constraints({policy})",
            hint=f"with_constraints({policy}, Cost() <= 40)",
        )
    return with_constraints(policy, [read_formula(constraint) for constraint in constraints])


def load_policy(text: str) -> Policy:
    """The policy that ``text`` describes. Raises :class:`PolicyError` saying what is near, and :class:`UserError`
    for a file of weights that holds none."""
    text = text.strip()
    if len(text) > TEXT_MAX:
        problem = f"a policy of {len(text)} characters"
        raise PolicyError(
            problem, expected=f"at most {TEXT_MAX}", hint="my_file:my_policy, and the long text there"
        )
    if re.match(r"(Maximize|Minimize)\s*\(", text):
        return _policy(read_formula(text), text)
    if call := re.fullmatch(r"(\w+)\s*\((.*)\)", text, re.DOTALL):
        name, inner = call.groups()
        if name not in modifiers():
            raise _unknown_call(name, text)
        inner, *options = split_policies(inner)
        try:
            return modifiers()[name](load_policy(inner), *options)
        except TypeError:
            problem = f"{name} does not take {len(options)} options"
            raise PolicyError(problem, where=text, expected=_form_of(name)) from None
    if text.endswith(".npz"):
        return decided_by(text)
    if ":" in text:
        return _load_object(text)
    if (policy := ours().get(text) or catalog().get(text)) is None:  # others' packages are slow to look through
        if isinstance(failure := installed().get(text), PolicyError):
            raise failure
        known = [*catalog(), *(f"{name}(...)" for name in modifiers())]
        file = Path(text if text.endswith(".py") else f"{text}.py")
        raise PolicyError(
            f"unknown policy {text!r:.100}",
            hint=f"{text}:NAME, an object in {file}" if _is_file(file) else _listed(text, known),
            expected="a name, modifier(name), a formula, weights.npz or file:object",
        )
    return policy


def _form_of(modifier: str) -> str:
    """How it is written: ``guarded(policy, teacher)``."""
    takes = signature(modifiers()[modifier]).parameters.values()
    return f"{modifier}({', '.join(str(each).partition(':')[0] for each in takes)})"


def _unknown_call(name: str, text: str) -> PolicyError:
    """What to say of ``name(...)`` where no modifier has that name."""
    if (policy := ours().get(name)) is not None:
        problem, kind = f"{name} is a policy, not a modifier", type(policy).__name__
        hint = f"from gavelx.policies import {kind}; mine = {kind}(...) in my_file.py, and my_file:mine"
        return PolicyError(problem, where=f"{text:.100}", expected="no arguments here", hint=hint)
    if name in WORDS:
        problem, hint = f"{name} is a term, not a policy", "Maximize(SumThroughput())"
        return PolicyError(
            problem, where=f"{text:.100}", expected="Maximize(...) or Minimize(...) of terms", hint=hint
        )
    known = [*modifiers(), "Maximize", "Minimize"]
    return PolicyError(f"unknown modifier {name!r}", where=f"{text:.100}", hint=_listed(name, known))


def _listed(text: str, known: Iterable[str]) -> str:
    return did_you_mean(text, known, "gavelx policies")


def split_policies(text: str) -> list[str]:
    """Split ``P1,P2,agnostic(P3)`` at the commas outside brackets. Raises :class:`PolicyError`."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if depth < 0:
            break
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    if depth != 0:
        raise PolicyError(f"the brackets do not match in {text!r}", expected="for example fifo,agnostic(fifo)")
    names = [part.strip() for part in parts if part.strip()]
    if not names:
        raise PolicyError("no policy is named", expected="for example fifo,agnostic(fifo)")
    return names


def _load_object(text: str) -> Policy:
    """``module:object`` or ``file.py:object``."""
    module_name, _, object_name = text.rpartition(":")
    if not module_name:
        raise PolicyError("no file is named before the colon", where=text, expected="my_file:my_policy")
    module = _load_module(module_name, text)
    if (kind := object_name.partition("(")[0]) != object_name and kind in vars(module):
        hint = f"mine = {object_name} in that file, and {module_name}:mine"
        raise PolicyError(f"arguments of {kind}", where=text, expected="the name of an object", hint=hint)
    if object_name not in vars(module):
        named = [name for name, value in vars(module).items() if _is_policy(value) and not _is_ours(value)]
        raise PolicyError(
            f"{module_name} has no {object_name!r}" if object_name else "no object is named after the colon",
            where=text,
            hint=did_you_mean(object_name, named) if named else "give the policy a name in that file",
        )
    return _policy(vars(module)[object_name], text)


def _load_module(name: str, text: str) -> ModuleType:
    file = Path(name if name.endswith(".py") else f"{name.replace('.', '/')}.py")
    is_file = _is_file(file)
    with blamed(text, str(file) if is_file else f"module {name}"):
        try:
            return _run_file(file) if is_file else importlib.import_module(name)
        except UserError as error:
            raise with_line(error) from error
        except ModuleNotFoundError as error:
            if is_file or error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # it is there, and imports what is not
            raise PolicyError(f"{error}", where=text, expected=f"a module or a file {file}") from error


def _run_file(file: Path) -> ModuleType:
    """The module that a file of the user's is."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # dataclasses and pickle look modules up by name
    spec.loader.exec_module(module)
    return module


def _is_file(path: Path) -> bool:
    """Whether there is such a file; what can be no path is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def _is_policy(value: object) -> bool:
    return isinstance(value, Policy) or (isinstance(value, type) and issubclass(value, Policy))


def _is_ours(value: object) -> bool:
    """Whether it is a class that the user's file has only imported."""
    return isinstance(value, type) and value.__module__.partition(".")[0] == "gavelx"


def _policy(value: object, where: str) -> Policy:
    if isinstance(value, type) and issubclass(value, Policy):
        value = _made(value, where)
    if not isinstance(value, Policy):
        raise PolicyError(
            f"it is a {type(value).__name__}, not a policy",
            where=where,
            expected="Maximize(...), Minimize(...) or a subclass of gavelx.policies.Policy",
        )
    with blamed(where, "its name"):  # in tables and messages
        str(value)
    return value


def _made(kind: type[Policy], where: str) -> Policy:
    """An instance of the user's class, made without arguments."""
    try:
        return kind()
    except UserError as error:
        raise with_line(error) from error
    except Exception as error:  # in the constructor, or a method that is missing
        expected = "a class with allocate(snapshot) that needs no arguments"
        problem = f"{kind.__name__}() failed: {in_short(error)}"
        raise PolicyError(problem, where=where, expected=expected, hint=look_at(error)) from error
