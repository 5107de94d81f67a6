"""Moves of matrices of rows of 16 bytes within a warp: ldmatrix, stmatrix, movmatrix."""

from __future__ import annotations

import numpy as np

from ptxwcet.emulator.launch import Array
from ptxwcet.emulator.matrix_forms import form_of, registers_of
from ptxwcet.emulator.matrix_products import whole_warps
from ptxwcet.emulator.memory import INITIALISED
from ptxwcet.emulator.memory_access import (
    Access,
    active_lanes,
    address_reader,
    placed,
    space_of,
    track,
)
from ptxwcet.emulator.races import READ, WRITE
from ptxwcet.emulator.registers import Context, Frame, Step, reader, writer
from ptxwcet.ir.kernel import Instruction, Operand


def _matrices(instruction: Instruction) -> tuple[int, bool]:
    """How many matrices move, and whether they are transposed."""
    words = form_of(instruction).words
    return next(count for count in (1, 2, 4) if f"x{count}" in words), "trans" in words


def _row_access(context: Context, instruction: Instruction, operand: Operand) -> Access:
    address = address_reader(context, operand)
    return Access(instruction, space_of(instruction), address, "b64", 2)


def _row_lanes(frame: Frame, rows: int) -> Array:
    lanes = active_lanes(frame)
    return lanes[lanes % 32 < rows]


def load_matrices(context: Context, instruction: Instruction) -> Step:
    """``ldmatrix``: lane l of the first 8, 16 or 32 gives the address of row l.

    Matrices of 16-bit elements have 8 rows and take a register, those of 8 bits 16 rows and two.
    """
    count, transposed = _matrices(instruction)
    size, kind = (16, np.uint8) if form_of(instruction).shape == (16, 16) else (8, np.uint16)
    destination, source = instruction.operands
    targets = [writer(context, one) for one in registers_of(destination, count * size // 8)]
    access = _row_access(context, instruction, source)

    def step(frame: Frame) -> None:
        whole_warps(frame, instruction)
        lanes = _row_lanes(frame, size * count)
        index = placed(frame, access, lanes, False)
        track(frame, access, lanes, index, READ)
        row_bytes = np.zeros((frame.lanes, 16), dtype=np.uint8)
        row_bytes[lanes] = frame.arena.bytes[index[:, None] + np.arange(16)]
        elements = row_bytes.view(kind).reshape(-1, 32 // size, size, size)  # warp, matrix, row
        if transposed:
            elements = elements.transpose(0, 1, 3, 2)
        words = np.ascontiguousarray(elements).view(np.uint32).reshape(-1, 4, 32)
        for number, target in enumerate(targets):
            target(frame, np.ascontiguousarray(words[:, number]).reshape(-1))

    return step


def store_matrices(context: Context, instruction: Instruction) -> Step:
    """``stmatrix``: the opposite of ``ldmatrix``."""
    count, transposed = _matrices(instruction)
    destination, source = instruction.operands
    reads = [reader(context, one, "b32") for one in registers_of(source, count)]
    access = _row_access(context, instruction, destination)

    def step(frame: Frame) -> None:
        whole_warps(frame, instruction)
        lanes = _row_lanes(frame, 8 * count)
        index = placed(frame, access, lanes, True)
        track(frame, access, lanes, index, WRITE)
        matrices = np.zeros((frame.lanes // 32, 4, 8, 8), dtype=np.uint16)
        for number, read in enumerate(reads):
            halves = np.ascontiguousarray(read(frame)).view(np.uint16).reshape(-1, 8, 8)
            matrices[:, number] = halves.transpose(0, 2, 1) if transposed else halves
        data = np.ascontiguousarray(matrices).view(np.uint8).reshape(frame.lanes, 16)
        frame.arena.bytes[index[:, None] + np.arange(16)] = data[lanes]
        frame.arena.state[index[:, None] + np.arange(16)] = INITIALISED

    return step


def transpose(context: Context, instruction: Instruction) -> Step:
    """``movmatrix.trans``: an 8 by 8 matrix of 16-bit elements."""
    form_of(instruction)
    target = writer(context, instruction.operands[0])
    value = reader(context, instruction.operands[1], "b32")

    def step(frame: Frame) -> None:
        whole_warps(frame, instruction)
        halves = np.ascontiguousarray(value(frame)).view(np.uint16).reshape(-1, 8, 8)
        turned = np.ascontiguousarray(halves.transpose(0, 2, 1))
        target(frame, turned.view(np.uint32).reshape(-1))

    return step
