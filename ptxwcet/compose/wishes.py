"""What a user says of the GPU that a launch has, and of the registers of its threads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GridWishes:
    """What a user says of the grid. None: as the machine file, launch file or ``.maxnreg`` says.

    ``registers_source`` is who says ``registers``. ``co_runner``: others move at most so many bytes
    through the memory of the GPU at once, and GB a second, as ``"65536,20"``.
    """

    sms: int | None = None
    resident_blocks: int | None = None
    registers: int | None = None
    launch_gap_cycles: int = 0
    registers_source: str = "--registers"
    co_runner: str | None = None


ANY_GRID = GridWishes()
"""Nothing is said of the grid."""
