"""``mma`` with dense matrices, and the step that all products of fragments share."""

from __future__ import annotations

import numpy as np

from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.matrix_forms import BITS, Form, form_of, register_bits, registers_of
from ptxwcet.emulator.matrix_layouts import Fragment, left_fragment, right_fragment, sum_fragment
from ptxwcet.emulator.matrix_values import multiplied, packed, unpacked
from ptxwcet.emulator.registers import Context, Frame, Read, Step, reader, writer
from ptxwcet.emulator.warp_masks import report
from ptxwcet.ir.kernel import Instruction, Operand


def whole_warps(frame: Frame, instruction: Instruction) -> None:
    """Reports (PW437) a warp of which only some lanes execute a warp-wide operation."""
    if frame.mask is None:
        return
    rows = frame.mask.reshape(-1, 32)
    whole = np.logical_and.reduce(rows, axis=1)
    wrong = rows & ~np.repeat(whole, 32).reshape(-1, 32)
    if wrong.any():
        report(frame, instruction, wrong.reshape(-1), "some lanes of a warp do not execute it")


def multiply(context: Context, instruction: Instruction) -> Step:
    """``mma.sync.aligned`` with dense matrices."""
    form = form_of(instruction)
    m, n, k = form.shape
    of_register = max(32 // BITS[form.types[1]], 1)  # A and B have elements of one size
    fragments = (
        left_fragment(m, k, of_register),
        right_fragment(k, n, of_register),
        sum_fragment(m, n),
    )
    return product_step(context, instruction, form, fragments)


def product_step(
    context: Context,
    instruction: Instruction,
    form: Form,
    fragments: tuple[Fragment, Fragment, Fragment],
) -> Step:
    """D = A * B + C with fragments of A, B, and of C and D."""
    destination, *sources = instruction.operands
    to, *kinds = form.types
    names = registers_of(destination, _registers(fragments[2], to))
    targets = [writer(context, name) for name in names]
    inputs = list(zip(sources, kinds, fragments, strict=True))
    reads = [_readers(context, *one) for one in inputs]

    def step(frame: Frame) -> None:
        whole_warps(frame, instruction)
        matrices = [
            fragment.gather(unpacked([read(frame) for read in group], name))
            for group, (_, name, fragment) in zip(reads, inputs, strict=True)
        ]
        result = multiplied(matrices, to, form.words)
        lanes: list[Array] = packed(fragments[2].scatter(result), to, len(targets))
        for target, value in zip(targets, lanes, strict=True):
            target(frame, value)

    return step


def _readers(context: Context, operand: Operand, name: str, fragment: Fragment) -> list[Read]:
    width = f"b{register_bits(name)}"
    registers = registers_of(operand, _registers(fragment, name))
    return [reader(context, register, width) for register in registers]


def _registers(fragment: Fragment, name: str) -> int:
    return fragment.elements * BITS[name] // register_bits(name)
