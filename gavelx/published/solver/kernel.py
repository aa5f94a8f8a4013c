"""The numbers of the interior point, from a program to the point after one step, in functions of arrays.

numba compiles them where it is installed (the extra ``fast``), from 20 to 50 times as quick. Without it they run
as they are, to the same bits: sums have one order, and what numpy would add in another is there twice, as loops
for the compiler. ``GAVELX_COMPILED=0`` leaves numba out. All are in this file, for what a compiler keeps on disk
is made anew when its own file changes, and not when another does.

Names are those of the papers in `embedding`. Legend: V variables, L rows, N of them nonnegative numbers; E entries
of G; U unknowns and F entries of the equations, H hubs; B blocks of one shape, each of N unknowns that meets M
hubs, K = N + M.
"""

import math
import os
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from gavelx.dense import inverted

try:
    if os.environ.get("GAVELX_COMPILED") == "0":
        raise ImportError
    from numba import njit
except ImportError:
    njit = None

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Function = TypeVar("Function", bound=Callable[..., Any])
IS_COMPILED = njit is not None
TOLERANCE, ALMOST = 1e-8, 5e-5
"""How far off a point may be, and one that no step leads on from."""
INSIDE, LEAST_STEP, LONGEST_STEP = 0.99, 1e-6, 0.999
"""Which part of the way to the border is gone, and the least and greatest step."""
LEAST_CENTRING = 1e-4
REGULAR, REFINED, ROUNDING = 7e-8, 9, 1e-14
"""What makes the equations regular, how often their solution is refined at most, and where that ends."""
AT_ONCE = 10
"""Steps that are taken without a look at the clock."""
SCALINGS, TINY = 3, 1e-3
"""How often rows and columns are scaled; those that are smaller are left as they are."""
GOES_ON, DONE, SINGULAR, NO_INTERIOR = range(4)
HALF = math.sqrt(0.5)


def compiled(function: Function) -> Function:
    """The function, compiled if there is a compiler."""
    return njit(error_model="numpy")(function) if IS_COMPILED else function


def kept(function: Function) -> Function:
    """The same, and what was compiled is kept on disk."""
    return njit(error_model="numpy", cache=True)(function) if IS_COMPILED else function


def compiled_as(loops: Callable[..., Any]) -> Callable[[Function], Function]:
    """The function, or the same in ``loops`` if there is a compiler."""
    return lambda function: compiled(loops) if IS_COMPILED else function  # type: ignore[return-value]


# -- sums in one order ----------------------------------------------------------------------------------------


def _dot(u: Floats, v: Floats) -> float:
    total = 0.0
    for n in range(len(u)):
        total += u[n] * v[n]
    return total


@compiled_as(_dot)
def dot(u: Floats, v: Floats) -> float:
    """Their product."""
    return float(np.add.accumulate(u * v)[-1])


@compiled
def norm(v: Floats) -> float:
    """Its length."""
    return math.sqrt(dot(v, v))


def _times(of_KNB: Floats, v_KB: Floats) -> Floats:
    K, N, B = of_KNB.shape
    of_KE, found_E = of_KNB.reshape((K, N * B)), np.zeros(N * B)
    for k in range(K):
        if B == 1:  # a single loop is quicker by far
            for n in range(N):
                found_E[n] += of_KE[k, n] * v_KB[k, 0]
        else:
            for n in range(N):
                for b in range(B):
                    found_E[n * B + b] += of_KE[k, n * B + b] * v_KB[k, b]
    return found_E.reshape((N, B))


@compiled_as(_times)
def times(of_KNB: Floats, v_KB: Floats) -> Floats:
    """Each block times its vector."""
    terms_KNB = np.empty(of_KNB.shape)
    np.multiply(of_KNB, v_KB[:, None, :], out=terms_KNB)
    if terms_KNB[0].size == 1:  # which would be added up in pairs
        return np.asarray(np.add.accumulate(terms_KNB)[-1])
    return np.asarray(terms_KNB.sum(axis=0))


def _product(of_MKB: Floats, by_KNB: Floats) -> Floats:
    (M, K, B), N = of_MKB.shape, by_KNB.shape[1]
    found_MNB = np.zeros((M, N, B))
    for m in range(M):
        for k in range(K):
            for n in range(N):
                for b in range(B):
                    found_MNB[m, n, b] += of_MKB[m, k, b] * by_KNB[k, n, b]
    return found_MNB


@compiled_as(_product)
def product(of_MKB: Floats, by_KNB: Floats) -> Floats:
    """Each block times another."""
    found_MNB = of_MKB[:, 0, None, :] * by_KNB[None, 0]
    for k in range(1, len(by_KNB)):
        found_MNB += of_MKB[:, k, None, :] * by_KNB[None, k]
    return found_MNB


def _invert(block_BNN: Floats) -> bool:
    B, N, _ = block_BNN.shape
    place_N, row_N = np.empty(N, dtype=np.int64), np.empty(N)
    for b in range(B):
        block_NN = block_BNN[b]
        for n in range(N):
            place = n
            for k in range(n + 1, N):
                if abs(block_NN[k, n]) > abs(block_NN[place, n]):
                    place = k
            place_N[n] = place
            pivot = block_NN[place, n]
            if pivot == 0.0:
                return False
            for k in range(N):
                block_NN[place, k], block_NN[n, k] = block_NN[n, k], block_NN[place, k]
            block_NN[n, n] = 1.0
            for k in range(N):
                block_NN[n, k] /= pivot
                row_N[k] = block_NN[n, k]
            for k in range(N):
                if k != n:
                    factor, block_NN[k, n] = block_NN[k, n], 0.0
                    for m in range(N):
                        block_NN[k, m] -= factor * row_N[m]
        for n in range(N - 1, -1, -1):
            place = place_N[n]
            for k in range(N):
                block_NN[k, n], block_NN[k, place] = block_NN[k, place], block_NN[k, n]
    return True


@compiled_as(_invert)
def invert(block_BNN: Floats) -> bool:
    """All blocks become their inverses, in place; False if one is singular."""
    try:
        inverted(block_BNN)
    except ZeroDivisionError:
        return False
    return True


def _divide(equations_HH: Floats) -> bool:
    for h in range(len(equations_HH)):
        row_H = equations_HH[h]
        pivot = row_H[h]
        if pivot == 0.0:
            return False
        for k in range(h + 1, len(equations_HH)):
            factor, below_H = row_H[k] / pivot, equations_HH[k]
            for m in range(k, len(equations_HH)):
                below_H[m] -= factor * row_H[m]
            below_H[h] = factor
        for k in range(h + 1, len(equations_HH)):
            row_H[k] /= pivot
    return True


@compiled_as(_divide)
def divide(equations_HH: Floats) -> bool:
    """A symmetric matrix becomes its L, D and L', in place; False if it is singular.

    There is no search for pivots: with rows of cones negative and shares positive none vanishes (Vanderbei,
    Symmetric quasidefinite matrices, 1995), and an inverse would lose the digits of the last steps.
    """
    for h in range(len(equations_HH)):
        row_H, pivot = equations_HH[h, h + 1 :], equations_HH[h, h]
        if pivot == 0.0:
            return False
        factor_H = row_H / pivot
        equations_HH[h + 1 :, h + 1 :] -= factor_H[:, None] * row_H
        equations_HH[h + 1 :, h] = equations_HH[h, h + 1 :] = factor_H
    return True


def _divided(by_HH: Floats, b_H: Floats) -> Floats:
    x_H = b_H.copy()
    for h in range(len(x_H)):
        row_H, known = by_HH[h], x_H[h]
        for k in range(h + 1, len(x_H)):
            x_H[k] -= row_H[k] * known
    for h in range(len(x_H)):
        x_H[h] /= by_HH[h, h]
    for h in range(len(x_H) - 1, 0, -1):
        row_H, known = by_HH[h], x_H[h]
        for k in range(h):
            x_H[k] -= row_H[k] * known
    return x_H


@compiled_as(_divided)
def divided(by_HH: Floats, b_H: Floats) -> Floats:
    """The solution for a right-hand side."""
    x_H = b_H.copy()
    for h in range(len(x_H)):
        x_H[h + 1 :] -= by_HH[h, h + 1 :] * x_H[h]
    x_H /= by_HH.diagonal()
    for h in range(len(x_H) - 1, 0, -1):
        x_H[:h] -= by_HH[h, :h] * x_H[h]
    return x_H


# -- cones ------------------------------------------------------------------------------------------------------


class Cones(NamedTuple):
    """So many nonnegative numbers, and so many second-order cones after them."""

    nonnegative: int
    second_order: int = 0


@compiled
def unit(cones: Cones) -> Floats:
    """e, with ``e o v = v``."""
    N = cones.nonnegative
    e = np.zeros(N + 3 * cones.second_order)
    e[:N] = 1.0
    e[N::3] = 1.0
    return e


@compiled
def depth(cones: Cones, v: Floats) -> Floats:
    """How far each cone's part is inside it; negative outside."""
    N = cones.nonnegative
    x, y, z = v[N::3], v[N + 1 :: 3], v[N + 2 :: 3]
    return np.concatenate((v[:N], x - np.sqrt(y * y + z * z)))


@compiled
def o(cones: Cones, u: Floats, v: Floats) -> Floats:
    """``u o v``: number by number, and ``(u.v, u_0 v_1 + v_0 u_1)``."""
    N, found = cones.nonnegative, u * v
    if cones.second_order:
        ux, uy, uz = u[N::3], u[N + 1 :: 3], u[N + 2 :: 3]
        vx, vy, vz = v[N::3], v[N + 1 :: 3], v[N + 2 :: 3]
        found[N::3] = ux * vx + uy * vy + uz * vz
        found[N + 1 :: 3] = ux * vy + vx * uy
        found[N + 2 :: 3] = ux * vz + vx * uz
    return found


class Scaling(NamedTuple):
    """W of two points inside the cones.

    In a second-order cone W is ``H D H'``: axes H, at right angles, and how much it stretches along each. Near the
    border those differ by many orders of magnitude, and W written out would lose the smallest. With ``h^2 = 1/2``
    and (y, z) of length 1 the axes are ``(h, h y, h z)``, ``(h, -h y, -h z)`` and ``(0, -z, y)``.
    """

    cones: Cones
    W_N: Floats
    y_K: Floats
    z_K: Floats
    stretch_3K: Floats
    lam: Floats
    inner_K: Floats  # the square of lambda's size; rounding may put it outside of a cone, as it does in ECOS


@compiled
def scaling(cones: Cones, s: Floats, z: Floats) -> tuple[bool, Scaling]:
    """Whether both points are inside, and their W if so."""
    N, K, lam = cones.nonnegative, cones.second_order, np.zeros(len(s))
    none_K = np.zeros(K)
    W = Scaling(cones, lam, none_K, none_K, np.ones((3, K)), lam, none_K)
    if not (depth(cones, s).min() > 0.0 and depth(cones, z).min() > 0.0):
        return False, W
    W_N = np.sqrt(s[:N] / z[:N])
    lam[:N] = np.sqrt(s[:N] * z[:N])
    W = Scaling(cones, W_N, none_K, none_K, np.ones((3, K)), lam, none_K)
    if not K:
        return True, W
    sx, sy, sz = s[N::3], s[N + 1 :: 3], s[N + 2 :: 3]
    zx, zy, zz = z[N::3], z[N + 1 :: 3], z[N + 2 :: 3]
    of_s, of_z = _inner(sx, sy, sz), _inner(zx, zy, zz)
    size_s, size_z, size = np.sqrt(of_s), np.sqrt(of_z), np.sqrt(np.sqrt(of_s / of_z))
    sx, sy, sz, zx, zy, zz = sx / size_s, sy / size_s, sz / size_s, zx / size_z, zy / size_z, zz / size_z
    long = np.sqrt(2.0 + 2.0 * (sx * zx + sy * zy + sz * zz))
    wx, wy, wz = (sx + zx) / long, (sy - zy) / long, (sz - zz) / long
    across = np.sqrt(wy * wy + wz * wz)
    safe = np.where(across > 0.0, across, 1.0)
    y, z_ = np.where(across > 0.0, wy / safe, 1.0), wz / safe
    stretch_3K = np.empty((3, K))
    stretch_3K[0], stretch_3K[1], stretch_3K[2] = size * (wx + across), size / (wx + across), size
    W = Scaling(cones, W_N, y, z_, stretch_3K, lam, none_K)
    lam[N:] = by(W, z)[N:]
    inner_K = _inner(lam[N::3], lam[N + 1 :: 3], lam[N + 2 :: 3])
    return bool(np.all(inner_K != 0.0)), Scaling(cones, W_N, y, z_, stretch_3K, lam, inner_K)


@compiled
def _inner(x: Floats, y: Floats, z: Floats) -> Floats:
    """``x^2 - y^2 - z^2``."""
    rest = np.sqrt(y * y + z * z)
    return (x - rest) * (x + rest)


@compiled
def by(W: Scaling, v: Floats) -> Floats:
    """``W v``."""
    N, found = W.cones.nonnegative, np.empty(len(v))
    found[:N] = W.W_N * v[:N]
    if W.cones.second_order:
        x, y, z = HALF * v[N::3], v[N + 1 :: 3], v[N + 2 :: 3]
        along = HALF * (W.y_K * y + W.z_K * z)
        first, second = W.stretch_3K[0] * (x + along), W.stretch_3K[1] * (x - along)
        third = W.stretch_3K[2] * (W.y_K * z - W.z_K * y)
        _turned(W, first, second, third, found)
    return found


@compiled
def half(W: Scaling, v: Floats) -> Floats:
    """``V' v``, where ``V V' = W^-2``: the inverse along the axes, not turned back."""
    N, found = W.cones.nonnegative, np.empty(len(v))
    found[:N] = v[:N] / W.W_N
    if W.cones.second_order:
        x, y, z = HALF * v[N::3], v[N + 1 :: 3], v[N + 2 :: 3]
        along = HALF * (W.y_K * y + W.z_K * z)
        found[N::3] = (x + along) / W.stretch_3K[0]
        found[N + 1 :: 3] = (x - along) / W.stretch_3K[1]
        found[N + 2 :: 3] = (W.y_K * z - W.z_K * y) / W.stretch_3K[2]
    return found


@compiled
def whole(W: Scaling, v: Floats) -> Floats:
    """``V v``."""
    N, found = W.cones.nonnegative, np.empty(len(v))
    found[:N] = v[:N] / W.W_N
    if W.cones.second_order:
        first, second = v[N::3] / W.stretch_3K[0], v[N + 1 :: 3] / W.stretch_3K[1]
        _turned(W, first, second, v[N + 2 :: 3] / W.stretch_3K[2], found)
    return found


@compiled
def _turned(W: Scaling, first: Floats, second: Floats, third: Floats, found: Floats) -> None:
    """What is so far along the axes, as rows."""
    N = W.cones.nonnegative
    across = HALF * (first - second)
    found[N::3] = HALF * (first + second)
    found[N + 1 :: 3] = W.y_K * across - W.z_K * third
    found[N + 2 :: 3] = W.z_K * across + W.y_K * third


@compiled
def half_33K(W: Scaling) -> Floats:
    """V' written out: its rows by its columns, of each second-order cone."""
    half = np.empty((3, 3, W.cones.second_order))
    first, second, third = W.stretch_3K[0], W.stretch_3K[1], W.stretch_3K[2]
    half[0, 0], half[0, 1], half[0, 2] = HALF / first, HALF * W.y_K / first, HALF * W.z_K / first
    half[1, 0], half[1, 1], half[1, 2] = HALF / second, -HALF * W.y_K / second, -HALF * W.z_K / second
    half[2, 0], half[2, 1], half[2, 2] = 0.0 / third, -W.z_K / third, W.y_K / third
    return half


@compiled
def over(W: Scaling, v: Floats) -> Floats:
    """The u with ``lambda o u = v``."""
    N, lam, found = W.cones.nonnegative, W.lam, np.empty(len(v))
    found[:N] = v[:N] / lam[:N]
    if W.cones.second_order:
        x, y, z = lam[N::3], lam[N + 1 :: 3], lam[N + 2 :: 3]
        first = (x * v[N::3] - (y * v[N + 1 :: 3] + z * v[N + 2 :: 3])) / W.inner_K
        found[N::3] = first
        found[N + 1 :: 3] = (v[N + 1 :: 3] - first * y) / x
        found[N + 2 :: 3] = (v[N + 2 :: 3] - first * z) / x
    return found


@compiled
def room(W: Scaling, d: Floats) -> float:
    """Which part of d it is from lambda to the border, inverted; not positive if the border is never met."""
    N, lam, nearest = W.cones.nonnegative, W.lam, -np.inf
    if N:
        nearest = -(d[:N] / lam[:N]).min()
    if W.cones.second_order:
        is_inside = W.inner_K > 0.0
        size = np.sqrt(np.where(is_inside, W.inner_K, 1.0))
        x, y, z = lam[N::3] / size, lam[N + 1 :: 3] / size, lam[N + 2 :: 3] / size
        dx, dy, dz = d[N::3], d[N + 1 :: 3], d[N + 2 :: 3]
        first = x * dx - y * dy - z * dz
        part = (first + dx) / (x + 1.0)
        across_y, across_z = dy - part * y, dz - part * z
        far = (np.sqrt(across_y * across_y + across_z * across_z) - first) / size
        nearest = max(nearest, np.where(is_inside, far, -np.inf).max())
    return nearest


# -- arrows -----------------------------------------------------------------------------------------------------


class Arrow(NamedTuple):
    """The places of the entries of a system of blocks that meet in hubs; see `arrow`.

    Shape by shape: ``at`` has the unknowns of blocks (N, B), ``hub`` the hubs that they meet (M, B), ``pair``
    pairs of those by place (M, M, B). Entries ``inner`` are within blocks (B, N, N), ``border`` between hubs and
    blocks (M, N, B), ``among`` hubs (H, H), each with its place.
    """

    hubs: Ints
    shape_S3: Ints  # of each shape B, N and M
    at: Ints
    hub: Ints
    pair: Ints
    inner: Ints
    inner_place: Ints
    border: Ints
    border_place: Ints
    among: Ints
    among_place: Ints


class Factors(NamedTuple):
    """What leads to the unknowns of each block: its inverse, then that times its border; L, D and L' for hubs."""

    ways: Floats
    hubs_HH: Floats


def _meet(border_MNB: Floats, through_MNB: Floats, pair: Ints, found: Floats) -> None:
    M, N, B = border_MNB.shape
    for m in range(M):
        for k in range(M):
            for b in range(B):
                sum_ = 0.0
                for n in range(N):
                    sum_ += border_MNB[m, n, b] * through_MNB[k, n, b]
                found[pair[(m * M + k) * B + b]] += sum_


@compiled_as(_meet)
def meet(border_MNB: Floats, through_MNB: Floats, pair: Ints, found: Floats) -> None:
    """What the blocks bring to pairs of hubs is added to what was found."""
    np.add.at(found, pair, product(border_MNB, through_MNB.transpose(1, 0, 2)).ravel())


@compiled
def factored(arrow: Arrow, value_F: Floats) -> tuple[bool, Factors]:
    """Whether the system with these entries is regular, and what solves it if so."""
    H, (B_S, N_S, M_S) = len(arrow.hubs), arrow.shape_S3.T
    inner, border = np.zeros((B_S * N_S * N_S).sum()), np.zeros((B_S * N_S * M_S).sum())
    inner[arrow.inner_place] = value_F[arrow.inner]
    border[arrow.border_place] = value_F[arrow.border]
    ways, less, of_hubs = np.empty(len(inner) + len(border)), np.zeros(H * H), np.zeros(H * H)
    factors = Factors(ways, of_hubs.reshape((H, H)))
    i, m, p = 0, 0, 0
    for B, N, M in arrow.shape_S3:
        inverse_BNN = inner[i : i + B * N * N].reshape((B, N, N))
        if not invert(inverse_BNN):
            return False, factors
        ways_KNB = ways[i + m : i + m + B * N * (N + M)].reshape((N + M, N, B))
        ways_KNB[:N] = inverse_BNN.transpose(2, 1, 0)
        if M:
            border_MNB = border[m : m + B * N * M].reshape((M, N, B))
            through_MNB = product(border_MNB, ways_KNB[:N])
            meet(border_MNB, through_MNB, arrow.pair[p : p + B * M * M], less)
            ways_KNB[N:] = -through_MNB
        i, m, p = i + B * N * N, m + B * N * M, p + B * M * M
    of_hubs[arrow.among_place] = value_F[arrow.among]
    of_hubs -= less
    is_regular = divide(factors.hubs_HH)
    return is_regular, factors


def _gather(through_MNB: Floats, b_NB: Floats, hub: Ints, found_H: Floats) -> None:
    M, N, B = through_MNB.shape
    for m in range(M):
        for b in range(B):
            sum_ = 0.0
            for n in range(N):
                sum_ += through_MNB[m, n, b] * b_NB[n, b]
            found_H[hub[m * B + b]] += sum_


@compiled_as(_gather)
def gather(through_MNB: Floats, b_NB: Floats, hub: Ints, found_H: Floats) -> None:
    """What the right-hand sides of blocks bring to hubs is added to what was found."""
    np.add.at(found_H, hub, times(through_MNB.transpose(1, 0, 2), b_NB).ravel())


def _spread(ways_KNB: Floats, b_NB: Floats, hub: Ints, x_H: Floats) -> Floats:
    (K, N, B), found_NB = ways_KNB.shape, times(ways_KNB[: b_NB.shape[0]], b_NB)
    for n in range(N):
        for m in range(K - N):
            for b in range(B):
                found_NB[n, b] += ways_KNB[N + m, n, b] * x_H[hub[m * B + b]]
    return found_NB


@compiled_as(_spread)
def spread(ways_KNB: Floats, b_NB: Floats, hub: Ints, x_H: Floats) -> Floats:
    """The unknowns of blocks, from their right-hand sides and the hubs that they meet."""
    both = np.concatenate((b_NB.ravel(), x_H[hub]))
    return times(ways_KNB, both.reshape((-1, b_NB.shape[1])))


@compiled
def solution(arrow: Arrow, factors: Factors, b_U: Floats) -> Floats:
    """What solves it for a right-hand side."""
    x_U, b, H = np.empty(len(b_U)), b_U[arrow.at], len(arrow.hubs)
    found_H, n, m, w = np.zeros(H), 0, 0, 0
    for B, N, M in arrow.shape_S3:
        if M:
            through_MNB = factors.ways[w + B * N * N : w + B * N * (N + M)].reshape((M, N, B))
            gather(through_MNB, b[n : n + B * N].reshape((N, B)), arrow.hub[m : m + B * M], found_H)
        n, m, w = n + B * N, m + B * M, w + B * N * (N + M)
    x_H = b_U[arrow.hubs] + found_H
    if H:
        x_H = divided(factors.hubs_HH, x_H)
        x_U[arrow.hubs] = x_H
    n, m, w = 0, 0, 0
    for B, N, M in arrow.shape_S3:
        ways_KNB = factors.ways[w : w + B * N * (N + M)].reshape((N + M, N, B))
        b_NB = b[n : n + B * N].reshape((N, B))
        b[n : n + B * N] = spread(ways_KNB, b_NB, arrow.hub[m : m + B * M], x_H).ravel()
        n, m, w = n + B * N, m + B * M, w + B * N * (N + M)
    x_U[arrow.at] = b
    return x_U


# -- equations --------------------------------------------------------------------------------------------------


class Pattern(NamedTuple):
    """Where the equations have which entries of G; bounds and rows that are kept, by row.

    Their own entries, ``row_F`` and ``column_F``, are those below the diagonal, column by column: first those of
    rows alone, then the sums of those in cones. Entries of the diagonal come after them, by unknown.
    """

    V: int
    bound: Ints
    bound_E: Ints
    bounded: Ints
    kept: Ints
    alone_E: Ints
    row_of: Ints
    mixed_E: Ints
    factor_M: Ints
    sum_M: Ints
    sums: int
    row_F: Ints
    column_F: Ints
    arrow: Arrow


class Equations(NamedTuple):
    """Those for a scaling W: the entries of its bounds, all of its own, and what solves them nearly."""

    pattern: Pattern
    W: Scaling
    of_bound: Floats
    value_F: Floats
    diagonal_U: Floats
    factors: Factors


@compiled
def equations(at: Pattern, G_E: Floats, W: Scaling) -> tuple[bool, Equations]:
    """Whether the equations are regular, and what solves them if so."""
    of_bound = G_E[at.bound_E] / W.W_N[at.bound]
    value = G_E[at.alone_E] / W.W_N[at.row_of]
    if at.sums:
        mixed_M = G_E[at.mixed_E] * half_33K(W).ravel()[at.factor_M]
        value = np.concatenate((value, np.bincount(at.sum_M, mixed_M, at.sums)))
    bounds_V = np.zeros(at.V)
    if len(of_bound):
        bounds_V += np.bincount(at.bounded, of_bound * of_bound, at.V)
    corner = np.full(len(at.kept), -1.0)
    is_regular, factors = factored(at.arrow, np.concatenate((value, bounds_V + REGULAR, corner)))
    return is_regular, Equations(at, W, of_bound, value, np.concatenate((bounds_V, corner)), factors)


@compiled
def solved(by: Equations, bx: Floats, bz: Floats) -> tuple[Floats, Floats]:
    """Their solution for ``bx, bz``: that of the regular ones, refined."""
    at, bv = by.pattern, half(by.W, bz)
    from_bounds_V = np.zeros(at.V)
    if len(at.bound):
        from_bounds_V += np.bincount(at.bounded, by.of_bound * bv[at.bound], at.V)
    v = refined(by, np.concatenate((bx + from_bounds_V, bv[at.kept])))
    bv[at.kept] = v[at.V :]
    bv[at.bound] = by.of_bound * v[at.bounded] - bv[at.bound]
    return v[: at.V], whole(by.W, bv)


@compiled
def refined(by: Equations, b: Floats) -> Floats:
    """The solution for a matrix of one that is nearly the same, as long as it gets better."""
    arrow, factors = by.pattern.arrow, by.factors
    v = solution(arrow, factors, b)
    left = missing(by, v, b)
    missed, enough = norm(left), ROUNDING * (1.0 + norm(b))
    for _ in range(REFINED):
        if missed <= enough:
            break
        better = v + solution(arrow, factors, left)
        left = missing(by, better, b)
        before, missed = missed, norm(left)
        if not missed < before:
            break
        v = better
    return v


def _missing(by: Equations, v_U: Floats, b_U: Floats) -> Floats:
    row_F, column_F, value_F = by.pattern.row_F, by.pattern.column_F, by.value_F
    found_U, sum_, column = np.zeros(len(b_U)), 0.0, 0
    for f in range(len(value_F)):
        if column_F[f] != column:
            found_U[column] = sum_
            column = column_F[f]
            sum_ = found_U[column]
        found_U[row_F[f]] += value_F[f] * v_U[column]
        sum_ += value_F[f] * v_U[row_F[f]]
    found_U[column] = sum_
    for u in range(len(b_U)):
        found_U[u] = b_U[u] - (found_U[u] + by.diagonal_U[u] * v_U[u])
    return found_U


@compiled_as(_missing)
def missing(by: Equations, v_U: Floats, b_U: Floats) -> Floats:
    """What the equations miss of the right-hand side."""
    row_F, column_F, U = by.pattern.row_F, by.pattern.column_F, len(b_U)
    below_U = np.bincount(row_F, by.value_F * v_U[column_F], U)
    above_U = np.bincount(column_F, by.value_F * v_U[row_F], U)
    return np.asarray(b_U - (below_U + above_U + by.diagonal_U * v_U))


# -- scaling of rows and columns ---------------------------------------------------------------------------------


def _largest(at_E: Ints, size_E: Floats, length: int) -> Floats:
    found = np.zeros(length)
    for e in range(len(at_E)):
        found[at_E[e]] = max(found[at_E[e]], size_E[e])
    return found


@compiled_as(_largest)
def largest(at_E: Ints, size_E: Floats, length: int) -> Floats:
    """The largest at each place, 0 of none."""
    found = np.zeros(length)
    np.maximum.at(found, at_E, size_E)
    return found


@kept
def equilibrated(
    row_E: Ints, column_E: Ints, value_E: Floats, V: int, cones: Cones
) -> tuple[Floats, Floats, Floats]:
    """Entries of rows and columns of about the same size, and what rows and columns were divided by.

    All rows of a cone have one size: their sum.
    """
    N, row_L, column_V = cones.nonnegative, np.ones(cones.nonnegative + 3 * cones.second_order), np.ones(V)
    for _ in range(SCALINGS):
        size_E = np.abs(value_E)
        size_L, size_V = largest(row_E, size_E, len(row_L)), np.sqrt(largest(column_E, size_E, V))
        of_cone = size_L[N::3] + size_L[N + 1 :: 3] + size_L[N + 2 :: 3]
        size_L[N::3], size_L[N + 1 :: 3], size_L[N + 2 :: 3] = of_cone, of_cone, of_cone
        size_L = np.sqrt(size_L)
        size_L[size_L < TINY], size_V[size_V < TINY] = 1.0, 1.0
        value_E = value_E * (1.0 / size_L)[row_E] * (1.0 / size_V)[column_E]
        row_L, column_V = row_L * size_L, column_V * size_V
    return value_E, row_L, column_V


# -- steps ------------------------------------------------------------------------------------------------------


class Program(NamedTuple):
    """Minimise ``c.x`` with ``s = h - G x`` inside the cones; G has the pattern, and rows and columns by entry."""

    c: Floats
    h: Floats
    size_c: float
    size_h: float
    G_E: Floats
    row_E: Ints
    column_E: Ints
    cones: Cones
    pattern: Pattern


class Point(NamedTuple):
    """The unknowns of the embedding."""

    x: Floats
    s: Floats
    z: Floats
    tau: float
    kappa: float


@kept
def first_point(program: Program) -> tuple[int, Point]:
    """The shares with the least slack and the multipliers of least size, both moved inside."""
    c, h, cones = program.c, program.h, program.cones
    _, W = scaling(cones, unit(cones), unit(cones))
    is_regular, equal = equations(program.pattern, program.G_E, W)
    if not is_regular:
        return SINGULAR, Point(c, h, h, 1.0, 1.0)
    x, minus_r = solved(equal, np.zeros(len(c)), h)
    _, z = solved(equal, -c, np.zeros(len(h)))
    return GOES_ON, Point(x, _inside(cones, -minus_r), _inside(cones, z), 1.0, 1.0)


@compiled
def _inside(cones: Cones, r: Floats) -> Floats:
    shallowest = depth(cones, r).min()
    return r + (1.0 + (-shallowest if shallowest <= 0.0 else -INSIDE)) * unit(cones)


@compiled
def _step(  # noqa: PLR0917
    W: Scaling, ds: Floats, dz: Floats, tau: float, dtau: float, kappa: float, dkappa: float
) -> float:
    """How far it is to the border, in scaled variables."""
    far = 1.0 / max(room(W, ds), room(W, dz), 1e-13)
    if dtau < 0.0:
        far = min(far, -tau / dtau)
    if dkappa < 0.0:
        far = min(far, -kappa / dkappa)
    return min(max(far, LEAST_STEP), LONGEST_STEP)


@compiled
def next_point(program: Program, point: Point) -> tuple[int, Point]:
    """The point after one step, or the same if it is as good as can be."""
    c, h, size_c, size_h, G_E, row_E, column_E, cones, pattern = program
    x, s, z, tau, kappa = point
    GTz, Gx = np.bincount(column_E, G_E * z[row_E], len(c)), np.bincount(row_E, G_E * x[column_E], len(h))
    rx, rz, rt = -GTz - tau * c, s + Gx - tau * h, kappa + dot(c, x) + dot(h, z)
    gap = dot(s, z)
    mu = (gap + kappa * tau) / (cones.nonnegative + cones.second_order + 1)
    missed = max(norm(rz) / (size_h + norm(x) + norm(s)), norm(rx) / (size_c + norm(z))) / tau
    off = max(missed, gap / max(1.0, abs(dot(c, x)) / tau))
    if off < TOLERANCE:
        return DONE, point
    is_inside, W = scaling(cones, s, z)
    if not is_inside:
        return DONE if off < ALMOST else NO_INTERIOR, point
    is_regular, equal = equations(pattern, G_E, W)
    if not is_regular:
        return SINGULAR, point
    x1, z1 = solved(equal, -c, h)
    slope = kappa / tau - dot(c, x1) - dot(h, z1)
    x2, z2 = solved(equal, rx, s - rz)
    dtau = (rt - kappa + dot(c, x2) + dot(h, z2)) / slope
    dz = by(W, z2 + dtau * z1)
    ds, dkappa = -dz - W.lam, -kappa - kappa / tau * dtau
    far = _step(W, ds, dz, tau, dtau, kappa, dkappa)
    left = 1.0 - far
    sigma = min(max(left * left * left, LEAST_CENTRING), 1.0)  # a power is rounded here one way, there another
    target = over(W, o(cones, W.lam, W.lam) + o(cones, ds, dz) - sigma * mu * unit(cones))
    bkappa = kappa * tau + dkappa * dtau - sigma * mu
    x2, z2 = solved(equal, (1.0 - sigma) * rx, by(W, target) - (1.0 - sigma) * rz)
    dtau = ((1.0 - sigma) * rt - bkappa / tau + dot(c, x2) + dot(h, z2)) / slope
    dx, dz = x2 + dtau * x1, z2 + dtau * z1
    scaled_dz = by(W, dz)
    ds, dkappa = -(target + scaled_dz), -(bkappa + kappa * dtau) / tau
    step = INSIDE * _step(W, ds, scaled_dz, tau, dtau, kappa, dkappa)
    x, s, z = x + step * dx, s + by(W, step * ds), z + step * dz
    tau, kappa = tau + step * dtau, kappa + step * dkappa
    is_inner = np.isfinite(x).all() and tau > TOLERANCE * kappa
    return GOES_ON if is_inner else NO_INTERIOR, Point(x, s, z, tau, kappa)


@kept
def some_steps(program: Program, point: Point) -> tuple[int, Point]:
    """The point after so many steps as are taken at once, or after the last one."""
    state = GOES_ON
    for _ in range(AT_ONCE):
        if state == GOES_ON:
            state, point = next_point(program, point)
    return state, point
