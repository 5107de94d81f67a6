"""Reach: the share of kernels that are bounded, and of the suite's loops without a question.

    python benchmarks/reach.py
    python benchmarks/reach.py samples suite

Kernels are analysed in a block of 64 threads (or of those that they require), first without grid
and parameters, then with both: as their launch files say, or, if there is none, in a grid of 4
blocks with all integers of 32 bits given as 1000 (benchmarks/precision.py). A kernel with several
launch files counts as bounded if it is in all of them. Loops of the suite are counted as in
benchmarks/kernel_suite.py. Half an hour of a processor and more, of which the corpus takes most.
"""

from __future__ import annotations

import argparse
import sys
from collections import defaultdict
from collections.abc import Sequence

from kernel_suite import bound_kernel, entries, read_answers
from precision import FOLDERS, ROOT, Launched, launches

from ptxwcet.api import Request, bound_file

NAMES = ("samples", "suite", "hybrid", "corpus")
"""Of the folders whose kernels are analysed, in their order."""
_GENERAL = ("open", "scalars")


def is_bounded(launched: Launched) -> bool:
    """Whether the kernel of a launch has a bound."""
    return bool(bound_file(Request(**launched.options)).bounded)


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
    return (
        f"Of the suite's {total} loops {automatic} ({automatic / total:.1%}) are bounded without a "
        f"question. Asked for: {', '.join(asked)}."
    )


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
