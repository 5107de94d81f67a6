"""Random PTX whose warps take different ways and meet at named barriers: analysed, executed, run.

Ways are drawn along phases that some order of events completes; whether every one does is for the
analysis to say. What it bounds the emulator must execute without a deadlock, along the paths that
were found, and no simulated run may exceed the bound.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from thoroughness import drawn

from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.flow.launch import Launch
from ptxwcet.machine.loader import load_machine
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile
from ptxwcet.validate.inputs import validate_input

HEAD = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data, .param .u32 n)
{
.reg .pred %p<9>;
.reg .b32 %r<40>;
.reg .b64 %d<9>;
ld.param.u64 %d1, [data];
ld.param.u32 %r9, [n];
mov.u32 %r1, %tid.x;
shr.u32 %r2, %r1, 5;
mov.u32 %r5, %r1;
"""


class Program:
    """Roles of warps, and the text of a kernel in which they meet."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(seed)
        self.roles = [rng.randint(1, 2) for _ in range(rng.randint(2, 3))]
        self.n = rng.randint(1, 5)
        self.labels = 0
        self.lines: list[list[str]] = [[] for _ in self.roles]
        for _ in range(rng.randint(1, 3)):
            self.segment()

    def segment(self) -> None:
        """Phases once, or several times; the whole block may meet behind them."""
        rng, roles = self.rng, range(len(self.roles))
        phases = [self.phase() for _ in range(rng.randint(1, 3))]
        times = rng.choice((1, 1, 2, self.n))
        for role in roles:
            body = [line for phase in phases for line in phase.get(role, [])]
            self.lines[role] += self.some() + self.repeated(body, times) + self.some()
        if rng.random() < 0.3:
            for role in roles:
                self.lines[role].append("bar.sync 0;")

    def phase(self) -> dict[int, list[str]]:
        rng, roles = self.rng, range(len(self.roles))
        members = rng.sample(roles, rng.randint(1, len(roles)))
        name = rng.randint(1, 3)
        count = 32 * sum(self.roles[role] for role in members)
        rows = {}
        for role in members:
            kind = "sync" if rng.random() < 0.75 else "arrive"
            barrier = [f"bar.{kind} {name}, {count};"]
            if rng.random() < 0.3:
                barrier = [f"mov.u32 %r10, {name};", f"bar.{kind} %r10, {count};"]
            rows[role] = self.some() + barrier + self.some()
        return rows

    def some(self) -> list[str]:
        choices = (
            "add.u32 %r5, %r5, 3;",
            "mul.lo.u32 %r5, %r5, %r5;",
            "ld.global.u32 %r6, [%d1];",
            "add.u32 %r5, %r5, %r6;",
        )
        return ["mov.u32 %r6, 1;", *self.rng.choices(choices, k=self.rng.randint(0, 3))]

    def repeated(self, body: list[str], times: int) -> list[str]:
        """In a loop, by a number or by the parameter, or written out."""
        if times == 1 or self.rng.random() < 0.3:
            return body * times
        self.labels += 1
        limit = "%r9" if times == self.n and self.rng.random() < 0.5 else str(times)
        label = f"L{self.labels}"
        head = ["mov.u32 %r8, 0;", f"{label}:"]
        tail = ["add.u32 %r8, %r8, 1;", f"setp.lt.u32 %p2, %r8, {limit};", f"@%p2 bra {label};"]
        return [*head, *body, *tail]

    @property
    def text(self) -> str:
        out, first = [HEAD], 0
        for number, (count, lines) in enumerate(zip(self.roles, self.lines, strict=True)):
            first += count
            others = [f"setp.ge.u32 %p1, %r2, {first};", f"@%p1 bra R{number};"]
            is_last = number == len(self.roles) - 1
            out += [*([] if is_last else others), *lines, "bra END;", f"R{number}:"]
        return "\n".join([*out, "END:", "ret;", "}", ""])


@pytest.mark.parametrize("first", range(0, drawn(120), 40))
def test_what_is_bounded_is_executed_so(first: int) -> None:
    machine = load_machine("orin-ecrts2025")
    bounded = 0
    for seed in range(first, first + 40):
        program = Program(seed)
        module = parse_module(SourceFile("k.ptx", program.text))
        threads = 32 * sum(program.roles)
        facts = Launch((threads, 1, 1), (1, 1, 1), {"n": program.n})
        try:
            analysis = analyse_kernel(module.kernels[0], facts, machine)
        except PtxwcetError as refused:
            codes = {one.code for one in refused.diagnostics}
            if codes == {"PW504"}:
                continue
            raise
        bounded += 1
        launch = EmulatedLaunch((threads, 1, 1), (1, 1, 1), (np.ones(64, "u4"), program.n))
        result = validate_input(analysis, module, launch, seed)
        assert not result.diagnostics, (seed, [str(one) for one in result.diagnostics])
        assert all(row.longest_cycles <= row.safe_cycles for row in result.rows)
    assert bounded > 5


def test_numbers_in_registers_are_numbers_of_barriers() -> None:
    """There is no barrier 17, and nothing says that it is not number 1."""
    for number, found in ((15, None), (17, "17 is none of 0 to 15")):
        text = f"{HEAD}mov.u32 %r10, {number};\nbar.sync %r10, 64;\nret;\n}}\n"
        kernel = parse_module(SourceFile("k.ptx", text)).kernels[0]
        launch = Launch((64, 1, 1), None, {"n": 1})
        if found is None:
            analyse_kernel(kernel, launch, load_machine("orin-ecrts2025"))
            continue
        with pytest.raises(PtxwcetError, match=found):
            analyse_kernel(kernel, launch, load_machine("orin-ecrts2025"))
