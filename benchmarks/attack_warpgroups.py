"""The long attack on products of warpgroups (docs/methods/warpgroups.md).

    python benchmarks/attack_warpgroups.py --cases 1500

Random blocks and launches on the machine of ``tests/oracle/warpgroup_machine.py``, against the
product's bounds, and blocks whose warps wait for their warpgroup as well; and false statements,
with a tenth as many cases each, 100 at least. The summary depends on the sources and the numbers
given alone. Exit code 1 if a run exceeds a bound, or none a false statement.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))

from warpgroup_attack import launch, random_block, random_launch, safe, worst_of
from warpgroup_controls import CONTROLS, exceeds
from warpgroup_machine import Rules

ATTACKS = {"blocks": False, "launches": False, "blocks that hold": True}


def attack(what: str, cases: int, runs: int) -> dict[str, int]:
    """How many of the cases exceed their bounds, and how many reach them."""
    exceeded = reached = 0
    for seed in range(cases):
        random = Random(f"{what} {seed}")
        rules = Rules(holds=ATTACKS[what], early=random.random() < 0.5, whole=random.random() < 0.5)
        if what == "launches":
            blocks, slots = random_launch(random, 6)
            rules = replace(rules, slots=slots)
            bound = launch(blocks, slots)
        else:
            blocks = (random_block(random),)
            bound = safe(blocks[0])
        worst = worst_of(blocks, rules, random, runs)
        exceeded += worst > bound
        reached += worst == bound
    return {"cases": cases, "runs": cases * runs, "exceeded": exceeded, "reached": reached}


def control(name: str, cases: int, runs: int) -> dict[str, int]:
    """How many of the cases exceed a false statement, and how many the bound as it is."""
    found = [exceeds(name, seed, runs) for seed in range(cases)]
    beyond, faulty = (sum(column) for column in zip(*found, strict=True))
    return {"cases": cases, "runs": cases * runs, "beyond": beyond, "exceeded": faulty}


def main() -> int:
    """Attacks blocks, launches, and blocks whose warps wait for their warpgroup."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1_500, help="of each kind")
    parser.add_argument("--runs", type=int, default=8, help="of each case")
    parser.add_argument("--out", type=Path, default=Path("docs/experiments/attack-warpgroups.json"))
    options = parser.parse_args()
    rows = {what: attack(what, options.cases, options.runs) for what in ATTACKS}
    few = max(100, options.cases // 10)  # some are exceeded by few cases
    controls = {name: control(name, few, options.runs) for name in CONTROLS}
    command = f"--cases {options.cases} --runs {options.runs}"
    options.out.write_text(
        json.dumps({"command": command, "kinds": rows, "controls": controls}, indent=1) + "\n"
    )
    print(rows, controls)
    faulty = any(row["exceeded"] for row in (*rows.values(), *controls.values()))
    return 1 if faulty or not all(row["beyond"] for row in controls.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
