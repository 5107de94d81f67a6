"""How tight is the bound of a grid? Bound against the longest run of the grid simulator.

``python benchmarks/grid_precision.py --out docs/experiments/grid-precision.json`` bounds the
launches of ``samples/launches`` on 1 to 16 SMs with the residency of the machine, runs each under
LRR, GTO, youngest first and by chance, nominal and with jitter, and writes the ratios as JSON.
With ``--suite`` it takes the kernels of ``benchmarks/kernels/suite`` with the launches and answers
that lie there, on the idealised machine, those that execute no more than 200,000 basic blocks.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from kernel_suite import entries, read_answers

from ptxwcet.bounds.grid import Dispatch, GridBound, bound_grid
from ptxwcet.bounds.launch_bound import kinds_of_blocks
from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.trace.study import TraceOptions, trace_launch
from ptxwcet.opened.opening import RefusedKernel
from ptxwcet.opened.request import Request
from ptxwcet.simulator.grid import (
    GridOptions,
    GridRun,
    GridShape,
    GridWorkload,
    TracedProgram,
    TracedVisit,
)
from ptxwcet.simulator.grid_engine import simulate_grid
from ptxwcet.simulator.policies import Jitter, find_policy
from ptxwcet.support.diagnostics import PtxwcetError

ROOT = Path(__file__).parents[1]
SMS = (1, 2, 4, 8, 16)
RUNS = (("lrr", 0), ("gto", 0), ("youngest", 0), ("random", 0), ("random", 25))
MOST_EVENTS = 1_500_000
MOST_EVENTS_OF_SUITE = 200_000
MACHINES = ("orin-ecrts2025", "rtx3070-gpgpusim")
LOOSEST = 5
"""Launches that the page names."""

Row = dict[str, Any]


def main() -> None:
    """Measures and writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs/experiments/grid-precision.json")
    parser.add_argument("--only", default="", help="launches whose name begins so")
    parser.add_argument("--suite", action="store_true", help="kernels of the suite, not samples")
    parser.add_argument(
        "--reuse", action="store_true", help="longest runs from the file, where it has them"
    )
    options = parser.parse_args()
    known = {}
    if options.reuse:
        known = {key_of(r): r for r in json.loads(options.out.read_text(encoding="utf-8"))["rows"]}
    rows: list[Row] = []
    skipped: dict[str, str] = {}
    for path, ptx, facts in suite() if options.suite else samples():
        for machine in MACHINES[:1] if options.suite else MACHINES:
            if not path.stem.startswith(options.only):
                continue
            begin = time.perf_counter()
            request = Request(str(ptx), launch_file=str(path), machine=machine)
            most = MOST_EVENTS_OF_SUITE if options.suite else MOST_EVENTS
            try:
                rows += measure(request, facts, known, most)
            except PtxwcetError as error:
                skipped[f"{path.stem} on {machine}"] = error.diagnostics[0].message
            print(f"{path.stem} on {machine}: {time.perf_counter() - begin:.1f} s", flush=True)
    summary = {"rows": rows, "skipped": skipped, "suite": options.suite}
    lines = ",\n".join(json.dumps(row) for row in rows)  # a row a line, for people and for diff
    text = f'{{"rows": [\n{lines}\n],\n"skipped": {json.dumps(skipped, indent=1)}}}\n'
    options.out.write_text(text, encoding="utf-8")
    print("\n".join(page(summary)))


def key_of(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("launch", "machine", "sms", "blocks"))


Facts = dict[str, Any]
"""Fields of a Request that say what the user knows of a kernel."""


def samples() -> Iterator[tuple[Path, Path, Facts]]:
    """Launch file and PTX of each sample that is launched."""
    for path in sorted((ROOT / "samples" / "launches").glob("*.toml")):
        yield path, ptx_of(tomllib.loads(path.read_text(encoding="utf-8"))["kernel"]), {}


def suite() -> Iterator[tuple[Path, Path, Facts]]:
    """The same of the kernels of the suite, with the answers to what is asked of them."""
    answers = read_answers()
    for entry in entries():
        said = tuple(f"{one.loop}={one.bound}" for one in answers.get(entry.kernel, ()))
        facts = None if entry.facts is None else str(entry.facts)
        yield entry.launch, entry.path, {"loop_bounds": said, "facts_file": facts}


def measure(
    request: Request, facts: Facts, known: dict[tuple[Any, ...], Row], most_events: int
) -> Iterator[Row]:
    """Rows for each number of SMs: the launch, and its blocks again and again. PtxwcetError."""
    assert request.launch_file is not None
    path, machine = Path(request.launch_file), request.machine
    answer, *_ = bound_file(replace(request, **facts)).kernels
    if isinstance(answer, RefusedKernel):
        raise PtxwcetError(answer.diagnostics)
    grid = answer.launch.grid
    assert grid is not None
    kinds = kinds_of_blocks([(piece.analysis, piece.count) for piece in answer.pieces], grid)
    workload, shape = workload_of(request)
    blocks, resident = workload.block_count, shape.resident_blocks
    for sms in SMS:
        for times in sorted({1, -(-3 * sms * resident // blocks)}):
            if times * workload_size(workload) > most_events:
                continue
            many = replace(workload, chosen=np.tile(workload.chosen, (times, 1)))
            taken = [replace(kind, count=kind.count * times) for kind in kinds]
            before = known.get((path.stem, machine, sms, blocks * times))
            longest = before["longest"] if before else longest_run(many, replace(shape, sms=sms))
            bound = bound_grid(taken, Dispatch(sms, resident, breadth_first=True))
            series = answer.worst.bound.cycles * -(-blocks * times // sms)
            row = row_of(path.stem, machine, sms, blocks * times, bound, longest, series)
            yield {**row, "repeated": times > 1}


def longest_run(workload: GridWorkload, shape: GridShape) -> int:
    """Over the policies, with nominal timings and with jitter."""
    return max(
        simulate_grid(workload, shape, GridOptions(find_policy(policy), 0, Jitter(jitter))).cycles
        for policy, jitter in RUNS
    )


def workload_of(request: Request) -> tuple[GridWorkload, GridShape]:
    """What the grid simulator runs for a launch: what path analysis knows, or an execution."""
    caught = []

    def catch(workload: GridWorkload, shape: GridShape, options: GridOptions) -> GridRun:
        caught.append((workload, shape))
        return simulate_grid(workload, shape, options)

    with mock.patch("ptxwcet.simulator.grid_engine.simulate_grid", catch):
        trace_launch(request, TraceOptions("gto", GridWishes(sms=1), most_events=MOST_EVENTS))
    found: tuple[GridWorkload, GridShape] = caught[0]
    return found


def workload_size(workload: GridWorkload) -> int:
    """Events of a run, about one for each basic block that a warp executes."""

    def events(program: TracedProgram) -> int:
        return sum(
            1 if isinstance(node, TracedVisit) else node.count * events(node.body)
            for node in program
        )

    each = np.array([events(program) for program in workload.programs])
    return int(each[workload.chosen].sum())


def ptx_of(kernel: str) -> Path:
    """The sample that has the kernel."""
    for path in sorted((ROOT / "samples").glob("*.ptx")):
        if f".entry {kernel}(" in path.read_text(encoding="utf-8"):
            return path
    raise FileNotFoundError(kernel)


def row_of(
    name: str, machine: str, sms: int, blocks: int, bound: GridBound, longest: int, series: int
) -> Row:
    return {
        "launch": name,
        "machine": machine,
        "sms": sms,
        "resident": bound.resident_blocks,
        "blocks": blocks,
        "bound": bound.cycles,
        "form": bound.form.value,
        "work": bound.work_cycles,
        "slack": bound.slack_cycles,
        "tail": bound.tail_cycles,
        "longest": longest,
        "ratio": round(bound.cycles / longest, 4),
        "series": round(series / bound.cycles, 4),
    }


# --- the page -------------------------------------------------------------------------------------


def page(summary: Row) -> Iterator[str]:
    rows = summary["rows"]
    yield "# How tight the bound of a grid is"
    yield ""
    of_suite = " --suite --out docs/experiments/grid-precision-suite.json"
    yield f"    python benchmarks/grid_precision.py{of_suite if summary['suite'] else ''}"
    yield ""
    below = sum(row["bound"] < row["longest"] for row in rows)
    what = "kernels of the suite" if summary["suite"] else "sample launches"
    yield (
        f"Bound / longest run of the grid simulator, for {len({r['launch'] for r in rows})} {what} "
        f"with the residency of the machine (registers unknown, so that they set no limit): "
        f"LRR, GTO, youngest first, by chance, by chance with 25 % jitter. "
        f"**Runs above the bound: {below}.** The JSON file beside this page has a row for each "
        f"launch and number of SMs."
    )
    for machine in MACHINES:
        for repeated in (False, True):
            chosen = [r for r in rows if r["machine"] == machine and r["repeated"] == repeated]
            if chosen:
                size = "blocks again and again, 3 for each slot" if repeated else "as launched"
                yield from ("", f"## {machine}, {size}", "")
                yield from tables(chosen)
    if summary["skipped"]:
        yield from ("", "Not measured:", "")
        yield from (f"* {name}: {why}" for name, why in summary["skipped"].items())


def tables(rows: list[Row]) -> Iterator[str]:
    """Means by SMs, and the launches with the loosest bounds."""
    yield "| SMs | launches | mean | median | worst | block after block / bound: median | most |"
    yield "|---:|---:|---:|---:|---:|---:|---:|"
    for sms in SMS:
        found = [row for row in rows if row["sms"] == sms]
        if found:
            ratios = [row["ratio"] for row in found]
            series = [row["series"] for row in found]
            yield (
                f"| {sms} | {len(found)} | {statistics.mean(ratios):.3f} | "
                f"{statistics.median(ratios):.3f} | {max(ratios):.3f} | "
                f"{statistics.median(series):.2f} | {max(series):.2f} |"
            )
    forms = Counter(row["form"] for row in rows)
    yield ""
    yield "Forms that gave the bound: " + ", ".join(f"{k} {n}" for k, n in forms.most_common())
    yield ""
    most: dict[str, float] = {}
    for row in rows:
        most[row["launch"]] = max(row["ratio"], most.get(row["launch"], 0.0))
    loosest = sorted(most.items(), key=lambda one: (-one[1], one[0]))[:LOOSEST]
    yield "Loosest: " + ", ".join(f"{name} {ratio:.2f}" for name, ratio in loosest)


if __name__ == "__main__":
    main()
