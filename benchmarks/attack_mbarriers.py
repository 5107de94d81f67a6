"""The long attack on joins at mbarriers (docs/methods/mbarriers.md).

    python benchmarks/attack_mbarriers.py --cases 1000

Random blocks, rings and warpgroups, with barriers of the block among them, and launches of them on
the machine of ``tests/oracle/mbarrier_machine.py``, with the clocks looked at in each cycle; all
schedules of tiny ones; and what is false. The summary depends on the sources, the seed and the
numbers given alone. Exit code 1 if a run exceeds a bound.
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
    KINDS,
    LAUNCH_CONTROLS,
    TINY,
    Tally,
    attack,
    drawn,
    search_all,
)
from units_on_engine import kept_beside, run_units


def main() -> int:
    """Attacks kind by kind, then the schedules of tiny ones, then with what is left out."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=1000, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("docs/experiments/attack-mbarriers.json"))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    first, cases = options.seed * 1_000_000, options.cases
    few = first + max(1, cases // 10)
    units = [(what, "", first, first + cases) for what in (*KINDS, *TINY)]
    units += [("blocks", left_out, first, few) for left_out in (*CONTROLS, *CONDITIONS)]
    units += [("launches", left_out, first, few) for left_out in LAUNCH_CONTROLS]
    rows: dict[str, dict[str, Any]] = {}
    with kept_beside(options.out) as folder:
        for (what, left_out, *_), row in run_units(
            "attack_mbarriers:run_kind", units, folder, options.workers
        ):
            rows[f"{what} without {left_out}" if left_out else what] = row
    held = [rows[what] for what in (*KINDS, *TINY)]
    keys = ("cases", "runs", "exceeded", "clock exceeded", "tail exceeded", "other phases")
    total = {key: sum(row[key] for row in held) for key in keys}
    summary = {"command": f"--cases {cases} --seed {options.seed}", **total, **rows}
    options.out.write_text(json.dumps(summary, indent=1) + "\n")
    print(total)
    return 1 if any(total[key] for key in keys[2:]) else 0


def run_kind(payload: tuple[str, str, int, int], _: Mapping[str, bytes]) -> dict[str, Any]:
    """The row of a kind, with the cases of a range of seeds."""
    what, left_out, first, last = payload
    cases = drawn(what, range(first, last), left_out)
    return _row(search_all(cases) if what in TINY else attack(cases, without=left_out))


def _row(tally: Tally) -> dict[str, Any]:
    return {
        "cases": tally.cases,
        "refused": tally.refused,
        "runs": tally.runs,
        "exceeded": tally.exceeded,
        "clock exceeded": tally.clocks,
        "tail exceeded": tally.tails,
        "other phases": tally.parted,
        "reached exactly": tally.equal,
        "witnesses": tally.witnesses[:3],
    }


if __name__ == "__main__":
    sys.exit(main())
