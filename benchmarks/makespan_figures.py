"""The makespan paper's Figs. 5, 6 and 7 again, the closed form against the table, two machines.

``python benchmarks/makespan_figures.py`` writes docs/experiments/makespan.json and its pictures;
``--pictures`` draws them again from the file. docs/experiments/makespan.md says what they show.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from ptxwcet.bounds.methods import METHODS
from ptxwcet.bounds.outcome import BlockBound
from ptxwcet.makespan.closed_form import build_schedule, upper_makespan
from ptxwcet.makespan.extrapolation import extrapolate
from ptxwcet.makespan.ilp_model import Constraints, build_program
from ptxwcet.makespan.pessimistic import pessimistic_makespan
from ptxwcet.makespan.schedule import check_schedule
from ptxwcet.makespan.states import count_reachable, count_states, fill_table
from ptxwcet.makespan.strings import shape_of
from ptxwcet.reproduce.sample_launches import sample_launches
from ptxwcet.simulator.exhaustive import search_worst
from ptxwcet.studies.kernel_makespan import MakespanOptions, makespans_of_file
from ptxwcet.studies.opening import RefusedKernel
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.validate.cases import Case
from ptxwcet.warp.program import (
    BlockWorkload,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)

OUT = Path(__file__).resolve().parents[1] / "docs" / "experiments"
SIX = ("LLCLL", 600)
SEVEN = ("LLCLLCLL", 420)  # LCLCL with L = 1/2
STRINGS = ("LC", "LCL", "LLC", "LCLC", "LLCC", "LLCL", "LCLCL", "LLCLL")


def timed_programs(
    string: str, sizes: Iterable[int], kinds: Iterable[Constraints], seconds: float
) -> list[dict[str, Any]]:
    """How long the integer program takes; a size is left out once it was out of time."""
    rows = []
    for kind in kinds:
        for warps in sizes:
            start = time.perf_counter()
            found = build_program(string, warps, 1, 1, kind).solve(seconds)
            row = {
                "string": string,
                "warps": warps,
                "constraints": kind.value,
                "seconds": round(time.perf_counter() - start, 3),
                "status": found.status.value,
                "slots": found.objective,
                "bound": found.bound,
            }
            rows.append(row)
            print(row, flush=True)
            if row["status"] != "optimal":
                break
    return rows


def timed_tables(string: str, most: int) -> list[dict[str, Any]]:
    """The dynamic program for 1 to ``most`` warps."""
    rows = []
    for warps in range(1, most + 1):
        seconds = []
        for _ in range(9):  # the first of them may compile; other work may come between
            start = time.perf_counter()
            table = fill_table(string, warps, 1, 1)
            seconds.append(time.perf_counter() - start)
        rows.append(
            {
                "string": string,
                "warps": warps,
                "slots": table.makespan,
                "states": table.states,
                "seconds": round(min(seconds), 6),
            }
        )
    return rows


def convergence(string: str, warps: int, most: int) -> dict[str, Any]:
    """The published extrapolation for x = 1 to ``most``, between the two ends."""
    shape = shape_of((string,))
    rows = extrapolate(warps, range(1, most + 1), lambda y: fill_table(string, y, 1, 1).makespan)
    exact = upper_makespan(shape, warps)
    start = time.perf_counter()
    assert check_schedule(build_schedule(string, warps), string, warps, 1, 1) == exact
    return {
        "string": string,
        "warps": warps,
        "pessimistic": pessimistic_makespan(shape, warps, 1, 1),
        "exact": exact,
        "exact_seconds": round(time.perf_counter() - start, 4),
        "extrapolated": [row.extrapolated for row in rows],
        "makespans": [row.makespan for row in rows],
    }


def closed_form_campaign() -> list[dict[str, Any]]:
    """Every string against the table: how many the closed form fits, by number of warps."""
    rows = []
    for length, warps in ((8, 8), (10, 5), (12, 4)):
        for count in range(1, warps + 1):
            fits = above = below = 0
            for n in range(1, length + 1):
                for rest in itertools.product("LC", repeat=n - 1):
                    string = "L" + "".join(rest)
                    slots = fill_table(string, count, 1, 1).makespan
                    wanted = upper_makespan(shape_of((string,)), count)
                    fits += slots == wanted
                    above += slots > wanted
                    below += slots < wanted
            rows.append(
                {"length": length, "warps": count, "fits": fits, "above": above, "below": below}
            )
            print(rows[-1], flush=True)
    return rows


def unsafe_extrapolations(most: int) -> dict[str, int]:
    """Strings up to 6 letters for which the published value lies below the longest makespan."""
    found = {}
    for warps in range(3, most + 1):
        count = 0
        for n in range(1, 7):
            for rest in itertools.product("LC", repeat=n - 1):
                string = "L" + "".join(rest)
                exact = upper_makespan(shape_of((string,)), warps)
                two = fill_table(string, 2, 1, 1).makespan
                count += -(-warps // 2) * two < exact
        found[str(warps)] = count
    return found


def unsafe_pessimism() -> dict[str, int]:
    """Problems in which the longest makespan exceeds equations 3 to 7, by largest capacity."""
    found = {"problems": 0, "capacities above 1": 0, "exceeded": 0, "capacity 1": 0}
    for n in range(1, 6):
        for string in map("".join, itertools.product("LC", repeat=n)):
            for warps, load, core in itertools.product(range(1, 8), (1, 2, 3), (1, 2, 3)):
                slots = fill_table(string, warps, load, core).makespan
                over = slots > pessimistic_makespan(shape_of((string,)), warps, load, core)
                found["problems"] += 1
                found["capacities above 1"] += max(load, core) > 1
                found["exceeded"] += over
                found["capacity 1"] += over and max(load, core) == 1
    return found


def two_machines(warps: int) -> list[dict[str, Any]]:
    """The same strings on both machines, unit times; ours with one issue port and with two."""
    rows = []
    for string in STRINGS:
        shape = shape_of((string,))
        row: dict[str, Any] = {
            "string": string,
            "makespan": fill_table(string, warps, 1, 1).makespan,
            "pessimistic": pessimistic_makespan(shape, warps, 1, 1),
        }
        for ports, servers in ((1, ()), (2, (("L", 1), ("C", 1)))):
            case = Case(string, our_workload(string, warps), ports, servers)
            try:
                worst = search_worst(case.workload, case.configuration).cycles
            except PtxwcetError:
                worst = None
            row[f"worst_{ports}"] = worst
            analysis = case.analyse()
            for method in METHODS:
                outcome = method.evaluate(analysis)
                cycles = outcome.cycles if isinstance(outcome, BlockBound) else None
                row[f"{method.name}_{ports}"] = cycles
        rows.append(row)
        print(row, flush=True)
    return rows


def our_workload(string: str, warps: int) -> BlockWorkload:
    """One cycle on its unit for each letter, each instruction on the result of the one before."""
    body = tuple(TimedInstruction(letter, 1, 0, ("r",), ("r",)) for letter in string)
    return BlockWorkload((WarpClass(WarpProgram(body), tuple(range(warps))),), Scoreboard.RAW_WAW)


def sample_makespans() -> list[dict[str, Any]]:
    """The samples of the other experiments that have a single string, L = C = 1."""
    rows = []
    for launch in sample_launches():
        if launch.name == "loops":
            continue
        try:
            answer = makespans_of_file(launch.request(200), MakespanOptions())
        except PtxwcetError:
            continue
        for row in answer.kernels:
            if isinstance(row, RefusedKernel):
                found: dict[str, Any] = {"refused": row.diagnostics[0].code}
                name = row.kernel.name
            else:
                makespan, name = row.makespan, row.prepared.kernel.name
                parts = [(one.multiplicity, one.problem.shape) for one in makespan.sections]
                found = {
                    "warps": makespan.warps,
                    "sections": sum(times for times, _ in parts),
                    "instructions": sum(times * shape.length for times, shape in parts),
                    "pairs": sum(times * shape.pairs for times, shape in parts),
                    "slots": makespan.slots,
                    "exact": makespan.is_exact,
                }
            rows.append({"kernel": name, "block": launch.block, **found})
    return rows


def parts(seconds: float) -> dict[str, Callable[[], Any]]:
    """What is measured, by name."""
    short = [Constraints.SHORT]
    return {
        "five": lambda: timed_programs(SIX[0], range(1, 6), Constraints, seconds),
        "five_tables": lambda: timed_tables(SIX[0], 20),
        "reached": lambda: {
            "states": count_states(5, 20),
            "reached": count_reachable("LLCLL", 20, 1, 1),
        },
        "six": lambda: convergence(*SIX, 20),
        "seven": lambda: convergence(*SEVEN, 12),
        "seven_programs": lambda: timed_programs(SEVEN[0], range(1, 5), short, seconds),
        "seven_tables": lambda: timed_tables(SEVEN[0], 12),
        "refuted": lambda: convergence("LCL", 40, 12),
        "closed_form": closed_form_campaign,
        "unsafe_extrapolations": lambda: unsafe_extrapolations(24),
        "unsafe_pessimism": unsafe_pessimism,
        "two_machines": lambda: two_machines(4),
        "samples": sample_makespans,
    }


def draw(data: dict[str, Any]) -> None:
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(11, 4))
    for kind, marker in (("short", "o"), ("long", "s")):
        rows = [row for row in data["five"] if row["constraints"] == kind]
        done = [row for row in rows if row["status"] == "optimal"]
        left.plot(
            [row["warps"] for row in done],
            [row["seconds"] for row in done],
            marker=marker,
            label=f"integer program, {kind} constraints",
        )
    tables = data["five_tables"]
    seconds = [max(row["seconds"], 1e-6) for row in tables]
    left.plot([row["warps"] for row in tables], seconds, marker=".", label="table of states")
    _mark_stops(left, data["five"])
    _finish(left, "Fig. 5: seconds, LLCLL, L = C = 1", "warps W", "seconds", log=True)
    programs = [row for row in data["seven_programs"] if row["status"] == "optimal"]
    right.plot(
        [row["warps"] for row in programs],
        [row["seconds"] for row in programs],
        marker="o",
        label="integer program, short constraints",
    )
    tables = data["seven_tables"]
    seconds = [max(row["seconds"], 1e-6) for row in tables]
    right.plot([row["warps"] for row in tables], seconds, marker=".", label="table of states")
    _mark_stops(right, data["seven_programs"])
    _finish(right, "Fig. 7: seconds for T(x), LCLCL, L = 1/2", "x", "seconds", log=True)
    _save(figure, "makespan-seconds.png")
    figure, axes = pyplot.subplots(1, 3, figsize=(14, 4))
    names = ("Fig. 6: LLCLL", "Fig. 7: LCLCL, L = 1/2", "LCL")
    for axis, name, key in zip(axes, names, ("six", "seven", "refuted"), strict=True):
        one = data[key]
        x = range(1, len(one["extrapolated"]) + 1)
        axis.plot(x, one["extrapolated"], "o", mfc="none", label="ceil(W / y) T(y)")
        least = list(itertools.accumulate(one["extrapolated"], min))
        axis.plot(x, least, "-", label="published T(W, x)")
        axis.axhline(one["pessimistic"], ls="--", color="0.4", label="equations 3 to 7")
        axis.axhline(one["exact"], color="#aa3377", lw=1.2, label="exact (closed form)")
        _finish(axis, f"{name}, W = {one['warps']}", "x", "time slots")
    _save(figure, "makespan-convergence.png")


def _mark_stops(axis: Any, rows: list[dict[str, Any]]) -> None:
    stopped = [row for row in rows if row["status"] != "optimal"]
    axis.plot(
        [row["warps"] for row in stopped],
        [row["seconds"] for row in stopped],
        "x",
        color="black",
        label="integer program stopped",
    )


def _finish(axis: Any, title: str, x: str, y: str, *, log: bool = False) -> None:
    axis.set_title(title, fontsize=10)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.xaxis.set_major_locator(matplotlib.ticker.MaxNLocator(integer=True))
    axis.grid(alpha=0.3)
    if log:
        axis.set_yscale("log")
    axis.legend(fontsize=8)


def _save(figure: Any, name: str) -> None:
    figure.tight_layout()
    figure.savefig(OUT / name, dpi=100, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="for each integer program")
    parser.add_argument("--only", action="append", help="measure these parts of the file again")
    parser.add_argument("--pictures", action="store_true", help="draw from the committed file")
    arguments = parser.parse_args()
    file = OUT / "makespan.json"
    data = json.loads(file.read_text()) if file.exists() else {}
    if not arguments.pictures:
        for name, part in parts(arguments.seconds).items():
            if not arguments.only or name in arguments.only:
                data[name] = part()
                file.write_text(json.dumps(data, indent=1) + "\n")
    draw(data)


if __name__ == "__main__":
    main()
