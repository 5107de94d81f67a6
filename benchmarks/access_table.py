"""The accesses of all samples, as a page.

    python benchmarks/access_table.py

Writes ``docs/experiments/accesses-samples.md`` from the launch files of the samples: accesses that
are not exact or take more than the least for as many bytes, and why. It depends on the sources
alone.
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
PAGE = SAMPLES.parent / "docs" / "experiments" / "accesses-samples.md"
MACHINE = "orin-ecrts2025-memory"
LARGE = "sgemm_naive_1024"

HEAD = (
    "# Accesses of the samples\n\n"
    "Written by `python benchmarks/access_table.py`; one kernel: `ptxwcet memory samples/NAME.ptx "
    "--launch samples/launches/NAME.toml --machine orin-ecrts2025-memory`.\n"
    "A row is an access by all instructions of a source line that do the same. *takes*: of a warp, "
    "in one execution; `<=` is the most that it may be. *least*: for as many bytes. *share*: of "
    "the bound of a block.\n\n"
)
COLUMNS = "| launch | line | access | takes | least | share | because |"
RULE = "|---|---|---|--:|--:|--:|---|"


def main() -> None:
    """Writes the page."""
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
    summary = (
        f"{exact} of {total} accesses are exact. Below are the {shown} that are not, or that take "
        "more than the least.\n\n"
    )
    table = "\n".join([COLUMNS, RULE, *lines, ""])
    PAGE.write_text(HEAD + summary + table, encoding="utf-8")
    print(f"{exact} of {total} accesses are exact")


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
