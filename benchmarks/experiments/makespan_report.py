"""Tables and pictures of the makespan experiment: ``data`` are the parts that it measures."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from experiments.experiment import Results
from experiments.pictures import count_on_x

if TYPE_CHECKING:
    from experiments.pictures import Figure

_LEAST_SECONDS = 1e-6
Rows = Sequence[dict[str, Any]]


def write_report(results: Results, data: dict[str, Any]) -> None:
    """Adds all tables and pictures."""
    results.say(
        "The paper shows its results as pictures without numbers, so that shapes can be compared, "
        "not values. Times are those of a machine that may be busy: orders of magnitude. "
        "[makespan.json](makespan.json)",
        "## Fig. 5: short against long constraints; Fig. 7: computation time",
    )
    _write_seconds(results, data)
    results.add_picture(
        "seconds.png", "seconds", (11, 4), lambda figure: _draw_seconds(figure, data)
    )
    results.say("## Figs. 6 and 7: convergence in x")
    _write_convergence(results, data)
    results.add_picture(
        "convergence.png", "convergence", (14, 4), lambda figure: _draw_convergence(figure, data)
    )
    _write_exceptions(results, data)
    _write_machines(results, data["two_machines"])
    _write_samples(results, data["samples"])


# --- tables ---------------------------------------------------------------------------------------


def _write_seconds(results: Results, data: dict[str, Any]) -> None:
    head = ["string", "W", "T(W)", "program, short", "program, long", "table of states"]
    body = []
    for tables, programs in (("five_tables", "five"), ("seven_tables", "seven_programs")):
        of_kind = {(row["constraints"], row["warps"]): row for row in data[programs]}
        for table in data[tables]:
            kinds = [of_kind.get((kind, table["warps"])) for kind in ("short", "long")]
            if any(kinds) or table is data[tables][-1]:
                cells = ["" if one is None else _seconds(one) for one in kinds]
                body.append([table["string"], f"{table['warps']}", f"{table['slots']:,}", *cells])
                body[-1].append(f"{table['seconds']:.2g}")
    results.say("Seconds, L = C = 1. LLCLLCLL is LCLCL with L = 1/2.")
    results.add_table(head, body)
    reached = data["reached"]
    results.say(
        f"Of {reached['states']:,} states of the last table of LLCLL, schedules reach "
        f"{reached['reached']:,}."
    )


def _seconds(row: dict[str, Any]) -> str:
    """How long a program took; of one that was stopped, what it had found."""
    if row["status"] == "optimal":
        return f"{row['seconds']:.2g}"
    slots = "nothing" if row["slots"] is None else f"{row['slots']} to {row['bound']}"
    return f"stopped at {row['seconds']:.0f}: {slots}"


_CONVERGENCE = (
    ("six", "Fig. 6: LLCLL"),
    ("seven", "Fig. 7: LCLCL, L = 1/2"),
    ("refuted", "LCL, not in the paper"),
)


def _write_convergence(results: Results, data: dict[str, Any]) -> None:
    head = ["", "W", "equations 3 to 7", "published T(W, x)", "exact", "published below it"]
    body = []
    for key, title in _CONVERGENCE:
        curve = data[key]
        least = list(itertools.accumulate(curve["extrapolated"], min))
        shown = [x for x in (2, 4, 8, 12, 20) if x <= len(least)]
        published = ", ".join(f"{least[x - 1]:,} (x = {x})" for x in shown)
        below = sum(value < curve["exact"] for value in least)
        body.append(
            [
                title,
                f"{curve['warps']}",
                f"{curve['pessimistic']:,}",
                published,
                f"{curve['exact']:,}",
                f"for {below} of {len(least)} x" if below else "never",
            ]
        )
    results.add_table(head, body)
    results.say("*Exact* is the closed form, with a schedule of that length that a checker played.")


def _write_exceptions(results: Results, data: dict[str, Any]) -> None:
    results.say("## Closed form against the table, strings that begin with L")
    head = ["letters up to", "W", "fit", "below", "above"]
    keys = ("length", "warps", "fits", "below", "above")
    results.add_table(head, [[f"{row[key]:,}" for key in keys] for row in data["closed_form"]])
    unsafe = {warps: count for warps, count in data["unsafe_extrapolations"].items() if count}
    below = ", ".join(f"{count} (W = {warps})" for warps, count in unsafe.items())
    pessimism = data["unsafe_pessimism"]
    results.say(
        "## Where published values lie below the longest makespan",
        f"* The extrapolation with y = 2, of 63 strings up to 6 letters: {below or 'none'}.\n"
        f"* Equations 3 to 7, capacities up to 3, strings up to 5 letters, up to 7 warps: "
        f"{pessimism['exceeded']:,} of {pessimism['problems']:,} problems, "
        f"{pessimism['capacity 1']:,} of them with L = C = 1.",
    )


def _write_machines(results: Results, rows: Rows) -> None:
    results.say(
        f"## Two machines, {rows[0]['warps']} warps",
        "A slot or cycle an instruction, each on the result of the one before. *Ours* is the "
        "simulated machine, its worst case found by exhaustive search.",
    )
    head = ["string", "makespan", "equations 3 to 7", "ours, one port", "SAFE", "GUB", "lower"]
    head += ["ours, two ports, one L and one C unit", "SAFE"]
    keys = ("makespan", "pessimistic", "worst_1", "safe_1", "gub_1", "lower_1", "worst_2", "safe_2")
    body = [[row["string"], *(_number(row[key]) for key in keys)] for row in rows]
    results.add_table(head, body)


def _write_samples(results: Results, samples: Rows) -> None:
    results.say(
        "## Samples, L = C = 1",
        "Instructions I and pairs M are sums over barrier sections; W I slots are the instructions "
        "one by one.",
    )
    body = []
    for sample in samples:
        name = [f"{sample['kernel']}, {sample['block'] or 'its own block'}"]
        if "refused" in sample:
            body.append([*name, *[""] * 6, f"refused: {sample['refused']}"])
            continue
        keys = ("warps", "sections", "instructions", "pairs", "slots")
        alone = sample["warps"] * sample["instructions"]
        exact = "exact" if sample["exact"] else "bound"
        body.append([*name, *(f"{sample[key]:,}" for key in keys), f"{alone:,}", exact])
    results.add_table(["kernel", "W", "sections", "I", "M", "makespan", "W I", ""], body)


def _number(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


# --- pictures -------------------------------------------------------------------------------------


def _draw_seconds(figure: Figure, data: dict[str, Any]) -> None:
    left, right = figure.subplots(1, 2)
    for kind, marker in (("short", "o"), ("long", "s")):
        programs = [row for row in data["five"] if row["constraints"] == kind]
        _plot_programs(left, programs, marker, f"integer program, {kind} constraints")
    _plot_tables(left, data["five_tables"])
    _mark_stops(left, data["five"])
    _finish(left, "Fig. 5: seconds, LLCLL, L = C = 1", "warps W", "seconds", is_log=True)
    _plot_programs(right, data["seven_programs"], "o", "integer program, short constraints")
    _plot_tables(right, data["seven_tables"])
    _mark_stops(right, data["seven_programs"])
    _finish(right, "Fig. 7: seconds for T(x), LCLCL, L = 1/2", "x", "seconds", is_log=True)


def _plot_programs(axis: Any, rows: Rows, marker: str, label: str) -> None:
    solved = [row for row in rows if row["status"] == "optimal"]
    warps, seconds = [row["warps"] for row in solved], [row["seconds"] for row in solved]
    axis.plot(warps, seconds, marker=marker, label=label)


def _plot_tables(axis: Any, rows: Rows) -> None:
    seconds = [max(row["seconds"], _LEAST_SECONDS) for row in rows]
    axis.plot([row["warps"] for row in rows], seconds, marker=".", label="table of states")


def _mark_stops(axis: Any, rows: Rows) -> None:
    stopped = [row for row in rows if row["status"] != "optimal"]
    if stopped:
        warps, seconds = [row["warps"] for row in stopped], [row["seconds"] for row in stopped]
        axis.plot(warps, seconds, "x", color="black", label="integer program stopped")


def _draw_convergence(figure: Figure, data: dict[str, Any]) -> None:
    for axis, (key, title) in zip(figure.subplots(1, 3), _CONVERGENCE, strict=True):
        one = data[key]
        x = range(1, len(one["extrapolated"]) + 1)
        axis.plot(x, one["extrapolated"], "o", mfc="none", label="ceil(W / y) T(y)")
        least = list(itertools.accumulate(one["extrapolated"], min))
        axis.plot(x, least, "-", label="published T(W, x)")
        axis.axhline(one["pessimistic"], ls="--", color="0.4", label="equations 3 to 7")
        axis.axhline(one["exact"], color="#aa3377", lw=1.2, label="exact (closed form)")
        _finish(axis, f"{title}, W = {one['warps']}", "x", "time slots")


def _finish(axis: Any, title: str, x: str, y: str, *, is_log: bool = False) -> None:
    axis.set_title(title, fontsize=10)
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    count_on_x(axis)
    axis.grid(alpha=0.3)
    if is_log:
        axis.set_yscale("log")
    axis.legend(fontsize=8)
