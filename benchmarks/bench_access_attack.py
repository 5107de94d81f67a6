"""Random kernels against the analysis of accesses, which may not say less than is executed.

    python benchmarks/bench_access_attack.py --kernels 10000

Kernels follow from their seeds (``tests/oracle/access_kernels.py``). Exit code 1 if an access takes
more than the analysis says, or, where it calls itself exact, less. The summary depends on the
sources alone; some 0.2 s a kernel on one core. With ``--open`` less is said of the launches.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from access_attack import Attacked, attack, attack_kernel
from access_kernels import open_access_kernel
from units_on_engine import kept_beside, run_units


def main() -> int:
    """Attacks with the kernels of a range of seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--open", action="store_true", help="say less, and take other blocks")
    parser.add_argument("--out", type=Path, help="writes the summary as JSON")
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    total = Attacked()
    seeds = [(seed, options.open) for seed in range(options.first, options.first + options.kernels)]
    with kept_beside(options.out or Path("accesses.json")) as folder:
        for _, found in run_units("bench_access_attack:run_kernel", seeds, folder, options.workers):
            total.add(Attacked(**found))
    summary = {
        "kernels": total.kernels,
        "accesses": total.accesses,
        "exact and executed by whole warps": total.exact,
        "wrong": total.wrong,
    }
    if options.out is not None:
        options.out.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    print(*(f"{key}: {value}" for key, value in summary.items()), sep="\n")
    return 1 if total.wrong else 0


def run_kernel(payload: tuple[int, bool], _: Mapping[str, bytes]) -> dict[str, Any]:
    """What is found of the kernel of a seed, of which less is said or not."""
    seed, is_open = payload
    return asdict(attack_kernel(open_access_kernel(seed)) if is_open else attack(seed))


if __name__ == "__main__":
    sys.exit(main())
