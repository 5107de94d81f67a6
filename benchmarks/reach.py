"""Reach: the share of kernels that are bounded, and of the suite's loops without a question.

    python benchmarks/precision.py --write rows.json
    python benchmarks/reach.py rows.json --out docs/experiments/reach.md

The first command analyses all kernels; the second counts what came of them, and analyses those of
the suite question by question (benchmarks/kernel_suite.py), three minutes of a processor.
"""

from __future__ import annotations

import argparse
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from kernel_suite import bound_kernel, entries, read_answers
from precision import FOLDERS, ROOT, Row, read

NAMES = ("samples", "suite", "hybrid experiment", "corpus")
"""Of the folders whose kernels are analysed, in their order."""


def counted(rows: Mapping[str, Row]) -> list[str]:
    """A line for each folder: kernels, and how many are bounded from what is said of the launch."""
    of_kernel: dict[str, dict[str, Row]] = defaultdict(dict)
    for name, row in rows.items():
        kernel, _, kind = name.partition(" ")
        if not kind.endswith("answered"):
            of_kernel[kernel][kind] = row
    lines = [
        "| | kernels | bounded without parameters and grid | | with parameters and grid | |",
        "|---|--:|--:|--:|--:|--:|",
    ]
    for folder, name in zip(FOLDERS, NAMES, strict=True):
        prefix = f"{folder.relative_to(ROOT)}/"
        kernels = [kinds for kernel, kinds in of_kernel.items() if kernel.startswith(prefix)]
        if kernels:
            alone = sum(kinds["open"].bound is not None for kinds in kernels)
            given = sum(is_bounded_when_launched(kinds) for kinds in kernels)
            shares = f"{alone} | {alone / len(kernels):.1%} | {given} | {given / len(kernels):.1%}"
            lines.append(f"| {name} | {len(kernels)} | {shares} |")
    return lines


def is_bounded_when_launched(kinds: Mapping[str, Row]) -> bool:
    """Whether a kernel is bounded in all its launch files' launches, or else in the general one."""
    launched = [row for kind, row in kinds.items() if kind not in ("open", "scalars")]
    return all(row.bound is not None for row in launched or [kinds["scalars"]])


def loops() -> list[str]:
    """The suite's loops, and which kernels have loops that are asked for."""
    answers = read_answers()
    outcomes = [bound_kernel(entry, answers.get(entry.kernel, ())) for entry in entries()]
    total = sum(len(one.loops) for one in outcomes)
    automatic = sum(one.automatic for one in outcomes)
    lines = [
        f"Of the suite's {total} loops {automatic} ({automatic / total:.1%}) are bounded without a "
        "question. Asked for:",
        "",
        "| domain | kernel | loops asked for |",
        "|---|---|--:|",
    ]
    asked = [one for one in outcomes if one.asked]
    return lines + [f"| {o.entry.domain} | {o.entry.kernel} | {len(o.asked)} |" for o in asked]


def main() -> None:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", type=Path, help="what precision.py --write has written")
    parser.add_argument("--out", type=Path, help="page whose figures are replaced")
    options = parser.parse_args()
    figures = "\n".join([*counted(read(options.rows)), "", *loops(), ""])
    print(figures)
    if options.out is not None:
        head, mark, _ = options.out.read_text(encoding="utf-8").partition("## Figures\n")
        options.out.write_text(f"{head}{mark}\n{figures}", encoding="utf-8")


if __name__ == "__main__":
    main()
