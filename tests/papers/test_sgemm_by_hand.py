"""The bound of two SGEMM steps (K = 64), derived by hand from the machine model.

Machine: ``orin-ecrts2025``, memory latency 200. (init, lat): mov, shl, cvta, setp, bra, bar and ret
on INT (1, 4); add, mad, mul.wide on INT (2, 6); fma on SP (1, 7); ld.param on MEM (1, 2); ld.shared
on MEM (1, 5); st.shared on MEM (1, 2); global accesses on GMEM (1, 203). A result is ready
init + lat after the dispatch; an instruction issues when all it reads and writes is ready, one a
cycle; a taken branch costs one bubble.

32 warps run the same path, cut by its barriers into five sections. Every warp uses every unit that
the others use, so c_w(j) = init(j), and a section's bound is L + 31 * (sum of inits of one warp).
"""

import pytest
from issue_trace import trace_issue
from places import ROOT

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened.request import Request

pytestmark = pytest.mark.fast

# The last section, after the second barrier of the second step: (opcode, issue, dispatch, done).
LAST = [
    ("add.s64", 0, 0, 8),  # B's pointer
    ("add.s64", 1, 2, 10),  # A's pointer: INT is busy with the first add until 2
    ("add.s32", 2, 4, 12),  # k += 32: INT busy until 4
    ("setp.lt.s32", 12, 12, 17),  # reads k, ready at 12
    ("bra", 17, 17, 22),  # reads the predicate, ready at 17; not taken: no bubble
    ("add.s32", 18, 18, 26),
    ("mad.lo.s32", 26, 26, 34),
    ("cvta.to.global.u64", 27, 28, 33),  # INT busy with mad until 28
    ("mul.wide.s32", 34, 34, 42),
    ("add.s64", 42, 42, 50),
    ("st.global.f32", 50, 50, 254),  # 50 + 1 + 203: the last to end, L = 254
    ("ret", 51, 51, 56),
]
LAST_INITS = 3 * 2 + 1 + 1 + 2 + 2 + 1 + 2 + 2 + 1 + 1

# From the second barrier of the first step to the first barrier of the second one.
MIDDLE = [
    ("add.s64", 0, 0, 8),
    ("add.s64", 1, 2, 10),
    ("add.s32", 2, 4, 12),
    ("setp.lt.s32", 12, 12, 17),
    ("bra", 17, 17, 22),  # taken: the next issue is at 19
    ("ld.global.f32", 19, 19, 223),
    ("st.shared.f32", 223, 223, 226),  # waits for the load
    ("ld.global.f32", 224, 224, 428),
    ("st.shared.f32", 428, 428, 431),
    ("bar.sync", 429, 429, 434),  # L = 434: a barrier does not wait for the store, but ends later
]
MIDDLE_INITS = 3 * 2 + 1 + 1 + 2 * (1 + 1) + 1

# 32 times: two shared loads, one fma. fma i+1 waits for fma i (8 cycles) and for its loads, which
# are issued in the two cycles after fma i and ready 6 later: also 8 cycles. The first fma waits for
# the second load: 1 + 6 = 7. The last one issues at 7 + 31 * 8 = 255 and is done at 263, the
# barrier after it at 256 + 5 = 261.
COMPUTE_L = 7 + 31 * 8 + 8
COMPUTE_INITS = 64 + 32 + 1

# Up to the first barrier: the addresses end with A's pointer, ready at 121; then load, store (325),
# load (326), store (530), barrier (531 + 5).
FIRST_L = 121 + (1 + 203) + 1 + (1 + 203) + 1 + 5
# 5 parameter loads, 4 memory accesses, 14 two-cycle and 19 one-cycle operations on INT.
FIRST_INITS = 5 + 4 + 14 * 2 + 19


@pytest.fixture(scope="module")
def analysis() -> KernelAnalysis:
    request = Request(
        str(ROOT / "samples/sgemm_naive.ptx"), block="32x32", parameters=("N=64", "K=64")
    )
    return bound_file(request).answered[0]


def trace(analysis: KernelAnalysis, section: int) -> list[tuple[str, int, int, int]]:
    warp = analysis.worst.analysis.sections[section].warps[0]
    assert warp is not None
    kernel = analysis.kernel
    return [
        (kernel.instructions[getattr(node, "instruction", node).origin].mnemonic, *record)
        for node, record in zip(warp.body, trace_issue(warp.body, warp.scoreboard), strict=True)
    ]


def test_sections_by_hand(analysis: KernelAnalysis) -> None:
    first = FIRST_L + 31 * FIRST_INITS
    compute = COMPUTE_L + 31 * COMPUTE_INITS
    middle = 434 + 31 * MIDDLE_INITS
    last = 254 + 31 * LAST_INITS
    bound = analysis.worst.bound
    assert [(s.multiplicity, s.cycles) for s in bound.sections] == [
        (1, first),
        (1, compute),
        (1, middle),
        (1, compute),
        (1, last),
    ]
    assert bound.cycles == first + 2 * compute + middle + last == 10_492


def test_every_cycle_of_the_short_sections(analysis: KernelAnalysis) -> None:
    assert trace(analysis, 2) == MIDDLE
    assert trace(analysis, 4) == LAST


def test_first_section(analysis: KernelAnalysis) -> None:
    opcodes = [row[0] for row in trace(analysis, 0)]
    loads = sum(o.startswith("ld.param") for o in opcodes)
    memory = sum(o.startswith(("ld.global", "st.shared")) for o in opcodes)
    two_cycle = sum(o.startswith(("add", "mad", "mul")) for o in opcodes)
    one_cycle = len(opcodes) - loads - memory - two_cycle
    assert (loads, memory, two_cycle, one_cycle) == (5, 4, 14, 19)
    assert loads + memory + 2 * two_cycle + one_cycle == FIRST_INITS == 56


def test_steps_beyond_the_second_repeat(analysis: KernelAnalysis) -> None:
    request = Request(
        str(ROOT / "samples/sgemm_naive.ptx"), block="32x32", parameters=("N=1024", "K=1024")
    )
    long = bound_file(request).answered[0].worst.bound.cycles
    step = (COMPUTE_L + 31 * COMPUTE_INITS) + (434 + 31 * MIDDLE_INITS)
    assert long == analysis.worst.bound.cycles + 30 * step == 133_702
