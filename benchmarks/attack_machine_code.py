"""The long attack on the time of machine code (docs/methods/machine-code.md).

    python benchmarks/attack_machine_code.py --cases 5000 --out machine-code-time.json

Random code, and stretches of what ptxas made, on the machine of
``tests/oracle/scoreboard_machine.py``, with queues in front of units and with pipes that have none:
every schedule of tiny blocks, random ones of larger blocks and of launches, against the product's
bounds and against statements that are false. The summary depends on the sources, the seed and the
number of cases alone. Exit code 1 if a run exceeds a bound.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))

from code_attack import FALSE, alone, block_case, launch_cycles, listed_case, safe_cycles
from scoreboard_machine import Sm

_RUNS = 8


def _schedules(draw: random.Random, warps: int) -> list[Callable[[list[int]], int]]:
    """The oldest warp first, the youngest, fixed orders, and any."""
    chosen: list[Callable[[list[int]], int]] = [min, max]
    for _ in range(_RUNS // 2 - 1):
        chosen += [partial(min, key=draw.sample(range(warps), warps).__getitem__), draw.choice]
    return chosen


def _tiny(seed: int, *, queues: bool) -> tuple[int, list[int]]:
    case = block_case(seed, 3, (2, 2, 3), cores=random.Random(-seed).choice((1, 1, 2)))
    return safe_cycles(case), [Sm(case.words, queues, case.cores).worst()]


def _blocks(seed: int, *, queues: bool) -> tuple[int, list[int]]:
    draw = random.Random(-seed)
    case = block_case(seed, draw.choice((4, 8, 16)), (2, 4, 8), cores=draw.choice((1, 2)))
    schedules = _schedules(draw, len(case.words))
    runs = [Sm(case.words, queues, case.cores).run(choose) for choose in schedules]
    return safe_cycles(case), runs


def _launches(seed: int, *, queues: bool) -> tuple[int, list[int]]:
    draw = random.Random(-seed)
    case = block_case(seed, draw.choice((3, 6)), (1, 2, 3), cores=draw.choice((1, 2)))
    blocks, slots = draw.choice((2, 3, 6)), draw.choice((1, 2, 3))
    sm = Sm(case.words * blocks, queues, case.cores, len(case.words), slots)
    runs = [sm.run(choose) for choose in _schedules(draw, len(sm.programs))]
    return launch_cycles(case, blocks, slots), runs


def _listed(seed: int, *, queues: bool) -> tuple[int, list[int]]:
    bound, words = listed_case(seed, random.Random(-seed).choice((6, 12, 24)))
    sm = Sm(words, queues)
    return bound, [sm.run(choose) for choose in _schedules(random.Random(-seed), len(words))]


_FAMILIES = {
    "every schedule of tiny blocks": (_tiny, 1.0),
    "schedules of blocks": (_blocks, 0.5),
    "schedules of launches": (_launches, 0.5),
    "words of the vendor's compiler": (_listed, 1.0),
}


def _attacked(family: Any, seeds: range, *, queues: bool) -> dict[str, int]:
    row = {"cases": len(seeds), "runs": 0, "exceeded": 0, "reached": 0}
    for seed in seeds:
        bound, ends = family(seed, queues=queues)
        row["runs"] += len(ends)
        row["exceeded"] += sum(end > bound for end in ends)
        row["reached"] += max(ends) == bound
    return row


def main() -> int:
    """Attacks each family with queues and without, and what is false."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--cases", type=int, default=2_000, help="tiny blocks, of each kind of unit"
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    first = options.seed * 1_000_000
    rows, total = {}, 0
    for name, (family, share) in _FAMILIES.items():
        seeds = range(first, first + int(options.cases * share))
        for queues in (True, False):
            units = "with queues" if queues else "without queues"
            row = rows[f"{name}, {units}"] = _attacked(family, seeds, queues=queues)
            total += row["exceeded"]
    false = {}
    seeds = range(first, first + options.cases // 2)
    cases = [block_case(seed, 8, (1,)) for seed in seeds]
    for name, (change, queues, _) in FALSE.items():
        seen = sum(alone(case, queues=queues) > safe_cycles(case, change) for case in cases)
        false[name] = f"{seen} of {len(cases)} exceeded"
    command = f"--cases {options.cases} --seed {options.seed}"
    summary = {"command": command, "exceeded": total, "families": rows, "false": false}
    text = json.dumps(summary, indent=1) + "\n"
    print(text)
    if options.out is not None:
        options.out.write_text(text)
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
