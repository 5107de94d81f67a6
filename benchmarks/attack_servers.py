"""The long attack on servers behind the units (docs/methods/memory-servers.md, first-touch.md).

    python benchmarks/attack_servers.py --cases 3000 --out docs/experiments/attack-servers.json
    python benchmarks/attack_servers.py --set-aside --cases 400 --out attack-first-touch.json
    python benchmarks/attack_servers.py --keeps-up --cases 600 --out attack-path.json

Random grids and blocks of each family on the machine of ``tests/oracle/server_machine.py``, against
the product's bounds and against statements that are false. The summary depends on the sources, the
seed and the numbers given alone. Exit code 1 if a run exceeds a bound.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))

from server_attack import (
    ATTACKED,
    CROWDED,
    FED,
    Tally,
    attack_blocks,
    attack_fed,
    attack_grids,
    attack_kept,
)
from units_on_engine import kept_beside, run_units

_ATTACKS = {
    "launches": attack_grids,
    "blocks": attack_blocks,
    "set aside": attack_kept,
    "keeps up": attack_fed,
}
_FAMILIES = {family.name: family for family in (*ATTACKED, CROWDED, FED)}


def main() -> int:
    """Attacks launches and blocks, or launches with a cache, family by family."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=3_000, help="of each family")
    parser.add_argument("--runs", type=int, default=30, help="of each case")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--set-aside", action="store_true", help="launches with a cache")
    parser.add_argument("--keeps-up", action="store_true", help="a path that keeps up")
    parser.add_argument("--out", type=Path, default=Path("docs/experiments/attack-servers.json"))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    first = options.seed * 1_000_000
    jobs = [(what, one.name) for one in ATTACKED for what in ("launches", "blocks")]
    if options.set_aside:
        jobs = [("set aside", one.name) for one in (*ATTACKED, CROWDED)]
    if options.keeps_up:
        jobs = [("keeps up", one.name) for one in (*ATTACKED, FED)]
    units = [(*job, first, first + options.cases, options.runs) for job in jobs]
    rows = {}
    with kept_beside(options.out) as folder:
        done = run_units("attack_servers:run_family", units, folder, options.workers)
        for (what, name, *_), row in done:
            rows[f"{what}: {_FAMILIES[name].title}"] = row
    total = {key: sum(row[key] for row in rows.values()) for key in ("cases", "runs", "exceeded")}
    command = "--set-aside " if options.set_aside else ""
    command += "--keeps-up " if options.keeps_up else ""
    command += f"--cases {options.cases} --runs {options.runs} --seed {options.seed}"
    summary = {"command": command}
    options.out.write_text(json.dumps({**summary, **total, "families": rows}, indent=1) + "\n")
    print(total)
    return 1 if total["exceeded"] else 0


def run_family(payload: tuple[str, str, int, int, int], _: Mapping[str, bytes]) -> dict[str, Any]:
    """The row of a family, attacked in one way with the cases of a range of seeds."""
    what, name, first, last, runs = payload
    return _row(_ATTACKS[what](_FAMILIES[name], range(first, last), runs))


def _row(tally: Tally) -> dict[str, Any]:
    claimed = {} if tally.less == 0 else {"less than without": tally.less}
    claimed |= {"an access as long as claimed": tally.as_claimed} if claimed else {}
    return {
        "cases": tally.cases,
        "runs": tally.runs,
        "exceeded": tally.exceeded,
        "reached exactly": tally.equal,
        **claimed,
        "controls": {
            name: f"{tally.broken[name]} of {count} exceeded" for name, count in tally.tried.items()
        },
        "witnesses": tally.witnesses[:3],
    }


if __name__ == "__main__":
    sys.exit(main())
