"""The long attack on joins at mbarriers (docs/methods/joins.md).

    python benchmarks/attack_mbarriers.py --cases 3000

Random blocks, rings and warpgroups on the machine of ``tests/oracle/mbarrier_machine.py``, with the
clock looked at in each cycle; all schedules of tiny blocks; and what is false. The summary depends
on the sources, the seed and the numbers given alone. Exit code 1 if a run exceeds a bound.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))

from mbarrier_attack import (
    CONDITIONS,
    CONTROLS,
    Tally,
    attack,
    blocks,
    broken,
    search_all,
    with_products,
)
from units_on_engine import kept_beside, run_units


def main() -> int:
    """Attacks kind by kind, then the schedules of tiny blocks, then with what is left out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=3000, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/experiments/attack-mbarriers.json"))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    first, cases = options.seed * 1_000_000, options.cases
    few = first + max(1, cases // 10)
    units = [(what, "", first, first + cases) for what in ("blocks", "products", "schedules")]
    units += [("blocks", left_out, first, few) for left_out in (*CONTROLS, *CONDITIONS)]
    rows: dict[str, dict[str, Any]] = {}
    with kept_beside(options.out) as folder:
        for (what, left_out, *_), row in run_units(
            "attack_mbarriers:run_kind", units, folder, options.workers
        ):
            rows[f"{what} without {left_out}" if left_out else what] = row
    held = [rows[what] for what in ("blocks", "products", "schedules")]
    keys = ("cases", "runs", "exceeded", "clock exceeded", "other phases")
    total = {key: sum(row[key] for row in held) for key in keys}
    summary = {"command": f"--cases {cases} --seed {options.seed}", **total, **rows}
    options.out.write_text(json.dumps(summary, indent=1) + "\n")
    print(total)
    return 1 if any(total[key] for key in keys[2:]) else 0


def run_kind(payload: tuple[str, str, int, int], _: Mapping[str, bytes]) -> dict[str, Any]:
    """The row of a kind of blocks, with the cases of a range of seeds."""
    what, left_out, first, last = payload
    if what == "schedules":
        return _row(search_all(range(first, last)))
    if what == "products":
        return _row(attack(((seed, with_products(seed)) for seed in range(first, last)), cores=4))
    drawn = blocks(first, last)
    if left_out in ("polls", "registers", *CONDITIONS):
        drawn = ((seed, broken(left_out, seed)) for seed in range(first, last))
    return _row(attack(drawn, without=left_out))


def _row(tally: Tally) -> dict[str, Any]:
    return {
        "cases": tally.cases,
        "refused": tally.refused,
        "runs": tally.runs,
        "exceeded": tally.exceeded,
        "clock exceeded": tally.clocks,
        "other phases": tally.parted,
        "reached exactly": tally.equal,
        "witnesses": tally.witnesses[:3],
    }


if __name__ == "__main__":
    sys.exit(main())
