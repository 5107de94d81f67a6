"""Self-test of paths in short form: kernels parsed, bounded, and executed on adversarial data.

A few kernels are fixed, the others follow from a seed: predicates that are written on both sides of
branches, loops that data bound, lanes that diverge. Executed paths must be analysed ones, simulated
times within the bounds. The long form is in the project's benchmarks.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np

from ptxwcet.emulator.launch import EmulatedLaunch
from ptxwcet.flow.launch import Launch
from ptxwcet.machine.loader import DEFAULT_MACHINE, load_machine
from ptxwcet.opened.front_ends import read_program
from ptxwcet.pipeline import analyse_kernel
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.records import dataclass
from ptxwcet.support.source import SourceFile
from ptxwcet.validate.inputs import attack_analysis
from ptxwcet.validate.witness import shrink_text

RANDOM_KERNELS = 12
_ATTACKS = 8
_WORDS = 256
_FRAME = """.version 8.3
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data)
{{
.reg .pred %p<8>;
.reg .b32 %r<16>;
.reg .b64 %d<4>;
ld.param.u64 %d1, [data];
mov.u32 %r1, %tid.x;
mul.wide.u32 %d2, %r1, 4;
add.u64 %d2, %d1, %d2;
ld.global.u32 %r2, [%d2];
ld.global.u32 %r3, [%d2+256];
ld.global.u32 %r4, [%d1];
and.b32 %r5, %r2, 15;
{body}
st.global.u32 [%d2], %r6;
ret;
}}
"""
_LOOP = "mov.u32 %r6, 0;\nL:\nadd.u32 %r6, %r6, 1;\nsetp.lt.u32 %p7, %r6, %r5;\n@%p7 bra L;"
_FIXED = {
    "a loop that data bound": _LOOP,
    "a predicate written on both sides": (
        "setp.gt.s32 %p1, %r3, 100;\n@%p1 bra A;\nsetp.gt.u32 %p2, %r5, 3;\nbra B;\nA:\n"
        f"setp.ne.s32 %p2, %r4, 7;\nB:\n@%p2 bra C;\n{_LOOP}\nC:"
    ),
    "a guarded predicate": (
        "setp.ne.u32 %p2, %r3, 0;\nsetp.lt.u32 %p1, %r5, 4;\n@%p1 setp.ne.u32 %p2, %r3, 7;\n"
        f"@!%p2 bra C;\n{_LOOP}\nC:"
    ),
    "lanes that part at a bit": (
        "shl.b32 %r6, 1, %r1;\nand.b32 %r6, %r6, %r4;\nsetp.eq.s32 %p1, %r6, 0;\n@%p1 bra A;\n"
        "add.u32 %r6, %r6, 1;\nbra B;\nA:\nadd.u32 %r6, %r6, 2;\nB:"
    ),
}


@dataclass(frozen=True, slots=True)
class PathSelfTest:
    """The summary: kernels, those with a bound, compared runs, contradictions."""

    kernels: int
    bounded: int
    runs: int
    diagnostics: tuple[Diagnostic, ...]


@dataclass(frozen=True, slots=True)
class AttackedKernel:
    """A kernel, whether it has a bound, the compared runs and their contradictions.

    ``longest`` are the warp-instructions of the longest run.
    """

    name: str
    text: str
    seed: int
    bounded: bool
    runs: int = 0
    longest: int = 0
    diagnostics: tuple[Diagnostic, ...] = ()

    def shrunk(self) -> str:
        """Returns the text without the instructions that its first contradiction does not need."""
        code = self.diagnostics[0].code

        def remains(text: str) -> bool:
            try:
                diagnostics = _attacked(self.name, text, self.seed).diagnostics
            except PtxwcetError:  # no longer a kernel
                return False
            return any(d.code == code for d in diagnostics)

        return shrink_text(self.text, remains)


def run_path_selftest(seed: int, random_kernels: int = RANDOM_KERNELS) -> PathSelfTest:
    """Attacks the fixed kernels and random ones; a function of the arguments only.

    Cost: a few milliseconds a run, eight runs a kernel.
    """
    fixed = (_attacked(name, _FRAME.format(body=body), seed) for name, body in _FIXED.items())
    attacked = [*fixed, *attack_random_kernels(seed, random_kernels)]
    return PathSelfTest(
        len(attacked),
        sum(kernel.bounded for kernel in attacked),
        sum(kernel.runs for kernel in attacked),
        tuple(diagnostic for kernel in attacked for diagnostic in kernel.diagnostics),
    )


def attack_random_kernels(seed: int, count: int) -> Iterator[AttackedKernel]:
    """Yields attacked random kernels; each a function of seed and place. Cost: as above."""
    for number in range(count):
        text = _FRAME.format(body=_random_body(Random(f"{seed} {number}")))
        yield _attacked(f"random kernel {number} of seed {seed}", text, seed)


def _attacked(name: str, text: str, seed: int) -> AttackedKernel:
    launch = Launch((32, 1, 1), (1, 1, 1))
    data = EmulatedLaunch(launch.block, (1, 1, 1), (np.zeros(_WORDS, np.uint32),))
    module = read_program(SourceFile(f"{name}.ptx", text))
    try:
        analysis = analyse_kernel(module.kernels[0], launch, load_machine(DEFAULT_MACHINE))
    except PtxwcetError:
        return AttackedKernel(name, text, seed, bounded=False)
    attack = attack_analysis(analysis, module, data, _ATTACKS, seed)
    return AttackedKernel(
        name, text, seed, True, attack.compared, attack.longest, attack.diagnostics
    )


def _random_body(chooser: Random) -> str:
    """Returns predicates on data, written again on sides of branches, for loops and branches."""
    lines = ["mov.u32 %r6, 0;"]
    for predicate in ("%p1", "%p2"):
        lines.append(_comparison(chooser, predicate))
    for number in range(chooser.randint(1, 3)):
        first, second = chooser.choice(("%p1", "%p2")), chooser.choice(("%p1", "%p2"))
        guard = chooser.choice(("", f"@{first} ", f"@!{second} "))
        lines += [
            f"@{chooser.choice(('', '!'))}{first} bra E{number};",
            guard + _comparison(chooser, second),
            f"bra M{number};",
            f"E{number}:",
            _comparison(chooser, chooser.choice(("%p1", "%p2"))),
            f"add.u32 %r6, %r6, {chooser.randint(1, 9)};",
            f"M{number}:",
        ]
        if chooser.random() < 0.7:
            limit = chooser.choice(("%r5", "%r5", str(chooser.randint(1, 12))))
            lines += [
                f"@{chooser.choice(('', '!'))}{second} bra S{number};",
                "mov.u32 %r7, 0;",
                f"L{number}:",
                f"add.u32 %r7, %r7, {chooser.randint(1, 3)};",
                f"setp.lt.{chooser.choice('us')}32 %p7, %r7, {limit};",
                f"@%p7 bra L{number};",
                f"S{number}:",
            ]
    return "\n".join(lines)


def _comparison(chooser: Random, predicate: str) -> str:
    name = chooser.choice(("lt", "le", "gt", "ge", "eq", "ne"))
    source = chooser.choice(("%r1", "%r2", "%r3", "%r4", "%r5", "%r5"))
    return f"setp.{name}.{chooser.choice('us')}32 {predicate}, {source}, {chooser.randint(0, 16)};"
