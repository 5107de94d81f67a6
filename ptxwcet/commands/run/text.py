"""A run as text for people."""

from __future__ import annotations

from collections.abc import Iterator

from ptxwcet.commands.run.study import RunAnswer
from ptxwcet.support.array_files import Array

_SHOWN = 4


def run_lines(answer: RunAnswer) -> Iterator[str]:
    """Yields the run, its findings, the beginnings of arrays, and the failed expectations."""
    launch, execution = answer.launch, answer.execution
    block, grid = ("x".join(map(str, size)) for size in (launch.block, launch.grid))
    yield f"kernel     {launch.kernel.readable}, block {block}, grid {grid}"
    rate = execution.warp_instructions / max(answer.seconds, 1e-9)
    state = "ran to the end" if answer.is_complete else "was stopped"
    yield (
        f"run        {state}: {execution.warp_instructions:,} warp-instructions in "
        f"{answer.seconds:.2f} s ({rate:,.0f}/s)"
    )
    yield f"findings   {len(execution.findings)}"
    for name, array in answer.outputs.items():
        shape = "x".join(map(str, array.shape))
        yield f"array      {name}: {array.dtype} {shape}  {array_beginning(array)}"
    for check in answer.checks:
        verdict = "as expected" if check.difference is None else "NOT as expected"
        yield f"expected   {check.name}: {verdict}"


def array_beginning(array: Array) -> str:
    """Returns the first values of an array."""
    shown = " ".join(f"{value:g}" for value in array.reshape(-1)[:_SHOWN].tolist())
    return shown + (" ..." if array.size > _SHOWN else "")
