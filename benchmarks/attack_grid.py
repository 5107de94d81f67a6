"""The long attack on the bound of a grid (docs/methods/grid.md).

``python benchmarks/attack_grid.py --cases 60000 --out docs/experiments/attack-grid.json`` runs
random grids of each family on the machine of ``tests/oracle/grid_machine_fast.py``, every schedule
and every order of tiny ones, and hill climbing, on the bound and on statements that are false. It
writes the counts and prints them. They depend on sources, seed and the numbers given alone.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))

from grid_attack import (
    CLOCKS,
    CONTROLS,
    FAMILIES,
    OPEN,
    TINY,
    Tally,
    above_clock,
    attack,
    busiest_in_waves,
    climb,
    demands_of,
    random_classes,
    random_grid,
    ratio_to,
    search_all,
    theorem,
)
from grid_machine import Grid
from units_on_engine import kept_beside, run_units

RUNS = 40
RUNS_OF_STEP = 20
STEPS = 150
MOST_SCHEDULES = 20_000

Row = dict[str, Any]


def main() -> None:
    """Runs all three parts and writes the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=60_000, help="random grids, all families")
    parser.add_argument("--tiny", type=int, default=20_000, help="grids for all schedules")
    parser.add_argument("--climbs", type=int, default=400, help="hill climbs on the bound")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("docs/experiments/attack-grid.json"))
    options = parser.parse_args()
    first = options.seed * 10_000_000
    each = options.cases // len(FAMILIES)
    seeds = (first, first + each)
    units: list[list[Any]] = [["random", family.name, *seeds] for family in FAMILIES]
    units.append(["tiny", "", first, first + options.tiny])
    units.append(["climbs", "", first, options.climbs])
    units.append(["clock", "", first, options.climbs])
    units += [["sharper", title, first, options.climbs] for title in SHARPER]
    with kept_beside(options.out) as folder:
        done = run_units("attack_grid:run_part", units, folder, options.workers)
        rows = [row for _, row in done]
        write(options, rows)


def run_part(payload: tuple[str, str, int, int], _: Mapping[str, bytes]) -> Row:
    """The row of a part: a family, all schedules of tiny grids, climbs."""
    what, name, first, last = payload
    match what:
        case "random":
            (family,) = (one for one in FAMILIES if one.name == name)
            return {"family": asdict(family), **counts(attack(family, range(first, last), RUNS))}
        case "tiny":
            return exhaustive(range(first, last))
        case "climbs":
            return hill_climbs(last, first)
        case "clock":
            return climbs_on_clock(last, first)
    return climbs_on_sharper_claim(name, last, first)


def write(options: argparse.Namespace, parts: list[Row]) -> None:
    """Writes the counts of all parts, in their order, and prints them as Markdown."""
    rows = parts[: len(FAMILIES)]
    tiny, climbs, clock, *others = parts[len(FAMILIES) :]
    sharper = dict(zip(SHARPER, others, strict=True))
    summary = {
        "command": f"--cases {options.cases} --tiny {options.tiny} --climbs {options.climbs} "
        f"--seed {options.seed}",
        "random": rows,
        "exhaustive": tiny,
        "climbing": climbs,
        "clock": clock,
        "sharper_claim": sharper,
    }
    options.out.write_text(json.dumps(summary, indent=1) + "\n", encoding="utf-8")
    print("\n".join(page(summary)))


def counts(tally: Tally) -> Row:
    cuts = statistics.quantiles(tally.ratios, n=20)
    return {
        "cases": tally.cases,
        "runs": tally.runs,
        "exceeded": tally.exceeded,
        "clock_exceeded": tally.clock_exceeded,
        "reached": tally.equal,
        "tightest": round(tally.tightest, 4),
        "bound_over_longest": {
            "least": round(min(tally.ratios), 4),
            "5 %": round(cuts[0], 4),
            "median": round(statistics.median(tally.ratios), 4),
            "95 %": round(cuts[-1], 4),
        },
        "controls": {
            name: {
                "checked": checked,
                "exceeded": failed,
                "most": round(tally.worst_controls.get(name, 0.0), 4),
            }
            for name, (checked, failed) in sorted(tally.controls.items())
        },
        "witnesses": tally.witnesses[:5],
    }


def exhaustive(seeds: range) -> Row:
    tally, given_up = Tally(), 0
    for seed in seeds:
        grid = random_grid(TINY, seed)
        found = search_all(grid, seed, MOST_SCHEDULES)
        if found is None:
            given_up += 1
        else:
            tally.add(grid, *found)
    return {"family": asdict(TINY), "given_up": given_up, **counts(tally)}


def hill_climbs(number: int, first: int) -> Row:
    """From random grids of all families, on longest run / bound."""
    runs = exceeded = 0
    found = []
    for index in range(number):
        family = FAMILIES[index % len(FAMILIES)]
        ratio, _ = climb(random_grid(family, first + index), index, STEPS, ratio_to(theorem))
        runs += RUNS_OF_STEP * (STEPS + 1)
        exceeded += ratio > 1
        found.append(ratio)
    reached = sum(ratio == 1 for ratio in found)
    return {
        "climbs": number,
        "runs": runs,
        "exceeded": exceeded,
        "reached": reached,
        "median": round(statistics.median(found), 4),
    }


def climbs_on_clock(number: int, first: int) -> Row:
    """From random grids of all families, with classes that stay, on what is above the clock."""
    found = []
    for index in range(number):
        grid = random_grid(FAMILIES[index % len(FAMILIES)], first + index)
        classes = random_classes(grid, demands_of(grid), index)
        found.append(climb(grid, index, STEPS, above_clock(classes))[0])
    return {
        "climbs": number,
        "runs": number * RUNS_OF_STEP * (STEPS + 1),
        "exceeded": sum(excess > 0 for excess in found),
    }


SHARPER = {
    "with barriers": (2, 3, (1, 3)),
    "with barriers, blocks alike": (1, 1, (1, 3)),
    "without barriers": (2, 3, (1, 1)),
    "without barriers, blocks alike": (1, 1, (1, 1)),
}


def climbs_on_sharper_claim(title: str, number: int, first: int) -> Row:
    """The busiest sub-core, then waves: how far can it be exceeded?"""
    least, most, sections = SHARPER[title]
    family = replace(
        next(one for one in FAMILIES if one.name == "strings"),
        name=title,
        sms=(1, 1),
        blocks=(4, 8),
        kinds=(least, most),
        sections=sections,
    )
    best, witness, runs, above = 0.0, "", 0, 0
    for index in range(number):
        grid = random_grid(family, first + index)
        ratio, found = climb(grid, index, 2 * STEPS, ratio_to(busiest_in_waves))
        runs += RUNS_OF_STEP * (2 * STEPS + 1)
        above += ratio > 1
        if ratio > best:
            best, witness = ratio, described(found)
    return {
        "climbs": number,
        "runs": runs,
        "exceeded": above,
        "most": round(best, 4),
        "witness": witness,
    }


def described(grid: Grid) -> str:
    """A grid in a line a block: (init, lat), reads as <places, barriers as B."""
    lines = [f"slots {grid.slots}, sub-cores {grid.cores}, claims {theorem_and_claim(grid)}"]
    for block, count in zip(grid.kinds, grid.counts, strict=True):
        warps = [
            " ".join(
                f"{'bar ' if op.is_barrier else ''}{'ABCD'[op.unit]}"
                f"({op.init},{op.lat})" + (f"<{','.join(map(str, op.reads))}" if op.reads else "")
                for op in warp
            )
            for warp in block
        ]
        lines.append(f"{count} x  " + "  |  ".join(warps))
    return "\n".join(lines)


def theorem_and_claim(grid: Grid) -> str:
    demands = demands_of(grid)
    return f"{busiest_in_waves(grid, demands)} (theorem {theorem(grid, demands)})"


# --- the page -------------------------------------------------------------------------------------


def page(summary: Row) -> Iterator[str]:
    rows = summary["random"]
    tiny, climbs, clock = summary["exhaustive"], summary["climbing"], summary["clock"]
    total = sum(row["runs"] for row in [*rows, tiny, climbs, clock])
    exceeded = sum(row["exceeded"] + row["clock_exceeded"] for row in [*rows, tiny])
    exceeded += climbs["exceeded"] + clock["exceeded"]
    yield "# Attack: random grids against the bound of a grid"
    yield ""
    yield f"    python benchmarks/attack_grid.py {summary['command']}"
    yield ""
    yield (
        f"{total:,} runs of grids on a machine that shares nothing with the product's simulators "
        f"(`tests/oracle/grid_machine.py`, and compiled `grid_machine_fast.py`). **Runs that "
        f"exceed a bound, or cycles that exceed the clock of a chain: {exceeded:,}.** A bound is "
        "what the product says, with classes of its choice, and Theorem M computed a second time, "
        "with classes drawn for each grid (one, two or three of them). With these the clock is "
        "checked in every cycle for every block, promised place and sub-core. A quarter of the "
        "grids is dispatched greedily, the others give the place of a block away when those before "
        "it have ended too, a third of them at times earlier. Half of the runs of a grid have "
        "timings shortened at random; blocks start in random "
        "order; warps issue by chance, by fixed random preferences, the oldest or the youngest "
        "first."
    )
    yield ""
    yield "| family | | grids | runs | exceeded | reached | bound / run: least | median | 95 % |"
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|"
    for row in [*rows, tiny]:
        family, spread = row["family"], row["bound_over_longest"]
        yield (
            f"| {family['name']} | {family['title']} | {row['cases']:,} | {row['runs']:,} | "
            f"{row['exceeded'] + row['clock_exceeded']:,} | {row['reached']:,} | "
            f"{spread['least']:.3f} | {spread['median']:.3f} | {spread['95 %']:.3f} |"
        )
    yield ""
    yield (
        f"The last row is complete: all schedules, orders and delays of {tiny['cases']:,} tiny "
        f"grids ({tiny['given_up']:,} more had over {MOST_SCHEDULES:,} schedules in an order). "
        f"{climbs['climbs']:,} hill climbs on longest run / bound made {climbs['runs']:,} runs: "
        f"{climbs['exceeded']:,} exceeded it, {climbs['reached']:,} reached it, the median climb "
        f"came to {climbs['median']:.3f}. As many on what is above the clock, with classes that "
        f"stay, made {clock['runs']:,}: {clock['exceeded']:,} exceeded it."
    )
    yield from ("", "## Statements that are false, and one that is open", "")
    yield "| statement | grids | exceeded | share | most |"
    yield "|---|---:|---:|---:|---:|"
    for name, (title, _) in {**CONTROLS, **CLOCKS, **OPEN}.items():
        found = [row["controls"][name] for row in [*rows, tiny] if name in row["controls"]]
        checked = sum(one["checked"] for one in found)
        failed = sum(one["exceeded"] for one in found)
        most = max((one["most"] for one in found), default=0.0)
        share = f"{failed / checked:.2%} | {most or '':.4}" if failed else "0 | "
        yield f"| {title} | {checked:,} | {failed:,} | {share} |"
    yield from ("", "## The busiest sub-core, then waves: hill climbing", "")
    yield "| blocks | climbs | runs | exceeded | most |"
    yield "|---|---:|---:|---:|---:|"
    for title, row in summary["sharper_claim"].items():
        yield (
            f"| {title} | {row['climbs']:,} | {row['runs']:,} | {row['exceeded']:,} | "
            f"{row['most']:.3f} |"
        )
    yield ""
    yield (
        "The grids that were found are in `attack-grid.json`; docs/methods/grid.md has "
        "counterexamples that can be followed by hand."
    )


if __name__ == "__main__":
    main()
