"""Reach: the share of kernels that are bounded, and of the suite's loops without a question.

    python benchmarks/reach.py
    python benchmarks/reach.py samples suite
    python benchmarks/reach.py plain --json docs/experiments/reach-plain.json

Kernels are analysed in a block of 64 threads (or of those that they require), first without grid
and parameters, then with both: as their launch files say, or, if there is none, in a grid of 4
blocks with all integers of 32 bits given as 1000 (benchmarks/precision.py). A kernel with several
launch files counts as bounded if it is in all of them. Loops of the suite are counted as in
benchmarks/kernel_suite.py; of those that are asked for, those that the ranges of the integers in
arrays settle ([arrays] of a facts file), as ``ptxwcet facts`` finds by trying some. Half an hour of
a processor and more, of which the corpus takes most.

``plain`` are the kernels of benchmarks/kernels/plain, on their machine with textures: as they are,
with their launch files, with facts beside these that are ranges of integers in arrays, and with all
facts that ``ptxwcet facts`` asks for; what stays refused is listed, and what takes longest. Some
minutes of a processor. ``--json`` keeps what that found.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from time import process_time
from typing import Any

from kernel_suite import (
    Entry,
    bound_kernel,
    control_flow,
    entries,
    module_of,
    read_answers,
    request_for,
)
from precision import FOLDERS, ROOT, THREADS, Launched, launches

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.flow.launch import NO_PLACED_FACTS
from ptxwcet.flow.paths.questions import find_questions
from ptxwcet.opened.opening import open_request
from ptxwcet.opened.request import Request

NAMES = ("samples", "suite", "hybrid", "corpus")
"""Of the folders whose kernels are analysed, in their order."""
PLAIN = ROOT / "benchmarks" / "kernels" / "plain"
_GENERAL = ("open", "scalars")


def is_bounded(launched: Launched) -> bool:
    """Whether the kernel of a launch has a bound."""
    return bool(bound_file(Request(**launched.options)).answered)


def shares(folder: str) -> str:
    """The line of a folder: kernels, and how many are bounded from what is said of the launch."""
    prefix = f"{FOLDERS[NAMES.index(folder)].relative_to(ROOT)}/"
    of_kernel: dict[str, dict[str, Launched]] = defaultdict(dict)
    for one in launches():
        kernel, _, kind = one.name.partition(" ")
        if one.name.startswith(prefix) and not kind.endswith("answered"):
            of_kernel[kernel][kind] = one
    alone = given = 0
    for kinds in of_kernel.values():
        files = [one for kind, one in kinds.items() if kind not in _GENERAL]
        alone += is_bounded(kinds["open"])
        given += all(map(is_bounded, files or [kinds["scalars"]]))
    count = len(of_kernel)
    columns = (folder, count, alone, f"{alone / count:.1%}", given, f"{given / count:.1%}")
    return f"| {' | '.join(map(str, columns))} |"


def plain_launches() -> Iterator[tuple[str, list[Request]]]:
    """The kernels of plain code: each alone, with its launch, with ranges of what arrays hold, and
    with bounds of loops, too.
    """
    for path in sorted(PLAIN.glob("*.ptx")):
        for kernel in re.findall(r"\.entry\s+(\w+)", path.read_text(encoding="utf-8")):
            files = PLAIN / "launches" / f"{kernel}.toml", PLAIN / "facts" / f"{kernel}.toml"
            launch, facts = (str(one) if one.exists() else None for one in files)
            machine = str(PLAIN / "machine.toml")
            assert launch is not None
            alone = Request(str(path), (kernel,), THREADS, machine=machine)
            given = Request(str(path), launch_file=launch, machine=machine)
            full = replace(given, facts_file=facts)
            has_bounds = facts is not None and "[[loop]]" in Path(facts).read_text("utf-8")
            yield kernel, [alone, given, given if has_bounds else full, full]


def refusal(request: Request) -> str:
    """The code and the first words with which a kernel is refused, nothing if it is bounded."""
    answer = bound_file(request)
    if answer.answered:
        return ""
    (refused,) = answer.refused
    first = refused.diagnostics[0]
    return f"{first.code} {first.message}"


KINDS = ("alone", "with a launch", "and ranges of arrays", "and bounds")


def plain() -> dict[str, Any]:
    """What is bounded of plain code, the kernels that are refused, and those that take longest."""
    rows: dict[str, list[str]] = {}
    seconds: dict[str, float] = {}
    for kernel, asked in plain_launches():
        found: dict[Request, str] = {}
        for one in dict.fromkeys(asked):
            begin = process_time()
            found[one] = refusal(one)
            seconds[kernel] = max(seconds.get(kernel, 0.0), process_time() - begin)
        rows[kernel] = [found[one] for one in asked]
    longest = sorted(seconds, key=lambda kernel: -seconds[kernel])[:5]
    return {
        "kernels": len(rows),
        "bounded": {
            kind: sum(not row[place] for row in rows.values()) for place, kind in enumerate(KINDS)
        },
        "refused with a launch": {kernel: row[1] for kernel, row in rows.items() if row[1]},
        "refused with all facts": {kernel: row[-1] for kernel, row in rows.items() if row[-1]},
        "longest, seconds of a processor": {one: round(seconds[one], 1) for one in longest},
    }


def shown(found: dict[str, Any]) -> str:
    """The table of plain code, and a line for each kernel that is refused."""
    lines = ["| plain code | bounded | of | |", "|---|--:|--:|--:|"]
    for kind, count in found["bounded"].items():
        whole = found["kernels"]
        lines.append(f"| {kind} | {count} | {whole} | {count / whole:.1%} |")
    for what in ("refused with a launch", "refused with all facts"):
        lines += [f"{what}:", *(f"* {kernel}: {why}" for kernel, why in found[what].items())]
    longest = "longest, seconds of a processor"
    times = ", ".join(f"{kernel} {time}" for kernel, time in found[longest].items())
    return "\n".join([*lines, f"{longest}: {times}"])


def loops() -> str:
    """The suite's loops, and the kernels of which some are asked for."""
    answers = read_answers()
    outcomes = [bound_kernel(entry, answers.get(entry.kernel, ())) for entry in entries()]
    total = sum(len(one.loops) for one in outcomes)
    automatic = sum(one.automatic for one in outcomes)
    asked = [f"{one.entry.kernel} {len(one.asked)}" for one in outcomes if one.asked]
    settled = sum(settled_by_ranges(one.entry) for one in outcomes if one.asked)
    share = f"{automatic + settled} ({(automatic + settled) / total:.1%})"
    return (
        f"Of the suite's {total} loops {automatic} ({automatic / total:.1%}) are bounded without a "
        f"question, {share} without one or with ranges of arrays. Asked for: {', '.join(asked)}."
    )


def settled_by_ranges(entry: Entry) -> int:
    """How many loops that are asked for are settled by ranges of the integers in arrays."""
    opened = open_request(request_for(entry), module_of(entry.path))
    (kernel,) = (one for one in opened.kernels if one.name == entry.kernel)
    launch = opened.launch_of(kernel)
    questions = find_questions(control_flow(entry), launch, NO_PLACED_FACTS)
    return sum(bool(one.arrays) for one in questions.loops)


def report(folders: Sequence[str], kept: Path | None) -> None:
    """Prints a table with a line for each folder, and the suite's loops."""
    counted = [folder for folder in folders if folder != "plain"]
    if counted:
        print("| | kernels | without grid and parameters | | with both | |")
        print("|---|--:|--:|--:|--:|--:|")
    for folder in counted:
        print(shares(folder), flush=True)
    if "suite" in folders:
        print(f"\n{loops()}")
    if "plain" in folders:
        found = plain()
        print(f"\n{shown(found)}")
        if kept is not None:
            kept.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    every = (*NAMES, "plain")
    parser.add_argument("folders", nargs="*", choices=every, metavar="FOLDER", help="default: all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keeps what plain has found")
    given = parser.parse_args()
    report(given.folders or every, given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
