"""Matrix instructions run on given registers, and fragments as the PTX ISA lays them out.

Elements are bit patterns: Python integers, which :func:`value` reads as numbers.
"""

import ml_dtypes
import numpy as np

from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.source import SourceFile

KINDS = {
    "f16": "f2", "bf16": ml_dtypes.bfloat16, "tf32": "f4", "f32": "f4", "f64": "f8", "s8": "i1",
    "u8": "u1", "s32": "i4", "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
BITS = {"b1": 1, "s4": 4, "u4": 4} | {name: 8 * np.dtype(k).itemsize for name, k in KINDS.items()}


def run(body, *arrays, threads=32, findings=()):
    """The arrays after a kernel ran; their addresses are in ``%a0`` on, the thread in ``%t``."""
    names = [f"p{i}" for i in range(len(arrays))]
    parameters = ", ".join(f".param .u64 {name}" for name in names)
    loads = "\n".join(f"  ld.param.u64 %a{i}, [{name}];" for i, name in enumerate(names))
    text = f"""\
.version 9.0
.target sm_100a
.address_size 64
.entry k({parameters}) {{
  .reg .b64 %a<9>, %d<80>; .reg .b32 %t, %r<80>; .reg .f64 %f<9>; .reg .pred %p;
  .shared .align 16 .b8 tile[8192];
{loads}
  mov.u32 %t, %tid.x;
{body}
  ret;
}}
"""
    module = parse_module(SourceFile("k.ptx", text))
    launch = EmulatedLaunch((threads, 1, 1), (1, 1, 1), arrays)
    done = execute(module.kernels[0], module, launch, options=EmulatorOptions())
    assert [finding.code for finding in done.findings] == list(findings), done.findings
    return done.buffers


def patterns(numbers, kind):
    """Numbers of a type with eight bits or more as bit patterns."""
    array = np.asarray(numbers).astype(KINDS[kind])
    return array.view(f"u{array.itemsize}").astype(object)


def value(pattern, kind):
    """The number that a bit pattern is."""
    bits = BITS[kind]
    if bits < 8:
        return pattern - (1 << bits) if kind == "s4" and pattern >> 3 else pattern
    number = np.array(pattern, dtype=f"u{bits // 8}").view(KINDS[kind])
    return int(number) if kind[0] in "su" else float(number)


def numbers(matrix, kind):
    """A matrix of bit patterns as numbers."""
    return np.array([[value(cell, kind) for cell in row] for row in matrix], dtype=object)


# The layouts, as the section on mma of the ISA has them for each shape and size of elements:
# element i of a lane, with g = lane / 4 and t = lane % 4. In A it lies in row g or g + 8.

LEFT = {
    # columns t * n + i % n, the i in row g + 8, and from which i how much further right
    ((8, 8, 4), 64): (1, [], None),
    ((16, 8, 4), 64): (1, [1], None),
    ((16, 8, 8), 64): (1, [1, 3], (2, 4)),
    ((16, 8, 16), 64): (1, [1, 3, 5, 7], (2, 4), (4, 8), (6, 12)),
    ((16, 8, 4), 32): (1, [1], None),
    ((16, 8, 8), 32): (1, [1, 3], (2, 4)),
    ((16, 8, 8), 16): (2, [2, 3], None),
    ((16, 8, 16), 16): (2, [2, 3, 6, 7], (4, 8)),
    ((8, 8, 16), 8): (4, [], None),
    ((16, 8, 16), 8): (4, range(4, 8), None),
    ((16, 8, 32), 8): (4, [*range(4, 8), *range(12, 16)], (8, 16)),
    ((8, 8, 32), 4): (8, [], None),
    ((16, 8, 32), 4): (8, range(8, 16), None),
    ((16, 8, 64), 4): (8, [*range(8, 16), *range(24, 32)], (16, 32)),
    ((8, 8, 128), 1): (32, [], None),
    ((16, 8, 128), 1): (32, range(32, 64), None),
    ((16, 8, 256), 1): (32, [*range(32, 64), *range(96, 128)], (64, 128)),
}
RIGHT = {
    # rows t * n + i % n, and from which i how much further down; the column is g
    ((8, 8, 4), 64): (1, None),
    ((16, 8, 4), 64): (1, None),
    ((16, 8, 8), 64): (1, (1, 4)),
    ((16, 8, 16), 64): (1, (1, 4), (2, 8), (3, 12)),
    ((16, 8, 4), 32): (1, None),
    ((16, 8, 8), 32): (1, (1, 4)),
    ((16, 8, 8), 16): (2, None),
    ((16, 8, 16), 16): (2, (2, 8)),
    ((8, 8, 16), 8): (4, None),
    ((16, 8, 16), 8): (4, None),
    ((16, 8, 32), 8): (4, (4, 16)),
    ((8, 8, 32), 4): (8, None),
    ((16, 8, 32), 4): (8, None),
    ((16, 8, 64), 4): (8, (8, 32)),
    ((8, 8, 128), 1): (32, None),
    ((16, 8, 128), 1): (32, None),
    ((16, 8, 256), 1): (32, (32, 128)),
}


def _further(i, steps):
    return max([by for first, by in filter(None, steps) if i >= first], default=0)


def left_place(shape, bits, lane, i):
    width, lower, *steps = LEFT[shape, bits]
    return lane // 4 + 8 * (i in lower), lane % 4 * width + i % width + _further(i, steps)


def right_place(shape, bits, lane, i):
    width, *steps = RIGHT[shape, bits]
    return lane % 4 * width + i % width + _further(i, steps), lane // 4


def sum_place(lane, i):
    """Of C and D: rows g (c0, c1) and g + 8 (c2, c3), columns 2 t and 2 t + 1."""
    return lane // 4 + (8 if i >= 2 else 0), 2 * (lane % 4) + (i & 1)


def fragments(matrix, places, bits):
    """The registers of all lanes, element 0 in the lowest bits: (32, registers)."""
    width = 64 if bits == 64 else 32
    count = matrix.size // 32
    lanes = np.zeros((32, count * bits // width), f"u{width // 8}")
    for lane in range(32):
        cells = [int(matrix[places(lane, i)]) for i in range(count)]
        whole = sum(cell << bits * i for i, cell in enumerate(cells))
        lanes[lane] = [whole >> width * r & ((1 << width) - 1) for r in range(lanes.shape[1])]
    return lanes


def product(name, shape, types, matrices):
    """D of an mma instruction, as bit patterns, from A, B and C as bit patterns."""
    to, left, right, add = types
    m, n, _ = shape
    size, letter = (8, "d") if left == "f64" else (4, "r")
    inputs = [
        fragments(matrices[0], lambda *w: left_place(shape, BITS[left], *w), BITS[left]),
        fragments(matrices[1], lambda *w: right_place(shape, BITS[right], *w), BITS[right]),
        fragments(matrices[2], sum_place, BITS[add]),
    ]
    lines, groups, number = [], [], 10
    for pointer, data in enumerate(inputs):
        names = [f"%{letter}{number + i}" for i in range(data.shape[1])]
        number += len(names)
        lines.append(f"  mad.wide.u32 %d1, %t, {data.shape[1] * size}, %a{pointer};")
        lines += [f"  ld.global.b{8 * size} {x}, [%d1+{size * i}];" for i, x in enumerate(names)]
        groups.append("{" + ", ".join(names) + "}")
    out = np.zeros((32, m * n * BITS[to] // 32 // (8 * size)), f"u{size}")
    names = [f"%{letter}{number + i}" for i in range(out.shape[1])]
    lines.append(f"  {name} {{{', '.join(names)}}}, {', '.join(groups)};")
    lines.append(f"  mad.wide.u32 %d1, %t, {out.shape[1] * size}, %a3;")
    lines += [f"  st.global.b{8 * size} [%d1+{size * i}], {x};" for i, x in enumerate(names)]
    lanes = run("\n".join(lines), *inputs, out)[3].view(f"u{BITS[to] // 8}").reshape(32, -1)
    result = np.zeros((m, n), object)
    for lane in range(32):
        for i, found in enumerate(lanes[lane].tolist()):
            result[sum_place(lane, i)] = found
    return result
