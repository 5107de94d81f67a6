"""A hybrid analysis as text for people; the first table is a row of [B] Table II."""

from __future__ import annotations

from ptxwcet.methods.hybrid.report import HybridReport, LoopRow, RoundsRow, TransitionRow, WavesRow
from ptxwcet.support.printable import plural

_MOST_ROWS = 8


def render_hybrid_text(report: HybridReport) -> str:
    """The whole report of a hybrid analysis as text."""
    lines = _head(report)
    lines += _table(report)
    lines += ["", *_concurrency(report), *_single_warp(report), _static(report)]
    lines += _time(report)
    lines += _coverage(report)
    lines += ["", "holds only if"]
    lines += [f"  - {row.text} [{row.state}]" for row in report.assumptions]
    return "\n".join(lines) + "\n"


def _head(report: HybridReport) -> list[str]:
    trace = report.trace
    counts = (
        plural(trace.runs, "run"),
        plural(trace.multiprocessors, "multiprocessor"),
        plural(trace.warps, "warp"),
        plural(trace.events, "event"),
    )
    return [
        f"{report.tool} {report.version}  {report.file}",
        f"trace      {trace.file or 'made here'}: {', '.join(counts)}",
        f"           times in {trace.clock if trace.clock == 'ns' else trace.clock + 's'} "
        f"by {trace.recorder}",
        "",
    ]


def _table(report: HybridReport) -> list[str]:
    width = max(len(report.readable), 6)
    head = ("Z_HWM", "Z_warp", "Z_dynamic", "difference", "Z_hybrid", "difference")
    cells = (
        f"{report.high_water_mark:,}",
        f"{report.warp.cycles:,}",
        f"{report.dynamic.cycles:,}",
        _percent(report.dynamic.difference_percent),
        f"{report.hybrid.cycles:,}",
        _percent(report.hybrid.difference_percent),
    )
    names = "".join(f"  {name:>12}" for name in head)
    return [
        f"{'kernel':<{width}}{names}",
        f"{report.readable:<{width}}" + "".join(f"  {cell:>12}" for cell in cells),
        *_claims(report),
    ]


def _claims(report: HybridReport) -> list[str]:
    """What the figures of the table may be taken for: one that a trace exceeds for nothing."""
    mark, longest = f"{report.high_water_mark:,}", f"{report.longest_warp:,}"
    kernel = {"Z_dynamic": report.dynamic, "Z_hybrid": report.hybrid}
    held = [name for name, row in kernel.items() if not row.is_below_observed]
    lines = ["Z_HWM is observed; Z_warp is of one warp alone, not of the kernel"]
    if held:
        verb = "is an estimate" if len(held) == 1 else "are estimates"
        lines.append(f"{' and '.join(held)} {verb}: expected to hold, not proved")
    for name, estimate in kernel.items():
        if estimate.is_below_observed:
            lines.append(
                f"{name} is BELOW the {mark} observed in the same traces: it does not hold"
            )
    if report.warp.is_below_observed:
        lines.append(f"Z_warp is BELOW the {longest} that one warp took: it does not hold")
    return lines


def _percent(value: float) -> str:
    return f"{value:,.1f} %"


def _concurrency(report: HybridReport) -> list[str]:
    worst = max(report.release_jitter, key=lambda jitter: jitter.cycles)
    lines = [
        f"jitter     the last warp begins up to {worst.cycles:,} late, on multiprocessor "
        f"{worst.multiprocessor}",
        f"waves      {_waves(report.waves)}, from the trace",
    ]
    plan, rounds = report.planned_waves, report.planned_rounds
    if plan is not None:
        lines.append(
            f"           {_waves(plan)}, from launch and occupancy: {plan.cycles:,} "
            f"({_percent(plan.difference_percent)}){_contradicted(plan)}"
        )
    if rounds is not None:
        lines.append(
            f"rounds     {plural(rounds.rounds, 'round')} of blocks that wait up to "
            f"{rounds.block_wait:,}, their warps begin up to {rounds.block_skew:,} apart: "
            f"{rounds.cycles:,} ({_percent(rounds.difference_percent)}){_contradicted(rounds)}"
        )
    return lines


def _contradicted(row: WavesRow | RoundsRow) -> str:
    return "; BELOW Z_HWM: it does not hold" if row.is_below_observed else ""


def _waves(row: WavesRow) -> str:
    return (
        f"{plural(row.waves, 'wave')} of at most {plural(row.warps_per_wave, 'warp')}, "
        f"gaps of at most {row.start_gap:,}"
    )


def _single_warp(report: HybridReport) -> list[str]:
    cycles = report.warp.cycles
    lines = [f"one warp   observed up to {report.longest_warp:,}; Z_warp by path enumeration"]
    if not report.is_proved_optimum:
        lines[0] += " (an upper bound of it: the search was ended)"
    if report.tree_cycles is None:
        lines.append(f"           no tree: {report.tree_refusal}")
    elif report.tree_cycles == cycles:
        lines.append("           and by the tree")
    else:
        lines.append(f"           {report.tree_cycles:,} by the tree, which knows loop bounds only")
    for quantile in report.quantiles:
        lines.append(
            f"profile    more than {quantile.cycles:,} on the worst path with probability "
            f"{quantile.exceedance:g}, if transitions were independent"
            + ("; BELOW the longest warp observed" if quantile.is_below_observed else "")
        )
    for name in report.dropped_constraints:
        lines.append(f"dropped    {name}: observed warps do not keep to what the graph demands")
    return lines


def _static(report: HybridReport) -> str:
    static = report.static
    if static.cycles is not None:
        return (
            f"SAFE       {static.cycles:,} cycles for any one block that has an SM of "
            f"{static.machine} to itself   {static.guarantee}"
        )
    reason = "" if static.refusal is None else f"[{static.refusal.code}] {static.refusal.message}"
    return f"SAFE       none: {reason}"


def _time(report: HybridReport) -> list[str]:
    lines = ["", "where the time of Z_warp goes (%)"]
    lines.append(f"  {report.barrier_share_percent:6.2f}  transitions that pass a barrier")
    for loop in sorted(report.loops, key=lambda loop: -loop.share_percent)[:_MOST_ROWS]:
        lines.append(f"  {loop.share_percent:6.2f}  {_loop(loop)}")
    arcs = sorted(report.transitions, key=lambda arc: -arc.share_percent)
    arcs = [arc for arc in arcs if arc.on_worst_path]
    shown = arcs[:_MOST_ROWS]
    title = ("transition", "place", "taken", "best", "mean", "worst")
    names = [(_arrow(arc), arc.place) for arc in shown]
    wide = [max(len(title[i]), *(len(name[i]) for name in names)) for i in (0, 1)]
    lines += ["", _cells("share", title, wide)]
    for arc in shown:
        figures = (f"{arc.on_worst_path:,}", f"{arc.best:,}", f"{arc.mean:,.1f}", f"{arc.worst:,}")
        lines.append(_cells(f"{arc.share_percent:.2f}", (_arrow(arc), arc.place, *figures), wide))
    if len(arcs) > len(shown):
        lines.append(f"  and {len(arcs) - len(shown)} more (--format json lists all)")
    return lines


def _loop(loop: LoopRow) -> str:
    return (
        f"loop {loop.header} ({loop.place}), at most {plural(loop.most_iterations, 'iteration')} "
        "an entry"
    )


def _cells(share: str, row: tuple[str, ...], wide: list[int]) -> str:
    name, where, *figures = row
    text = f"  {share:>6}  {name:<{wide[0]}}  {where:<{wide[1]}}"
    return text + "".join(f"  {figure:>10}" for figure in figures)


def _arrow(row: TransitionRow) -> str:
    marks = "".join(
        (" (diverged)" if row.is_divergent else "", " (barrier)" if row.has_barrier else "")
    )
    return f"{row.source} -> {row.target}{marks}"


def _coverage(report: HybridReport) -> list[str]:
    coverage = report.coverage
    lines = ["", f"coverage   {coverage.seen} of {coverage.transitions} transitions seen"]
    if coverage.excluded:
        lines[1] += f", {coverage.excluded} excluded by the static analysis"
    if coverage.divergent:
        lines[1] += (
            f"; {coverage.divergent_seen} of {coverage.divergent} that only diverged warps make"
        )
    missing = [
        f"{arc.source} -> {arc.target} ({arc.place}) was never taken" for arc in coverage.unseen
    ]
    missing += [f"{name} was never reached" for name in coverage.unreached]
    missing += [f"the loop at {name} never went round" for name in coverage.never_iterated]
    missing += [
        f"loop {loop.header} ({loop.place}): {plural(loop.unseen_static, 'execution')} of its "
        "body that the static analysis allows were not seen"
        for loop in report.loops
        if loop.unseen_static is not None
    ]
    if missing:
        lines.append("the estimates are optimistic if these can happen:")
        lines += [f"  - {line}" for line in missing]
    lines += [f"the loop at {name} has no ipoint" for name in coverage.hidden_loops]
    return lines
