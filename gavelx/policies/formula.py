"""Read a formula of terms as text: what a program prints as, it can be made from again.

Only calls of terms and forms by name, numbers, lists, + - * / and one comparison are understood.
"""

import ast
import inspect
import operator
from collections.abc import Callable, Mapping
from typing import Any

from gavelx.errors import PolicyError, did_you_mean
from gavelx.policies import program, terms
from gavelx.policies.budgets import OwnerCost
from gavelx.policies.fifo_program import QueuePosition
from gavelx.policies.shared_cloud_cost_fairness import Overpaid


def _is_word(value: object) -> bool:
    if not (isinstance(value, type) and issubclass(value, terms.Term)):
        return False
    return value not in (terms.Term, terms.Linear, terms.Fractional, terms.Number, terms.Plus, terms.Times)


WORDS: Mapping[str, Callable[..., Any]] = {
    **{name: value for name, value in vars(terms).items() if _is_word(value)},
    "Overpaid": Overpaid,
    "OwnerCost": OwnerCost,
    "Maximize": program.Maximize,
    "Minimize": program.Minimize,
    "QueuePosition": QueuePosition,
}
OPERATORS: Mapping[type, Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.LtE: operator.le,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.Gt: operator.gt,
    ast.Eq: operator.eq,
    ast.USub: operator.neg,
}


def read_formula(text: str) -> Any:
    """The term, constraint or program that ``text`` spells, such as ``Cost() <= 40``.

    Raises :class:`PolicyError` naming the part that is not understood.
    """
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        raise PolicyError(
            f"cannot be read: {reason}", where=f"{text:.100}", expected="a formula such as Cost() <= 40"
        ) from None
    try:
        return _read(tree.body)
    except (TypeError, ArithmeticError) as error:
        raise PolicyError(str(error), where=f"{text:.100}", expected="terms with their arguments") from None


def _read(node: ast.expr) -> Any:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        options = {str(keyword.arg): _read(keyword.value) for keyword in node.keywords}
        return _called(node, [_argument(node.func.id, argument) for argument in node.args], options)
    if isinstance(node, ast.List):
        return [_read(element) for element in node.elts]
    if isinstance(node, ast.Constant) and type(node.value) in (int, float):
        return node.value
    if isinstance(node, ast.BinOp) and (combine := OPERATORS.get(type(node.op))):
        return combine(_read(node.left), _read(node.right))
    if isinstance(node, ast.UnaryOp) and (change := OPERATORS.get(type(node.op))):
        return change(_read(node.operand))
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and (compare := OPERATORS.get(type(node.ops[0]))):
        return compare(_read(node.left), _read(node.comparators[0]))
    where, expected = ast.unparse(node)[:100], "terms, numbers, + - * / <= >="
    raise PolicyError("is not understood", where=where, expected=expected, hint=_instead(node))


def _instead(node: ast.expr) -> str:
    """What may have been meant by something that is not understood."""
    if isinstance(node, ast.Name) and node.id in WORDS:
        return f"{node.id}(), with brackets"
    if isinstance(node, ast.BoolOp):
        return f"[{', '.join(map(ast.unparse, node.values))}]"
    if isinstance(node, ast.Compare) and len(node.ops) > 1:
        sides = [node.left, *node.comparators]
        pairs = zip(sides, node.ops, sides[1:], strict=False)
        return f"[{', '.join(ast.unparse(ast.Compare(left, [sense], [right])) for left, sense, right in pairs)}]"
    return ""


def _argument(word: str, node: ast.expr) -> Any:
    """What is between the brackets; only owners are called by a name."""
    if word == OwnerCost.__name__ and isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return _read(node)


def _called(node: ast.Call, arguments: list[Any], options: dict[str, Any]) -> Any:
    """The word that ``node`` calls, with its arguments; wrong ones are told with what the word takes."""
    assert isinstance(node.func, ast.Name)
    word = _word(node.func.id)
    signature = inspect.signature(word)
    try:
        signature.bind(*arguments, **options)
    except TypeError as error:
        expected = f"{node.func.id}({', '.join(signature.parameters)})"
        raise PolicyError(str(error), where=ast.unparse(node)[:100], expected=expected) from None
    return word(*arguments, **options)


def _word(name: str) -> Callable[..., Any]:
    if name not in WORDS:
        raise PolicyError(
            f"unknown term {name!r:.60}",
            where="formula",
            hint=did_you_mean(name, WORDS, "gavelx docs write_a_policy"),
        )
    return WORDS[name]
