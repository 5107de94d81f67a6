"""The suite against NumPy: physics, numerics and patterns of sharing work."""

from collections.abc import Callable, Mapping
from itertools import permutations

import numpy as np
import pytest
from suite_runs import Results, Values, check_results, wide

pytestmark = pytest.mark.fast

f64 = np.float64


# --- physics --------------------------------------------------------------------------------------


def waves(v: Values) -> Results:
    points, rows = wide(v, "points", "waves")
    angle = rows[:, 0] * points[:, None] + rows[:, 1]
    sums = (rows[:, 2] + 1j * rows[:, 3]) * np.exp(1j * angle)
    total = sums.sum(axis=1)
    return {"out": np.stack([total.real, total.imag], axis=1)}


def box_forces(v: Values) -> Results:
    particles, boxes = v["particles"].astype(f64), v["boxes"]
    force = np.zeros_like(particles)
    for home, (first, count, others, *neighbour) in enumerate(boxes):
        for mine in range(first, first + count):
            for box in [home, *neighbour[:others]]:
                other = particles[boxes[box][0] : boxes[box][0] + boxes[box][1]]
                d = particles[mine, :3] - other[:, :3]
                pull = other[:, 3] * np.exp(-v["a2"] * (d**2).sum(axis=1))
                force[mine] += [*(pull @ d), pull.sum()]
    return {"force": force}


def stencil_of_13(v: Values) -> Results:
    g, out = wide(v, "in", "out")
    inner = (slice(2, -2),) * 3
    out[inner] = 0.5 * g[inner]
    for r in (1, 2):
        for axis in range(3):
            for sign in (r, -r):
                out[inner] += 0.25 / r * np.roll(g, sign, axis)[inner]
    return {"out": out}


def layer(v: Values) -> Results:
    products = v["weights"].astype(f64) * v["input"][:, None]
    return {"partial": products.reshape(2, 16, 16).sum(axis=1)}


# --- numerics -------------------------------------------------------------------------------------


def cubic_root(v: Values) -> Results:
    return {"root": np.full(v["count"], np.roots([1, 0, -2, -5])[0].real)}


def pendulums(v: Values) -> Results:
    (state,) = wide(v, "state")

    def slope(y: object) -> object:
        now = np.asarray(y)
        return np.stack([now[:, 1], -np.sin(now[:, 0])], axis=1)

    h = v["h"]
    for _ in range(v["steps"]):
        k1 = np.asarray(slope(state))
        k2 = np.asarray(slope(state + h / 2 * k1))
        k3 = np.asarray(slope(state + h / 2 * k2))
        k4 = np.asarray(slope(state + h * k3))
        state = state + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return {"state": state}


def gray_codes(v: Values) -> Results:
    out = np.zeros((v["dimensions"], v["points"]), np.uint64)
    for i in range(v["points"]):
        for k in range(32):
            if (i ^ i >> 1) >> k & 1:
                out[:, i] ^= v["directions"][:, k]
    return {"out": out / 2.0**32}


def polynomials(v: Values) -> Results:
    x, coefficient = wide(v, "x", "coefficient")
    return {"y": np.polyval(coefficient[::-1], x) ** v["exponent"]}


def parabolas(v: Values) -> Results:
    steps = np.arange(v["from"], v["to"] - v["h"] / 2, v["h"])
    return {"out": v["scale"] * v["h"] * (steps**2).sum()}


def solution(v: Values) -> Results:
    a, b = wide(v, "a", "b")
    return {"x": np.linalg.solve(a, b)}


# --- patterns -------------------------------------------------------------------------------------


def row_sums(v: Values) -> Results:
    return {"out": v["in"].astype(f64).sum(axis=1)}


def survivors(v: Values) -> Results:
    kept = v["in"][v["in"] > 0]
    # blocks and warps run in order here
    return {"out": np.pad(kept, (0, len(v["in"]) - len(kept))), "size": [len(kept)]}


def last_nodes(v: Values) -> Results:
    return {"end": np.zeros(v["n"])}


def bit_lists(v: Values) -> Results:
    lists = v["lists"].copy()
    for row, mask in zip(lists, v["masks"].tolist(), strict=True):
        bits = [b for b in range(32) if mask >> b & 1]
        row[: len(bits)] = bits
    return {"lists": lists}


def list_lengths(v: Values) -> Results:
    found = []
    for node in v["head"]:
        count = 0
        while node != -1:
            node, count = v["next"][node], count + 1
        found.append(count)
    return {"length": found}


def averages(v: Values) -> Results:
    wall = np.pad(v["in"].astype(f64), 3, mode="edge")
    return {"out": np.convolve(wall, np.full(7, 1 / 7), mode="valid")}


def close_pairs(v: Values) -> Results:
    x = v["x"]
    return {"close": (np.abs(x[None] - x[:, None]) < np.float32(v["limit"])).sum(axis=1)}


def queens(v: Values) -> Results:
    found, n = np.zeros(v["n"], int), v["n"]
    for columns in permutations(range(n)):
        rising = {c + r for r, c in enumerate(columns)}
        falling = {c - r for r, c in enumerate(columns)}
        found[columns[0]] += len(rising) == len(falling) == n
    return {"solutions": found}


def generations(v: Values) -> Results:
    cells = v["cells"].astype(int)
    for _ in range(v["generations"]):
        turns = [(y, x) for y in (-1, 0, 1) for x in (-1, 0, 1) if x or y]
        count = sum(np.roll(cells, turn, (0, 1)) for turn in turns)
        cells = ((count == 3) | ((count == 2) & (cells == 1))).astype(int)
    return {"cells": cells}


def leaves(v: Values) -> Results:
    # inner nodes are 0 to 32, so that the leaf of key k is number 33 + k
    return {"leaf": 33 + v["queries"]}


REFERENCES: Mapping[str, Callable[[Values], Results]] = {
    "fourier_sum": waves,
    "box_forces": box_forces,
    "fdtd_3d": stencil_of_13,
    "layer_forward": layer,
    "newton_roots": cubic_root,
    "runge_kutta": pendulums,
    "sobol_points": gray_codes,
    "polynomial": polynomials,
    "trapezoids": parabolas,
    "conjugate_gradient": solution,
    "reduce_last_block": lambda v: {"out": [v["in"].astype(f64).sum()]},
    "persistent_rows": row_sums,
    "group_rows": row_sums,
    "compact_positive": survivors,
    "warp_votes": last_nodes,
    "bit_lists": bit_lists,
    "list_lengths": list_lengths,
    "gemm_wmma": lambda v: {"c": v["a"].astype(f64) @ v["b"].astype(f64)},
    "scale_vectors": lambda v: {"data": v["data"] * v["factor"]},
    "moving_average": averages,
    "pair_counts": close_pairs,
    "reverse_rows": lambda v: {"data": v["data"][:, ::-1]},
    "queens": queens,
    "life": generations,
    "tree_search": leaves,
}


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_kernel_against_numpy(name: str) -> None:
    check_results(name, REFERENCES[name])
