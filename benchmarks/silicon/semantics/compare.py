"""Holds what a GPU has left to what the emulator makes of the same cases.

    python benchmarks/silicon/semantics/compare.py RESULTS [--seed SEED] [--out SUMMARY.json]

The emulator executes again what differed, so that a mend shows. Differences are counted by cause:
patterns of NaN, what PTX leaves open, approximations by their distance, all else by the statement.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tarfile
import zlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[2]))

import prepare
import statements
import sweeps


@dataclass
class Results:
    """What a run has brought back, by phase."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    raw: dict[str, bytes] = field(default_factory=dict)
    gpu: str = ""

    @staticmethod
    def read(path: Path) -> Results:
        """The files of a run."""
        found = Results()
        for name, data in _files(path):
            phase, _, kind = name.rpartition(".")
            if kind == "jsonl":
                found.rows[phase] = [json.loads(line) for line in data.splitlines()]
            elif kind == "raw":
                found.raw[phase] = data
            elif name == "gpu.csv":
                found.gpu = data.decode()
        return found

    def pieces(self, phase: str, row: dict[str, Any]) -> bytes:
        """The bytes of a row."""
        if "at" not in row:
            return b""
        return zlib.decompress(self.raw[phase][row["at"] : row["at"] + row["size"]])


def _files(path: Path) -> Iterator[tuple[str, bytes]]:
    """The files of an archive, or of a folder that it was unpacked into."""
    if path.is_dir():
        yield from ((one.name, one.read_bytes()) for one in sorted(path.iterdir()))
        return
    with tarfile.open(path) as tar:
        for member in tar.getmembers():
            file = tar.extractfile(member)
            assert file is not None
            yield member.name, file.read()


@dataclass
class Difference:
    """A lane of a statement in which silicon has another result."""

    register: str
    operands: dict[str, int]
    here: int
    silicon: int

    def __str__(self) -> str:
        given = " ".join(f"{name}={value:x}" for name, value in self.operands.items())
        return f"{given}: {self.register} here {self.here:x}, silicon {self.silicon:x}"


class Refused(Exception):
    """The emulator does not execute a statement any more."""


def differences(text: str, pieces: list[int], data: bytes) -> Iterator[Difference]:
    """The lanes of a statement that differ in what came back."""
    ((_, here),) = prepare.emulated_statements((0, [text]))
    if isinstance(here, str):
        raise Refused(here)
    silicon = bytearray(here)
    for number, at in zip(pieces, range(0, len(data), 1024), strict=True):
        silicon[1024 * number : 1024 * number + 1024] = data[at : at + 1024]
    given = statements.operands(statements.domain_of(text))
    read = dict.fromkeys(re.findall(r"%[hrdp][123]\b", text))
    ours, theirs = statements.columns(text, here), statements.columns(text, bytes(silicon))
    for name, column in ours.items():
        for lane in np.flatnonzero(column != theirs[name]):
            operands = {one: int(statements.registers_of(given, one)[lane]) for one in read}
            yield Difference(name, operands, int(column[lane]), int(theirs[name][lane]))


def is_nan(pattern: int, kind: str) -> bool:
    """Whether a pattern is no number of a format."""
    bits, infinity = {
        "f16": (16, 0x7C00), "bf16": (16, 0x7F80), "f32": (32, 0x7F800000), "f64": (64, 0x7FF << 52)
    }[kind]  # fmt: skip
    if pattern >> bits:  # a pair: each half is alike or no number
        return is_nan(pattern & 0xFFFF, kind) or is_nan(pattern >> 16, kind)
    return pattern & (1 << bits - 1) - 1 > infinity


def halves_alike_but_nan(here: int, silicon: int, kind: str) -> bool:
    """Of pairs: each half is equal, or no number on both sides."""
    return all(
        here >> at & 0xFFFF == silicon >> at & 0xFFFF
        or (is_nan(here >> at & 0xFFFF, kind) and is_nan(silicon >> at & 0xFFFF, kind))
        for at in (0, 16)
    )


_RESULT = re.compile(r"\.(f16x2|bf16x2|f16|bf16|tf32|f32|f64|e4m3x2|e5m2x2|[subf]\d+)\b")


def cause_of(text: str, one: Difference) -> str:
    """Why a lane differs, as far as the texts of both sides tell."""
    name = text.split()[0]
    kinds = _RESULT.findall(name)
    kind = kinds[0] if kinds else ""
    if kind in ("f16x2", "bf16x2"):
        if halves_alike_but_nan(one.here, one.silicon, kind.removesuffix("x2")):
            return "patterns of NaN"
    elif (
        kind in ("f16", "bf16", "f32", "f64")
        and one.register[1] != "p"
        and is_nan(one.here, kind)
        and is_nan(one.silicon, kind)
    ):
        return "patterns of NaN"
    if name.startswith(("div", "rem")) and kind[0] in "us":
        divisor = re.findall(r"%\w+|-?\d+", text.split(None, 1)[1])[2]
        if one.operands.get(divisor, None) == 0 or divisor == "0":
            return "division by zero"
    if ".approx" in name or ".full" in name:
        return "approximation"
    return "other"


def of_statements(results: Results) -> dict[str, Any]:
    """Counts of statements that differ, by cause, and examples."""
    causes: dict[str, Counter[str]] = defaultdict(Counter)
    examples: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    levels: dict[str, set[str]] = defaultdict(set)
    lost = 0
    for row in results.rows.get("statements", ()):
        if "wrong" not in row:
            continue
        levels[row["case"]].add(row["level"])
        data = results.pieces("statements", row)
        lost += row.get("lost", False)
        if not data:
            continue
        try:
            found = list(differences(row["case"], row["pieces"], data))
        except Refused as reason:
            causes["no longer executed"][row["case"]] += 1
            examples["no longer executed"][row["case"]] = [str(reason)]
            continue
        for one in found:
            cause = f"{row['level']} {cause_of(row['case'], one)}"
            causes[cause][row["case"]] += 1
            kept = examples[cause][row["case"]]
            if len(kept) < 2 and str(one) not in kept:
                kept.append(str(one))
    return {
        "statements": len(levels),
        "lost": lost,
        "causes": {cause: dict(found) for cause, found in causes.items()},
        "examples": examples,
        "at_one_level": {
            level: sorted(text for text, found in levels.items() if found == {level})
            for level in ("O0", "O3")
        },
    }


def programs_here(names: set[str]) -> dict[str, tuple[Any, Any]]:
    """What the emulator makes of programs: their launches and buffers, by name."""
    found = {}
    wanted: dict[tuple[str, int], list[int]] = defaultdict(list)
    for name in names:
        kind, text = name.split()
        wanted[kind, (int(text) - statements.SEED) // prepare.MODULE].append(int(text))
    for (kind, number), seeds in wanted.items():
        first = statements.SEED + number * prepare.MODULE
        made, results, _ = prepare.emulated_programs((kind, range(first, first + prepare.MODULE)))
        for seed in seeds:
            found[f"{kind} {seed}"] = made.launches[f"k{seed}"], results[f"k{seed}"][1]
    return found


def of_programs(results: Results) -> dict[str, Any]:
    """Programs that differ, and how far their approximations are apart."""
    rows = [row for row in results.rows.get("programs", ()) if "case" in row]
    here = programs_here({row["case"] for row in rows})
    different: dict[str, list[str]] = defaultdict(list)
    apart = 0.0
    for row in rows:
        launch, buffers = here[row["case"]]
        place = row["argument"]
        given, left = launch.arguments[place], buffers[place]
        data = results.pieces("programs", row)
        if given.dtype == np.float32:
            if data:
                apart = max(apart, _apart(np.frombuffer(data, "f4"), np.frombuffer(left, "f4")))
            continue
        told: list[str] = []
        for number, at in zip(row["pieces"], range(0, len(data), 1024), strict=False):
            ours = np.frombuffer(left[1024 * number : 1024 * number + 1024], given.dtype)
            theirs = np.frombuffer(data[at : at + 1024], given.dtype)
            wrong = ours != theirs
            if given.dtype.kind == "f":
                wrong &= ~(np.isnan(ours) & np.isnan(theirs))
            for n in np.flatnonzero(wrong)[:3]:
                told.append(f"{1024 * number + n * given.itemsize}: {ours[n]} {theirs[n]}")
        if told or row["new"] > len(row["pieces"]):
            different[row["case"]].append(f"{row['level']} {len(row['wrong'])} {told[:4]}")
    return {"different": different, "apart": apart}


def _apart(one: NDArray[Any], other: NDArray[Any]) -> float:
    both = np.isfinite(one) & np.isfinite(other) & (other != 0)
    if not both.any():
        return 0.0
    return float(np.max(np.abs(one[both] - other[both]) / np.abs(other[both])))


def of_sweeps(results: Results) -> dict[str, Any]:
    """The rows of the sweeps, readable."""
    found = {}
    for row in results.rows.get("sweeps", ()):
        if "case" not in row or not row["case"].startswith(("sweep", "far")):
            continue
        one = np.frombuffer(results.pieces("sweeps", row), sweeps.ROW)[0]

        def packed(name: str, row: Any = one, *, whole: bool = False) -> tuple[Any, str]:
            value = int(row[name])
            upper = value >> 32
            error = upper if whole else float(np.uint32(upper).view(np.float32))
            return error, f"{value & 0xFFFFFFFF:08x}"

        found[row["case"]] = {
            "distance": [int(n) for n in one["distance"]],
            "furthest": packed("furthest", whole=True),
            **{
                name: packed(name)
                for name in ("relative", "absolute", "near_relative", "near_absolute")
            },
            "breaks": int(one["breaks"]),
            "first_break": f"{~int(one['first_break']) & (1 << 64) - 1:x}",
            "examples": [
                f"{a:08x} {b:08x}"
                for a, b in zip(one["operand"], one["result"], strict=True)
                if a or b
            ],
        }
    return found


def of_halves(results: Results) -> dict[str, Any]:
    """Functions of 16 bits over all patterns: errors, and what is no number on one side alone."""
    found = {}
    numbers = {
        "f16": lambda bits: bits.view("f2").astype("f8"),
        "bf16": lambda bits: (bits.astype("u4") << 16).view("f4").astype("f8"),
    }
    for row in results.rows.get("sweeps", ()):
        if not row.get("case", "").startswith("half_"):
            continue
        _, function, kind = row["case"].split("_")
        least = 2.0**-14 if kind == "f16" else 2.0**-126
        with np.errstate(all="ignore"):
            x = numbers[kind](np.arange(1 << 16, dtype=np.uint16))
            y = numbers[kind](np.frombuffer(results.pieces("sweeps", row), np.uint16))
            exact = np.exp2(x) if function == "ex2" else np.tanh(x)
            apart = np.abs(y - exact)
            normal = np.isfinite(apart) & (np.abs(exact) >= least)
            found[row["case"]] = {
                "relative": float(np.max((apart / np.abs(exact))[normal])),
                "absolute": float(np.max(apart[normal & (np.abs(exact) <= 1)])),
                "classes": int(np.sum(np.isnan(x) != np.isnan(y))),
                "breaks": int(sum(
                    np.sum(np.diff(part[~np.isnan(part)]) < 0)
                    for part in (y[: 1 << 15], y[: (1 << 15) - 1 : -1])
                )),
            }  # fmt: skip
    return found


def of_scenes(results: Results) -> dict[str, Any]:
    """Scenes that differ, by slot."""
    import scenes

    all_of = {scene.name: scene for scene in scenes.all_scenes()}
    found: dict[str, Any] = {}
    for row in results.rows.get("scenes", ()):
        if "wrong" not in row:
            continue
        scene = all_of.get(row["case"])
        if scene is None:  # of another version of the scenes
            found[f"{row['case']} {row['level']}"] = "unknown"
            continue
        left = scenes.emulated(scene)
        data = results.pieces("scenes", row)
        slots: Counter[str] = Counter()
        told: list[str] = []
        for number, at in zip(row["pieces"], range(0, len(data), 1024), strict=False):
            ours = np.frombuffer(left[1024 * number : 1024 * number + 1024], "u8")
            theirs = np.frombuffer(data[at : at + len(ours) * 8], "u8")
            for n in np.flatnonzero(ours != theirs):
                thread, slot = divmod(128 * number + int(n), scenes.ROW // 8)
                saved = scene.saves[slot] if slot < len(scene.saves) else f"slot {slot}"
                slots[saved] += 1
                if len(told) < 8:
                    told.append(f"thread {thread} {saved}: {int(ours[n]):x} {int(theirs[n]):x}")
        if slots or row["new"] > len(row["pieces"]):
            found[f"{row['case']} {row['level']}"] = {"slots": slots, "examples": told}
    return found


def main() -> None:
    """Reads, compares and prints."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seed", type=int, default=1, help="that of the kit")
    given = parser.parse_args()
    statements.SEED = given.seed
    results = Results.read(given.results)
    summary = {
        "gpu": results.gpu.splitlines()[-1:],
        "cases": {
            phase: max((row["done"] for row in rows if "done" in row), default=0)
            for phase, rows in results.rows.items()
        },
        "scenes": of_scenes(results),
        "sweeps": of_sweeps(results) | of_halves(results),
        "statements": of_statements(results),
        "programs": of_programs(results),
        "died": [row["died"] for rows in results.rows.values() for row in rows if "died" in row],
    }
    if given.out:
        given.out.write_text(json.dumps(summary, indent=1) + "\n")
    for phase, rows in results.rows.items():
        print(phase, sum("done" in row for row in rows), "modules", len(rows), "rows")


if __name__ == "__main__":
    main()
