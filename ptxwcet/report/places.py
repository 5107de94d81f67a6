"""Where an instruction comes from, in words."""

from __future__ import annotations

from ptxwcet.ir.kernel import Kernel


def place(kernel: Kernel, index: int) -> str:
    """The source line of an instruction, else its PTX line."""
    instruction = kernel.instructions[index]
    location = instruction.location
    if location is not None:
        return location.place
    return f"PTX line {instruction.span.shown_line}"


def number_ranges(numbers: tuple[int, ...]) -> str:
    """``(0, 1, 2, 5)`` as ``0-2, 5``."""
    parts: list[list[int]] = []
    for number in numbers:
        if parts and parts[-1][1] == number - 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in parts)
