"""Random launches, executed whole: paths, counts, residency and runs against the launch's bound.

    python benchmarks/attack_launches.py --launches 2000 --out docs/experiments/attack-launches.json

Each launch (``tests/oracle/launch_kernels.py``) follows from its seed. It is bounded, executed by
the emulator, counted and run on the grid simulator (``tests/oracle/launch_attack.py``). Writes the
counts and prints them. Exit code 1 if anything is violated. ``--only SEED`` shows one.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))

from launch_attack import MACHINES, Found, attack, attack_analysed
from launch_kernels import random_launch
from random_launches import KINDS, load
from random_launches import random_launch as launch_of_a_sample
from units_on_engine import kept_beside, run_units

from ptxwcet.machine.loader import load_machine
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.support.diagnostics import PtxwcetError

Row = dict[str, Any]

FEATURES = {
    "apart": "ranges of blocks apart that execute the same",
    "barrier": "barriers, met by all or passed by whole blocks",
    "exit": "blocks that exit early",
    "facts": "a facts file (never taken, exclusive)",
    "lanes": "lanes or warps of a block differ",
    "ragged": "threads beyond a parameter exit",
    "range": "a range of a parameter, several values executed",
    "stated loop": "a loop on data whose bound is stated",
    "total": "a limited total of a loop on data in a loop",
    "unsaid": "a parameter of which nothing is said, several values executed",
}


def main() -> int:
    """Attacks and writes the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launches", type=int, default=2_000)
    parser.add_argument("--samples", type=int, default=400, help="launches of sample kernels")
    parser.add_argument("--first", type=int, default=1_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", type=int, help="the launch of this seed, printed in full")
    parser.add_argument("--out", type=Path, default=Path("docs/experiments/attack-launches.json"))
    options = parser.parse_args()
    if options.only is not None:
        one = random_launch(options.only)
        print(one.text, one, attacked(options.only), sep="\n")
        return 0
    launches = range(options.first, options.first + options.launches)
    units = [("launch", seed) for seed in launches]
    units += [("sample", seed) for seed in range(options.samples)]
    found: dict[str, dict[int, Found]] = {"launch": {}, "sample": {}}
    begin = time.monotonic()
    with kept_beside(options.out) as folder:
        done = run_units("attack_launches:run_launch", units, folder, options.workers)
        for (what, seed), row in done:
            found[what][seed] = Found(**{**row, "features": frozenset(row["features"])})
            for violation in row["violations"]:
                print(f"{what} {seed}: {violation}", flush=True)
    command = f"--launches {options.launches} --samples {options.samples} --first {options.first}"
    summary = {"command": command, **summarise(found["launch"])}
    summary["samples"] = summarise(found["sample"])
    summary["violations"] += summary["samples"].pop("violations")
    options.out.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    print("\n".join(page(summary)))
    print(f"{len(summary['violations'])} violations, {time.monotonic() - begin:.0f} s")
    return int(bool(summary["violations"]))


def run_launch(payload: tuple[str, int], _: Mapping[str, bytes]) -> Row:
    """What came of the launch of a seed, as plain data."""
    what, seed = payload
    found = attacked(seed) if what == "launch" else attacked_sample(seed)
    return {**asdict(found), "features": sorted(found.features)}


def attacked(seed: int) -> Found:
    """The launch of a seed; an internal error is a violation."""
    try:
        return attack(seed)
    except Exception as error:
        return Found("internal error", violations=[f"{type(error).__name__}: {error}"])


def attacked_sample(seed: int) -> Found:
    """A random launch of a sample or reference kernel; seeds take turns through the kernels."""
    kind = KINDS[seed % len(KINDS)]
    machine = load_machine(MACHINES[seed // len(KINDS) % len(MACHINES)])
    kernel, facts, launch, bounds = launch_of_a_sample(kind, seed)
    try:
        analysis = analyse_kernel(kernel, facts, machine, bounds)
        return attack_analysed(analysis, load(kind.file), launch, seed)
    except PtxwcetError as error:
        return Found(error.diagnostics[0].code)
    except Exception as error:
        return Found("internal error", violations=[f"{type(error).__name__}: {error}"])


def summarise(found: dict[int, Found]) -> Row:
    rows = found.values()
    bounded = [row for row in rows if not row.code]
    ratios = sorted(row.closest for row in bounded if row.runs)
    cuts = statistics.quantiles(ratios, n=20)
    return {
        "launches": len(found),
        "bounded": len(bounded),
        "refused": dict(sorted(Counter(row.code for row in rows if row.code).items())),
        "executions": sum(row.launches for row in rows),
        "left_out": sum(row.left_out for row in rows),
        "blocks": sum(row.blocks for row in rows),
        "counted": sum(row.counted for row in rows),
        "exact": sum(row.exact for row in rows),
        "runs": sum(row.runs for row in rows),
        "longest_over_bound": {
            "5 %": round(cuts[0], 4),
            "median": round(statistics.median(ratios), 4),
            "95 %": round(cuts[-1], 4),
            "most": round(ratios[-1], 4),
            "reached": sum(ratio == 1 for ratio in ratios),
        },
        "features": dict(sorted(Counter(one for row in bounded for one in row.features).items())),
        "violations": [
            {"seed": seed, "text": text} for seed, row in found.items() for text in row.violations
        ],
    }


def page(summary: Row) -> Iterator[str]:
    spread = summary["longest_over_bound"]
    yield "# Attack: random launches against the bound of a launch"
    yield ""
    yield f"    python benchmarks/attack_launches.py {summary['command']}"
    yield ""
    yield (
        f"{summary['launches']:,} random kernels and launches with grids of one to three "
        f"dimensions, {summary['bounded']:,} of them bounded as a user would "
        f"(options, launch files, facts files), executed {summary['executions']:,} times "
        f"({summary['blocks']:,} blocks) by the emulator and run {summary['runs']:,} times as "
        "grids on 1 to 5 SMs, with the least, the most and a middle number of resident blocks, "
        "under six schedules, blocks in the order of their indices, by chance, or the longest "
        f"last. **Violations: {len(summary['violations']):,}.**"
    )
    yield ""
    yield "What must hold of each execution:"
    yield ""
    yield (
        "* Every executed block is held by an analysed kind of blocks, and these have room for "
        "all of them (Hall's condition on the counts). Checked where blocks are counted, in "
        f"{summary['counted']:,} executions; else all blocks have the largest of every figure."
    )
    yield (
        "* The work of all kinds together is at least what was executed, instruction by "
        f"instruction; exactly that where all paths are known ({summary['exact']:,} executions)."
    )
    yield (
        "* No run is longer than the bound for its SMs and resident blocks, and that is at most "
        "the bound of the launch, which holds for every possible number of resident blocks."
    )
    yield ""
    yield (
        f"Longest run / bound: 5 % of the launches below {spread['5 %']}, median "
        f"{spread['median']}, 5 % above {spread['95 %']}, most {spread['most']} "
        f"({spread['reached']:,} launches reach their bound)."
    )
    samples = summary["samples"]
    yield ""
    yield (
        f"Random launches of the sample and reference kernels, held against the same: "
        f"{samples['executions']:,} executions ({samples['blocks']:,} blocks; blocks counted in "
        f"{samples['counted']:,}, all paths known in {samples['exact']:,}), {samples['runs']:,} "
        f"runs; longest run / bound: median {samples['longest_over_bound']['median']}, most "
        f"{samples['longest_over_bound']['most']}."
    )
    yield from ("", "| in the kernel or launch | bounded launches |", "|---|---:|")
    for name, count in summary["features"].items():
        yield f"| {FEATURES[name]} | {count:,} |"
    refused = ", ".join(f"{code} {count}" for code, count in summary["refused"].items())
    yield from ("", f"Refused: {refused or 'none'}.")
    for row in summary["violations"]:
        yield f"* {row['seed']}: {row['text']}"
    yield ""
    yield (
        "Which parts are seen when they are broken: `test_what_is_broken_is_seen` in "
        "`tests/oracle/test_launch_runs.py`. Residency has a test of its own, "
        "`tests/unit/test_residency.py`: every number of registers, and shared memory as ptxas "
        "lays it out."
    )


if __name__ == "__main__":
    sys.exit(main())
