"""What a user says of the GPU that a launch has, and of the registers of its threads."""

from __future__ import annotations

from dataclasses import fields
from typing import NamedTuple

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.options import OPTIONS, is_whole
from ptxwcet.support.records import dataclass


class Spills(NamedTuple):
    """Bytes of local memory that a thread's code stores and loads, each instruction once."""

    stored_bytes: int
    loaded_bytes: int


@dataclass(frozen=True, slots=True)
class GridWishes:
    """What a user says of the grid. None: as the machine file, launch file or ``.maxnreg`` says.

    ``registers_source`` is who says ``registers``. ``co_runner``: others move at most so many bytes
    through the memory of the GPU at once, and GB a second, as ``"65536,20"``. ``dynamic_shared``:
    bytes of shared memory that the launch gives a block beside the kernel's variables. ``spills``:
    what ptxas says of them.
    """

    sms: int | None = None
    resident_blocks: int | None = None
    registers: int | None = None
    launch_gap_cycles: int = 0
    registers_source: str = "--registers"
    co_runner: str | None = None
    dynamic_shared: int | None = None
    spills: Spills | None = None

    @property
    def numbers(self) -> dict[str, int]:
        """The options that are stated in numbers, by name."""
        names = (item.name for item in fields(self) if item.name in OPTIONS)
        return {
            name: getattr(self, name)
            for name in names
            if OPTIONS[name].kind.most and getattr(self, name) is not None
        }


ANY_GRID = GridWishes()
"""Nothing is said of the grid."""


def require_use(wishes: GridWishes, *others: str, has_grid: bool) -> None:
    """Raises PtxwcetError for what is said of the GPU and cannot be, or has no grid to be true of.

    PW327; ``others`` is what else is said, for its message. Cost: constant.
    """
    for name, number in wishes.numbers.items():
        kind = OPTIONS[name].kind
        if not is_whole(number, kind.least, kind.most):
            message = f"{name} {number} is no {kind.held.removeprefix('a ')}"
            raise PtxwcetError(Diagnostic("PW327", message, help=f"leave {name} out, or count"))
    if has_grid:
        return
    said = (*wishes.numbers, *others, *([] if wishes.co_runner is None else ["co_runner"]))
    if said:
        what = f"{' and '.join(said)}: it counts in the bound of a launch, and there is no grid"
        remedy = "give the grid too (--grid, a launch file), or leave that out"
        raise PtxwcetError(Diagnostic("PW327", what, help=remedy))
