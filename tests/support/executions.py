"""Kernels in the emulator, and the paths that they took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from parsing import parse_text

from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import (
    EmulatedLaunch,
    EmulatorOptions,
    Execution,
    PathNode,
    PathStep,
)
from ptxwcet.ir.kernel import Module


def execute_first(module: Module | str, launch: EmulatedLaunch, **options: Any) -> Execution:
    """Executes the first kernel of a module, or of its text."""
    parsed = parse_text(module) if isinstance(module, str) else module
    return execute(parsed.kernels[0], parsed, launch, options=EmulatorOptions(**options))


def distinct_steps(body: Sequence[PathNode]) -> Iterator[PathStep]:
    """The steps of an executed path, those of a loop once."""
    for node in body:
        if isinstance(node, PathStep):
            yield node
        else:
            yield from distinct_steps(node.body)
