"""The report of a sweep as text: the best variants, unbounded units, differences of machines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ptxwcet.support.printable import aligned, plural
from ptxwcet.support.rounding import text_above
from ptxwcet.sweeps.results.sweep_model import (
    BestElsewhere,
    Comparison,
    MachineRanking,
    Ranking,
    SweepReport,
    Value,
    scheduler_text,
)

_LONGEST_MESSAGE = 160
MOST_RANKINGS = 12
"""The most rankings of a machine that are shown: more are too many to read."""
_NUMBERS = frozenset(("rank", "unit", "cycles", "time", "vs. least"))


def render_sweep_text(report: SweepReport) -> str:
    """Returns the report for people."""
    lines = list(_head(report))
    for machine in report.machines:
        lines += _machine(machine)
    lines += _comparisons(report.comparisons)
    lines += _refusals(report)
    return "\n".join(lines) + "\n"


def render_sweep_lines(report: SweepReport) -> str:
    """Returns the best variant of each machine and kind of bound, a line each."""
    lines = [
        f"{machine.machine} {variant_text(ranking.best[0].variant, report.varying)} "
        f"{ranking.best[0].cycles} {ranking.guarantee} {ranking.of}"
        f"{'' if ranking.policy is None else f' {ranking.policy}'}"
        for machine in report.machines
        for ranking in machine.rankings
    ]
    return "".join(f"{line}\n" for line in lines)


def seconds_text(seconds: float) -> str:
    """Returns a time with four digits, in the unit that suits it, rounded up."""
    factor, unit = unit_of_time(seconds)
    return f"{time_digits(seconds, 4, factor)} {unit}"


def time_digits(seconds: float, count: int, factor: int) -> str:
    """Returns ``factor`` times a bound in seconds with at least ``count`` digits, rounded up."""
    whole = len(str(int(seconds * factor)))
    return text_above(seconds, max(count - whole, 0), factor)


def unit_of_time(seconds: float) -> tuple[int, str]:
    """Returns the unit that suits a time, and how many of it a second has."""
    for factor, unit in ((1, "s"), (1_000, "ms"), (1_000_000, "us")):
        if seconds * factor >= 1:
            return factor, unit
    return 1_000_000_000, "ns"


def digits(value: float, count: int) -> str:
    """Returns a number with at least ``count`` digits; all digits before the point are shown."""
    whole = len(str(int(value)))
    return f"{value:,.{max(count - whole, 0)}f}"


def value_text(value: Value) -> str:
    """Returns a value of a column, ``-`` for none."""
    return "-" if value is None else f"{value}"


def variant_text(variant: Mapping[str, Value], names: Sequence[str]) -> str:
    """Returns a variant by the columns that vary: ``tm 64, tn 32``."""
    return ", ".join(f"{name} {value_text(variant[name])}" for name in names)


def problem_text(problem: Mapping[str, Value]) -> str:
    """Returns ``for n 1024, k 64``, the problem of a ranking; empty for an empty problem."""
    told = (f"{name.removeprefix('param.')} {value_text(one)}" for name, one in problem.items())
    return f"for {', '.join(told)}" if problem else ""


def more_text(machine: MachineRanking) -> str:
    """Returns a note that more rankings exist; empty if all are shown."""
    more = len(machine.rankings) - MOST_RANKINGS
    return f"{plural(more, 'more ranking')}: --only NAME=VALUE shows those" if more > 0 else ""


def scope_text(of: str) -> str:
    """Returns the scope of a bound."""
    return "the whole launch" if of == "launch" else "any one block"


def claim_text(ranking: Ranking) -> str:
    """Returns the kind of a ranking: scope and guarantee of its bounds, and its policy if any."""
    kind = {"safe-bound": "safe bounds", "estimate": "estimates"}.get(
        ranking.guarantee, f"{ranking.guarantee} bounds"
    )
    alone = "" if ranking.policy is None else f", {scheduler_text(ranking.policy)}"
    solved = f" {problem_text(ranking.problem)}".rstrip()
    return f"{kind} of {scope_text(ranking.of)}{solved}{alone}"


def times_text(times: float) -> str:
    """Returns how much more than the least: ``+4.2 %``, from twice on ``2.41 x``."""
    if times < 2:
        return "least" if times == 1 else f"+{100 * (times - 1):.1f} %"
    return f"{digits(times, 3)} x"


def _head(report: SweepReport) -> Iterator[str]:
    yield f"{report.tool} {report.version}  {report.file}"
    if report.plan is not None:
        digest = f"  sha256 {report.plan_sha256[:16]}..." if report.plan_sha256 else ""
        yield f"plan       {report.plan}{digest}"
    yield f"made by    ptxwcet {', '.join(report.made_by)}"
    if report.only:
        yield f"only       {', '.join(report.only)}"
    yield f"units      {outcomes_text(report)}"
    for number, machine in enumerate(report.machines):
        yield f"{'' if number else 'machines':<10} {machine_text(machine)}"
    if report.varying:
        follows = ", ".join(report.following)
        yield f"varying    {', '.join(report.varying)}" + (f"; with them {follows}" * bool(follows))
    if report.problem:
        yield f"problems   ranked one by one: {', '.join(report.problem)}"
    if report.fixed:
        fixed = ", ".join(f"{name} {value_text(value)}" for name, value in report.fixed.items())
        yield f"the same   {fixed}"


def outcomes_text(report: SweepReport) -> str:
    """Returns how the units ended."""
    return (
        f"{report.units:,}: {report.bounded:,} bounded, {report.refused:,} refused, "
        f"{report.failed:,} failed"
    )


def machine_text(machine: MachineRanking) -> str:
    """Returns a machine in a line."""
    clock = f"{machine.clock_mhz:,g} MHz" if machine.clock_mhz is not None else "clock not known"
    latency = machine.memory_latency_cycles
    memory = "" if latency is None else f", memory latency {latency} cycles"
    return f"{machine.machine}: {clock}{memory}; {machine.bounded:,} of {machine.units:,} bounded"


def _machine(machine: MachineRanking) -> Iterator[str]:
    if not machine.rankings:
        yield ""
        yield f"BEST       on {machine.machine}: nothing is bounded"
    shown: tuple[str, ...] = ()
    for ranking in machine.rankings[:MOST_RANKINGS]:
        yield ""
        yield (
            f"BEST       on {machine.machine}: {claim_text(ranking)}, "
            f"{plural(ranking.variants, 'variant')}"
        )
        yield from _table(ranking)
        if ranking.assumptions and ranking.assumptions != shown:
            yield f"  assumed  {', '.join(ranking.assumptions)}"
        shown = ranking.assumptions
    if more := more_text(machine):
        yield ""
        yield f"  {more}"
    if len({(ranking.of, ranking.guarantee, ranking.policy) for ranking in machine.rankings}) > 1:
        yield "  Bounds of different guarantee, of launches and blocks, for one policy and for all,"
        yield "  are not ranked together."


def _table(ranking: Ranking) -> Iterator[str]:
    varying = ranking.varying
    heads = ("rank", *varying, "cycles", "time", "vs. least", "guarantee")
    rows = [(*heads, "unit")]
    numeric = {
        name
        for name in varying
        if all(isinstance(best.variant[name], int | None) for best in ranking.best)
    }
    for best in ranking.best:
        own = (value_text(best.variant[name]) for name in varying)
        shown = (f"{best.cycles:,}", seconds_text(best.seconds), times_text(best.times_the_least))
        rows.append((f"{best.rank:,}", *own, *shown, best.guarantee, f"{best.unit}"))
    right = [at for at, head in enumerate(rows[0]) if head in numeric | _NUMBERS]
    yield from (f"  {line}" for line in aligned(rows, right))


def _comparisons(comparisons: Sequence[Comparison]) -> Iterator[str]:
    if comparisons:
        yield ""
        yield "MACHINES   compared by rank and by time, not by cycles"
    for comparison in comparisons:
        yield f"  {pair_text(comparison)}"
        yield f"    {comparison_text(comparison)}"
        yield from (f"    {elsewhere_text(best)}" for best in comparison.best)


def pair_text(one: Comparison) -> str:
    """Returns which machines are compared, and for which problem."""
    return f"{' and '.join(one.machines)} {problem_text(one.problem)}".rstrip()


def comparison_text(pair: Comparison) -> str:
    """Returns the agreement of two machines on the order of variants, in a sentence."""
    if pair.reason:
        return f"not compared: {pair.reason}"
    kinds = " and ".join(dict.fromkeys(pair.guarantees))
    if pair.policies[0] is not None:
        kinds += f"; {scheduler_text(pair.policies[0])}"
    common = f"{plural(pair.variants, 'variant')} bounded on both ({kinds})"
    if pair.rank_correlation is None:
        return f"{common}: too few, or all alike, to speak of an order"
    return f"{common}: rank correlation {pair.rank_correlation:.3f} (Spearman; 1 is the same order)"


def elsewhere_text(elsewhere: BestElsewhere) -> str:
    """Returns the rank of the best of a machine on another, in a sentence."""
    best = f"the best on {elsewhere.machine} (unit {elsewhere.unit})"
    if elsewhere.rank is None or elsewhere.times_the_least is None:
        return f"{best} has no such bound on {elsewhere.other}"
    if elsewhere.rank == 1:
        return f"{best} is the best on {elsewhere.other}, too"
    return (
        f"{best} is number {elsewhere.rank:,} of {elsewhere.variants:,} on {elsewhere.other}"
        f", {elsewhere.times_the_least:,.3f} times the least there"
    )


def _refusals(report: SweepReport) -> Iterator[str]:
    if not report.refusals:
        return
    missing = report.refused + report.failed
    share = 100 * missing / report.units
    yield ""
    yield f"REFUSED    {missing:,} of {plural(report.units, 'unit')} have no bound ({share:.1f} %)"
    for row in report.refusals:
        what = {"failed": "failed", "bounded": "bounded, not as a launch"}.get(row.outcome, "")
        yield (
            f"  {row.code}  {row.units:>6,}  {row.share_percent:5.1f} %  "
            f"{what}{'; ' * bool(what)}unit {row.first_unit}: {_cut(row.message)}"
        )


def _cut(message: str) -> str:
    line = " ".join(message.split())
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[: _LONGEST_MESSAGE - 1]}…"
