"""Random PTX whose warps meet at mbarriers, in loops and out of them: analysed and executed.

What is bounded the emulator must execute without a deadlock or a misused mbarrier, each block of
the paths as often as was found; blocks that are polled in more often.
"""

from __future__ import annotations

import random

import numpy as np
import pytest
from test_mbarriers_kernels import machine, visits
from thoroughness import drawn

from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.executed_paths import executed_blocks
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.flow.facts.placing import place_facts
from ptxwcet.flow.facts.stated import NO_FACTS
from ptxwcet.flow.launch import Launch
from ptxwcet.flow.paths.extraction import extract_paths
from ptxwcet.ir.kernel import Kernel
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.pipeline import analyse_kernel, build_flow
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile

HEAD = """.version 8.6
.target sm_90
.address_size 64
.visible .entry k(.param .u64 data, .param .u32 n)
{
.shared .align 16 .b8 tile[256];
.shared .align 8 .b8 objects[64];
.reg .pred %p<9>;
.reg .b32 %r<40>;
.reg .b64 %d<9>;
ld.param.u64 %d1, [data];
ld.param.u32 %r9, [n];
mov.u32 %r1, %tid.x;
shr.u32 %r2, %r1, 5;
and.b32 %r3, %r1, 31;
mov.u32 %r4, objects;
mov.u32 %r7, tile;
mov.u32 %r30, 0;
mov.u32 %r31, 0;
mov.u32 %r32, 0;
"""


class Program:
    """Roles of warps that count and wait along phases, and the text of such a kernel."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = random.Random(f"programs {seed}")
        self.roles = [rng.randint(1, 2) for _ in range(rng.randint(2, 3))]
        self.n = rng.randint(1, 6)
        self.labels = 0
        self.comers: list[list[tuple[int, int, int]]] = []  # of each: role, lanes, count
        self.bytes: list[tuple[int, int]] = []  # of each: who copies, how much
        for _ in range(rng.randint(1, 3)):
            some = rng.sample(range(len(self.roles)), rng.randint(1, 2))
            lanes = [rng.choice((1, 1, 7, 32)) for _ in some]
            counts = [rng.choice((1, 1, 3)) for _ in some]
            self.comers.append(list(zip(some, lanes, counts, strict=True)))
            self.bytes.append((rng.randrange(len(self.roles)), 16 * rng.choice((0, 0, 1, 4))))
        self.careful = rng.choice((0.8, 1.0, 1.0))
        self.lines: list[list[str]] = [[] for _ in self.roles]
        for _ in range(rng.randint(1, 3)):
            self.segment()

    def segment(self) -> None:
        """Phases once, or several times."""
        rng, roles = self.rng, range(len(self.roles))
        steps = [self.step(rng.randrange(len(self.comers))) for _ in range(rng.randint(1, 3))]
        times = rng.choice((1, 2, self.n))
        for role in roles:
            body = [line for step in steps for line in step[role]]
            self.lines[role] += self.repeated(body, times)

    def step(self, o: int) -> list[list[str]]:
        """A phase of an mbarrier: for each role what it counts there, and its wait."""
        rng, out = self.rng, [list[str]() for _ in self.roles]
        waiting = [rng.random() < 0.9 for _ in self.roles]
        copier, size = self.bytes[o]
        if self.roles[copier] > 1:
            size = 0
        adds = self.comers[o][0][0]
        for role, lines in enumerate(out):
            counts = [one for one in self.comers[o] if one[0] == role]
            copies = size and role == copier
            if (counts or copies) and rng.random() < self.careful:
                lines += self.wait(o, before=True)
            for _, lanes, count in counts:
                lines.append(f"setp.lt.u32 %p3, %r3, {lanes};")
                if size and role == adds:
                    first = sum(self.roles[:role])
                    lines.append(f"setp.eq.u32 %p4, %r1, {32 * first};")
                    lines.append(f"@%p4 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 "
                                 f"[%r4+{8 * o}], {size};")  # fmt: skip
                lines.append(f"@%p3 mbarrier.arrive.shared::cta.b64 _, [%r4+{8 * o}], {count};")
            if copies:
                lines += [
                    "setp.eq.u32 %p4, %r3, 0;",
                    "@%p4 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                    f"[%r7], [%d1], {size}, [%r4+{8 * o}];",
                ]
            if waiting[role]:
                lines += self.wait(o, before=False)
            lines.append(f"add.u32 %r3{o}, %r3{o}, 1;")
        return out

    def wait(self, o: int, *, before: bool) -> list[str]:
        self.labels += 1
        label = f"W{self.labels}"
        parity = ["add.u32 %r20, %r20, 1;"] if before else []
        asks = f"mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r4+{8 * o}], %r20;"
        if self.rng.random() < 0.5:
            ends = [f"@!%p5 bra {label};"]
        else:
            ends = [f"@%p5 bra D{label};", f"bra {label};", f"D{label}:"]
        first = [f"mov.u32 %r20, %r3{o};", *parity, "and.b32 %r20, %r20, 1;"]
        return [*first, f"{label}:", asks, *ends]

    def repeated(self, body: list[str], times: int) -> list[str]:
        """In a loop, by a number or by the parameter."""
        if times == 1:
            return body
        self.labels += 1
        limit = "%r9" if times == self.n else str(times)
        label = f"L{self.labels}"
        tail = ["add.u32 %r8, %r8, 1;", f"setp.lt.u32 %p2, %r8, {limit};", f"@%p2 bra {label};"]
        return ["mov.u32 %r8, 0;", f"{label}:", *body, *tail]

    @property
    def text(self) -> str:
        begun = ["setp.ne.u32 %p1, %r1, 0;", "@%p1 bra READY;"]
        for o, comers in enumerate(self.comers):
            expected = sum(self.roles[role] * lanes * count for role, lanes, count in comers)
            begun.append(f"mbarrier.init.shared::cta.b64 [%r4+{8 * o}], {expected};")
        out, first = [HEAD, *begun, "READY:", "bar.sync 0;"], 0
        for number, (count, lines) in enumerate(zip(self.roles, self.lines, strict=True)):
            first += count
            others = [f"setp.ge.u32 %p1, %r2, {first};", f"@%p1 bra R{number};"]
            is_last = number == len(self.roles) - 1
            out += [*([] if is_last else others), *lines, "bra END;", f"R{number}:"]
        return "\n".join([*out, "END:", "ret;", "}", ""])


def refused_with(kernel: Kernel, facts: Launch) -> set[str]:
    """The codes of what is refused; none if there is a bound."""
    try:
        analyse_kernel(kernel, facts, machine("orin-ecrts2025"))
    except PtxwcetError as refused:
        return {one.code for one in refused.diagnostics}
    return set()


@pytest.mark.parametrize("first", range(0, drawn(24), 8))
def test_what_is_bounded_is_executed_so(first: int) -> None:
    bounded = 0
    for seed in range(first, first + 8):
        program = Program(seed)
        module = parse_module(SourceFile("k.ptx", program.text))
        (kernel,) = module.kernels
        threads = 32 * sum(program.roles)
        facts = Launch((threads, 1, 1), (1, 1, 1), {"n": program.n})
        refusals = refused_with(kernel, facts)
        assert refusals <= {"PW504"}, seed
        if refusals:
            continue
        bounded += 1
        launch = EmulatedLaunch((threads, 1, 1), (1, 1, 1), (np.ones(64, "u4"), program.n))
        execution = execute(kernel, module, launch, options=EmulatorOptions(record_paths=True))
        codes = {one.code for one in execution.findings}
        assert execution.is_complete, (seed, codes)
        assert "PW441" not in codes, seed
        flow = build_flow(kernel, facts)
        (pieces,) = extract_paths(flow, facts, place_facts(flow, NO_FACTS))
        meetings = flow.postdominators.immediate
        (kind,) = executed_blocks(execution, flow.cfg, meetings, (1, 1, 1))
        walked = {warp: visits(path.nodes) for path in pieces.warps for warp in path.warps}
        executed = {warp: visits(path.nodes) for path in kind.paths.warps for warp in path.warps}
        waits = {n for n, one in enumerate(kernel.instructions)
                 if one.op_class is OpClass.MBARRIER_WAIT}  # fmt: skip
        polled = {b.id for b in flow.cfg.blocks if waits & {*range(b.start, b.end)}}
        polled |= {b.id for b in flow.cfg.blocks if b.end - b.start == 1}  # branches back
        for warp, seen in executed.items():
            for block in seen.keys() | walked[warp].keys():
                if block in polled:
                    assert seen[block] >= walked[warp][block], seed
                else:
                    assert seen[block] == walked[warp][block], seed
    assert bounded > 0


INIT, COUNT = "@%p1 mbarrier.init.shared::cta.b64", "mbarrier.arrive.shared::cta.b64"
ASK = "W: mbarrier.try_wait.parity.shared::cta.b64 %p5,"
COPY = "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
OWE = "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _,"
HERE = f"{INIT} [%r4], 32;"


def misused(begun: str, used: str, wait: str = "[%r4], 0") -> Kernel:
    """One warp that initialises, counts and waits; ``%r20`` is the mbarrier by another way."""
    lines = [HEAD, ".shared .align 4 .b8 odd[16];", "setp.eq.u32 %p1, %r1, 0;", begun]
    lines += ["bar.sync 0;", used, f"{ASK} {wait};", "@!%p5 bra W;", "ret;", "}", ""]
    (kernel,) = parse_module(SourceFile("k.ptx", "\n".join(lines))).kernels
    return kernel


FACTS = Launch((32, 1, 1), (1, 1, 1), {"n": 1})


@pytest.mark.parametrize("way", ["or.b32 %r20, %r4, 8;", "cvt.u64.u32 %d2, %r4;"])
def test_an_mbarrier_has_one_name(way: str) -> None:
    """Two arrivals of all lanes, as if at two mbarriers, are two phases of one: it hangs."""
    way += "add.u32 %r20, %r20, 0;" if "or" in way else "cvt.u32.u64 %r20, %d2;"
    at = "[%r4+8]" if "or" in way else "[%r4]"
    begun = f"{way} {INIT} {at}, 32; {INIT} [%r20], 32;"
    used = f"{COUNT} _, {at}; {COUNT} _, [%r20]; V: {ASK[3:]} {at}, 0; @!%p5 bra V;"
    found = misused(begun, used, "[%r20], 0")
    assert refused_with(found, FACTS) == {"PW223"}


def test_what_is_used_well_is_bounded() -> None:
    assert not refused_with(misused(HERE, f"{COUNT} _, [%r4];"), FACTS)
    copied = f"{OWE} [%r4], 16; {COPY} [%r7], [%d1], 16, [%r4];"
    assert not refused_with(misused(f"{INIT} [%r4], 1;", copied), FACTS)


@pytest.mark.parametrize(
    ("begun", "used", "wait"),
    [
        ("mbarrier.init.shared::cta.b64 [%r4], 32;", f"{COUNT} _, [%r4];", "[%r4], 0"),
        (HERE, f"{COUNT} _, [%r4];", "[%r4], 2"),
        (HERE, f"{COUNT} _, [%r4];", "[%r4], 0, 1"),
        (f"mov.u32 %r20, odd; {INIT} [%r20], 32;", f"{COUNT} _, [%r20];", "[%r20], 0"),
        (f"{INIT} [%r4], 1048576;", f"@%p1 {COUNT} _, [%r4], 1048576;", "[%r4], 0"),
        (
            f"{INIT} [%r4], 1;",
            f"{OWE} [%r4], 24; {COPY} [%r7], [%d1], 24, [%r4];",
            "[%r4], 0",
        ),
    ],
    ids=["several lanes", "parity", "time limit", "alignment", "too many", "bytes"],
)
def test_what_the_isa_does_not_define_is_refused(begun: str, used: str, wait: str) -> None:
    assert refused_with(misused(begun, used, wait), FACTS) == {"PW223"}


@pytest.mark.parametrize("nothing", ["expect", "copy", "complete"])
def test_what_counts_nothing_tells_nobody_anything(nothing: str) -> None:
    """No phase waits for 0 bytes. The first warp waits for the phase before the first one, counts 0
    bytes, and would be known to have waited; if the other one's two phases are over before it asks,
    it asks for one that never comes.
    """
    way = {
        "expect": "mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r4], {};",
        "copy": f"{COPY[5:]} [%r7], [%d1], {{}}, [%r4];",
        "complete": "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r4], {};",
    }[nothing]
    first = f"@!%p1 bra N; V: {ASK[3:]} [%r4], 1; @!%p5 bra V; {way} N:"
    other = f"setp.ne.u32 %p2, %r1, 32; @%p2 bra M; {COUNT} _, [%r4];"
    found = misused(f"{INIT} [%r4], 1;", f"{first.format(0)} {other} M:")
    assert refused_with(found, Launch((64, 1, 1), (1, 1, 1))) == {"PW223"}


@pytest.mark.parametrize("then", ["mbarrier.inval.shared::cta.b64 [%r4];", ""])
def test_a_phase_that_has_begun_is_not_over_though_its_bytes_are(then: str) -> None:
    """A copy may still be on its way to an mbarrier that is invalidated, and begins anew, behind a
    barrier of the block: its bytes would be counted there.
    """
    copied = "@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r4], 16;"
    copied += f" {COPY} [%r7], [%d1], 16, [%r4]; bar.sync 0;"
    anew = f"@%p1 {then} bar.sync 0; {INIT} [%r4], 1; bar.sync 0;" if then else ""
    found = misused(f"{INIT} [%r4], 1;", f"{copied} {anew} @%p1 {COUNT} _, [%r4];")
    assert refused_with(found, FACTS) == ({"PW504"} if then else set())  # one phase, if none ends
