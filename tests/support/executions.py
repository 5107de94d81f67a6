"""Kernels in the emulator."""

from __future__ import annotations

from typing import Any

from parsing import parse_text

from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions, Execution
from ptxwcet.ir.kernel import Module


def execute_first(module: Module | str, launch: EmulatedLaunch, **options: Any) -> Execution:
    """Executes the first kernel of a module, or of its text."""
    parsed = parse_text(module) if isinstance(module, str) else module
    return execute(parsed.kernels[0], parsed, launch, options=EmulatorOptions(**options))
