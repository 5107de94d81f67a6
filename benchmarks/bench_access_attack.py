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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))

from access_attack import Attacked, attack, attack_kernel
from access_kernels import open_access_kernel


def main() -> int:
    """Attacks with the kernels of a range of seeds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--open", action="store_true", help="say less, and take other blocks")
    parser.add_argument("--out", type=Path, help="writes the summary as JSON")
    options = parser.parse_args()
    total = Attacked()
    for seed in range(options.first, options.first + options.kernels):
        total.add(attack_kernel(open_access_kernel(seed)) if options.open else attack(seed))
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


if __name__ == "__main__":
    sys.exit(main())
