"""Attacks whose oracles share nothing with the tool, for ``ptxwcet validate attack``.

    ptxwcet validate attack benchmarks/attacks.py --timeout 600 --workers 2 -o attack
    ptxwcet validate attack kernels benchmarks/attacks.py --cases 1000 -o kernels

Units are defined in docs/guide/attack.md. The benchmarks of the same attacks write the pages of
docs/experiments (``attack_grid.py``, ``attack_servers.py``, ``attack_launches.py``,
``bench_access_attack.py``, ``random_kernels.py``).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

# the oracles go first: two modules have names of benchmarks; a link may lead to this file
sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "oracle"))

from ptxwcet.sweeps.attacks import Attack, Seen, Witness
from ptxwcet.validate.witness import shrink_text

if TYPE_CHECKING:
    from grid_attack import Tally as GridTally
    from server_attack import Tally as ServerTally

SOURCES = (".", "../tests/oracle", "../tests/support", "../samples")

# Of a unit: about a second on one core.
KERNELS, LAUNCHES, ACCESSES = 12, 2, 6
GRIDS, TINY, RUNS, STEPS, MOST_SCHEDULES = 40, 60, 40, 150, 20_000
SERVED, SERVED_RUNS = 5, 30
_MOST_TRIES = 200  # of shrinking


def kernels(seed: int) -> Seen:
    """Random kernels of a kind, on adversarial data in an interpreter from the ISA manual alone."""
    from random_kernels import Task, run_task
    from random_programs import KINDS

    seen = Seen()
    task = Task(KINDS[seed % len(KINDS)], range(seed * KERNELS, (seed + 1) * KERNELS))
    for row in run_task(task):
        seen.cases += 1
        seen.runs += row.executions
        seen.counts["blocks executed"] += row.visits
        seen.counts[f"refused {row.code}" if row.code else "bounded"] += 1
        if row.violation:
            seen.violations += 1
            title = f"{row.kind} kernel {row.seed}: {row.text}"
            lines = (row.launch, row.given)
            seen.witnesses.append(Witness(row.violation, title, lines, row.shrunk))
    return seen


def grids(seed: int) -> Seen:
    """Random grids of each family, all schedules of tiny ones, and a climb, on another machine."""
    from grid_attack import (
        CONTROLS,
        FAMILIES,
        Tally,
        attack,
        climb,
        longest_by_chance,
        mixed,
        random_grid,
        ratio_to,
        search_all,
        shrunk,
        theorem,
    )
    from grid_attack import TINY as FAMILY

    seen = Seen()
    own = range(seed * GRIDS, (seed + 1) * GRIDS)
    for family in FAMILIES:
        tally = attack(family, own, RUNS)
        for wrong in _add_grids(seen, tally, CONTROLS):
            seen.counts[f"exceeded: {family.name}"] += 1
            if seen.witnesses:
                continue
            for number in own:
                grid = random_grid(family, number)

                def remains(grid: Any, number: int = number) -> bool:
                    demands, classes, longest, excess = longest_by_chance(grid, number, RUNS)
                    claimed = min(theorem(grid, demands), mixed(grid, demands, classes))
                    return longest > claimed or excess > 0

                if remains(grid):
                    small = shrunk(grid, remains)
                    lines = (f"seed {number}, {RUNS} runs", repr(small), wrong)
                    seen.witnesses.append(Witness("grid", _title(family, wrong), lines))
                    break
    tiny = Tally()
    for number in range(seed * TINY, (seed + 1) * TINY):
        grid = random_grid(FAMILY, number)
        found = search_all(grid, number, MOST_SCHEDULES)
        if found is None:
            seen.counts["tiny grids given up"] += 1
        else:
            tiny.add(grid, *found)
            seen.counts["tiny grids, all schedules"] += 1
    for wrong in _add_grids(seen, tiny, CONTROLS):
        seen.witnesses.append(Witness("tiny grid", _title(FAMILY, wrong), (wrong,)))
    family = FAMILIES[seed % len(FAMILIES)]
    ratio, grid = climb(random_grid(family, seed), seed, STEPS, ratio_to(theorem, RUNS))
    seen.cases += 1
    seen.runs += (STEPS + 1) * RUNS
    seen.counts["climbs"] += 1
    seen.counts["climbs to the bound"] += ratio == 1
    if ratio > 1:
        seen.violations += 1
        seen.witnesses.append(Witness("climb", f"{family.title}: {ratio:.4f} times", (repr(grid),)))
    return seen


def _title(family: Any, wrong: str) -> str:
    """The family and the cycles, without the grid."""
    return f"{family.title}: {wrong.partition(': ')[0]}"


def _add_grids(seen: Seen, tally: GridTally, controls: Any) -> list[str]:
    """Adds the numbers of a family; its witnesses in words."""
    seen.cases += tally.cases
    seen.runs += tally.runs
    seen.violations += len(tally.witnesses)
    seen.counts["bounds reached"] += tally.equal
    for name, (checked, exceeded) in tally.controls.items():
        if name in controls:
            seen.control(controls[name][0], checked, exceeded)
    return tally.witnesses


def servers(seed: int) -> Seen:
    """Random grids and blocks that wait for memory path, memory and cache, on another machine."""
    import server_attack as oracle

    seen = Seen()
    own = range(seed * SERVED, (seed + 1) * SERVED)
    for family in (*oracle.ATTACKED, oracle.CROWDED):
        plain = () if family is oracle.CROWDED else (oracle.attack_grids, oracle.attack_blocks)
        for attack in (*plain, oracle.attack_kept):
            tally = attack(family, own, SERVED_RUNS)
            _add_served(seen, tally)
            if tally.witnesses:
                kind, wrong = attack.__name__.removeprefix("attack_"), tally.witnesses[0]
                lines = (*_shrunk_served(attack.__name__, family, own), wrong)
                seen.witnesses.append(Witness(kind, _title(family, wrong), lines))
    return seen


def _add_served(seen: Seen, tally: ServerTally) -> None:
    from attack_summaries import CONTROLS

    seen.cases += tally.cases
    seen.runs += tally.runs
    seen.violations += tally.exceeded
    seen.counts["bounds reached"] += tally.equal
    for name, tried in tally.tried.items():
        seen.control(CONTROLS[name], tried, tally.broken[name])


def _shrunk_served(name: str, family: Any, seeds: range) -> tuple[str, ...]:
    """The first launch that is longer than its bound, with one thing less again and again."""
    import server_attack as oracle
    from grid_attack import shrunk

    if name != "attack_grids":
        return ()
    for seed in seeds:
        served = oracle.random_served(family, seed)

        def remains(grid: Any, served: Any = served, seed: int = seed) -> bool:
            other = replace(served, grid=grid)
            if not all(any(block) for block in grid.kinds):
                return False
            return oracle.longest(other, seed, SERVED_RUNS) > oracle.claimed(other)

        if remains(served.grid):
            small = replace(served, grid=shrunk(served.grid, remains))
            return (f"seed {seed}, {SERVED_RUNS} runs", repr(small))
    return ()


def launches(seed: int) -> Seen:
    """Random launches, and one of a sample: executed, counted and run as whole grids."""
    from attack_launches import attacked, attacked_sample
    from launch_attack import GAPS, MACHINES, attack_launch
    from launch_kernels import random_launch

    seen = Seen()
    for number in range(seed * LAUNCHES, (seed + 1) * LAUNCHES):
        found = attacked(number)
        _add_launch(seen, found)
        if not found.violations or seen.witnesses:
            continue
        one, machines = random_launch(number), (*MACHINES, GAPS)
        machine = machines[number % len(machines)]

        def violations(text: str, one: Any = one, machine: str = machine) -> Sequence[str]:
            return list(attack_launch(replace(one, text=text), machine).violations)

        launch = str(replace(one, text=""))
        lines = (f"launch seed {number} on {machine}", launch, *found.violations)
        title, ptx = found.violations[0], _shrunk_text(one.text, violations)
        seen.witnesses.append(Witness("launch", title, lines, ptx))
    sample = attacked_sample(seed)
    _add_launch(seen, sample)
    if sample.violations:
        lines = (f"sample seed {seed}", *sample.violations)
        seen.witnesses.append(Witness("sample launch", sample.violations[0], lines))
    return seen


def _add_launch(seen: Seen, found: Any) -> None:
    seen.cases += 1
    seen.runs += found.runs
    seen.violations += bool(found.violations)
    seen.counts[f"refused {found.code}" if found.code else "bounded"] += 1
    seen.counts["executions"] += found.launches
    seen.counts["blocks executed"] += found.blocks


def accesses(seed: int) -> Seen:
    """Random kernels full of accesses: what each needs, executed and served lane by lane."""
    from access_attack import attack_kernel
    from access_kernels import access_kernel, open_access_kernel

    seen = Seen()
    for number in range(seed * ACCESSES, (seed + 1) * ACCESSES):
        for what, make in (("closed", access_kernel), ("open", open_access_kernel)):
            one = make(number)
            found = _or_wrong(attack_kernel, one)
            seen.cases += 1
            seen.runs += found.accesses
            seen.counts["exact"] += found.exact
            if not found.wrong:
                continue
            seen.violations += 1
            if seen.witnesses:
                continue

            def wrong(text: str, one: Any = one) -> Sequence[str]:
                return list(attack_kernel(replace(one, text=text)).wrong)

            lines = (f"{what} kernel of seed {number}", str(replace(one, text="")), *found.wrong)
            ptx = _shrunk_text(one.text, wrong)
            seen.witnesses.append(Witness("accesses", found.wrong[0], lines, ptx))
    return seen


def _or_wrong(attack: Callable[[Any], Any], one: Any) -> Any:
    """What is found; an internal error is wrong as well."""
    from access_attack import Attacked

    try:
        return attack(one)
    except Exception as error:
        return Attacked(1, 0, 0, [f"seed {one.seed}: {type(error).__name__}: {error}"])


def _shrunk_text(text: str, violations: Callable[[str], Sequence[str]]) -> str:
    """A kernel without the instructions that its violation does not need."""
    tries = 0

    def remains(text: str) -> bool:
        nonlocal tries
        tries += 1
        try:
            return tries <= _MOST_TRIES and bool(violations(text))
        except Exception:  # a text that is no such kernel any more
            return False

    return shrink_text(text, remains)


ATTACKS = (
    Attack(
        "kernels",
        "paths and bounds of random kernels of twelve kinds, against executions on adversarial "
        "data by an interpreter written from the PTX ISA alone",
        kernels,
    ),
    Attack(
        "grid-machine",
        "the bound of a launch of random grids, against a machine that shares nothing with the "
        "tool's simulators: random runs, all schedules of tiny grids, hill climbing",
        grids,
    ),
    Attack(
        "servers",
        "bounds of random grids and blocks that wait for memory path, memory and L2 cache, "
        "against a machine with these servers",
        servers,
    ),
    Attack(
        "launches",
        "paths, counts of blocks, residency and bound of random launches, against their execution "
        "and runs of whole grids under six schedules",
        launches,
    ),
    Attack(
        "accesses",
        "the transactions of each access of random kernels, against an oracle that serves them "
        "lane by lane",
        accesses,
    ),
)
