"""Which registers each instruction of a cubin reads and writes, as nvdisasm's life ranges say.

``nvdisasm -plr -lrm narrow`` draws a column for each register: ``v`` where it is read, ``^`` where
it is written, ``x`` where both. Calls are drawn as what their functions may do, and predicates that
R2P and P2R name together are not drawn.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator

_BANKS = {"GPR": "R", "PRED": "P", "UGPR": "UR", "UPRED": "UP"}
Use = tuple[frozenset[str], frozenset[str]]
"""What is read, and what is written."""


def life_ranges(path: str) -> dict[tuple[str, int], Use]:
    """By section and address. nvdisasm is on the PATH."""
    command = ["nvdisasm", "-c", "-plr", "-lrm", "narrow", path]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(_uses(done.stdout))


def _uses(text: str) -> Iterator[tuple[tuple[str, int], Use]]:
    section, banks, heads = "", list[str](), list[list[str]]()
    for line in text.splitlines():
        if begins := re.match(r"//-+ \.text\.(\S+)", line):
            section, heads = begins[1], []
            continue
        left, marked, right = line.rpartition("// |")
        if not marked:
            continue
        groups = right.split("|")[:-1]
        instruction = re.match(r"\s+/\*([0-9a-f]{4,})\*/", left)
        if any(one.strip() in _BANKS for one in groups):
            banks, heads = [one.strip() for one in groups], []
        elif not left.strip() and not (heads and "#" in heads[-1][0]):
            heads.append(groups)  # digits of the numbers of registers, one below the other
        elif instruction:
            reads, writes = set[str](), set[str]()
            for column, (bank, group) in enumerate(zip(banks, groups, strict=True)):
                for place, mark in enumerate(group):
                    if mark in "^vx":
                        digits = "".join(head[column][place] for head in heads).strip()
                        name = _BANKS[bank] + str(int(digits))
                        reads |= {name} if mark in "vx" else set()
                        writes |= {name} if mark in "^x" else set()
            yield (section, int(instruction[1], 16)), (frozenset(reads), frozenset(writes))


def written(path: str) -> Iterator[str]:
    """The same as lines of text, to be kept."""
    for (section, address), use in life_ranges(path).items():
        read, wrote = (" ".join(sorted(one)) for one in use)
        yield f"{section} {address:04x} | {read} | {wrote}"


if __name__ == "__main__":
    print("\n".join(written(sys.argv[1])))
