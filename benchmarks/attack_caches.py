"""The long attack on claims of caches (docs/methods/caches.md).

    python benchmarks/attack_caches.py --cases 3000

Random launches and two adversaries on caches of a few lines (``tests/oracle/cache_attack.py``).
The summary depends on the sources, the seed and the numbers given alone. Exit code 1 if more is
moved than a bound has, or a false claim is never exceeded.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))

from cache_attack import Tally, attack_l1, attack_l2


def main() -> int:
    """Attacks both kinds of caches."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=3000, help="launches of each kind of cache")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/experiments/attack-caches.json"))
    options = parser.parse_args()
    seeds = range(options.seed * 1_000_000, options.seed * 1_000_000 + options.cases)
    tallies = {"L2 cache": attack_l2(seeds), "L1 caches": attack_l1(seeds)}
    summary = {
        "command": f"--cases {options.cases} --seed {options.seed}",
        **{name: _row(tally) for name, tally in tallies.items()},
    }
    options.out.write_text(json.dumps(summary, indent=1) + "\n")
    print(json.dumps(summary, indent=1))
    sound = not any(tally.exceeded for tally in tallies.values())
    return 0 if sound and all(all(tally.broken.values()) for tally in tallies.values()) else 1


def _row(tally: Tally) -> dict[str, object]:
    return {
        "runs": tally.cases,
        "with a claim": tally.claimed,
        "exceeded": len(tally.exceeded),
        "tightest": round(tally.tightest, 3),
        "controls": {
            name: f"{tally.broken[name]} of {count} exceeded" for name, count in tally.tried.items()
        },
        "witnesses": tally.exceeded[:3],
    }


if __name__ == "__main__":
    sys.exit(main())
