"""What a bound rests on when facts are stated: one assumption for each kind that was used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ptxwcet.claims import Assumption, AssumptionState
from ptxwcet.flow.launch import BoundOrigin, Launch, PlacedFacts, PlacedTotal
from ptxwcet.flow.walk.path import BlockPaths, loop_entries, rests_on_no_races
from ptxwcet.ir.kernel import Kernel

_MOST_NAMES = 4
_LOOP_BOUNDS = "the loop bounds of {} hold for every thread and every entry of the loop"
_TOTALS = "the totals of {} hold for every run of a warp, of all entries or calls together: {}"
_MARKED = (
    "the loop around each loop_bound comment in the PTX is the one around it in the CUDA source: "
    "the compiler has not unrolled that one completely inside of another loop"
)
_MEMORY = (
    "aggregates and constants hold what the launch file says, constants that it leaves out what "
    "the PTX says"
)
_EXCLUDED = "PW253"  # a warning that stands where it is read: among what a bound rests on
_VALUES = "facts exclude values that others allow, and the bound is for the rest"
_ARRAYS = "the integers that the kernel loads through pointers lie in their ranges: {}"
_NO_RACES = (
    "no thread writes what another thread reads between the same two barriers: warps that load "
    "from one address and branch on it go the same way"
)
_LINKED = "the program is linked from {} and the file of the kernel, and no others take their place"
_NO_ABORTS = (
    "the launch is not aborted: no assertion fails, no trap is executed, and no function is called "
    "that never returns"
)


def fact_assumptions(
    paths: BlockPaths,
    facts: PlacedFacts,
    launch: Launch,
    given: Sequence[str],
    totals: Sequence[PlacedTotal] = (),
    *,
    kernel: Kernel,
    may_abort: bool = False,
) -> tuple[Assumption, ...]:
    """The assumptions behind paths that were extracted with these facts, with who states them.

    ``given`` are the aggregates and constants whose bytes of the launch the bound may rest on,
    ``totals`` those that limit the paths; ``may_abort``: the paths leave out what ends in an
    abort of the launch. ``kernel`` has functions in the place of their calls.
    """
    used = _stated_loops(paths)
    assumptions = []
    if used:
        names = _names(facts.loop_sources.get(loop, "--loop-bound") for loop in sorted(used))
        assumptions.append(_assumed("user-loop-bounds", _LOOP_BOUNDS.format(names), names))
    if totals:
        names = _names(total.source for total in totals)
        text = _TOTALS.format(names, _names(total.what for total in totals))
        assumptions.append(_assumed("user-totals", text, names))
    marked = used & facts.marked
    if marked:
        names = _names(facts.loop_sources[loop] for loop in sorted(marked))
        assumptions.append(_assumed("asm-comment-loops", _MARKED, names))
    if launch.ranges:
        shown = [
            f"{launch.name_of(name)} in {low}..{high}"
            for name, (low, high) in launch.ranges.items()
        ]
        assumptions.append(
            _assumed(
                "parameter-ranges",
                f"parameters lie in their ranges: {', '.join(shown)}",
                "--param or facts file",
            )
        )
    if paths.excluded:
        text = f"{_EXCLUDED}: {_VALUES}: {', '.join(paths.excluded)}"
        assumptions.append(_assumed("excluded-values", text, "path analysis"))
    if launch.arrays:
        shown = [f"{launch.name_of(name)} {row}" for name, row in launch.arrays.items()]
        sources = _names(row.source for row in launch.arrays.values())
        assumptions.append(_assumed("array-contents", _ARRAYS.format(", ".join(shown)), sources))
    if given:
        text = f"{_MEMORY}: {', '.join(given)}"
        assumptions.append(_assumed("launch-memory", text, "launch file"))
    if facts.never:
        names = _names(facts.branch_sources.get(one, "facts file") for one in sorted(facts.never))
        text = f"no warp takes the outcomes of branches that {names} excludes"
        assumptions.append(_assumed("infeasible-branches", text, names))
    if facts.exclusive:
        pairs = [pair[0] for pair in facts.exclusive]
        names = _names(facts.branch_sources.get(one, "facts file") for one in pairs)
        text = f"no warp has both outcomes of a pair that {names} calls exclusive in one run"
        assumptions.append(_assumed("exclusive-branches", text, names))
    if facts.uniform:
        text = "branches that the user calls uniform are so: all threads of warp or block agree"
        assumptions.append(_assumed("uniform-branches", text))
    executed = dict.fromkeys(one.origin.source for one in kernel.instructions)
    linked = [one.name for one in executed if one.is_linked]
    if linked:
        assumptions.append(_assumed("linked-files", _LINKED.format(_names(linked)), "--link"))
    if any(rests_on_no_races(warp.nodes) for warp in paths.warps):
        assumptions.append(_assumed("no-data-races", _NO_RACES, "path analysis"))
    if may_abort:
        assumptions.append(_assumed("no-assertion-fails", _NO_ABORTS, "path analysis"))
    return tuple(assumptions)


def rests_on_user(paths: BlockPaths) -> bool:
    """Whether what the user says of loops has a part in some paths."""
    return bool(_stated_loops(paths))


def _stated_loops(paths: BlockPaths) -> frozenset[int]:
    entries = [entry for warp in paths.warps for entry in loop_entries(warp.nodes)]
    return frozenset(one.loop for one in entries if one.origin is BoundOrigin.USER) | paths.relied


def _names(sources: Iterable[str]) -> str:
    """The different sources in a phrase; not all of many."""
    names = list(dict.fromkeys(sources))
    rest = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {rest} more" if rest > 0 else "")


def _assumed(key: str, text: str, source: str = "facts file") -> Assumption:
    return Assumption(key, text, AssumptionState.ASSUMED, source)
