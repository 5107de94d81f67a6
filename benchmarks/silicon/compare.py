"""Bounds of whole launches beside times measured on a Titan V.

    python benchmarks/silicon/compare.py

Writes ``docs/experiments/silicon-titanv.md`` and ``.json``. Exit code 1 if a bound is below the
mean that was measured. The bounds depend on the sources alone.
"""

from __future__ import annotations

import csv
import json
import statistics
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import ptxwcet
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.machine.loader import load_machine

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "experiments" / "silicon-titanv"
MACHINE = "titan-v"
SQUARE = frozenset({"conv2d_3x3", "naive_transpose", "shared_transpose", "matmul_tiled"})


@dataclass(frozen=True)
class Row:
    """A launch: milliseconds measured and bounded, and the parts of the bound in percent."""

    kernel: str
    size: str
    grid: str
    measured_ms: float
    bound_ms: float
    ratio: float
    without_memory: float
    work: float
    latency: float
    memory: float


def launches() -> list[dict[str, str]]:
    """The rows of the table of measurements."""
    with (HERE / "titanv.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def compared(row: dict[str, str]) -> Row:
    """A launch, bounded."""
    name, blocks = row["kernel"], int(row["grid_blocks"])
    block = tuple(map(int, row["block"].split("x")))
    if name in SQUARE:
        across = -(-int(row["columns"]) // block[0])
        grid: tuple[int, ...] = (across, blocks // across)
        size = f"{row['rows']} x {row['columns']}"
    else:
        grid, size = (blocks,), f"{int(row['elements']):,}"
    if name == "matmul_tiled":
        params = {"N": int(row["rows"])}
    elif name in SQUARE:
        params = {"rows": int(row["rows"]), "columns": int(row["columns"])}
    else:
        params = {"N": int(row["elements"])}
    found = ptxwcet.bound(
        HERE / f"{name}.ptx",
        block=block,
        grid=grid,
        params=params,
        machine=MACHINE,
        registers=int(row["registers_per_thread"]),
    )
    launch = found.analysis.launch_bound
    assert isinstance(launch, LaunchBound), "the launch is bounded"
    parts, cycles = launch.bound, launch.claim.cycles
    clock = load_machine(MACHINE).clock_mhz
    bound_ms = cycles / clock / 1000
    measured = float(row["mean_ms"])

    def share(part: int) -> float:
        return round(100 * part / cycles, 1)

    return Row(
        name,
        size,
        "x".join(map(str, grid)),
        measured,
        round(bound_ms, 6),
        round(bound_ms / measured, 2),
        round((cycles - parts.memory_cycles) / clock / 1000 / measured, 2),
        share(parts.work_cycles + parts.tail_cycles),
        share(parts.slack_cycles),
        share(parts.memory_cycles),
    )


def main() -> int:
    """Bounds all launches and writes the page."""
    rows = [compared(row) for row in launches()]
    ratios = [row.ratio for row in rows]
    summary = {
        "launches": len(rows),
        "below 1": sum(one < 1 for one in ratios),
        "median": round(statistics.median(ratios), 2),
        "largest": max(ratios),
        "below 1 without the memory server": sum(row.without_memory < 1 for row in rows),
    }
    data = {**summary, "rows": [asdict(row) for row in rows]}
    PAGE.with_suffix(".json").write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    page = PAGE.with_suffix(".md")
    text = page.read_text(encoding="utf-8") if page.exists() else "<!-- table -->\n<!-- end -->\n"
    head, _, rest = text.partition("<!-- table -->")
    _, _, tail = rest.partition("<!-- end -->")
    table = "\n".join(_table(rows))
    page.write_text(f"{head}<!-- table -->\n{table}\n<!-- end -->{tail}", encoding="utf-8")
    print(summary)
    return 1 if summary["below 1"] else 0


def _table(rows: list[Row]) -> list[str]:
    lines = [
        "",
        "| kernel | size | measured ms | bound ms | bound / measured | without memory | memory |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for one in rows:
        lines.append(
            f"| {one.kernel} | {one.size} | {one.measured_ms:.4f} | "
            f"{one.bound_ms:.4f} | {one.ratio:.2f} | {one.without_memory:.2f} | "
            f"{one.memory:.0f} % |"
        )
    return [*lines, ""]


if __name__ == "__main__":
    sys.exit(main())
