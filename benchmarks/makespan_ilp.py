"""The integer program against the dynamic program: every string up to a length, few warps.

``python benchmarks/makespan_ilp.py`` writes docs/experiments/makespan-ilp.json. It goes on where an
earlier run stopped, and tries again what a shorter time limit left open. L = C = 1; strings that
begin with C are those that begin with L with the letters exchanged, and so are their programs.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from ptxwcet.methods.makespan.ilp_model import Constraints, build_program
from ptxwcet.methods.makespan.schedule import check_schedule
from ptxwcet.methods.makespan.states import fill_table

OUT = Path(__file__).resolve().parents[1] / "docs" / "experiments" / "makespan-ilp.json"


def instances(length: int, warps: int) -> list[tuple[str, int]]:
    """Problems in the order of their size."""
    found = [
        ("L" + "".join(rest), w)
        for n in range(1, length + 1)
        for rest in itertools.product("LC", repeat=n - 1)
        for w in range(1, warps + 1)
    ]
    return sorted(found, key=lambda one: (len(one[0]) * one[1], one))


def solve(string: str, warps: int, seconds: float, kind: Constraints) -> dict[str, object]:
    """One problem by both; the integer program's schedule is checked too."""
    start = time.perf_counter()
    program = build_program(string, warps, 1, 1, kind)
    found = program.solve(seconds)
    took = time.perf_counter() - start
    exact = fill_table(string, warps, 1, 1).makespan
    if found.objective is not None:
        assert check_schedule(program.schedule(found), string, warps, 1, 1) == found.objective
    return {
        "string": string,
        "warps": warps,
        "status": found.status.value,
        "ilp": found.objective,
        "ilp_bound": found.bound,
        "states": exact,
        "ilp_seconds": round(took, 3),
        "limit_seconds": seconds,
        "constraints": kind.value,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--length", type=int, default=6)
    parser.add_argument("--warps", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=600, help="for each integer program")
    kinds = [kind.value for kind in Constraints]
    parser.add_argument("--constraints", choices=kinds, default="short")
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    kind = Constraints(arguments.constraints)
    rows = json.loads(OUT.read_text()) if OUT.exists() else []
    rows = [
        row
        for row in rows
        if row["status"] == "optimal"
        or (row["limit_seconds"] >= arguments.seconds and row.get("constraints") == kind.value)
    ]
    done = {(row["string"], row["warps"]) for row in rows}
    open_ = [one for one in instances(arguments.length, arguments.warps) if one not in done]
    with ProcessPoolExecutor(arguments.processes) as pool:
        started = [pool.submit(solve, *one, arguments.seconds, kind) for one in open_]
        for future in as_completed(started):
            rows.append(future.result())
            rows.sort(key=lambda row: (len(row["string"]) * row["warps"], row["string"]))
            OUT.write_text("[\n" + ",\n".join(json.dumps(one) for one in rows) + "\n]\n")
            print(future.result(), flush=True)
    proved = [row for row in rows if row["status"] == "optimal"]
    differing = [row for row in proved if row["ilp"] != row["states"]]
    print(
        f"{len(rows)} problems, {len(proved)} solved by both, {len(differing)} differ: {differing}"
    )


if __name__ == "__main__":
    main()
