"""Sums up what measure.py left: ``python summary.py OUT.json RESULTS [RESULTS ...]``.

Of several folders of results the last one counts that has a group. The JSON has, for each kernel,
the names of its columns, then a row for each experiment: what was launched, and of each figure the
least, the median and the largest of all repetitions, warps and blocks, in cycles.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from measure import SECONDS
from sink import read

About = Mapping[str, object]
Figures = dict[str, object]


def three(values: np.ndarray) -> list[int]:
    """The least, the median and the largest."""
    return [int(values.min()), int(np.median(values)), int(values.max())]


def of(about: About, data: np.ndarray, first: int, last: int) -> np.ndarray:
    """The slots of a range that were used."""
    used = about["used"]
    assert isinstance(used, list)
    return data[..., [place for place, slot in enumerate(used) if first <= slot < last]]


def figures(about: About, data: np.ndarray) -> Figures:
    """What an experiment of engines.cu says."""
    kernel, numbers = str(about["kernel"]), about["numbers"]
    assert isinstance(numbers, list)
    if kernel.startswith(("row_", "mma_")) or kernel == "ping_pong":
        found = of(about, data, 0, 32)
        return {"cycles": three(found[found > 100] if kernel == "ping_pong" else found)}
    if kernel in ("beside_polls", "beside_takes"):
        found = of(about, data, 0, 32)
        return {"cycles": three(found[found > 0])}
    if kernel in ("wake", "opens"):
        before, behind = of(about, data, 0, 32), of(about, data, 32, 64)
        arriving = numbers[4] if kernel == "wake" else before.shape[-1]
        last = before[..., :arriving].max(axis=-1, keepdims=True)
        own, others = (behind - last)[..., :1], (behind - last)[..., arriving:]
        if kernel == "opens":
            return {"go_on": three(behind - last)}
        return {"own": three(own), "others": three(others) if others.size else None}
    if kernel == "polls":
        answers = of(about, data, 0, 16).astype("int64")
        return {"first": three(answers[..., 0]), "next": three(np.diff(answers, axis=-1))}
    if kernel == "rounds":
        rounds, cycles = of(about, data, 1, 32), of(about, data, 33, 64)
        apart = cycles / (rounds + 1)
        return {"rounds": three(rounds), "least_apart": round(float(apart.min()), 1)}
    if kernel.startswith(("bulk", "tensor")):
        issued = {} if kernel.startswith("tensor") else {"issued": int(data[..., 0].max())}
        return {**issued, "over": three(data[..., -1])}
    if kernel.startswith("holds"):
        names = ("before", "first", "then", "second", "commit", "over")
        parts = {name: of(about, data, 4 * n, 4 * n + 4) for n, name in enumerate(names)}
        return {
            name: np.median(part, axis=(0, 1, 2)).astype(int).tolist()
            for name, part in parts.items()
        }
    if kernel.startswith("wg_"):
        began, over = of(about, data, 0, 16), of(about, data, 32, 48)
        kept: Figures = {"over": three(over.max(axis=-1) - began.min(axis=-1))}
        beside = of(about, data, 48, 49)
        return {**kept, **({"beside": three(beside)} if beside.size else {})}
    if kernel == "registers":
        before, behind = of(about, data, 0, 32), of(about, data, 32, 64)
        given = before[..., :4].max(axis=-1), behind[..., :4].max(axis=-1)
        taken = behind[..., 4:]
        return {
            "give": three((behind - before)[..., :4]),
            "take": three((behind - before)[..., 4:]),
            "behind_give": three(taken - given[1][..., None]),
        }
    assert kernel == "small"
    return {
        "issued": three(of(about, data, 0, 16)),
        "then": three(of(about, data, 16, 32)),
        "over": three(of(about, data, 32, 48)),
    }


def blocks(about: About, data: np.ndarray) -> Figures:
    """What the launches of a whole kernel say: cycles of blocks, and until the last has ended."""
    kept: Figures = {"right": about["right"]}
    times = about["milliseconds"]
    assert isinstance(times, list)
    kept["launch_us"] = [round(1000 * one, 1) for one in (min(times), max(times))]
    if data.size:
        kept |= {"cycles": three(data[..., 0]), "first_cycles": three(data[0, ..., 0])}
        kept["end_ns"] = three(data[..., 2].max(axis=1))
    return kept


def rows(folder: Path, group: str) -> Iterator[tuple[str, Figures]]:
    for about, data in read(folder / f"{group}.bin"):
        if "kernel" not in about:
            continue
        name = str(about["kernel"])
        keys = ("grid", "block", "tiles") if group == "whole" else ("grid", "block", "numbers")
        row: Figures = {key: about[key] for key in keys if about.get(key) not in (None, [])}
        if row.get("grid") == 1:
            del row["grid"]
        tensor = about.get("tensor")
        if isinstance(tensor, list):
            kind, _, (pitch,), box, swizzle, _ = tensor
            row["box"] = f"{kind} {box[0]}x{box[1]} swizzle {swizzle} pitch {pitch}"
        row |= {"offset": about["offset"]} if about.get("offset") else {}
        if "error" in about:
            yield name, {**row, "error": about["error"]}
        elif group == "whole":
            yield name, {**row, **blocks(about, data)}
        elif not about.get("reduced"):
            yield name, {**row, **figures(about, data)}


def summary(folders: list[Path]) -> dict[str, list[Figures]]:
    """The experiments of each kernel."""
    found: dict[str, list[Figures]] = {}
    for group in SECONDS:
        held = [folder for folder in folders if (folder / f"{group}.bin").exists()]
        for name, row in rows(held[-1], group) if held else ():
            found.setdefault(name, []).append(row)
    return found


def main() -> None:
    out, *folders = map(Path, sys.argv[1:])
    found = summary(folders)
    out.write_text("{\n" + ",\n".join(map(table, found, found.values())) + "\n}\n")


def table(name: str, rows: list[Figures]) -> str:
    """The text of one kernel: its columns, then a line for each row."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    lines = [columns, *([row.get(key) for key in columns] for row in rows)]
    texts = (json.dumps(line, separators=(",", ":")) for line in lines)
    return f'"{name}":[\n' + ",\n".join(texts) + "]"


if __name__ == "__main__":
    main()
