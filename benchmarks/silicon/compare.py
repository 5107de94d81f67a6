"""Bounds of whole launches beside times that others measured, on each GPU with a table.

    python benchmarks/silicon/compare.py                 # all GPUs
    python benchmarks/silicon/compare.py rtx4070         # one
    python benchmarks/silicon/compare.py --keep NAME     # the bounds of now stay as column NAME
    python benchmarks/silicon/compare.py --keep "machine code" --machine-code    # from nvcc's code

Each launch is bounded as it ran: a launch file says grid, block, registers, dynamic shared memory,
scalars and how large the arrays are. A column is one of :func:`variants`: claims of the machine
file that are others than in the file, so that one sees what each is worth. What a theorem brought
that no claim switches off is seen beside a column that was kept before it (``kept.json``).

Writes ``docs/experiments/silicon-*.json`` and prints the summaries. Exit code 1 if a bound is below
the mean that was measured, of launches that took longer than the shortest launch does. The bounds
depend on the sources alone.
"""

from __future__ import annotations

import argparse
import csv
import json
import re
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import ptxwcet
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.bounds.roofline import Roofline
from ptxwcet.machine.loader import load_machine, machine_files

HERE = Path(__file__).parent
RECORDS = HERE.parents[1] / "docs" / "experiments"
PAGE = RECORDS / "silicon-titanv.md"
KEPT = HERE / "kept.json"


@dataclass(frozen=True)
class Gpu:
    """A table of measurements, ``NAME.csv``, and the machine file of the GPU.

    ``floor_ms``: the shortest launches that were measured there took so long, whatever they did;
    0 if nobody says. ``l2_bytes``: of its L2 cache. ``arch``: whose machine code stands for its
    own, the nearest that nvcc 13 makes.
    """

    name: str
    machine: str
    arch: str
    floor_ms: float = 0.0
    l2_bytes: int = 0

    @property
    def data(self) -> Path:
        """The file of its results."""
        return RECORDS / f"silicon-{self.name}.json"

    def launches(self) -> list[dict[str, str]]:
        """The rows of its table."""
        with (HERE / f"{self.name}.csv").open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))


@dataclass(frozen=True)
class Variant:
    """A column: what of the machine file is otherwise, as ``table.key`` and a value in TOML.

    ``None`` takes a key out, or a whole table (``"carve_out"``).
    """

    title: str
    claims: Mapping[str, str | None] = field(default_factory=dict)


GPUS = (
    Gpu("titanv", "titan-v", "sm_75", 0.0, 4_718_592),
    Gpu("rtx4070", "rtx-4070", "sm_89", 0.0086, 37_748_736),
)
_CLAIMED = '{ state = "assumed", source = "silicon: to see what it is worth" }'


def _invented(value: int) -> str:
    return f'{{ value = {value}, evidence = "assumed", source = "silicon: invented" }}'


def variants(gpu: Gpu) -> tuple[Variant, ...]:
    """The first is the bound of the page; each more is a column beside it."""
    claims = ("keeps-recent", "l1-keeps-recent")
    caches = {
        "l1_cache.kept_bytes": _invented(102_400),
        "l2_cache.bytes": _invented(gpu.l2_bytes),
        "l2_cache.kept_bytes": _invented(gpu.l2_bytes * 2 // 3),
        "l2_cache.cache_cycles_per_1024_sectors": _invented(22),
        **{f"satisfies.{claim}": _CLAIMED for claim in claims},
    }
    path = {"satisfies.path-keeps-up": _CLAIMED}
    return (
        Variant(BOUND),
        Variant("rate of streams", {"memory.server_worst_cycles_per_1024_sectors": None}),
        Variant("stores fetch nothing", {"memory.partial_sector_fetches": _invented(0)}),
        Variant("path-keeps-up", path),
        Variant("invented caches", caches),
        Variant("both claims", {**path, **caches}),
    )


BOUND = "bound"
ROOFLINE = "roofline"
AT_FLOOR = 1.15
"""A launch is at its floor if it took less than so many times the shortest."""

# Of each kernel: its parameters in order. Arrays by their elements, scalars by a column of the row.
_IN, _OUT = ("rows * columns",) * 2
PARAMETERS: dict[str, dict[str, str]] = {
    "conv2d_3x3": {"in": _IN, "weights": "9", "out": _OUT, "rows": "", "columns": ""},
    "matmul_tiled": {**dict.fromkeys("ABC", "rows * columns"), "N": ""},
    "naive_transpose": {"in": _IN, "out": _OUT, "rows": "", "columns": ""},
    "reduce_sum": {"in": "elements", "out": "blocks", "N": ""},
    "saxpy": {**dict.fromkeys("ABC", "elements"), "a": "", "N": ""},
    "shared_transpose": {"in": _IN, "out": _OUT, "rows": "", "columns": ""},
    "vector_add": {**dict.fromkeys("ABC", "elements"), "N": ""},
}


@dataclass(frozen=True)
class Row:
    """A launch: measured, bounded, by column, and its roofline, in milliseconds.

    The first of :func:`variants` is the bound, of which are ``without_memory``, the ratio if the
    memory of the GPU took no time, and ``memory``, its share in percent. ``is_at_floor``: it took
    hardly longer than the shortest launch.
    """

    kernel: str
    size: str
    grid: str
    measured_ms: float
    bounds_ms: dict[str, float]
    roofline_ms: float
    without_memory: float
    memory: float
    is_at_floor: bool

    @property
    def times(self) -> dict[str, float]:
        """The bounds by column, and the roofline, in milliseconds."""
        return {**self.bounds_ms, ROOFLINE: self.roofline_ms}

    def ratio(self, title: str) -> float:
        """How many times the measurement a column is."""
        return round(self.times[title] / self.measured_ms, 2)


def launch_file(row: Mapping[str, str]) -> str:
    """The launch of a row, as it ran: the shared memory of reduce_sum is what the launch gives."""
    name, blocks = row["kernel"], int(row["grid_blocks"])
    block = [int(one) for one in row["block"].split("x")]
    grid = [blocks]
    numbers = {key: int(row[key]) for key in ("elements", "rows", "columns") if row[key]}
    if "columns" in numbers:
        across = -(-numbers["columns"] // block[0])
        grid = [across, blocks // across]
    numbers |= {"blocks": blocks, "N": numbers.get("rows", numbers["elements"])}
    lines = [f"kernel = '{name}'", f"grid = {grid}", f"block = {block}"]
    lines.append(f"registers_per_thread = {row['registers_per_thread']}")
    if name == "reduce_sum":
        lines.append(f"dynamic_shared_bytes = {row['shared_bytes']}")
    lines.append("[arguments]")
    for parameter, elements in PARAMETERS[name].items():
        if elements:
            count = 1
            for factor in elements.split(" * "):
                count *= numbers[factor] if factor in numbers else int(factor)
            lines.append(f"{parameter} = {{ shape = {count}, dtype = 'float32', init = 'zeros' }}")
        else:
            lines.append(f"{parameter} = {numbers.get(parameter, 2.0)}")
    return "\n".join(lines) + "\n"


def with_claims(text: str, claims: Mapping[str, str | None]) -> str:
    """The text of a machine file with other claims; tables that it lacks come at its end."""
    for place, value in claims.items():
        table, _, key = place.partition(".")
        head = re.search(rf"^\[{re.escape(table)}\]\n(?:(?!\[).*\n?)*", text, re.MULTILINE)
        old = "" if head is None else head[0]
        lines = [] if not key else [one for one in old.splitlines(True) if _key(one) != key]
        if key and not lines:
            lines = [f"[{table}]\n"]
        if value is not None:
            lines.insert(1, f"{key} = {value}\n")
        new = "".join(lines)
        text = f"{text}\n{new}" if head is None else text.replace(old, new, 1)
    return text


def _key(line: str) -> str:
    return line.partition("=")[0].strip()


def bounded(row: Mapping[str, str], machine: Path | str, folder: Path) -> ptxwcet.Bound:
    """The bound of a launch, as it ran."""
    path = folder / "launch.toml"
    path.write_text(launch_file(row), encoding="utf-8")
    return ptxwcet.bound(HERE / f"{row['kernel']}.ptx", launch=path, machine=machine)


def bounds_of_code(gpu: Gpu) -> list[float]:
    """The bounds of its launches from machine code, in milliseconds: registers are the code's."""
    clock = load_machine(gpu.machine).clock_mhz
    found = []
    with tempfile.TemporaryDirectory() as name:
        path, machine = Path(name) / "launch.toml", Path(name) / "machine.toml"
        own = f'compute_capability = "{gpu.arch[3:-1]}.{gpu.arch[-1]}"'
        text = machine_files(gpu.machine)[0].read_text(encoding="utf-8")
        machine.write_text(re.sub("^compute_capability = .*", own, text, flags=re.MULTILINE))
        for row in gpu.launches():
            lines = launch_file(row).splitlines()
            path.write_text("\n".join(one for one in lines if "registers_per" not in one))
            bound = ptxwcet.bound(
                HERE / f"{row['kernel']}.cu",
                launch=path,
                machine=machine,
                machine_code=True,
                arch=gpu.arch,
            )
            found.append(round((bound.launch_cycles or 0) / clock / 1000, 6))
    return found


def compared(gpu: Gpu, kept: Mapping[str, Sequence[float]]) -> list[Row]:
    """The launches of a GPU, under each variant."""
    clock, rows = load_machine(gpu.machine).clock_mhz, []
    source = machine_files(gpu.machine)[0].read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        machines = []
        for number, variant in enumerate(variants(gpu)):
            path = folder / f"machine-{number}.toml"
            path.write_text(with_claims(source, variant.claims), encoding="utf-8")
            machines.append(path if variant.claims else gpu.machine)
        for number, launch in enumerate(gpu.launches()):
            found = [bounded(launch, machine, folder) for machine in machines]
            measured = float(launch["mean_ms"])
            launched, roofline = found[0].analysis.launch_bound, found[0].roofline
            assert isinstance(launched, LaunchBound)
            assert isinstance(roofline, Roofline)
            cycles, memory = launched.claim.cycles, launched.bound.memory_cycles
            times = {title: each[number] for title, each in kept.items()}
            times |= {
                variant.title: (one.launch_cycles or 0) / clock / 1000
                for variant, one in zip(variants(gpu), found, strict=True)
            }
            numbers = [launch[key] for key in ("rows", "columns") if launch[key]]
            rows.append(
                Row(
                    launch["kernel"],
                    " x ".join(numbers) or f"{int(launch['elements']):,}",
                    "x".join(map(str, found[0].analysis.launch.grid or ())),
                    measured,
                    {title: round(time, 6) for title, time in times.items()},
                    round(roofline.cycles / clock / 1000, 6),
                    round((cycles - memory) / clock / 1000 / measured, 2),
                    round(100 * memory / cycles, 1),
                    measured < AT_FLOOR * gpu.floor_ms,
                )
            )
    return rows


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's: how far two figures order the same things alike, from -1 to 1."""
    return statistics.correlation(_ranks(first), _ranks(second))


def _ranks(numbers: Sequence[float]) -> list[float]:
    """The place of each in ascending order; of equal ones the mean."""
    ordered = sorted(numbers)
    return [ordered.index(one) + (ordered.count(one) - 1) / 2 for one in numbers]


def summary_of(rows: Sequence[Row]) -> dict[str, dict[str, int | float]]:
    """What is true of each column: ratios, how many are below 1, and how well it orders times."""
    measured = [row.measured_ms for row in rows]
    found = {}
    for title in rows[0].times:
        ratios = [row.ratio(title) for row in rows]
        below = [row for row in rows if row.ratio(title) < 1]
        found[title] = {
            "least": min(ratios),
            "median": round(statistics.median(ratios), 2),
            "largest": max(ratios),
            "below 1": len(below),
            "below 1 above the floor": sum(not row.is_at_floor for row in below),
            "rank correlation": round(
                rank_correlation([row.times[title] for row in rows], measured), 3
            ),
        }
    return found


def table_of(rows: Sequence[Row]) -> list[str]:
    """Returns the summary as a table in Markdown."""
    summary = summary_of(rows)
    names = ("least", "median", "largest", "rank correlation")
    of = f"of {len(rows)} launches"
    lines = [f"| {of} | {' | '.join(names)} |", f"|---|{'--:|' * len(names)}"]
    for title, figures in summary.items():
        what = "roofline (an estimate)" if title == ROOFLINE else title
        cells = (f"{figures[name]:.2f}" for name in names)
        lines.append(f"| {what} / measured | {' | '.join(cells)} |")
    return lines


def write(gpu: Gpu, rows: Sequence[Row]) -> None:
    """Writes the JSON file of a GPU, and prints the summary that its record shows."""
    data = {"machine": gpu.machine, **summary_of(rows), "rows": [asdict(row) for row in rows]}
    gpu.data.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    print(gpu.name, *table_of(rows), sep="\n")


def main() -> int:
    """Bounds all launches and writes the results."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    names = [gpu.name for gpu in GPUS]
    parser.add_argument("gpu", nargs="?", choices=names, help="all, if none is named")
    parser.add_argument("--keep", metavar="NAME", help="keep the bounds of now as this column")
    parser.add_argument("--machine-code", action="store_true", help="with --keep: of the code")
    asked = parser.parse_args()
    kept: dict[str, dict[str, Any]] = json.loads(KEPT.read_text(encoding="utf-8"))
    is_good = True
    for gpu in GPUS:
        if asked.gpu not in (None, gpu.name):
            continue
        columns = kept.setdefault(gpu.name, {})
        if asked.keep and asked.machine_code:
            columns[asked.keep] = bounds_of_code(gpu)
            continue
        if asked.keep:
            columns[asked.keep] = [row.bounds_ms[BOUND] for row in compared(gpu, {})]
            continue
        rows = compared(gpu, columns)
        write(gpu, rows)
        bounds = (one for title, one in summary_of(rows).items() if title != ROOFLINE)
        is_good &= not any(one["below 1 above the floor"] for one in bounds)
    if asked.keep:
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
