"""The accesses of all samples, as a table.

    python benchmarks/access_table.py

Prints, from the launch files of the samples, how many accesses are counted exactly, and a row for
each that is not, or that takes more than the least for as many bytes, and why.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from ptxwcet.commands.memory.report import KernelAccessesRow, build_memory_report
from ptxwcet.commands.memory.study import study_accesses
from ptxwcet.opened.request import Request
from ptxwcet.report.access_rows import AccessRow

SAMPLES = Path(__file__).parents[1] / "samples"
MACHINE = "orin-ecrts2025-memory"
LARGE = "sgemm_naive_1024"

COLUMNS = "| launch | line | access | takes | least | share | because |"
RULE = "|---|---|---|--:|--:|--:|---|"


def main() -> None:
    """Prints the table."""
    lines, total, exact, shown = [], 0, 0, 0
    for launch in sorted(SAMPLES.glob("launches/*.toml")):
        if launch.stem == LARGE:
            continue
        name = tomllib.loads(launch.read_text(encoding="utf-8"))["kernel"]
        (ptx,) = (p for p in SAMPLES.glob("*.ptx") if f".entry {name}(" in p.read_text("utf-8"))
        request = Request(str(ptx), launch_file=str(launch), machine=MACHINE)
        (row,) = build_memory_report(study_accesses(request), None).kernels
        assert isinstance(row, KernelAccessesRow)
        total += len(row.accesses)
        exact += sum(one.exact for one in row.accesses)
        costly = [one for one in row.accesses if not one.exact or _taken(one) > _least(one)]
        shown += len(costly)
        lines += _rows(launch.stem, costly)
    print(f"{exact} of {total} accesses are exact. The {shown} that are not, or take too much:\n")
    print("\n".join([COLUMNS, RULE, *lines]))


def _taken(row: AccessRow) -> int:
    """The most that an access takes, in what its kind of memory counts."""
    return int(getattr(row.most, row.kind))


def _least(row: AccessRow) -> int:
    return int(getattr(row.least, row.kind))


def _rows(launch: str, accesses: Sequence[AccessRow]) -> list[str]:
    groups: dict[tuple[object, ...], list[AccessRow]] = {}
    for one in accesses:
        key = (one.place, one.space, one.purpose, one.bytes, one.most, one.reason)
        groups.setdefault(key, []).append(one)
    lines = []
    for group in groups.values():
        one = group[0]
        shares = [each.share_percent for each in group if each.share_percent is not None]
        share = f"{sum(shares):.1f} %" if shares else "-"
        times = f"{len(group)} x " if len(group) > 1 else ""
        lines.append(
            f"| {launch} | {one.place} | {times}{one.purpose} {one.space} {one.bytes} B | "
            f"{'' if one.exact else '<= '}{_taken(one)} {one.kind} | {_least(one)} | {share} | "
            f"{one.reason} |"
        )
    return lines


if __name__ == "__main__":
    main()
