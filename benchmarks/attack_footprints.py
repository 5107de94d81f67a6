"""The long attack on footprints (docs/guide/reduce.md).

    python benchmarks/attack_footprints.py --cases 2000

Random nests of loops, random accesses and every launch of the suite and the samples, executed
against their forms and footprints (``tests/oracle/footprint_oracle.py``). Exit code 1 if an address
lies elsewhere than its form says, or more is touched than a footprint has.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from access_kernels import access_kernel, open_access_kernel
from counting_kernels import counting_kernel
from footprint_oracle import Compared, of_launch_file, of_text
from kernel_suite import entries


def main() -> int:
    """Attacks, and writes the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=2000, help="of each kind of random kernels")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/experiments/attack-footprints.json"))
    options = parser.parse_args()
    seeds = range(options.seed * 1_000_000, options.seed * 1_000_000 + options.cases)
    rows = {
        "nests of loops": _row((str(seed), of_counting(seed)) for seed in seeds),
        "random accesses": _row((str(seed), of_accesses(seed)) for seed in seeds),
        "suite": _row(of_suite()),
    }
    wrong = sum(len(row["wrong"]) for row in rows.values())
    command = f"--cases {options.cases} --seed {options.seed}"
    summary = {"command": command, "wrong": wrong, "kinds": rows}
    options.out.write_text(json.dumps(summary, indent=1) + "\n")
    print(*((name, row["launches"], row["wrong"]) for name, row in rows.items()), sep="\n")
    return 1 if wrong else 0


def of_counting(seed: int) -> Compared | None:
    """A nest of loops."""
    one = counting_kernel(seed)
    return of_text(one.text, one.block, one.grid, (f"width={one.width}",), one.launch())


def of_accesses(seed: int) -> Compared | None:
    """Random accesses, of some of which less is known."""
    one = (open_access_kernel if seed % 2 else access_kernel)(seed)
    grid = one.grid if one.says_grid else None
    return of_text(one.text, one.block, grid, one.parameters, one.launch())


def of_suite() -> Iterator[tuple[str, Compared | None]]:
    """Every launch of the suite and the samples."""
    for entry in entries():
        if entry.facts is None:
            yield entry.kernel, of_launch_file(entry.path, entry.launch)


def _row(found: Iterator[tuple[str, Compared | None]]) -> dict[str, object]:
    launches = refused = checked = tight = 0
    wrong: list[str] = []
    for name, one in found:
        if one is None:
            refused += 1
            continue
        launches, checked = launches + 1, checked + one.checked
        tight += one.block_sectors == one.footprint.block_sectors
        wrong += [f"{name}: {text}" for text in one.wrong[:3]]
    return {
        "launches": launches,
        "refused or not known": refused,
        "accesses of warps that have a form": checked,
        "footprint of a block reached": tight,
        "wrong": wrong,
    }


if __name__ == "__main__":
    sys.exit(main())
