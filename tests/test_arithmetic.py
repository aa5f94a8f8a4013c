"""Sums come out the same on every processor, so products of dense arrays do not go to BLAS.

Its kernels add in the order that is quickest on their processor. ``np.einsum`` has one order, and so have sums and
the products of scipy's sparse matrices. The estimator has nothing but dense algebra, and rounds what comes of it.
"""

import ast
import re
from pathlib import Path

import pytest

import gavelx

PACKAGE = Path(gavelx.__file__).parent
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "estimator" not in path.parts)
SPARSE = re.compile(r"_[A-Z][CZV]\b|\bsparse\.|\b(G|GT|ones_R1|multiplier_of)\b")
"""Matrices over configurations, kinds of them or variables are sparse, and a few others."""
CVXPY = "logarithms"
TO_BLAS = {"dot", "inner", "vdot", "matmul", "tensordot", "convolve", "correlate", "cov", "corrcoef", "linalg"}


def to_blas(source: str) -> list[str]:
    """What in a module may end in BLAS or LAPACK."""
    found = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.BinOp(op=ast.MatMult()) | ast.AugAssign(op=ast.MatMult()):
                if not SPARSE.search(text := ast.unparse(node)) and not text.endswith(f"@ {CVXPY}"):
                    found.append(text)
            case ast.Attribute(value=ast.Name(id="np"), attr=name) if name in TO_BLAS:
                found.append(ast.unparse(node))
            case ast.Attribute(attr="dot") | ast.keyword(arg="optimize"):
                found.append(ast.unparse(node))
    return found


@pytest.mark.parametrize("module", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_no_dense_product_goes_to_blas(module: Path) -> None:
    assert not to_blas(module.read_text(encoding="utf-8"))


@pytest.mark.parametrize(
    "line", ["price_A @ devices_A", "x @= y", "np.dot(a, b)", "a.dot(b)", "np.linalg.norm(v)", "f(optimize=True)"]
)
def test_such_a_product_is_found(line: str) -> None:
    assert to_blas(line)


def test_others_are_not() -> None:
    assert not to_blas("self.matrix_KV @ v + np.einsum('A,A', price_A, devices_A) + dot(u, v)")
