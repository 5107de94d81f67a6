"""The long attack on servers behind the units (docs/methods/memory-servers.md, first-touch.md).

    python benchmarks/attack_servers.py --cases 3000 --out docs/experiments/attack-servers.json
    python benchmarks/attack_servers.py --set-aside --cases 400 --out attack-first-touch.json

Random grids and blocks of each family on the machine of ``tests/oracle/server_machine.py``, against
the product's bounds and against statements that are false. The summary depends on the sources, the
seed and the numbers given alone. Exit code 1 if a run exceeds a bound.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))

from server_attack import ATTACKED, CROWDED, Tally, attack_blocks, attack_grids, attack_kept

_ATTACKS = {"launches": attack_grids, "blocks": attack_blocks}


def main() -> int:
    """Attacks launches and blocks, or launches with a cache, family by family."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=3_000, help="of each family")
    parser.add_argument("--runs", type=int, default=30, help="of each case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set-aside", action="store_true", help="launches with a cache")
    parser.add_argument("--out", type=Path, default=Path("docs/experiments/attack-servers.json"))
    options = parser.parse_args()
    first = options.seed * 1_000_000
    seeds = range(first, first + options.cases)
    rows = {}
    jobs = [(what, attack, one) for one in ATTACKED for what, attack in _ATTACKS.items()]
    if options.set_aside:
        jobs = [("set aside", attack_kept, one) for one in (*ATTACKED, CROWDED)]
    for what, attack, family in jobs:
        rows[f"{what}: {family.title}"] = row = _row(attack(family, seeds, options.runs))
        print(f"{what}: {family.title}: {row}", flush=True)
    total = {key: sum(row[key] for row in rows.values()) for key in ("cases", "runs", "exceeded")}
    command = "--set-aside " if options.set_aside else ""
    command += f"--cases {options.cases} --runs {options.runs} --seed {options.seed}"
    summary = {"command": command}
    options.out.write_text(json.dumps({**summary, **total, "families": rows}, indent=1) + "\n")
    print(total)
    return 1 if total["exceeded"] else 0


def _row(tally: Tally) -> dict[str, Any]:
    return {
        "cases": tally.cases,
        "runs": tally.runs,
        "exceeded": tally.exceeded,
        "reached exactly": tally.equal,
        "controls": {
            name: f"{tally.broken[name]} of {count} exceeded" for name, count in tally.tried.items()
        },
        "witnesses": tally.witnesses[:3],
    }


if __name__ == "__main__":
    sys.exit(main())
