"""Holds bounds against what a GPU measured of our kernels, and writes the results as JSON.

    python benchmarks/silicon/blocks_compare.py KIT BOUNDS RESULTS [RESULTS ...]

BOUNDS is what ``blocks.py bound`` wrote, also of memory that answers as fast as the L2 cache:
against these stand the launches whose data was there. RESULTS are those of ``blocks_run.py``: of
cycles the longest of all files count, times and arrays are those of the last.
Exit code 1 if a bound is below the block of a launch of one block: nothing else then used the
memory.
"""

from __future__ import annotations

import argparse
import base64
import json
import math
import re
import statistics
import sys
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "experiments" / "silicon-h200-blocks.md"
DATA = PAGE.with_suffix(".json")
COLD, L2 = ("cold", "warm"), ("warm",)
"""Kinds of launches that a bound is held against: of whatever memory, and of data in L2."""
BLOCK_COLUMNS = ("timed PTX", "timed code")
LAUNCH_COLUMNS = ("plain PTX", "plain code")
MOST_AT_ONCE = 132
"""Blocks of a launch that has an SM for each."""

FUSED, ORDER, APPROXIMATE, OPEN = "fused", "order", "approximate", "open"
LEFT_OPEN = (
    "samples/loop_threads",
    "suite/bucket_count",
    "suite/sssp_relax",
    "suite/union_edges",
    "plain/align_experts",
    "plain/insert_keys",
    "plain/join_clusters",
    "plain/nearest_centres",
    "plain/splat_keys",
    "plain/ticket_lock",
)
"""Launches that repeat on the GPU and yet leave open who comes first. In loop_threads and
splat_keys lanes store at one address in one instruction; the others the emulator computes otherwise
too when blocks, warps or lanes come in another order."""


@dataclass(frozen=True)
class Row:
    """A launch: cycles of its blocks, microseconds of the launch, bounds, and arrays that differ.

    ``cycles``: the longest block that had its SM for itself, by kind of launch, ``us``: mean and
    longest time. ``bounds``: of a block and of the launch in cycles, by column; ``l2_bounds`` of
    memory as fast as the L2 cache. ``equal``: how many arrays are the emulator's, ``differ`` what
    is known of each that is not.
    """

    name: str
    blocks: int
    cycles: dict[str, int] = field(default_factory=dict)
    us: dict[str, list[float]] = field(default_factory=dict)
    bounds: dict[str, dict[str, Any]] = field(default_factory=dict)
    l2_bounds: dict[str, dict[str, Any]] = field(default_factory=dict)
    equal: int = 0
    differ: list[dict[str, Any]] = field(default_factory=list)

    def measured(self, kinds: Sequence[str]) -> int | None:
        """The longest block in launches of these kinds."""
        return max((self.cycles[kind] for kind in kinds if kind in self.cycles), default=None)

    def ratio(self, column: str, kinds: Sequence[str] = COLD) -> float | None:
        """The bound of a block over the longest one; None if there is no such bound or block."""
        bounds = self.l2_bounds if tuple(kinds) == L2 else self.bounds
        bound = bounds.get(column, {}).get("block")
        longest = self.measured(kinds)
        return None if bound is None or not longest else round(bound / longest, 3)

    def launch_ratio(self, column: str, mhz: float) -> float | None:
        """The bound of the launch over the longest one in cold and warm launches."""
        bound = self.bounds.get(column, {}).get("launch")
        longest = max((self.us[kind][1] for kind in ("cold", "warm") if kind in self.us), default=0)
        return None if bound is None or not longest else round(bound / longest / mhz, 3)


def lines_of(path: Path) -> Iterator[dict[str, Any]]:
    """What a run wrote, without lines that were cut off."""
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            yield json.loads(text)
        except ValueError:
            continue


def longest_alone(blocks: Mapping[str, Mapping[str, Mapping[str, list[int]]]]) -> dict[str, int]:
    """By kind the longest block that no other shared its SM with."""
    longest: dict[str, int] = {}
    for title, kinds in blocks.items():
        for kind, columns in kinds.items():
            for cycles, resident in zip(columns["block"], columns["resident"], strict=True):
                if title == "alone" or resident == 1:
                    longest[kind] = max(longest.get(kind, 0), cycles)
    return longest


def rows_of(
    jobs: Sequence[Mapping[str, Any]],
    bounds: Mapping[str, Any],
    results: Sequence[Path],
) -> list[Row]:
    """All launches that were measured. Arrays that differ come without their cause."""
    cycles: dict[str, dict[str, int]] = {}
    last: dict[str, dict[str, Any]] = {}
    seen: dict[tuple[str, str], set[str]] = {}
    for path in results:
        for line in lines_of(path):
            if "outputs" not in line:
                continue
            last[line["name"]] = line
            for number, output in line["outputs"].items():
                hashes = seen.setdefault((line["name"], number), set())
                hashes |= {output["sha256"], *([] if output["repeats"] else [""])}
            mine = cycles.setdefault(line["name"], {})
            for kind, longest in longest_alone(line.get("blocks", {})).items():
                mine[kind] = max(mine.get(kind, 0), longest)
    rows = []
    for job in jobs:
        name = job["name"]
        if name not in last:
            continue
        times = {
            kind: [round(statistics.fmean(us), 2), round(max(us), 2)]
            for kind, us in last[name]["times_us"].items()
        }
        expected = {n: one.get("expected") for n, one in enumerate(job["arguments"])}
        found = {int(n): one for n, one in last[name]["outputs"].items()}
        both = [n for n in found if expected[n]]
        rows.append(
            Row(
                name,
                math.prod(job["grid"]),
                cycles[name],
                times,
                bounds["rows"].get(name, {}),
                bounds["l2"].get(name, {}),
                sum(found[n]["sha256"] == expected[n] for n in both),
                [
                    _difference(job, last[name], n, len(seen[name, str(n)]) > 1)
                    for n in both
                    if found[n]["sha256"] != expected[n]
                ],
            )
        )
    return rows


def _difference(
    job: Mapping[str, Any], line: Mapping[str, Any], number: int, varies: bool
) -> dict[str, Any]:
    """What is known of an array that is otherwise than in the emulator, and the bytes of it."""
    output = line["outputs"][str(number)]
    unfused = line.get("unfused", {}).get(str(number), {})
    expected = job["arguments"][number]["expected"]
    if varies or job["name"] in LEFT_OPEN:
        why = ORDER
    elif unfused.get("sha256") == expected:
        why = FUSED
    else:
        why = OPEN
    return {
        "array": job["arguments"][number]["name"],
        "number": number,
        "why": why,
        "data": output.get("data"),
        "unfused": unfused.get("data"),
    }


def judged(row: Row, values: Mapping[int, Any], text: str) -> list[dict[str, Any]]:
    """The differences of a launch, with errors instead of bytes: relative to the emulator's values.

    What is left is put down to approximations where the kernel's PTX has some. Cost: linear.
    """
    import numpy as np

    found = []
    for one in row.differ:
        wanted = np.asarray(values[one["number"]]).reshape(-1)
        said = {key: one[key] for key in ("array", "why")}
        for key in ("data", "unfused"):
            if one[key] is None:
                continue
            got = np.frombuffer(zlib.decompress(base64.b64decode(one[key])), wanted.dtype)
            want = wanted[: len(got)]
            title = "" if key == "data" else "unfused "
            bits = f"u{wanted.itemsize}"
            said[f"{title}elements"] = int((got.view(bits) != want.view(bits)).sum())
            if wanted.dtype.kind == "f":
                kept = np.isfinite(got) & np.isfinite(want)
                errors = np.abs(got[kept].astype(np.float64) - want[kept].astype(np.float64))
                scale = float(np.abs(want[kept]).max(initial=0)) or 1.0
                said[f"{title}error"] = float(f"{float(errors.max(initial=0)) / scale:.2g}")
        if one["why"] == OPEN and re.search(r"\.approx|wmma|\bmma\.", text):
            said["why"] = APPROXIMATE
        found.append(said)
    return found


def _table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|---|{'--:|' * (len(head) - 1)}"]
    return [*lines, *(f"| {' | '.join(map(str, row))} |" for row in rows), ""]


def _figures(ratios: Sequence[float]) -> list[object]:
    figures = (min(ratios), statistics.median(ratios), max(ratios))
    return [len(ratios), *(f"{one:.2f}" for one in figures), sum(one < 1 for one in ratios)]


def block_ratios(rows: Sequence[Row], column: str, kinds: Sequence[str]) -> list[Row]:
    """The launches with a ratio of this column, in ascending order."""
    some = [row for row in rows if row.ratio(column, kinds) is not None]
    return sorted(some, key=lambda row: row.ratio(column, kinds) or 0)


def _blocks(rows: Sequence[Row]) -> Iterator[list[object]]:
    for kinds, title in ((COLD, ""), (L2, ", data in L2")):
        for column in BLOCK_COLUMNS:
            some = block_ratios(rows, column, kinds)
            for few, what in (
                ([row for row in some if row.blocks == 1], "one block"),
                ([row for row in some if 1 < row.blocks <= MOST_AT_ONCE], "a block an SM at most"),
                ([row for row in some if row.blocks > MOST_AT_ONCE], "more blocks than SMs"),
            ):
                if few:
                    ratios = [row.ratio(column, kinds) or 0 for row in few]
                    yield [f"{column}{title}, {what}", *_figures(ratios)]


def table_of(rows: Sequence[Row], data: Mapping[str, Any]) -> list[str]:
    """Returns the tables of ratios, and how many arrays differ, as lines of Markdown."""
    head = ["bound over the longest time", "launches", "least", "median", "largest", "below 1"]
    launches = [*_blocks(rows)]
    for column in LAUNCH_COLUMNS:
        found = [row.launch_ratio(column, data["mhz"]) for row in rows]
        if any(found):
            ratios = [ratio for ratio in found if ratio is not None]
            launches.append([f"{column}, the launch by events", *_figures(ratios)])
    lines = _table(head, launches)
    same, causes = (
        sum(row.equal for row in rows),
        Counter(one["why"] for row in rows for one in row.differ),
    )
    counts = ", ".join(f"{count} {why}" for why, count in sorted(causes.items()))
    lines += [f"{same} arrays equal those of the emulator, {causes.total()} do not: {counts}."]
    return lines


def contradicted(rows: Sequence[Row]) -> list[str]:
    """Launches of one block that took longer than the bound of what ran says."""
    return [
        f"{row.name}: {column}, {'/'.join(kinds)}, {row.ratio(column, kinds)}"
        for column in BLOCK_COLUMNS
        for kinds in (COLD, L2)
        for row in block_ratios(rows, column, kinds)
        if row.blocks == 1 and (row.ratio(column, kinds) or 1) < 1
    ]


def written(rows: Sequence[Row], data: Mapping[str, Any]) -> str:
    """The JSON file: a line a launch."""
    lines = [json.dumps(_short(row), separators=(",", ":")) for row in rows]
    return json.dumps(data)[:-1] + ', "rows": [\n' + ",\n".join(lines) + "\n]}\n"


def _short(row: Row) -> dict[str, Any]:
    """A row as it is kept: bounds as ``[block, launch]``, or the code of the refusal."""

    def bound(one: Mapping[str, Any]) -> object:
        if "refused" in one:
            return one["refused"]
        return [one["block"], one["launch"]]

    def bounds(columns: Mapping[str, Mapping[str, Any]]) -> dict[str, object]:
        return {column: bound(one) for column, one in columns.items()}

    return {
        "name": row.name,
        "blocks": row.blocks,
        "cycles": row.cycles,
        "us": row.us,
        "bounds": bounds(row.bounds),
        "l2": bounds(row.l2_bounds),
        "equal": row.equal,
        "differ": row.differ,
    }


def kept(data: Mapping[str, Any]) -> list[Row]:
    """The rows of the JSON file."""

    def bound(one: Any) -> dict[str, Any]:
        if isinstance(one, str):
            return {"refused": one}
        return {"block": one[0], "launch": one[1]}

    return [
        Row(
            **{key: one[key] for key in ("name", "blocks", "cycles", "us", "equal", "differ")},
            bounds={column: bound(value) for column, value in one["bounds"].items()},
            l2_bounds={column: bound(value) for column, value in one["l2"].items()},
        )
        for one in data["rows"]
    ]


def main() -> int:
    """Compares, writes the JSON file of the record and prints its tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("kit", type=Path)
    parser.add_argument("bounds", type=Path)
    parser.add_argument("results", type=Path, nargs="+")
    asked = parser.parse_args()
    import blocks

    jobs = json.loads((asked.kit / "jobs.json").read_text(encoding="utf-8"))
    bounds = json.loads(asked.bounds.read_text(encoding="utf-8"))
    rows = rows_of(jobs, bounds, asked.results)
    launches = {one.name: one for one in blocks.launched(asked.kit)}
    for row in rows:
        if row.differ:
            text, values = blocks.emulated(launches[row.name])
            row.differ[:] = judged(row, values, text)
    devices = [line for line in lines_of(asked.results[-1]) if "device" in line]
    data = {"device": devices[0]["device"], "machine": bounds["machine"], "mhz": devices[0]["mhz"]}
    for line in lines_of(asked.results[-1]):
        if "empty_us" in line:
            data |= {
                key: [round(statistics.fmean(line[key]), 2), max(line[key])]
                for key in ("nothing_us", "empty_us")
            }
    DATA.write_text(written(rows, data), encoding="utf-8")
    print(*table_of(rows, data), sep="\n")
    wrong = contradicted(rows)
    print(len(rows), "launches;", len(wrong), "bounds are exceeded", *wrong, sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
