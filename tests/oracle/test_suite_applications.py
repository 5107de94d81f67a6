"""The suite against NumPy: vision, searching and engineering."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from suite_runs import Results, Values, check_results, wide

pytestmark = pytest.mark.fast

f64 = np.float64


# --- vision ---------------------------------------------------------------------------------------


def dilated(v: Values) -> Results:
    wall = np.pad(v["in"], 2)
    disc = v["disc"].reshape(5, 5) > 0
    view = np.lib.stride_tricks.sliding_window_view(wall, (5, 5))
    return {"out": view[:, :, disc].max(axis=2)}


def correlated(v: Values) -> Results:
    image, mask = wide(v, "image", "mask")
    out = np.zeros_like(image)
    for x, y in np.ndindex(out.shape):
        for c, r in np.ndindex(mask.shape):
            if x >= c and y >= r:
                out[x, y] += image[x - c, y - r] * mask[c, r]
    return {"out": out.ravel()}


def motion(v: Values) -> Results:
    now, before, side = v["now"].astype(int), v["before"].astype(int), 2 * v["range"] + 1
    sad = []
    for y, x in np.ndindex(3, 4):
        block = now[4 * y : 4 * y + 4, 4 * x : 4 * x + 4]
        window = before[4 * y : 4 * y + side + 3, 4 * x : 4 * x + side + 3]
        views = np.lib.stride_tricks.sliding_window_view(window, (4, 4))
        sad.append(np.abs(views - block).sum(axis=(2, 3)).ravel())
    return {"sad": sad}


def resampled(v: Values) -> Results:
    index = np.minimum(np.searchsorted(v["running"], v["wanted"]), v["count"] - 1)
    return {"to": v["from"][index]}


def wavelets(v: Values) -> Results:
    (line,) = wide(v, "in")
    out = np.zeros_like(line)
    for _ in range(v["levels"]):
        a, b = line[:, ::2], line[:, 1::2]
        out[:, a.shape[1] : 2 * a.shape[1]] = (a - b) / 2**0.5
        line = (a + b) / 2**0.5
    out[:, : line.shape[1]] = line
    return {"out": out}


# --- searching ------------------------------------------------------------------------------------


def trie_depths(v: Values) -> Results:
    found = np.zeros(len(v["queries"]), int)
    for first, end in zip(v["begin"], v["begin"][1:], strict=False):
        for start in range(first, end - v["least"] + 1):
            node = depth = 0
            while start + depth < end:
                node = v["nodes"][node][v["queries"][start + depth] & 3]
                if node == 0:
                    break
                depth += 1
            found[start] = depth if depth >= v["least"] else 0
    return {"depth_found": found}


def coded(v: Values) -> Results:
    bits_of_block, out = [], []
    for block in v["symbols"].reshape(2, 64):
        pieces = [f"{v['code'][s]:0{v['code_bits'][s]}b}" for s in block]
        text = "".join(pieces)
        bits_of_block.append(len(text))
        out += [int(text.ljust(2048, "0")[i : i + 32], 2) for i in range(0, 2048, 32)]
    return {"bits_of_block": bits_of_block, "out": out}


def decoded(v: Values) -> Results:
    text = "".join(f"{word:032b}" for word in v["bits"])
    out = []
    for at in v["offset"]:
        for _ in range(v["per_stream"]):
            ones = len(text[at : at + 7]) - len(text[at : at + 7].lstrip("1"))
            out.append(ones)
            at += min(ones + 1, 7)
    return {"out": out}


def bucketed(v: Values) -> Results:
    bucket = np.searchsorted(v["pivots"], v["in"], side="right")
    return {"sizes": np.bincount(bucket, minlength=32)}


def angles(v: Values) -> Results:
    points, edges = wide(v, "points", "edges")
    dots = (points[:, :3] @ points[:, :3].T)[np.triu_indices(v["count"], 1)]
    inner = np.searchsorted(-edges[1:-1], -dots, side="left")
    return {"histogram": np.bincount(inner, minlength=v["bins"])}


def in_ranges(v: Values) -> Results:
    low = np.searchsorted(v["sorted"], v["ranges"][:, 0], side="left")
    high = np.searchsorted(v["sorted"], v["ranges"][:, 1], side="right")
    return {"counts": high - low}


def line_sums(v: Values) -> Results:
    lines = v["text"].tobytes().decode().split("\n")[: v["lines"]]
    return {"sums": [sum(int(w) for w in line.split(",") if w.strip()) for line in lines]}


def runs(v: Values) -> Results:
    found = []
    for i, letter in enumerate(v["in"]):
        rest = v["in"][i:]
        starts = i == 0 or v["in"][i - 1] != letter
        end = np.argmax(rest != letter) if (rest != letter).any() else len(rest)
        found.append(end if starts else 0)
    return {"length": found}


# --- engineering ----------------------------------------------------------------------------------


def molecules(v: Values) -> Results:
    (position,) = wide(v, "position")
    force = np.zeros_like(position)
    for i in range(v["atoms"]):
        d = position[i, :3] - position[v["neighbours"][:, i], :3]
        r2 = (d**2).sum(axis=1)
        near = (r2 < v["cutoff2"]) & (r2 > 0)
        r6 = np.divide(1, r2, where=near, out=np.zeros_like(r2)) ** 3
        pull = np.divide(r6 * (v["a"] * r6 - v["b"]), r2, where=near, out=np.zeros_like(r2))
        force[i, :3] = pull @ d
    return {"force": force}


def block_sums(v: Values) -> Results:
    (data,) = wide(v, "in")
    return {"out": np.pad(data, (0, 42)).reshape(3, 64).sum(axis=1)}


def normalised(v: Values) -> Results:
    (data,) = wide(v, "in")
    mean = data.mean(axis=(0, 2), keepdims=True)
    return {"out": (data - mean) / np.sqrt(data.var(axis=(0, 2), keepdims=True) + v["epsilon"])}


def convolved(v: Values) -> Results:
    image, weights = wide(v, "in", "weights")
    wall = np.pad(image, ((0, 0), (1, 1), (1, 1)))
    views = np.lib.stride_tricks.sliding_window_view(wall, (3, 3), axis=(1, 2))[:, ::2, ::2]
    return {"out": np.einsum("cyxij,fcij->fyx", views, weights)}


def pooled(v: Values) -> Results:
    views = np.lib.stride_tricks.sliding_window_view(v["in"], (3, 3), axis=(1, 2))
    return {"out": views[:, ::2, ::2].max(axis=(3, 4))}


def softmax(v: Values) -> Results:
    e = np.exp(v["in"].astype(f64))
    return {"out": e / e.sum(axis=1, keepdims=True)}


def attention(v: Values) -> Results:
    q, k, values = wide(v, "q", "k", "v")
    e = np.exp(v["scale"] * q @ k.T)
    return {"out": e @ values / e.sum(axis=1, keepdims=True)}


REFERENCES: Mapping[str, Callable[[Values], Results]] = {
    "dilate": dilated,
    "correlate": correlated,
    "block_motion": motion,
    "resample": resampled,
    "haar_row": wavelets,
    "trie_matches": trie_depths,
    "code_lengths": coded,
    "code_decode": decoded,
    "bucket_count": bucketed,
    "angular_histogram": angles,
    "range_counts": in_ranges,
    "parse_numbers": line_sums,
    "run_lengths": runs,
    "lennard_jones": molecules,
    "reduce_any": block_sums,
    "batch_normalise": normalised,
    "convolution_layer": convolved,
    "max_pool": pooled,
    "softmax_rows": softmax,
    "attention_tiles": attention,
}


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_kernel_against_numpy(name: str) -> None:
    check_results(name, REFERENCES[name])
