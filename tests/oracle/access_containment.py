"""Executed accesses against analysed ones: none may need more, and exact ones need as much."""

from __future__ import annotations

from pathlib import Path

from executed_transactions import Key, Seen, transactions_of_launch
from transaction_oracle import Transactions

from ptxwcet.ir.kernel import Kernel, Space
from ptxwcet.memory.analysis import AnalysedAccess
from ptxwcet.opened.opening import open_request
from ptxwcet.opened.request import Request
from ptxwcet.timing.launch_costs import kernel_accesses

_KINDS = ("sectors", "lines", "passes", "words", "serial", "partial")
_OF_SPACE = {
    "global": ("sectors", "lines", "serial", "partial"),
    "local": ("sectors", "lines", "partial"),
    "shared": ("passes",),
    "const": ("words",),
    "param": ("words",),
}


def analysed_and_executed(
    ptx: Path, launch_file: Path, facts: Path | None = None
) -> tuple[int, int, list[str]]:
    """Analysed accesses that were executed, those of them that are exact, and what is wrong."""
    request = Request(str(ptx), launch_file=str(launch_file), facts_file=facts and str(facts))
    opened = open_request(request)
    (kernel,) = opened.kernels
    executed, seen = transactions_of_launch(ptx, launch_file)
    whole = opened.whole(kernel)
    found = kernel_accesses(whole, opened.launch_of(kernel))
    return compare(executed, found.accesses, seen)


def compare(
    kernel: Kernel, accesses: tuple[AnalysedAccess, ...], seen: dict[Key, Seen]
) -> tuple[int, int, list[str]]:
    """As above, of accesses by the indices of the executed kernel."""
    known: dict[tuple[int, str], AnalysedAccess] = {}
    for one in accesses:
        generic = one.access.space is Space.GENERIC
        spaces = tuple(_OF_SPACE) if generic else (one.access.space.value,)
        known |= {(one.index, space): one for space in spaces}
    wrong, exact, compared = [], set(), set()
    for (index, warp, space), row in seen.items():
        if space not in _OF_SPACE or _is_own(kernel, index):
            continue
        text = f"{kernel.instructions[index].span.text} ({space}, warp {warp})"
        one = known.get((index, space))
        if one is None:
            wrong.append(f"{text}: executed, not analysed")
            continue
        compared.add((index, space))
        needed = _needed(row.largest, space)
        for kind in _OF_SPACE[space]:
            if needed[kind] > getattr(one.most, kind):
                wrong.append(f"{text}: {needed[kind]} {kind} executed, {one.most} analysed")
        if one.exact and row.full is not None:
            exact.add((index, space))
            needed = _needed(row.full, space)
            for kind in _OF_SPACE[space]:
                if kind == "partial":
                    continue  # whether all lanes take part is not always known
                if needed[kind] != getattr(one.most, kind):
                    wrong.append(f"{text}: {needed[kind]} {kind} executed, {one.most} exact")
    return len(compared), len(exact), wrong


def _is_own(kernel: Kernel, index: int) -> bool:
    """Variables for calls, which are registers to the analysis."""
    instruction = kernel.instructions[index]
    return instruction.space is Space.PARAM and not any(
        name in {one.name for one in kernel.parameters} for name in instruction.names
    )


def _needed(row: Transactions, space: str) -> dict[str, int]:
    found = {kind: getattr(row, kind) for kind in _KINDS}
    if space in ("const", "param"):  # a word of any width at each distinct address
        found["words"] = row.addresses
    if space == "shared":
        found["passes"] = max(row.passes, row.bank_turns)
    return found
