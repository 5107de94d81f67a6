"""The long attack on joins (docs/methods/barriers.md).

    python benchmarks/attack_joins.py --cases 40000 --out docs/experiments/attack-joins.json

Random blocks and launches of each family on the machine of ``tests/oracle/join_machine.py``, with
the clocks looked at in each cycle; all schedules of tiny blocks; and what is false. The summary
depends on the sources, the seed and the numbers given alone. Exit code 1 if a run exceeds a bound.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))

from join_attack import CONTROLS, FAMILIES, TINY, Tally, attack, search_all
from units_on_engine import kept_beside, run_units

_FAMILIES = {family.name: family for family in (*FAMILIES, TINY)}


def main() -> int:
    """Attacks family by family, then the schedules of tiny blocks, then with controls."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=40_000, help="of each family")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/experiments/attack-joins.json"))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    first, cases = options.seed * 1_000_000, options.cases
    units = [("attack", name, "", first, first + cases) for name in _FAMILIES]
    units.append(("schedules", TINY.name, "", first, first + cases))
    for control in CONTROLS:
        few = first + max(1, cases // 50)
        units += [("control", one.name, control, first, few) for one in FAMILIES]
    rows: dict[str, dict[str, Any]] = {}
    with kept_beside(options.out) as folder:
        done = run_units("attack_joins:run_family", units, folder, options.workers)
        for (what, name, control, *_), row in done:
            rows.setdefault(f"{what} {control}".strip(), {})[name] = row
    held = [row for what in ("attack", "schedules") for row in rows[what].values()]
    total = {key: sum(row[key] for row in held) for key in ("cases", "runs", "exceeded")}
    summary = {"command": f"--cases {cases} --seed {options.seed}", **total, **rows}
    options.out.write_text(json.dumps(summary, indent=1) + "\n")
    print(total)
    return 1 if total["exceeded"] else 0


def run_family(payload: tuple[str, str, str, int, int], _: Mapping[str, bytes]) -> dict[str, Any]:
    """The row of a family, attacked in one way with the cases of a range of seeds."""
    what, name, control, first, last = payload
    seeds = range(first, last)
    if what == "schedules":
        return _row(search_all(seeds))
    if control == "order":
        return _row(attack(_FAMILIES[name], seeds, ordered=False))
    return _row(attack(_FAMILIES[name], seeds, without=control))


def _row(tally: Tally) -> dict[str, Any]:
    return {
        "cases": tally.cases,
        "refused": tally.refused,
        "runs": tally.runs,
        "exceeded": tally.exceeded,
        "clock exceeded": tally.clocks,
        "clock of groups exceeded": tally.serial,
        "reached exactly": tally.equal,
        "witnesses": tally.witnesses[:3],
    }


if __name__ == "__main__":
    sys.exit(main())
