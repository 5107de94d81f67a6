"""The suite against NumPy: algebra, stencils, dynamic programming and graphs."""

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np
import pytest
from suite_runs import Results, Values, check_results, wide

pytestmark = pytest.mark.fast

# --- dense ----------------------------------------------------------------------------------------


def gemm(v: Values) -> Results:
    a, b, c = wide(v, "a", "b", "c")
    return {"c": v.get("alpha", 1.0) * a @ b + v.get("beta", 0.0) * c}


def matrix_vector(v: Values) -> Results:
    a, x = wide(v, "a", "x")
    return {"y": a @ x}


def syrk(v: Values) -> Results:
    a, c = wide(v, "a", "c")
    return {"c": np.where(np.tri(len(c)) > 0, c + a @ a.T, c)}


def transposed_vector(v: Values) -> Results:
    a, t = wide(v, "a", "t")
    return {"y": a.T @ t}


def lu(v: Values) -> Results:
    (a,) = wide(v, "matrix")
    for p in range(len(a)):
        a[p + 1 :, p] /= a[p, p]
        a[p + 1 :, p + 1 :] -= np.outer(a[p + 1 :, p], a[p, p + 1 :])
    return {"matrix": a}


def cholesky(v: Values) -> Results:
    """The lower triangle becomes the factor; the kernel neither reads nor writes above it."""
    (a,) = wide(v, "a")
    factor = np.linalg.cholesky(np.tril(a) + np.tril(a, -1).T)
    return {"a": np.where(np.tri(len(a)) > 0, factor, a)}


def eliminated(v: Values) -> Results:
    a, b, m = wide(v, "a", "b", "m")
    k = v["step"]
    factors = m[k + 1 :, k]
    a[k + 1 :, k:] -= np.outer(factors, a[k, k:])
    b[k + 1 :] -= factors * b[k]
    return {"a": a, "b": b}


def forward(v: Values) -> Results:
    lower, b = wide(v, "l", "b")
    return {"x": np.linalg.solve(np.tril(lower), b)}


def backward(v: Values) -> Results:
    upper, rhs = wide(v, "u", "rhs")
    return {"rhs": np.linalg.solve(np.triu(upper), rhs)}


# --- sparse ---------------------------------------------------------------------------------------


def csr(v: Values) -> Results:
    value, x = wide(v, "value", "x")
    starts = v["row_start"]
    products = value * x[v["column"]]
    return {"y": [products[a:b].sum() for a, b in pairwise(starts)]}


def ell(v: Values) -> Results:
    value, x = wide(v, "value", "x")
    going = np.logical_and.accumulate(v["column"] >= 0, axis=0)
    return {"y": (going * value * x[v["column"]]).sum(axis=0)}


def jds(v: Values) -> Results:
    value, x = wide(v, "value", "x")
    y = np.zeros(v["rows"])
    for row, count in enumerate(v["length"]):
        at = v["diagonal_start"][:count] + row
        y[v["permutation"][row]] = value[at] @ x[v["column"][at]]
    return {"y": y}


def coordinates(v: Values) -> Results:
    value, x = wide(v, "value", "x")
    return {"y": np.bincount(v["row"], value * x[v["column"]], len(v["y"]))}


def diagonals(v: Values) -> Results:
    n = v["n"]
    rows = np.arange(n)
    y = np.zeros(n)
    for offset, value in zip(v["offset"], v["value"], strict=True):
        inside = (rows + offset >= 0) & (rows + offset < n)
        y[inside] += value[inside] * v["x"][(rows + offset)[inside]]
    return {"y": y}


# --- stencils -------------------------------------------------------------------------------------


def seven_points(v: Values) -> Results:
    g, out = wide(v, "in", "out")
    inner = g[1:-1, 1:-1, 1:-1]
    near = g[2:, 1:-1, 1:-1] + g[:-2, 1:-1, 1:-1] + g[1:-1, 2:, 1:-1]
    near = near + g[1:-1, :-2, 1:-1] + g[1:-1, 1:-1, 2:] + g[1:-1, 1:-1, :-2]
    out[1:-1, 1:-1, 1:-1] = v["c1"] * near - v["c0"] * inner
    return {"out": out}


def heat(v: Values) -> Results:
    (rod,) = wide(v, "rod")
    for _ in range(v["steps"]):
        wall = np.pad(rod, 1, mode="edge")
        rod = rod + v["r"] * (wall[:-2] - 2 * rod + wall[2:])
    return {"rod": rod}


def hotspot(v: Values) -> Results:
    t, power = wide(v, "in", "power")
    for _ in range(2):
        w = np.pad(t, 1, mode="edge")
        rows = (w[2:, 1:-1] + w[:-2, 1:-1] - 2 * t) * v["ry"]
        cols = (w[1:-1, 2:] + w[1:-1, :-2] - 2 * t) * v["rx"]
        t = t + v["step"] * (power + rows + cols + (v["ambient"] - t) * v["rz"])
    return {"out": t}


def wave(v: Values) -> Results:
    before, now, speed = wide(v, "before", "now", "speed")
    w, n = np.pad(now, 2), len(now)
    laplace = -5.0 * now
    for k, weight in ((1, 4 / 3), (2, -1 / 12)):
        for dy, dx in ((0, k), (0, -k), (k, 0), (-k, 0)):
            laplace += weight * w[2 + dy : 2 + dy + n, 2 + dx : 2 + dx + n]
    return {"after": 2 * now - before + speed * laplace}


# --- dynamic programming --------------------------------------------------------------------------


def alignment(v: Values) -> Results:
    matrix, side = v["matrix"].astype(np.int64), 16
    for bx in range(2):
        by = v["diagonal"] - bx
        for y in range(by * side + 1, by * side + side + 1):
            for x in range(bx * side + 1, bx * side + side + 1):
                gap = max(matrix[y, x - 1], matrix[y - 1, x]) - v["penalty"]
                matrix[y, x] = max(matrix[y - 1, x - 1] + v["similarity"][y, x], gap)
    return {"matrix": matrix}


def pathfinder(v: Values) -> Results:
    best = v["source"].astype(np.int64)
    for row in range(v["start"], v["start"] + v["iterations"]):
        wall = np.pad(best, 1, constant_values=10**6)
        best = np.minimum(best, np.minimum(wall[:-2], wall[2:])) + v["wall"][row]
    return {"result": best}


def common_subsequence(v: Values) -> Results:
    a, b = v["a"], v["b"]
    table = np.zeros((len(a) + 1, len(b) + 1), np.int64)
    for i, j in np.ndindex(len(a), len(b)):
        skip = max(table[i, j + 1], table[i + 1, j])
        table[i + 1, j + 1] = table[i, j] + 1 if a[i] == b[j] else skip
    return {"length": [table[-1, -1]]}


def knapsack(v: Values) -> Results:
    best = {0: 0}
    for weight, profit in zip(v["weight"], v["profit"], strict=True):
        for used, value in list(best.items()):
            if used + weight <= v["capacity"]:
                best[used + weight] = max(best.get(used + weight, 0), value + profit)
    return {"best": [max(best.values())]}


def shortest_step(v: Values) -> Results:
    d, k = v["distance"].astype(np.int64), v["k"]
    return {"distance": np.minimum(d, d[:, [k]] + d[[k], :])}


def edit_distances(v: Values) -> Results:
    found = []
    for words, (n, m) in zip(v["words"], v["lengths"], strict=True):
        a, b = words[:16], words[16:]
        row = list(range(m + 1))
        for i in range(n):
            last, row[0] = row[:], i + 1
            for j in range(m):
                row[j + 1] = min(last[j] + (a[i] != b[j]), last[j + 1] + 1, row[j] + 1)
        found.append(row[m])
    return {"result": found}


# --- graphs ---------------------------------------------------------------------------------------


def ranks(v: Values) -> Results:
    (rank,) = wide(v, "rank")
    degree, start, source = v["degree"], v["start"], v["source"]
    share = np.where(degree > 0, rank / np.maximum(degree, 1), 0)
    sums = [share[source[a:b]].sum() for a, b in pairwise(start)]
    return {"next": (1 - v["damping"]) / v["count"] + v["damping"] * np.array(sums)}


def roots(v: Values) -> Results:
    return {"label": np.zeros(v["count"])}


def neighbours(v: Values) -> list[list[int]]:
    start, target = v["start"], v["target"]
    return [target[a:b].tolist() for a, b in pairwise(start)]


def triangles(v: Values) -> Results:
    lists = neighbours(v)
    found = sum(w in lists[a] for a, row in enumerate(lists) for b in row for w in lists[b])
    return {"triangles": [found]}


def levels(v: Values) -> Results:
    lists, level, front, depth = neighbours(v), v["level"].copy(), [v["root"]], 0
    while front:
        level[front] = depth
        front = sorted({t for node in front for t in lists[node] if level[t] < 0})
        depth += 1
    return {"level": level}


REFERENCES: Mapping[str, Callable[[Values], Results]] = {
    "gemm_naive": gemm,
    "gemm_tiled": gemm,
    "gemv_rows": matrix_vector,
    "gemv_warp": matrix_vector,
    "syrk_lower": syrk,
    "atax_columns": transposed_vector,
    "lu_block": lu,
    "cholesky_block": cholesky,
    "gauss_update": eliminated,
    "forward_substitution": forward,
    "solve_many": backward,
    "spmv_csr_scalar": csr,
    "spmv_csr_vector": csr,
    "spmv_ell": ell,
    "spmv_jds": jds,
    "spmv_coo_segmented": coordinates,
    "spmv_dia": diagonals,
    "stencil_7_point": seven_points,
    "heat_1d": heat,
    "hotspot": hotspot,
    "wave_2d": wave,
    "needleman_wunsch": alignment,
    "pathfinder": pathfinder,
    "lcs_wavefront": common_subsequence,
    "knapsack": knapsack,
    "floyd_warshall": shortest_step,
    "edit_distance": edit_distances,
    "pagerank_pull": ranks,
    "label_jump": roots,
    "triangle_count": triangles,
    "bfs_block": levels,
}


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_kernel_against_numpy(name: str) -> None:
    check_results(name, REFERENCES[name])
