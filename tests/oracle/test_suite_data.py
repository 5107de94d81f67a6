"""The suite against NumPy: sorting, reductions, clustering, images and others."""

import zlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from suite_runs import Results, Values, check_results, wide

f64 = np.float64


# --- sorting --------------------------------------------------------------------------------------


def bitonic_step(v: Values) -> Results:
    data = v["data"].copy()
    for i in range(v["n"]):
        j = i ^ v["distance"]
        if j > i and (data[i] > data[j]) == ((i & v["run"]) == 0):
            data[i], data[j] = data[j], data[i]
    return {"data": data}


def sorted_pairs(v: Values) -> Results:
    keys = np.sort(v["keys_in"].reshape(2, 128), axis=1)
    return {"keys_out": keys.ravel()}


def digit_counts(v: Values) -> Results:
    digits = v["keys"] >> v["shift"] & 15
    blocks = [np.bincount(digits[b : b + 64], minlength=16) for b in range(0, v["n"], 64)]
    return {"counts": np.array(blocks).T}


# --- reductions -----------------------------------------------------------------------------------


def tree_sums(v: Values) -> Results:
    (data,) = wide(v, "in")
    return {"out": np.pad(data, (0, 84)).reshape(3, 128).sum(axis=1)}


def block_products(v: Values) -> Results:
    x, y = wide(v, "x", "y")
    return {"out": (x * y).reshape(-1, 2, 128).sum(axis=(0, 2))}


def exclusive_sums(v: Values) -> Results:
    data = v["data"].reshape(2, 128)
    sums = np.cumsum(data, axis=1)
    return {"data": (sums - data).ravel(), "sums": sums[:, -1]}


def segments(v: Values) -> Results:
    out, running = [], 0
    for i, (value, head) in enumerate(zip(v["in"], v["head"], strict=True)):
        running = value if head or i % 32 == 0 else running + value
        out.append(running)
    return {"out": out}


def saturated(v: Values) -> Results:
    counts = np.bincount(v["data"] & 63, minlength=64)
    return {"histogram": np.minimum(counts, v["most"])}


# --- clustering -----------------------------------------------------------------------------------


def assigned(v: Values) -> Results:
    points, centres = wide(v, "points", "centres")
    member = ((points.T[:, None] - centres[None]) ** 2).sum(axis=2).argmin(axis=1)
    return {"member": member, "changed": [(member != v["member"]).sum()]}


def cluster_sums(v: Values) -> Results:
    (points,) = wide(v, "points")
    chosen = v["member"][None] == np.arange(v["clusters"])[:, None]
    return {"sums": chosen @ points.T, "sizes": chosen.sum(axis=1)}


def distances(v: Values) -> Results:
    return {"distance": np.hypot(*(v["places"].astype(f64) - [30, 60]).T)}


def k_nearest(v: Values) -> Results:
    gaps = ((v["queries"][:, None] - v["points"][None]) ** 2).sum(axis=2)
    return {"found": gaps.argsort(axis=1, kind="stable")[:, : v["k"]]}


# --- imaging --------------------------------------------------------------------------------------


def rows_filtered(v: Values) -> Results:
    image, weights = wide(v, "in", "kernel_weights")
    return {"out": [np.convolve(row, weights[::-1], mode="same") for row in image]}


def windows(image: Any, size: int, **padding: Any) -> Any:
    wide_image = np.pad(image, size // 2, **padding)
    return np.lib.stride_tricks.sliding_window_view(wide_image, (size, size))


def masked(v: Values) -> Results:
    image, mask = wide(v, "in", "mask")
    return {"out": (windows(image, 5, mode="edge") * mask).sum(axis=(2, 3))}


def medians(v: Values) -> Results:
    return {"out": np.median(windows(v["in"], 3), axis=(2, 3))}


def integral(v: Values) -> Results:
    return {"out": np.cumsum(v["in"].astype(np.int64), axis=1)}


def eroded(v: Values) -> Results:
    chosen = windows(v["in"], 3, constant_values=255)[:, :, v["element"].reshape(3, 3) > 0]
    return {"out": np.where(chosen.min(axis=2) == 0, 0, 255)}


def cosine_transforms(v: Values) -> Results:
    image, c = wide(v, "in", "cosines")
    c = c.reshape(8, 8)
    blocks = image.reshape(2, 8, 2, 8).transpose(0, 2, 1, 3)
    return {"out": (c @ blocks @ c.T).transpose(0, 2, 1, 3).reshape(16, 16)}


# --- various --------------------------------------------------------------------------------------


def forces(v: Values) -> Results:
    (b,) = wide(v, "bodies")
    d = b[None, :, :3] - b[:, None, :3]
    s = b[None, :, 3] * ((d**2).sum(axis=2) + v["soft"]) ** -1.5
    return {"acceleration": np.pad((d * s[:, :, None]).sum(axis=1), ((0, 0), (0, 1)))}


def collatz(v: Values) -> Results:
    found = []
    for start in v["start"].tolist():
        count = 0
        while start > 1:
            start, count = (3 * start + 1 if start % 2 else start // 2), count + 1
        found.append(count)
    return {"steps": found}


def places(v: Values) -> Results:
    index = {key: i for i, key in enumerate(v["sorted"].tolist())}
    return {"place": [index.get(key, -1) for key in v["keys"].tolist()]}


def matches(v: Values) -> Results:
    text, pattern = v["text"].tobytes(), v["pattern"].tobytes()
    return {"found": [text.startswith(pattern, i) for i in range(len(text))]}


def checksums(v: Values) -> Results:
    rows = zip(v["data"], v["length"], strict=True)
    return {"crc": [zlib.crc32(row[:length].tobytes()) for row, length in rows]}


def probed(v: Values) -> Results:
    table = {key: value for key, value in v["slots"].reshape(-1, 2).tolist() if key != -1}
    return {"values": [table.get(key, -1) for key in v["keys"].tolist()]}


def transform(v: Values) -> Results:
    data = v["data"].astype(f64) @ [1, 1j]
    found = np.fft.fft(data, axis=1)
    return {"data": np.stack([found.real, found.imag], axis=2)}


def powers(v: Values) -> Results:
    rows = zip(v["a"].tolist(), v["b"].tolist(), strict=True)
    modulus = v["modulus"]
    return {"out": [pow(int(np.gcd(a, b)) % modulus, b, modulus) for a, b in rows]}


REFERENCES: Mapping[str, Callable[[Values], Results]] = {
    "bitonic_step": bitonic_step,
    "bitonic_pairs": sorted_pairs,
    "odd_even": lambda v: {"data": np.sort(v["data"])},
    "radix_count": digit_counts,
    "radix_split": lambda v: {"data": np.sort(v["data"].reshape(2, 64), axis=1).ravel()},
    "merge_path": lambda v: {"out": np.sort(np.concatenate([v["a"], v["b"]]))},
    "rank_sort": lambda v: {"out": np.sort(v["in"])},
    "insertion_rows": lambda v: {"rows": np.sort(v["rows"], axis=1)},
    "reduce_tree": tree_sums,
    "reduce_grid": lambda v: {"out": [v["in"].sum()]},
    "dot_product": block_products,
    "argmin_rows": lambda v: {"place": v["in"].argmin(axis=1)},
    "scan_hillis_steele": lambda v: {"out": np.cumsum(v["in"])},
    "scan_blelloch": exclusive_sums,
    "segmented_scan": segments,
    "histogram_private": lambda v: {"histogram": np.bincount(v["bytes"] % 40, minlength=40)},
    "histogram_saturating": saturated,
    "kmeans_assign": assigned,
    "kmeans_update": cluster_sums,
    "nearest_neighbour": distances,
    "k_nearest": k_nearest,
    "convolve_rows": rows_filtered,
    "convolve_2d": masked,
    "median_3x3": medians,
    "integral_rows": integral,
    "erode": eroded,
    "dct_8x8": cosine_transforms,
    "nbody_tile": forces,
    "collatz": collatz,
    "binary_search": places,
    "string_match": matches,
    "crc32_records": checksums,
    "hash_probe": probed,
    "fft_shared": transform,
    "number_theory": powers,
}


@pytest.mark.parametrize("name", sorted(REFERENCES))
def test_kernel_against_numpy(name: str) -> None:
    check_results(name, REFERENCES[name])
