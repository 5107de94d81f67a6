"""Exchanges within a warp, against plain Python lane by lane; member masks that are wrong."""

import math
import operator
import struct
from functools import reduce

import numpy as np
import pytest
from executions import execute_first
from refusals import refusals_of
from single_instruction import evaluate, header_of

from ptxwcet.emulator.launch import EmulatedLaunch

RANDOM = np.random.default_rng(11)
LANES = 96
VALUES = RANDOM.integers(0, 2**32, LANES, dtype=np.uint32)
FLAGS = RANDOM.integers(0, 2, LANES).astype(bool)
EXECUTE = np.concatenate([RANDOM.integers(0, 2, 64).astype(bool), np.arange(32) == 31])


def word(flags, warp):
    return sum(1 << lane for lane in range(32) if flags[32 * warp + lane])


def lane_words(flags):
    return np.repeat([word(flags, warp) for warp in range(len(flags) // 32)], 32).astype("u4")


def run(body, threads, outputs=1):
    """Outputs (u32, one a thread) and findings of a body that leaves results in %r0, %r1, ..."""
    names = [f"p{i}" for i in range(outputs)]
    lines = [
        f"{header_of(body)}.visible .entry one("
        f"{', '.join(f'.param .u64 {name}' for name in names)})",
        "{ .reg .b32 %r<9>; .reg .b64 %at; .reg .pred %p<9>; .reg .b32 %lane;",
        "mov.u32 %lane, %tid.x;",
        body,
    ]
    for number, name in enumerate(names):
        lines += [f"ld.param.u64 %at, [{name}];", "mad.wide.u32 %at, %lane, 4, %at;"]
        lines += [f"st.global.b32 [%at], %r{number};"]
    arrays = tuple(np.full(threads, 7, "u4") for _ in names)
    launch = EmulatedLaunch((threads, 1, 1), (1, 1, 1), arrays)
    done = execute_first("\n".join([*lines, "ret; }", ""]), launch)
    return [b.tolist() for b in done.buffers], [
        (f.code, f.thread, f.message) for f in done.findings
    ]


# --- shfl -----------------------------------------------------------------------------------------


def shuffled(mode, lane, b, width):
    """The lane read and whether it is in range (CUDA C++ Programming Guide, warp shuffle)."""
    start = lane // width * width
    wanted = {
        "up": lane - b, "down": lane + b, "idx": start + b % width, "bfly": lane ^ b,
    }[mode]  # fmt: skip
    inside = wanted >= start if mode == "up" else wanted < start + width
    return (wanted if inside else lane), inside


@pytest.mark.parametrize("mode", ["up", "down", "idx", "bfly"])
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 32])
@pytest.mark.parametrize("form", [".sync", ""])
def test_shuffle(mode, width, form):
    clamp = (32 - width) << 8 | (0 if mode == "up" else 31)
    mask = ", -1" if form else ""
    for b in (0, 1, 2, 3, 5, 8, 15, 16, 17, 31):
        found, inside = evaluate(
            f"shfl{form}.{mode}.b32 %r0|%r1, %a, {b}, {clamp}{mask};", [VALUES], ["u4", bool]
        )
        for thread in range(LANES):
            lane, valid = shuffled(mode, thread % 32, b, width)
            assert found[thread] == VALUES[thread // 32 * 32 + lane], (b, thread)
            assert inside[thread] == valid, (b, thread)


def test_shuffle_with_amounts_and_clamps_of_each_lane():
    b = RANDOM.integers(0, 2**32, LANES, dtype=np.uint32)
    for mode in ("up", "down", "idx", "bfly"):
        c = RANDOM.integers(0, 2**13, LANES, dtype=np.uint32)
        found, inside = evaluate(
            f"shfl.sync.{mode}.b32 %r0|%r1, %a, %b, %c, 0xFFFFFFFF;", [VALUES, b, c], ["u4", bool]
        )
        for thread in range(LANES):
            lane, by, clamp = thread % 32, int(b[thread]) % 32, int(c[thread])
            bound, segment = clamp % 32, clamp >> 8
            kept = [bit for bit in range(5) if segment >> bit & 1]
            base = sum(lane & 1 << bit for bit in kept)
            limit = base + sum(bound & 1 << bit for bit in range(5) if bit not in kept)
            free = sum(by & 1 << bit for bit in range(5) if bit not in kept)
            wanted = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": base + free}
            valid = wanted[mode] >= limit if mode == "up" else wanted[mode] <= limit
            source = wanted[mode] if valid else lane
            assert inside[thread] == valid, (mode, thread)
            assert found[thread] == VALUES[thread // 32 * 32 + source], (mode, thread)


def test_shuffle_by_amounts_that_change_in_a_loop():
    body = """mov.u32 %r0, %lane; mov.u32 %r1, 1;
    AGAIN: shfl.sync.up.b32 %r0, %r0, %r1, 0, -1; add.u32 %r1, %r1, 1;
    setp.lt.u32 %p0, %r1, 4; @%p0 bra AGAIN;"""
    found, findings = run(body, 64)
    lanes = list(range(64))
    for by in (1, 2, 3):
        lanes = [lanes[t - by] if t % 32 >= by else lanes[t] for t in range(64)]
    assert found == [lanes]
    assert not findings


# --- vote, match, activemask, elect ---------------------------------------------------------------


def members_of(thread, masks, executing):
    """The threads that take part together with one."""
    warp = thread // 32 * 32
    lanes = [lane for lane in range(32) if int(masks[thread]) >> lane & 1]
    return [warp + lane for lane in lanes if executing[warp + lane]]


def halves():
    """Each lane names the lanes with its own parity."""
    return np.where(np.arange(LANES) % 2, 0xAAAAAAAA, 0x55555555).astype("u4")


ALL = np.ones(LANES, dtype=bool)
SETTINGS = [(np.full(LANES, 2**32 - 1, "u4"), ALL), (halves(), ALL), (lane_words(EXECUTE), EXECUTE)]
VOTES = {
    "all": lambda flags: all(flags.values()),
    "any": lambda flags: any(flags.values()),
    "uni": lambda flags: len(set(flags.values())) == 1,
    "ballot": lambda flags: sum(1 << thread % 32 for thread, flag in flags.items() if flag),
}


@pytest.mark.parametrize("mode", VOTES)
@pytest.mark.parametrize("mark", ["", "!"])
@pytest.mark.parametrize("setting", [0, 1, 2])
def test_vote(mode, mark, setting):
    masks, executing = SETTINGS[setting]
    kind, name = ("u4", "b32") if mode == "ballot" else (bool, "pred")
    for flags in (FLAGS, ~FLAGS & (np.arange(LANES) > 40), ALL, ~ALL):
        found = evaluate(
            f"@%d vote.sync.{mode}.{name} %r0, {mark}%a, %c;", [flags, VALUES, masks, executing],
            [kind],
        )  # fmt: skip
        for thread in np.flatnonzero(executing).tolist():
            group = {t: flags[t] != (mark == "!") for t in members_of(thread, masks, executing)}
            assert found[thread] == VOTES[mode](group), thread
        assert not found[~executing].any()


def test_vote_without_sync_is_over_the_active_lanes():
    found = evaluate("@%b vote.ballot.b32 %r0, %a;", [FLAGS, EXECUTE], ["u4"])
    want = np.where(EXECUTE, lane_words(FLAGS & EXECUTE), 0)
    assert found.tolist() == want.tolist()


@pytest.mark.parametrize("kind", ["u4", "u8"])
@pytest.mark.parametrize("setting", [0, 1, 2])
def test_match_any(kind, setting):
    masks, executing = SETTINGS[setting]
    values = (VALUES % 5).astype(kind) << np.array(8 * np.dtype(kind).itemsize - 4, kind)
    text = f"@%c match.any.sync.b{8 * values.itemsize} %r0, %a, %b;"
    found = evaluate(text, [values, masks, executing], ["u4"])
    for thread in np.flatnonzero(executing).tolist():
        same = [t for t in members_of(thread, masks, executing) if values[t] == values[thread]]
        assert found[thread] == sum(1 << t % 32 for t in same)


@pytest.mark.parametrize("kind", ["u4", "u8"])
@pytest.mark.parametrize("setting", [0, 1, 2])
@pytest.mark.parametrize("odd", [None, 1, 40])
def test_match_all(kind, setting, odd):
    masks, executing = SETTINGS[setting]
    values = np.full(LANES, 3 << 8 * np.dtype(kind).itemsize - 4, kind)
    if odd is not None:
        values[odd] += 1
    width = 8 * values.itemsize
    found = evaluate(
        f"@%c match.all.sync.b{width} %r0|%r1, %a, %b;", [values, masks, executing], ["u4", bool]
    )
    alone = evaluate(
        f"@%c match.all.sync.b{width} %r0, %a, %b;", [values, masks, executing], ["u4"]
    )
    assert found[0].tolist() == alone.tolist()
    for thread in np.flatnonzero(executing).tolist():
        group = members_of(thread, masks, executing)
        same = len({int(values[t]) for t in group}) == 1
        assert found[0][thread] == (sum(1 << t % 32 for t in group) if same else 0)
        assert found[1][thread] == same


def test_active_mask():
    found = evaluate("@%a activemask.b32 %r0;", [EXECUTE], ["u4"])
    assert found.tolist() == np.where(EXECUTE, lane_words(EXECUTE), 0).tolist()


@pytest.mark.parametrize("setting", [0, 1, 2])
def test_elect_chooses_one_lane_of_the_mask(setting):
    masks, executing = SETTINGS[setting]
    lane, leads = evaluate("@%b elect.sync %r0|%r1, %a;", [masks, executing], ["u4", bool])
    for thread in np.flatnonzero(executing).tolist():
        group = members_of(thread, masks, executing)
        leaders = [t for t in group if leads[t]]
        assert len(leaders) == 1
        assert lane[thread] == leaders[0] % 32


# --- redux ----------------------------------------------------------------------------------------

INTEGER = {
    "add": operator.add, "min": min, "max": max, "and": operator.and_, "or": operator.or_,
    "xor": operator.xor,
}  # fmt: skip


@pytest.mark.parametrize("name", ["add.s32", "add.u32", "min.s32", "min.u32", "max.s32", "max.u32",
                                  "and.b32", "or.b32", "xor.b32"])  # fmt: skip
@pytest.mark.parametrize("setting", [0, 1, 2])
def test_reduce_integers(name, setting):
    kind, type_name = name.split(".")
    masks, executing = SETTINGS[setting]
    for values in (VALUES, VALUES | 0x80000000, VALUES & 0x7FFFFFFF, VALUES >> 27):
        numbers = values.view("i4") if type_name == "s32" else values
        found = evaluate(
            f"@%c redux.sync.{name} %r0, %a, %b;", [values, masks, executing], ["u4"]
        ).tolist()
        for thread in np.flatnonzero(executing).tolist():
            group = [int(numbers[t]) for t in members_of(thread, masks, executing)]
            assert found[thread] == reduce(INTEGER[kind], group) % 2**32


SPECIAL = [0, 0x80000000, 1, 0x80000001, 0x3F800000, 0xBF800000, 0x7F800000, 0xFF800000,
           0x7F7FFFFF, 0xFF7FFFFF, 0x7FC00000, 0xFF812345]  # fmt: skip


def single(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


@pytest.mark.parametrize("kind", ["min", "max"])
@pytest.mark.parametrize("options", ["", ".abs", ".NaN", ".abs.NaN"])
def test_reduce_floats(kind, options):
    pool = np.array(SPECIAL, dtype="u4")
    kinds = [pool[:10], pool[:2], pool, pool[10:], pool[[3, 5, 7, 11]]]
    rows = [RANDOM.choice(kind_, LANES) for kind_ in kinds]
    for values in rows:
        for masks, executing in SETTINGS:
            text = f"@%c redux.sync.{kind}{options}.f32 %r0, %a, %b;"
            found = evaluate(text, [values, masks, executing], ["u4"]).tolist()
            for thread in np.flatnonzero(executing).tolist():
                group = [single(int(values[t])) for t in members_of(thread, masks, executing)]
                group = [abs(x) for x in group] if "abs" in options else group
                numbers = [x for x in group if not math.isnan(x)]
                if not numbers or ("NaN" in options and len(numbers) < len(group)):
                    assert found[thread] == 0x7FFFFFFF
                    continue
                ordered = sorted(numbers, key=lambda x: (x, math.copysign(1, x)))
                want = ordered[0] if kind == "min" else ordered[-1]
                assert struct.pack("<f", want) == struct.pack("<I", found[thread]), thread


# --- member masks ---------------------------------------------------------------------------------


def test_partial_last_warp_has_only_its_own_lanes():
    body = """activemask.b32 %r0; setp.lt.u32 %p0, %lane, 99;
    shr.u32 %r4, %lane, 5; setp.eq.u32 %p1, %r4, 1; selp.b32 %r5, 0x3F, 0xFFFFFFFF, %p1;
    vote.sync.ballot.b32 %r1, %p0, %r5;
    vote.sync.all.pred %p2, %p0, %r5; selp.b32 %r2, 1, 0, %p2; redux.sync.add.u32 %r3, 1, %r5;"""
    found, findings = run(body, 38, outputs=4)
    full, rest = [2**32 - 1] * 32, [63] * 6
    assert found == [full + rest, full + rest, [1] * 38, [32] * 32 + [6] * 6]
    assert not findings


def test_a_mask_may_name_lanes_that_the_block_has_not():
    found, findings = run("redux.sync.add.u32 %r0, 1, -1;", 38)
    assert found == [[32] * 32 + [6] * 6]
    assert not findings


def test_lanes_that_have_ended_are_not_awaited():
    for branch in ("@%p0 bra DONE; ", "@!%p0 bra GO; ret; GO: "):
        body = f"""setp.ge.u32 %p0, %lane, 10; {branch}
        mov.u32 %r0, 0; shfl.sync.idx.b32 %r0, %lane, 3, 31, -1; bra STORE; DONE: ret; STORE:"""
        found, findings = run(body, 32)
        assert found == [[3] * 10 + [7] * 22]
        assert not findings


@pytest.mark.parametrize(
    "text", ["vote.sync.any.pred %p1, %p0, {};", "redux.sync.add.u32 %r0, %lane, {};",
             "match.any.sync.b32 %r0, %lane, {};", "match.all.sync.b32 %r0|%p1, %lane, {};",
             "elect.sync %r0|%p1, {};", "bar.warp.sync {};",
             "shfl.sync.idx.b32 %r0, %lane, 4, 31, {};"],
)  # fmt: skip
def test_masks_that_do_not_fit_are_found(text):
    few = "mov.u32 %r0, 0; setp.lt.u32 %p0, %lane, 8; @%p0 "
    _, findings = run(few + text.format("0xFF"), 32)
    assert not findings
    for mask, words in (("0x1FF", "have not ended"), ("0xFE", "does not name")):
        _, findings = run(few + text.format(mask), 32)
        code, thread, message = findings[0]
        assert (code, thread) == ("PW437", 0)
        assert words in message


def test_masks_that_differ_within_a_group_are_found():
    body = """setp.eq.u32 %p0, %lane, 5; selp.b32 %r1, 0x3F, 0xFFFFFFFF, %p0;
    redux.sync.add.u32 %r0, 1, %r1;"""
    _, findings = run(body, 64)
    assert [(code, "another mask" in message) for code, _, message in findings] == [("PW437", True)]


def test_reading_a_lane_that_takes_no_part_is_found():
    body = """mov.u32 %r0, 0; setp.lt.u32 %p0, %lane, 8;
    @%p0 shfl.sync.down.b32 %r0, %lane, 4, {}, 0xFF;"""
    _, findings = run(body.format(31), 32)
    assert [(code, thread) for code, thread, _ in findings] == [("PW437", 4)]
    assert "reads a lane" in findings[0][2]
    found, findings = run(body.format((32 - 8) << 8 | 31), 32)
    assert found == [[4, 5, 6, 7, 4, 5, 6, 7] + [0] * 24]
    assert not findings
    body = "setp.lt.u32 %p0, %lane, 40; mov.u32 %r0, 0; @%p0 shfl.down.b32 %r0, %lane, 1, 31;"
    _, findings = run(body, 48)
    assert [(code, thread) for code, thread, _ in findings] == [("PW437", 39)]


def test_two_sides_of_a_branch_are_not_together():
    body = """setp.lt.u32 %p0, %lane, 16; @%p0 bra LOW;
    vote.sync.ballot.b32 %r0, 1, {}; bra MEET; LOW: vote.sync.ballot.b32 %r0, 1, {}; MEET:"""
    found, findings = run(body.format("0xFFFF0000", "0xFFFF"), 32)
    assert found == [[0xFFFF] * 16 + [0xFFFF0000] * 16]
    assert not findings
    _, findings = run(body.format(-1, -1), 32)
    assert {code for code, _, _ in findings} == {"PW437"}


@pytest.mark.parametrize(
    "text", ["redux.sync.add.f32 %r0, %a, -1;", "redux.sync.min.abs.s32 %r0, %a, -1;",
             "shfl.sync.b32 %r0, %a, 1, 31, -1;", "match.any.sync.b32 %r0|%p, %a, -1;"],
)  # fmt: skip
def test_refused_by_name(text):
    assert {
        d.code for d in refusals_of(evaluate, text, [VALUES], ["u4"], before=".reg .pred %p;")
    } <= {"PW108", "PW113", "PW410"}
