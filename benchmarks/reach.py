"""Reach: the share of kernels that are bounded, and of the suite's loops without a question.

    python benchmarks/reach.py
    python benchmarks/reach.py samples suite

Kernels are analysed in a block of 64 threads (or of those that they require), first without grid
and parameters, then with both: as their launch files say, or, if there is none, in a grid of 4
blocks with all integers of 32 bits given as 1000 (benchmarks/precision.py). A kernel with several
launch files counts as bounded if it is in all of them. Loops of the suite are counted as in
benchmarks/kernel_suite.py; of those that are asked for, those that the ranges of the integers in
arrays settle ([arrays] of a facts file), as ``ptxwcet facts`` finds by trying some. Half an hour of
a processor and more, of which the corpus takes most.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence

from kernel_suite import (
    Entry,
    bound_kernel,
    control_flow,
    entries,
    module_of,
    read_answers,
    request_for,
)
from precision import FOLDERS, ROOT, Launched, launches

from ptxwcet.flow.launch import NO_PLACED_FACTS
from ptxwcet.flow.paths.questions import find_questions
from ptxwcet.studies.block_bound import bound_file
from ptxwcet.studies.opening import open_request
from ptxwcet.studies.request import Request

NAMES = ("samples", "suite", "hybrid", "corpus")
"""Of the folders whose kernels are analysed, in their order."""
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
    whole, cfg, forest = control_flow(entry)
    questions = find_questions(whole, cfg, forest, launch, NO_PLACED_FACTS)
    return sum(bool(one.arrays) for one in questions.loops)


def report(folders: Sequence[str]) -> None:
    """Prints a table with a line for each folder, and the suite's loops."""
    print("| | kernels | without grid and parameters | | with both | |")
    print("|---|--:|--:|--:|--:|--:|")
    for folder in folders:
        print(shares(folder), flush=True)
    if "suite" in folders:
        print(f"\n{loops()}")


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", nargs="*", choices=NAMES, default=NAMES, metavar="FOLDER")
    report(parser.parse_args().folders)
    return 0


if __name__ == "__main__":
    sys.exit(main())
