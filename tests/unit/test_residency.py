"""Resident blocks of a launch: what is claimed holds the truth, whatever nobody says."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ptxwcet.bounds.occupancy import (
    LaunchedBlock,
    Residency,
    find_residency,
    require_static_shared,
    static_shared_bytes,
)
from ptxwcet.bounds.wishes import ANY_GRID, GridWishes
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.machine.loader import load_machine
from ptxwcet.machine.model import Machine
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile

pytestmark = pytest.mark.fast

LAYOUTS = Path(__file__).parents[1] / "data" / "occupancy" / "shared-layouts.json"
HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
MACHINES = ("orin-ecrts2025", "rtx3070-gpgpusim")
ORIN = load_machine("orin-ecrts2025")


def parsed(text: str) -> tuple[Kernel, Module]:
    module = parse_module(SourceFile("k.ptx", text))
    return module.kernels[0], module


def kernel(*declarations: str, directives: str = "", body: str = "") -> tuple[Kernel, Module]:
    outer = "\n".join(one for one in declarations if one.startswith(".extern"))
    inner = "\n".join(one for one in declarations if not one.startswith(".extern"))
    head = f"{HEAD}{outer}\n.visible .entry k(){directives}"
    return parsed(f"{head}\n{{\n.reg .b32 %r<4>;\n{inner}\n{body}\nret;\n}}\n")


def resident(machine: Machine, threads: int, shared: int, registers: int) -> int:
    """Blocks that an SM holds, by the rules of the toolkit, written down once more; 0: not one."""
    rules, limits = machine.occupancy, machine.limits
    assert rules is not None
    if shared > limits.shared_bytes_per_block:
        return 0
    warps = (threads + 31) // 32
    parts = rules.register_partitions.value
    unit = rules.registers_per_warp_unit.value
    each = (registers * 32 + unit - 1) // unit * unit
    if registers > rules.registers_per_thread.value:
        return 0
    if each * ((warps + parts - 1) // parts * parts) > rules.registers_per_block.value:
        return 0
    by_registers = (limits.registers_per_sm // parts) // each * parts // warps
    asked = shared + rules.shared_bytes_reserved_per_block.value
    step = rules.shared_bytes_unit.value
    given = (asked + step - 1) // step * step
    by_shared = limits.shared_bytes_per_sm // given if given else limits.blocks_per_sm
    by_warps = limits.threads_per_sm // 32 // warps
    return min(limits.blocks_per_sm, by_warps, by_registers, by_shared)


def found(
    block: LaunchedBlock, machine: Machine, wishes: GridWishes = ANY_GRID
) -> Residency | None:
    """The residency; None for a block that does not fit."""
    try:
        return find_residency(block, machine, wishes)
    except PtxwcetError as error:
        if error.diagnostics[0].code != "PW316":
            raise
        return None


def blocks(maxnreg: int | None) -> Iterator[LaunchedBlock]:
    """Blocks with static and dynamic shared memory that is known."""
    one, _ = kernel(directives="" if maxnreg is None else f" .maxnreg {maxnreg}")
    for threads in (1, 32, 33, 64, 96, 100, 128, 256, 480, 512, 768, 1024):
        for static in (0, 1, 1_000, 8_191, 40_000):
            for dynamic in (0, 1, 1_024, 20_000):
                yield LaunchedBlock(one, threads, (static, static), False, dynamic)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("maxnreg", [None, 24, 40, 128])
def test_every_number_of_registers_is_between(machine: str, maxnreg: int | None) -> None:
    on = load_machine(machine)
    reached = 0
    for block in blocks(maxnreg):
        shared = block.static_shared_bytes[0] + (block.dynamic_shared_bytes or 0)
        truth = [resident(on, block.threads, shared, n) for n in range(1, (maxnreg or 255) + 1)]
        possible = {number for number in truth if number}  # the others are not launched
        open_ = found(block, on)
        if not possible:
            assert open_ is None
            continue
        assert open_ is not None
        assert open_.least <= min(possible)
        assert max(possible) <= open_.most
        reached += (open_.least, open_.most) == (min(possible), max(possible))
        for registers in range(1, (maxnreg or 255) + 1, 7):
            said = found(replace(block, registers=registers, said_by="a test"), on)
            exact = truth[registers - 1]
            assert (said is None) == (exact == 0)
            if said is not None:
                assert (said.least, said.most, said.open) == (exact, exact, ())
    assert reached > 100  # no wider than the truth, as a rule


@pytest.mark.parametrize("registers", [None, 16, 64])
def test_every_size_of_dynamic_shared_memory_is_between(registers: int | None) -> None:
    one, _ = kernel()
    for threads in (32, 100, 512):
        for static in (0, 5_000):
            block = LaunchedBlock(one, threads, (static, static), True, None, registers, "a test")
            open_ = found(block, ORIN)
            assert open_ is not None
            for dynamic in range(0, 160_000, 997):
                for number in [registers] if registers else (1, 32, 128, 255):
                    truth = resident(ORIN, threads, static + dynamic, number)
                    assert not truth or open_.least <= truth <= open_.most
            assert "--dynamic-shared" in open_.open


def test_static_shared_memory_is_between_what_ptxas_makes_of_it() -> None:
    rows = json.loads(LAYOUTS.read_text())
    assert len(rows) >= 200
    exact = 0
    for row in rows:
        least, most = static_shared_bytes(*parsed(row["ptx"]))
        assert least <= row["bytes"] <= most, row["ptx"]
        exact += least == most
    assert exact > 20


def test_variables_of_one_alignment_are_known_exactly() -> None:
    tiles = kernel(
        ".shared .align 4 .b8 a[4224];",
        ".shared .align 4 .b8 b[4224];",
        body="mov.u32 %r1, a;\nmov.u32 %r2, b;",
    )
    assert static_shared_bytes(*tiles) == (8_448, 8_448)


def test_a_variable_that_is_not_named_may_be_there() -> None:
    """ptxas gives 40000 bytes to such a kernel: three of its blocks fit, not sixteen."""
    unnamed = kernel(".shared .align 4 .b8 a[40000];")
    assert static_shared_bytes(*unnamed) == (0, 40_000)
    block = LaunchedBlock(unnamed[0], 64, static_shared_bytes(*unnamed), False, 0, 16, "a test")
    open_ = found(block, ORIN)
    assert open_ is not None
    truth = resident(ORIN, 64, 40_000, 16)
    assert (open_.least, open_.most) == (truth, 16)
    assert open_.open == ("--resident-blocks",)


def test_variables_apart_and_before_dynamic_memory() -> None:
    """ptxas gives 16 bytes to 9 before dynamic ones; in which order others lie nobody says."""
    named = "mov.u32 %r1, a;\nmov.u32 %r2, b;"
    apart = kernel(".shared .align 256 .b8 a[500];", ".shared .align 1 .b8 b[8];", body=named)
    least, most = static_shared_bytes(*apart)
    assert least == 508
    assert most == 768
    before = kernel(
        ".extern .shared .align 2 .b8 c[];", ".shared .align 1 .b8 a[9];", body="mov.u32 %r1, a;"
    )
    assert static_shared_bytes(*before) == (9, 16)


def test_more_than_fits_at_most_is_no_refusal() -> None:
    """The launch happens, so the variables took less."""
    one, _ = kernel()
    open_ = found(LaunchedBlock(one, 64, (100, 400_000), False, 0, 16, "a test"), ORIN)
    assert open_ is not None
    assert (open_.least, open_.most) == (1, 16)
    assert found(LaunchedBlock(one, 64, (400_000, 400_000), False, 0, 16, "a test"), ORIN) is None


@pytest.mark.parametrize(("size", "is_allowed"), [(48 << 10, True), ((48 << 10) + 4, False)])
def test_variables_in_shared_memory_take_no_more_than_ptxas_allows(size, is_allowed):
    text = kernel(f".shared .b8 s[{size}];", body="mov.u32 %r1, s;\nst.shared.u32 [%r1], %r1;")
    if is_allowed:
        require_static_shared(*text)
        return
    with pytest.raises(PtxwcetError) as refused:
        require_static_shared(*text)
    assert [one.code for one in refused.value.diagnostics] == ["PW316"]


def test_what_the_launch_allocates_is_no_variable():
    require_static_shared(
        *kernel(".extern .shared .b8 s[];", body="mov.u32 %r1, s;\nst.shared.u32 [%r1], %r1;")
    )


@pytest.mark.parametrize("machine", [*MACHINES, "titan-v", "ampere-realistic"])
@pytest.mark.parametrize("static", [0, 1, 4_096])
def test_a_block_has_no_more_shared_memory_than_the_machine_gives_one(
    machine: str, static: int
) -> None:
    on = load_machine(machine)
    most = on.limits.shared_bytes_per_block
    if on.occupancy is None:
        on = replace(on, occupancy=ORIN.occupancy)
    block = LaunchedBlock(kernel()[0], 64, (static, static), True, most - static, 16, "a test")
    fits = found(block, on)
    assert fits is not None
    assert fits.least == fits.most == resident(on, 64, most, 16) > 0
    assert not any(one.key == "no-dynamic-shared-memory" for one in fits.assumptions)
    for wishes in (ANY_GRID, GridWishes(resident_blocks=1)):
        with pytest.raises(PtxwcetError) as refused:
            find_residency(replace(block, dynamic_shared_bytes=most - static + 1), on, wishes)
        (problem,) = refused.value.diagnostics
        assert problem.code == "PW316"
        assert problem.message.endswith(f": shared memory (at most {most:,} bytes a block)")
        assert problem.notes == (
            f"the block asks for 64 threads, {most + 1:,} bytes of shared memory, "
            "16 registers a thread",
        )
        assert "shared_bytes_per_block in [limits]" in (problem.help or "")
