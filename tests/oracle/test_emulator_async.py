"""Asynchronous copies and mbarrier objects against a model in plain Python."""

import numpy as np
import pytest
from refusals import refusals_of
from test_emulator_memory import run

RANDOM = np.random.default_rng(23)
WAITS = ["cp.async.commit_group; cp.async.wait_group 0;", "cp.async.wait_all;"]


@pytest.mark.parametrize("wait", WAITS)
@pytest.mark.parametrize("form", ["size", "predicate", "negated", "whole", "policy"])
@pytest.mark.parametrize("whole", [4, 8, 16])
def test_copies(whole, form, wait):
    data = RANDOM.integers(0, 256, (64, whole)).astype("u1")
    kept = RANDOM.integers(0, whole + 3, 64).astype("u4")
    last = {
        "size": ", %r1",
        "predicate": ", %p0",
        "negated": ", !%p0",
        "whole": "",
        "policy": ", %r1, %x5",
    }[form]
    kind = "cg" if whole == 16 else "ca"
    hint = ".L2::cache_hint" if form == "policy" else ".L2::128B"
    body = f"""mov.u32 %r0, %tid.x; mul.wide.u32 %x0, %r0, {whole}; cvt.u32.u64 %r2, %x0;
      mov.u32 %r3, m; add.u32 %r2, %r2, %r3; mul.wide.u32 %x1, %r0, 4; add.u64 %d0, %d0, %x0;
      add.u64 %d1, %d1, %x1; add.u64 %d2, %d2, %x0; ld.global.u32 %r1, [%d1];
      createpolicy.fractional.L2::evict_first.b64 %x5, 1.0;
      setp.gt.u32 %p0, %r1, 3;
      cp.async.{kind}.shared.global{hint} [%r2], [%d0], {whole}{last}; {wait}
      {"".join(f"ld.shared.u8 %r4, [%r2+{n}]; st.global.u8 [%d2+{n}], %r4;" for n in range(whole))}
      """
    found = run(
        body, data, kept, np.ones_like(data), threads=64,
        declarations=f".shared .align 16 .b8 m[{64 * whole}];",
    )[2]  # fmt: skip
    for row, source, count in zip(found, data, kept.tolist(), strict=True):
        if form in ("predicate", "negated"):
            count = 0 if (count > 3) == (form == "predicate") else whole
        count = whole if form == "whole" else min(count, whole)
        assert bytes(row) == bytes(source)[:count].ljust(whole, b"\0")


def test_a_cut_source_may_end_before_its_copy():
    body = """mov.u32 %r0, 4; mov.u32 %r1, m;
      cp.async.cg.shared.global [%r1], [%d0+16], 16, %r0; cp.async.wait_all;
      ld.shared.v4.u32 {%r2,%r3,%r4,%r5}, [m]; st.global.v4.u32 [%d1], {%r2,%r3,%r4,%r5};"""
    shared = ".shared .align 16 .b8 m[16];"
    data = np.arange(1, 6, dtype="u4")
    found = run(body, data, np.ones(4, "u4"), threads=1, declarations=shared)[1]
    assert found.tolist() == [5, 0, 0, 0]
    none = body.replace("mov.u32 %r0, 4;", "mov.u32 %r0, 0;").replace("[%d0+16]", "[%d0+4096]")
    assert run(none, data, np.ones(4, "u4"), threads=1, declarations=shared)[1].tolist() == [0] * 4
    beyond = body.replace("mov.u32 %r0, 4;", "mov.u32 %r0, 5;")
    done = run(beyond, data, np.ones(4, "u4"), threads=1, declarations=shared, findings=True)
    assert [finding.code for finding in done.findings] == ["PW430"]


class Model:
    """The ISA's words: a phase ends when no arrival is pending and no bytes are owed."""

    def __init__(self, count):
        self.expected = self.pending = count
        self.owed = self.phase = 0

    def end(self):
        if not self.pending and not self.owed:
            self.phase += 1
            self.pending = self.expected

    def arrive(self, count, dropped=0, size=0):
        before = self.phase, self.pending
        self.owed += size
        self.expected -= dropped
        self.pending -= count
        self.end()
        return before

    def transaction(self, size):
        self.owed += size
        self.end()


def steps(seed):
    """Random operations that the model allows: PTX, and what each shows."""
    random = np.random.default_rng(seed)
    model = Model(6)
    text, wanted = [], []
    text.append("mbarrier.init.shared::cta.b64 [bar], 6;")
    text.append("mbarrier.arrive.noComplete.shared.b64 %x0, [bar], 1;")
    state = model.arrive(1)
    for number in range(40):
        kind = random.choice(["arrive", "count", "expect", "drop", "tx", "bytes"])
        last = model.pending == 1
        if kind == "arrive":
            text.append("mbarrier.arrive.shared.b64 %x0, [bar];")
            state = model.arrive(1)
        elif kind == "count":
            count = int(random.integers(1, model.pending + 1))
            whole = count == model.pending
            word = "release.cta" if whole or random.random() < 0.5 else "noComplete.release.cta"
            text.append(f"mbarrier.arrive.{word}.shared::cta.b64 %x0, [bar], {count};")
            state = model.arrive(count)
        elif kind == "expect":
            text.append("mbarrier.arrive.expect_tx.shared::cta.b64 %x0, [bar], 48;")
            state = model.arrive(1, size=48)
        elif kind == "drop" and model.expected > 2 and number % 3 == 0 and not last:
            text.append("mbarrier.arrive_drop.shared.b64 %x0, [bar];")
            state = model.arrive(1, dropped=1)
        elif kind == "tx":
            text.append("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [bar], 16;")
            model.owed += 16
        else:
            if model.owed <= 0:  # fewer than none are owed for a while
                text.append("mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], 32;")
                text.append("mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], 32;")
            else:
                text.append(f"mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], {model.owed};")
                model.transaction(-model.owed)
        if not model.pending:  # owed bytes alone keep the phase open
            text.append(f"mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], {model.owed};")
            model.transaction(-model.owed)
        parity = model.phase & 1
        wanted += [parity == 1, parity == 0, state[0] != model.phase, state[1]]
        show = [
            "mbarrier.test_wait.parity.shared.b64 %p0, [bar], 0; selp.u32 %r0, 1, 0, %p0;",
            "mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p0, [bar], 1, 1000;"
            "selp.u32 %r0, 1, 0, %p0;",
            "mbarrier.try_wait.shared.b64 %p0, [bar], %x0; selp.u32 %r0, 1, 0, %p0;",
            "mbarrier.pending_count.b64 %r0, %x0;",
        ]
        for place, line in enumerate(show):
            text.append(f"{line} st.global.u32 [%d0+{16 * number + 4 * place}], %r0;")
    return "\n".join(text), [int(value) for value in wanted]


@pytest.mark.parametrize("seed", range(60))
def test_phases(seed):
    text, wanted = steps(seed)
    declared = ".shared .align 8 .b64 bar[1];"
    (found,) = run(text, np.zeros(160, "u4"), threads=1, declarations=declared)
    assert found[: len(wanted)].tolist() == wanted


def test_a_word_fills_its_counts():
    body = """mbarrier.init.shared.b64 [bar], 1048575; mov.u32 %r0, 1048575;
      mbarrier.arrive.noComplete.shared.b64 %x0, [bar], 1048574;
      mbarrier.pending_count.b64 %r1, %x0; st.global.u32 [%d0], %r1;
      mbarrier.expect_tx.relaxed.cta.shared.b64 [bar], %r0;
      mbarrier.arrive.shared.b64 %x0, [bar]; mbarrier.pending_count.b64 %r1, %x0;
      st.global.u32 [%d0+4], %r1;
      mbarrier.test_wait.shared.b64 %p0, [bar], %x0; selp.u32 %r1, 1, 0, %p0;
      st.global.u32 [%d0+8], %r1;
      mbarrier.complete_tx.relaxed.cta.shared.b64 [bar], %r0;
      mbarrier.test_wait.shared.b64 %p0, [bar], %x0; selp.u32 %r1, 1, 0, %p0;
      st.global.u32 [%d0+12], %r1; mbarrier.inval.shared.b64 [bar];"""
    declared = ".shared .align 8 .b64 bar[1];"
    (found,) = run(body, np.zeros(4, "u4"), threads=1, declarations=declared)
    assert found.tolist() == [1048575, 1, 0, 1]


PIPELINE = """
  mov.u32 %r0, %tid.x; shr.u32 %r1, %r0, 5; and.b32 %r2, %r0, 31; setp.eq.u32 %p0, %r0, 0;
  @%p0 mbarrier.init.shared.b64 [full], {arrivals}; @%p0 mbarrier.init.shared.b64 [free], 32;
  bar.sync 0; mov.u32 %r3, 0; shl.b32 %r4, %r2, 2; mov.u32 %r5, m; add.u32 %r4, %r4, %r5;
  mul.wide.u32 %x0, %r2, 4; add.u64 %d0, %d0, %x0; add.u64 %d1, %d1, %x0; mov.u32 %r8, 128;
  setp.ne.u32 %p1, %r1, 0; @%p1 bra CONSUME;
PRODUCE:
  and.b32 %r6, %r3, 1; xor.b32 %r6, %r6, 1;
FREE: mbarrier.try_wait.parity.shared.b64 %p2, [free], %r6; @!%p2 bra FREE;
  {produce}
  add.u64 %d0, %d0, 128; add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 9; @%p3 bra PRODUCE; ret;
CONSUME:
  and.b32 %r6, %r3, 1;
FULL: mbarrier.try_wait.parity.shared.b64 %p2, [full], %r6; @!%p2 bra FULL;
  ld.shared.u32 %r7, [%r4]; mbarrier.arrive.shared.b64 %x1, [free];
  mul.lo.u32 %r7, %r7, 3; st.global.u32 [%d1], %r7;
  add.u64 %d1, %d1, 128; add.u32 %r3, %r3, 1; setp.lt.u32 %p3, %r3, 9; @%p3 bra CONSUME;
"""
PRODUCERS = {
    "store": (32, "ld.global.u32 %r7, [%d0]; st.shared.u32 [%r4], %r7;"
              " mbarrier.arrive.shared.b64 %x1, [full];"),
    "copy": (32, "cp.async.ca.shared.global [%r4], [%d0], 4;"
             " cp.async.mbarrier.arrive.noinc.shared.b64 [full];"),
    "counted copy": (32, "cp.async.ca.shared.global [%r4], [%d0], 4;"
                     " cp.async.mbarrier.arrive.shared.b64 [full];"
                     " mbarrier.arrive.shared.b64 %x1, [full];"),
    "bulk": (1, "@%p0 mbarrier.arrive.expect_tx.shared.b64 %x1, [full], 128;"
             " @%p0 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
             " [m], [%d0], %r8, [full];"),
    "bulk, own count": (1, "@%p0 mbarrier.expect_tx.relaxed.cta.shared.b64 [full], 128;"
                        " @%p0 cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes"
                        ".L2::cache_hint [m], [%d0], %r8, [full], %x2;"
                        " @%p0 mbarrier.arrive.shared.b64 %x1, [full];"),
}  # fmt: skip


@pytest.mark.parametrize("name", PRODUCERS)
def test_a_warp_hands_over_to_another(name):
    arrivals, produce = PRODUCERS[name]
    data = RANDOM.integers(0, 1 << 20, (9, 32)).astype("u4")
    declared = ".shared .align 128 .b8 m[128]; .shared .align 8 .b64 full[1], free[1];"
    declared = declared.replace("full[1], free[1]", "full[1]; .shared .align 8 .b64 free[1]")
    body = PIPELINE.format(arrivals=arrivals, produce=produce)
    _, found = run(body, data, np.zeros_like(data), threads=64, declarations=declared)
    np.testing.assert_array_equal(found, data * 3)


@pytest.mark.parametrize("size", [16, 48, 4096])
def test_bulk_copies(size):
    data = RANDOM.integers(0, 256, size).astype("u1")
    body = f"""mov.u32 %r0, %tid.x; setp.ne.u32 %p0, %r0, 0; @%p0 ret;
      mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 %x0, [bar], {size};
      cp.async.bulk.prefetch.L2.global [%d0], {size};
      cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [m], [%d0], {size}, [bar];
      W: mbarrier.try_wait.shared.b64 %p1, [bar], %x0; @!%p1 bra W;
      mbarrier.arrive.expect_tx.shared.b64 %x0, [bar], {size};
      cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [m+4096], [m], {size},
      [bar]; V: mbarrier.try_wait.shared.b64 %p1, [bar], %x0; @!%p1 bra V;
      cp.async.bulk.global.shared::cta.bulk_group [%d1], [m+4096], {size};
      cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; cp.async.bulk.wait_group 0;"""
    declared = ".shared .align 128 .b8 m[8192]; .shared .align 8 .b64 bar[1];"
    found = run(body, data, np.zeros(size + 16, "u1"), threads=32, declarations=declared)[1]
    np.testing.assert_array_equal(found, np.append(data, np.zeros(16, "u1")))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes"
         " [%r0], [%d0, {%r1, %r2}], [%r3];", "tensor copies"),
        ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
         " [%r0], [%d0], %r1, [%r2], %h0;", "multicast"),
        ("cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%d0], [%r0], %r1, %h0;", "cp_mask"),
    ],
)  # fmt: skip
def test_refused_by_name(text, reason):
    (only,) = refusals_of(run, text, np.zeros(4, "u4"), threads=1)
    assert only.code == "PW410"
    assert reason in only.message
