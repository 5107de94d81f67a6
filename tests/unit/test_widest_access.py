"""What an unknown opcode is charged of memory is no less than any form of access takes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from parsing import parse_kernel

from ptxwcet.ir.kernel import Instruction
from ptxwcet.machine.loader import load_machine
from ptxwcet.memory.analysis import (
    NO_TRANSACTIONS,
    Transactions,
    transactions_at_worst,
    transactions_of_any,
)
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.timing.cost import charge_transactions
from ptxwcet.warp.program import TimedInstruction

pytestmark = pytest.mark.fast

HEAD = (
    ".version 9.0\n.target sm_100a\n.address_size 64\n.entry k() {\n.reg .b16 %h<40>; "
    ".reg .b32 %r<40>; .reg .b64 %d<40>; .reg .b128 %q<3>; .reg .f32 %f<40>; .reg .f64 %g<40>;\n"
)
SPACES = ("", ".global", ".shared", ".local", ".const", ".param")
HINTS = ("", ".L2::64B", ".L2::128B", ".L2::256B")
KINDS = {"b8": "h", "b16": "h", "b32": "r", "b64": "d", "b128": "q"}
SIDES = ("load.a", "load.b", "load.c", "store.d")
SHAPES = ("m16n16k16", "m32n8k16", "m8n32k16", "m16n16k8", "m8n8k4", "m8n8k32", "m8n8k128")
TILES = {"f16": "r", "bf16": "r", "tf32": "r", "s8": "r", "s4": "r", "b1": "r", "s32": "r",
         "f32": "f", "f64": "g"}  # fmt: skip


def statements() -> Iterator[str]:
    for space, kind, many, hint in product(SPACES, KINDS, ("", "v2", "v4", "v8"), HINTS):
        letter, count = KINDS[kind], int(many[1:] or 1)
        names = ", ".join(f"%{letter}{n}" for n in range(count))
        value = f"{{{names}}}" if many else names
        many = f".{many}" if many else ""
        yield f"ld{space}{hint}{many}.{kind} {value}, [%d39];"
        yield f"st{space}{hint}{many}.{kind} [%d39], {value};"
        yield f"atom{space}.exch{many}.{kind} {value}, [%d39], {value};"
        yield f"red{space}.add{many}.{kind.replace('b', 'u')} [%d39], {value};"
        yield f"cp.async.cg.shared.global{hint} [%r39], [%d39], 16;"
    for side, shape, space, kind in product(SIDES, SHAPES, SPACES[:3], TILES):
        for count in (1, 2, 4, 8):
            names = ", ".join(f"%{TILES[kind]}{n}" for n in range(count))
            head = f"wmma.{side}.sync.aligned.row.{shape}{space}.{kind} "
            yield (
                head
                + (f"[%d39], {{{names}}}" if "st" in side else f"{{{names}}}, [%d39]")
                + ", %r38;"
            )
    for count, form in product(("x1", "x2", "x4"), ("m8n8", "m16n16")):
        names = ", ".join(f"%r{n}" for n in range(int(count[1]) * (1 + (form == "m16n16"))))
        kind = "b16" if form == "m8n8" else "b8"
        yield f"ldmatrix.sync.aligned.{form}.{count}.trans.shared.{kind} {{{names}}}, [%d39];"


def accepted() -> list[Instruction]:
    """The statements that are PTX, as instructions."""
    lines = list(dict.fromkeys(statements()))
    first = HEAD.count("\n") + 1
    while True:
        try:
            return list(parse_kernel(HEAD + "\n".join(lines) + "\nret;\n}\n").instructions)
        except PtxwcetError as error:
            for one in error.diagnostics:
                if one.span is not None:
                    lines[one.span.line - first] = ""


def test_no_form_of_access_takes_more_than_an_unknown_opcode_is_charged() -> None:
    instructions = accepted()
    assert len(instructions) > 300
    worst, most, machine = transactions_of_any(), NO_TRANSACTIONS, load_machine("titan-v")
    timed = TimedInstruction("MEM", 1, 1, (), ())
    for instruction in instructions:
        taken = transactions_at_worst(instruction)
        most = most.with_most(taken)
        assert worst.with_most(taken) == worst, instruction
        charged, all_charged = (charge_transactions(timed, t, machine) for t in (taken, worst))
        assert charged.initiation_cycles <= all_charged.initiation_cycles
        assert charged.latency_cycles <= all_charged.latency_cycles
        assert charged.path_cycles <= all_charged.path_cycles
    assert most.lines == worst.lines, "no more than some form takes"
    assert isinstance(most, Transactions)
