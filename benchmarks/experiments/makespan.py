"""The makespan paper's Figs. 5, 6 and 7 again, and what the closed form says beside them.

Parts are kept in the folder for work as they are done, so that an interrupted run goes on.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from makespan_states import count_reachable

from experiments.experiment import Results, Task
from experiments.makespan_report import write_report
from experiments.sample_launches import sample_launches
from ptxwcet.bounds.methods import METHODS
from ptxwcet.bounds.outcome import BlockBound
from ptxwcet.methods.makespan.closed_form import (
    build_schedule,
    pessimistic_makespan,
    upper_makespan,
)
from ptxwcet.methods.makespan.ilp_model import Constraints, build_program
from ptxwcet.methods.makespan.methods import extrapolate
from ptxwcet.methods.makespan.schedule import check_schedule
from ptxwcet.methods.makespan.states import count_states, fill_table
from ptxwcet.methods.makespan.strings import shape_of
from ptxwcet.methods.makespan.study import MakespanOptions, makespans_of_file
from ptxwcet.opened.opening import RefusedKernel
from ptxwcet.simulator.exhaustive import search_worst
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.installation import describe_sources
from ptxwcet.support.whole_files import write_text
from ptxwcet.validate.cases import Case
from ptxwcet.warp.program import (
    BlockWorkload,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)

_FIG_6 = ("LLCLL", 600)
_FIG_7 = ("LLCLLCLL", 420)  # LCLCL with L = 1/2
_STRINGS = ("LC", "LCL", "LLC", "LCLC", "LLCC", "LLCL", "LCLCL", "LLCLL")
_LATENCY = 200

Rows = list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class _Protocol:
    """How much is done. ``seconds`` are for each integer program, ``ranges`` letters and warps."""

    seconds: float
    most_program_warps: int
    most_table_warps: int
    ranges: tuple[tuple[int, int], ...]
    machine_warps: int
    strings: tuple[str, ...]
    samples: int | None

    def __str__(self) -> str:
        return (
            f"integer programs up to {self.most_program_warps} warps and {self.seconds:g} s each, "
            f"tables of states up to {self.most_table_warps} warps, closed form on strings of up "
            f"to {max(length for length, _ in self.ranges)} letters"
        )


_FULL = _Protocol(120, 5, 20, ((8, 8), (10, 5), (12, 4)), 4, _STRINGS, None)
_QUICK = _Protocol(10, 2, 8, ((6, 4),), 3, _STRINGS[:4], 5)


def run(task: Task) -> Results:
    """Does all parts. Cost: ten minutes, mostly of integer programs; seconds if reduced."""
    protocol = _QUICK if task.is_quick else _FULL
    done = 0
    parts = _parts(protocol, lambda what: task.progress(what, done / len(parts)))
    kept = task.work / f"makespan-{'quick' if task.is_quick else 'full'}.json"
    data = _read_kept(kept)
    for name, measure in parts.items():
        task.progress(name.replace("_", " "), done / len(parts))
        if name not in data:
            data[name] = measure()
            text = json.dumps({"sources": describe_sources(), "data": data})
            write_text(kept, text, "PW233")
        done += 1
    results = Results(str(protocol))
    results.inputs |= {launch.path for launch in sample_launches()[: protocol.samples]}
    results.add_json("makespan.json", data)
    write_report(results, data)
    return results


def _read_kept(path: Path) -> dict[str, Any]:
    """The parts that this version of the program has done."""
    if path.exists():
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["sources"] == describe_sources():
            return dict(kept["data"])
    return {}


def _parts(protocol: _Protocol, say: Callable[[str], None]) -> dict[str, Callable[[], Any]]:
    """What is measured, by name; ``say`` is told which integer program is being solved."""
    most, tables, seconds = protocol.most_program_warps, protocol.most_table_warps, protocol.seconds
    sizes, short = range(1, most + 1), [Constraints.SHORT]
    return {
        "five": lambda: timed_programs(_FIG_6[0], sizes, Constraints, seconds, say),
        "five_tables": lambda: timed_tables(_FIG_6[0], tables),
        "reached": lambda: {
            "states": count_states(5, tables),
            "reached": count_reachable(_FIG_6[0], tables),
        },
        "six": lambda: convergence(*_FIG_6, tables),
        "seven": lambda: convergence(*_FIG_7, min(tables, 12)),
        "seven_programs": lambda: timed_programs(_FIG_7[0], sizes, short, seconds, say),
        "seven_tables": lambda: timed_tables(_FIG_7[0], min(tables, 12)),
        "refuted": lambda: convergence("LCL", 40, min(tables, 12)),
        "closed_form": lambda: closed_form_campaign(protocol.ranges),
        "unsafe_extrapolations": lambda: unsafe_extrapolations(24),
        "unsafe_pessimism": unsafe_pessimism,
        "two_machines": lambda: two_machines(protocol.strings, protocol.machine_warps),
        "samples": lambda: sample_makespans(protocol.samples),
    }


def timed_programs(
    string: str,
    sizes: Iterable[int],
    kinds: Iterable[Constraints],
    seconds: float,
    say: Callable[[str], None],
) -> Rows:
    """How long the integer program takes; larger sizes are left out once one was out of time."""
    build_program("L", 1, 1, 1, Constraints.SHORT).solve(seconds)  # loads the solver
    timed: Rows = []
    for kind in kinds:
        for warps in sizes:
            say(f"{string}, {warps} warps, {kind.value} constraints")
            start = time.perf_counter()
            solved = build_program(string, warps, 1, 1, kind).solve(seconds)
            timed.append(
                {
                    "string": string,
                    "warps": warps,
                    "constraints": kind.value,
                    "seconds": round(time.perf_counter() - start, 3),
                    "status": solved.status.value,
                    "slots": solved.objective,
                    "bound": solved.bound,
                }
            )
            if timed[-1]["status"] != "optimal":
                break
    return timed


def timed_tables(string: str, most: int) -> Rows:
    """How long the dynamic program takes for 1 to ``most`` warps."""
    timed: Rows = []
    for warps in range(1, most + 1):
        seconds = []
        for _ in range(9):  # the first of them may compile; other work may come between
            start = time.perf_counter()
            table = fill_table(string, warps, 1, 1)
            seconds.append(time.perf_counter() - start)
        timed.append(
            {
                "string": string,
                "warps": warps,
                "slots": table.makespan,
                "states": table.states,
                "seconds": round(min(seconds), 6),
            }
        )
    return timed


def convergence(string: str, warps: int, most: int) -> dict[str, Any]:
    """The published extrapolation for x = 1 to ``most``, beside the exact makespan."""
    shape = shape_of((string,))
    curve = extrapolate(warps, range(1, most + 1), lambda y: fill_table(string, y, 1, 1).makespan)
    exact = upper_makespan(shape, warps)
    start = time.perf_counter()
    assert check_schedule(build_schedule(string, warps), string, warps, 1, 1) == exact
    return {
        "string": string,
        "warps": warps,
        "pessimistic": pessimistic_makespan(shape, warps, 1, 1),
        "exact": exact,
        "exact_seconds": round(time.perf_counter() - start, 4),
        "extrapolated": [row.extrapolated for row in curve],
        "makespans": [row.makespan for row in curve],
    }


def closed_form_campaign(ranges: Iterable[tuple[int, int]]) -> Rows:
    """Every string against the table: how many the closed form fits, by number of warps."""
    tallies: Rows = []
    for length, warps in ranges:
        for count in range(1, warps + 1):
            fits = above = below = 0
            for string in strings_up_to(length):
                slots = fill_table(string, count, 1, 1).makespan
                wanted = upper_makespan(shape_of((string,)), count)
                fits += slots == wanted
                above += slots > wanted
                below += slots < wanted
            tallies.append(
                {"length": length, "warps": count, "fits": fits, "above": above, "below": below}
            )
    return tallies


def strings_up_to(length: int) -> Iterable[str]:
    """All strings of so many letters or fewer that begin with L; the others are mirrored."""
    for letters in range(length):
        for rest in itertools.product("LC", repeat=letters):
            yield "L" + "".join(rest)


def unsafe_extrapolations(most: int) -> dict[str, int]:
    """Strings up to 6 letters for which the published value lies below the longest makespan."""
    found = {}
    for warps in range(3, most + 1):
        found[str(warps)] = sum(
            -(-warps // 2) * fill_table(string, 2, 1, 1).makespan
            < upper_makespan(shape_of((string,)), warps)
            for string in strings_up_to(6)
        )
    return found


def unsafe_pessimism() -> dict[str, int]:
    """Counts problems whose longest makespan exceeds equations 3 to 7, by largest capacity."""
    counts = {"problems": 0, "capacities above 1": 0, "exceeded": 0, "capacity 1": 0}
    for letters in range(1, 6):
        for string in map("".join, itertools.product("LC", repeat=letters)):
            for warps, load, core in itertools.product(range(1, 8), (1, 2, 3), (1, 2, 3)):
                slots = fill_table(string, warps, load, core).makespan
                over = slots > pessimistic_makespan(shape_of((string,)), warps, load, core)
                counts["problems"] += 1
                counts["capacities above 1"] += max(load, core) > 1
                counts["exceeded"] += over
                counts["capacity 1"] += over and max(load, core) == 1
    return counts


def two_machines(strings: Iterable[str], warps: int) -> Rows:
    """Compares both machines on each string, unit times; ours has one issue port, then two."""
    comparisons: Rows = []
    for string in strings:
        shape = shape_of((string,))
        comparison: dict[str, Any] = {
            "string": string,
            "warps": warps,
            "makespan": fill_table(string, warps, 1, 1).makespan,
            "pessimistic": pessimistic_makespan(shape, warps, 1, 1),
        }
        for ports, servers in ((1, ()), (2, (("L", 1), ("C", 1)))):
            case = Case(string, our_workload(string, warps), ports, servers)
            try:
                worst = search_worst(case.workload, case.configuration).cycles
            except PtxwcetError:
                worst = None
            comparison[f"worst_{ports}"] = worst
            analysis = case.analyse()
            for method in METHODS:
                outcome = method.evaluate(analysis)
                cycles = outcome.cycles if isinstance(outcome, BlockBound) else None
                comparison[f"{method.name}_{ports}"] = cycles
        comparisons.append(comparison)
    return comparisons


def our_workload(string: str, warps: int) -> BlockWorkload:
    """An instruction of one cycle for each letter, which reads the result of the one before."""
    body = tuple(TimedInstruction(letter, 1, 0, ("r",), ("r",)) for letter in string)
    return BlockWorkload((WarpClass(WarpProgram(body), tuple(range(warps))),), Scoreboard.RAW_WAW)


def sample_makespans(most: int | None) -> Rows:
    """The first samples of the other experiments that have a single string, L = C = 1."""
    samples: Rows = []
    for launch in sample_launches()[:most]:
        if launch.name == "loops":
            continue
        try:
            answer = makespans_of_file(launch.request(_LATENCY), MakespanOptions())
        except PtxwcetError:
            continue
        for kernel in answer.kernels:
            if isinstance(kernel, RefusedKernel):
                refused: dict[str, Any] = {"refused": kernel.diagnostics[0].code}
                samples.append({"kernel": kernel.kernel.name, "block": launch.block, **refused})
                continue
            makespan = kernel.makespan
            parts = [(one.multiplicity, one.problem.shape) for one in makespan.sections]
            samples.append(
                {
                    "kernel": kernel.prepared.kernel.name,
                    "block": launch.block,
                    "warps": makespan.warps,
                    "sections": sum(times for times, _ in parts),
                    "instructions": sum(times * shape.length for times, shape in parts),
                    "pairs": sum(times * shape.pairs for times, shape in parts),
                    "slots": makespan.slots,
                    "exact": makespan.is_exact,
                }
            )
    return samples
