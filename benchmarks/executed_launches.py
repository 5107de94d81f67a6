"""Random launches of the samples, executed: paths and times against the analysis.

    python benchmarks/executed_launches.py --launches 10000 \\
        --out docs/experiments/executed-launches.json

Launch number i runs kernel ``KINDS[i % len(KINDS)]`` with seed i, on one machine of ``MACHINES``
after the other: it is executed, every warp's path must be one that path extraction found for its
block, and its simulated time under five schedules at most the safe bound of its block. Exit code 1
if anything is contradicted. Prints the counts; ``--out`` keeps them as JSON.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path

from random_launches import KINDS, Kind, load, random_launch

from ptxwcet.machine.loader import load_machine
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.validate.inputs import validate_input

MACHINES = ("orin-ecrts2025", "orin-ecrts2025-hazard", "rtx3070-gpgpusim", "ampere-realistic")


@dataclass
class Row:
    """What was seen of one kernel."""

    kernel: str
    launches: int = 0
    blocks: int = 0
    warp_instructions: int = 0
    runs: int = 0
    closest: float = 0.0
    refused: dict[str, int] = field(default_factory=dict)
    contradictions: list[str] = field(default_factory=list)


def validate(kind: Kind, seed: int, machine_name: str, row: Row) -> None:
    """One launch, added to the row of its kernel."""
    machine = load_machine(machine_name)
    kernel, facts, launch, bounds = random_launch(kind, seed)
    try:
        analysis = analyse_kernel(kernel, facts, machine, bounds)
    except PtxwcetError as error:
        reason = f"{error.diagnostics[0].code} on {machine_name}"
        row.refused[reason] = row.refused.get(reason, 0) + 1
        return
    result = validate_input(analysis, load(kind.file), launch, seed)
    row.launches += 1
    row.runs += result.runs
    row.warp_instructions += result.warp_instructions
    for seen in result.rows:
        row.blocks += seen.blocks
        if seen.safe_cycles:
            row.closest = max(row.closest, seen.longest_cycles / seen.safe_cycles)
    row.contradictions += [
        f"seed {seed}, {machine_name}: [{one.code}] {one.message}" for one in result.diagnostics
    ]


def page(rows: list[Row], command: str) -> str:
    """The results as Markdown."""
    wrong = [line for row in rows for line in row.contradictions]
    refused = sum((Counter(row.refused) for row in rows), Counter[str]())
    reasons = ", ".join(f"{count} {reason}" for reason, count in refused.most_common())
    loosest = min(rows, key=lambda row: row.closest)
    lines = [
        "# Random launches, executed",
        "",
        f"`{command}`",
        "",
        "Every kernel of the samples and of the reference data, with random sizes, shapes and",
        "data, on four machines in turn. Each launch is executed functionally; every warp's",
        "executed path must be one that path extraction found for its block, and the simulated",
        "time of what was executed, under LRR, GTO, youngest first, a random policy and LRR with",
        "shortened timings, at most the safe bound of that block. (Method: docs/guide/attack.md.)",
        "",
        f"**{sum(row.launches for row in rows):,} launches, {sum(row.blocks for row in rows):,} "
        f"blocks, {sum(row.warp_instructions for row in rows):,} warp instructions, "
        f"{sum(row.runs for row in rows):,} simulated runs: {len(wrong)} contradictions.** "
        f"{refused.total():,} more launches have no static bound ({reasons or 'none'}).",
        "",
        f"Of {sum(row.closest == 1 for row in rows)} of the {len(rows)} kernels some run takes "
        "exactly the bound. The kernel that comes least near to it is "
        f"{loosest.kernel}: its longest run takes {loosest.closest:.4f} of the bound. A row for "
        "each kernel is in [executed-launches.json](executed-launches.json).",
    ]
    if wrong:
        lines += ["", "## Contradictions", "", *(f"* {line}" for line in wrong)]
    return "\n".join([*lines, ""])


def main() -> int:
    """Runs the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--launches", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="number of the first launch")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows = [Row(kind.name) for kind in KINDS]
    begin = time.monotonic()
    for number in range(options.first, options.first + options.launches):
        kind = number % len(KINDS)
        machine = MACHINES[number // len(KINDS) % len(MACHINES)]
        validate(KINDS[kind], number, machine, rows[kind])
    command = f"python benchmarks/executed_launches.py --launches {options.launches}"
    if options.first:
        command += f" --first {options.first}"
    text = page(rows, command)
    print(text)
    print(f"{time.monotonic() - begin:.0f} s", file=sys.stderr)
    if options.out is not None:
        data = json.dumps([asdict(row) for row in rows], indent=1)
        options.out.write_text(data + "\n", encoding="utf-8")
    return int(any(row.contradictions for row in rows))


if __name__ == "__main__":
    sys.exit(main())
