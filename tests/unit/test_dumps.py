"""Dumps written by hand: several multiprocessors, several runs, and all that can be wrong."""

from __future__ import annotations

import re
import struct
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusals import refusal_of, refusals_of
from thoroughness import drawn

from ptxwcet.methods.instrument.buffers import (
    CHUNK_BYTES,
    MOST_CHUNKS,
    identity_of,
    prepare_buffer,
    unpack_header,
    written_part,
)
from ptxwcet.methods.instrument.recording import RawDump, read_dumps
from ptxwcet.methods.instrument.rewriting import Sidecar, SidecarKernel, read_sidecar, sidecar_text
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.trace.events import END, Ipoint, TimedTrace

pytestmark = pytest.mark.fast

KERNEL = SidecarKernel(
    "k", (Ipoint("entry", 3), Ipoint("L", 5), Ipoint("M", 9), END), ("b", "c"), 5, 139
)
OTHER = replace(KERNEL, name="other")
SIDECAR = Sidecar("k.ptx", "ab" * 32, "cd" * 32, (KERNEL, OTHER))
A, L, M, Z, HEAD = 1, 2, 3, 4, 0xFFFF

Record = tuple[int, int, int, int]  # code, multiprocessor, warp, clock


def dump(
    chunks: list[list[Record]],
    *,
    grid: tuple[int, int, int] = (2, 1, 1),
    block: tuple[int, int, int] = (32, 1, 1),
    identity: bytes | None = None,
    used: int | None = None,
    room: int | None = None,
    magic: bytes = b"PTXWCET\0",
    version: int = 1,
    clock: int = 0,
) -> bytes:
    """Written from docs/trace-format.md, not with the package's layout."""
    identity = identity_of("cd" * 32, "k") if identity is None else identity
    used = len(chunks) if used is None else used
    room = len(chunks) if room is None else room
    data = magic + struct.pack("<IIQQ6I", version, clock, used, room, *grid, *block) + identity
    for chunk in chunks:
        rows = [(code | sm << 16, warp, time) for code, sm, warp, time in chunk]
        rows += [(0, 0, 0)] * (8 - len(rows))
        data += b"".join(struct.pack("<IIQ", *row) for row in rows)
    return data


def read(*data: bytes) -> TimedTrace:
    return read_dumps([RawDump(f"{n}.bin", row) for n, row in enumerate(data)], SIDECAR)


def events(trace: TimedTrace) -> list[tuple[int, int, int, int]]:
    columns = (trace.ipoint, trace.sm, trace.warp, trace.cycle)
    return list(zip(*(column.tolist() for column in columns), strict=True))


def refusal(*data: bytes) -> str:
    (problem,) = refusals_of(read, *data)
    return f"{problem.code}: {problem.message}"


W0 = [(HEAD, 0, 0, 17), (A, 0, 0, 1000), (L, 0, 0, 1010), (Z, 0, 0, 1030)]
W1 = [(HEAD, 5, 1, 3), (A, 5, 1, 70), (M, 5, 1, 71), (Z, 5, 1, 99)]


def test_times_count_from_the_first_event_of_each_multiprocessor() -> None:
    trace = read(dump([W0, W1]))
    assert events(trace) == [
        (0, 0, 0, 0),
        (0, 5, 1, 0),
        (2, 5, 1, 1),
        (1, 0, 0, 10),
        (3, 5, 1, 29),
        (3, 0, 0, 30),
    ]
    assert trace.ipoints == KERNEL.ipoints
    assert (trace.origin.kernel, trace.origin.sha256) == ("k", "ab" * 32)
    assert (trace.origin.recorder, trace.origin.clock) == ("clock64", "cycle")
    assert trace.runs.tolist() == [0]


def test_events_of_one_time_are_in_the_order_of_multiprocessors_then_warps() -> None:
    starts = [[(HEAD, sm, warp, 0), (A, sm, warp, 50)] for warp, sm in enumerate((4, 2, 2))]
    chunks = [[*rows, (Z, rows[0][1], warp, 60)] for warp, rows in enumerate(starts)]
    rows = events(read(dump(chunks, grid=(3, 1, 1))))
    assert [row[1:3] for row in rows] == [(2, 1), (2, 2), (4, 0)] * 2


def test_a_warp_that_starts_later_on_the_same_multiprocessor_keeps_its_delay() -> None:
    later = [(HEAD, 0, 1, 2), (A, 0, 1, 1007), (Z, 0, 1, 1020)]
    assert [row for row in events(read(dump([W0, later]))) if row[2] == 1] == [
        (0, 0, 1, 7),
        (3, 0, 1, 20),
    ]


def test_lanes_are_merged_by_time_and_the_last_end_counts() -> None:
    lane_9 = [(L, 0, 0, 1005), (Z, 0, 0, 1050)]
    lane_3 = [(M, 0, 0, 1020), (M, 0, 0, 1040)]
    rows = [
        row[:1] + row[3:] for row in events(read(dump([W0, W1, lane_9, lane_3]))) if row[2] == 0
    ]
    assert rows == [(0, 0), (1, 5), (1, 10), (2, 20), (2, 40), (3, 50)]


def test_runs_one_after_the_other() -> None:
    longer = [*W0[:3], (M, 0, 0, 1020), (Z, 0, 0, 1031)]
    trace = read(dump([W0, W1]), dump([longer, W1]), dump([W0, W1]))
    assert trace.runs.tolist() == [0, 6, 13]
    assert events(trace)[:6] == events(trace)[13:]


def test_the_emulators_clock_has_a_name_of_its_own() -> None:
    origin = read(dump([W0, W1], clock=1)).origin
    assert (origin.recorder, origin.clock) == ("emulator", "instruction")


def test_a_whole_buffer_is_a_dump_too() -> None:
    whole = dump([W0, W1, [], []], used=2, room=4)
    assert events(read(whole)) == events(read(dump([W0, W1])))
    buffer = np.frombuffer(whole, dtype=np.uint8)
    assert written_part(buffer) == whole[: 64 + 2 * CHUNK_BYTES]


def test_files_that_are_no_dumps() -> None:
    good = dump([W0, W1])
    for data in (b"", b"hello", good[:63], b"\0" * 500, dump([W0, W1], magic=b"PTXWCET1")):
        assert refusal(data) == "PW654: '0.bin' is not the dump of an instrumented kernel"
    assert refusal(dump([W0, W1], version=2)) == "PW654: '0.bin' is a dump of version 2, not 1"
    assert "impossible values" in refusal(dump([W0, W1], grid=(0, 1, 1)))
    assert "impossible values" in refusal(dump([W0, W1], clock=7))
    assert "fewer chunks than warps" in refusal(dump([W0, W1], grid=(3, 1, 1)))


def test_a_dump_that_is_cut_off() -> None:
    good = dump([W0, W1])
    for size in (64, 100, len(good) - 1):
        message = f"cut off: {size - 64:,} bytes of records, 256 were written"
        assert refusal(good[:size]) == f"PW655: '0.bin' is {message}"


def test_dumps_of_something_else() -> None:
    good = dump([W0, W1])
    other = dump([W0, W1], identity=identity_of("cd" * 32, "other"))
    assert read(other).origin.kernel == "other"
    assert refusal(dump([W0, W1], identity=b"12345678")).startswith("PW656: '0.bin' is not of a")
    assert refusal(good, other) == "PW656: '1.bin' and '0.bin' are of different kernels or clocks"
    assert refusal(good, dump([W0, W1], clock=1)).startswith("PW656: '1.bin' and '0.bin' are of")


def test_a_buffer_that_was_too_small() -> None:
    assert refusal(dump([W0, W1], used=3)).endswith("so at least 1 records are lost")
    assert refusal(dump([W0, W1], used=9)) == (
        "PW657: the buffer of '0.bin' was too small: 2 chunks, 9 were asked for, so at least 7 "
        "records are lost"
    )


@pytest.mark.parametrize(
    ("chunks", "byte"),
    [
        ([[*W0[:2], (9, 0, 0, 1010), W0[3]], W1], 64 + 32),  # no such point
        ([[*W0[:2], (L, 0, 7, 1010), W0[3]], W1], 64 + 32),  # no such warp
        ([[*W0[:2], (L, 0, 1, 1010), W0[3]], W1], 64 + 32),  # another warp's chunk
        ([[*W0, (HEAD, 0, 0, 3)], W1], 64 + 64),  # a second head
        ([W0, W1, [(HEAD, 0, 0, 3)]], 64 + 256),  # a head in a chunk of a lane
        ([[*W0[:2], (0, 0, 0, 0), W0[3]], W1], 64 + 48),  # a gap
        ([W0, W1, [(L, 0, 0, 1), (L, 0, 1, 2)]], 64 + 272),  # two warps in a chunk
        ([W0, W1, [(L, 0, 0, 1 << 63)]], 64 + 256),  # no time
        ([W1, W1], 64),  # all of another warp's chunk
    ],
)
def test_records_that_cannot_be(chunks: list[list[Record]], byte: int) -> None:
    assert refusal(dump(chunks)) == (
        f"PW658: '0.bin': the record at byte {byte} is none that the kernel writes"
    )


@pytest.mark.parametrize(
    ("chunks", "what"),
    [
        ([W0, []], "warp 0 of block 1 never started"),
        ([W0, W1[:1]], "warp 0 of block 1 has no point"),
        ([W0, W1[:3]], "warp 0 of block 1 has no end"),
        ([[W0[0], *W0[2:]], W1], "warp 0 of block 0 does not begin at the entry"),
        ([W0, W1, [(L, 5, 1, 100)]], "warp 0 of block 1 has no end"),  # it goes on behind it
    ],
)
def test_warps_without_start_or_end(chunks: list[list[Record]], what: str) -> None:
    assert refusal(dump(chunks)) == f"PW659: '0.bin': {what}"


@pytest.mark.parametrize(
    ("chunk", "what"),
    [
        ([(L, 5, 1, 80), (L, 5, 1, 79)], "its time goes backwards"),
        ([(L, 5, 1, 71)], "two of its records have one time"),
        ([(L, 5, 1, 80), (L, 5, 1, 80)], "two of its records have one time"),
        ([(L, 6, 1, 80)], "it was moved to another multiprocessor"),
    ],
)
def test_times_that_contradict_each_other(chunk: list[Record], what: str) -> None:
    assert refusal(dump([W0, W1, chunk])) == f"PW660: '0.bin': warp 0 of block 1: {what}"


def test_warps_are_named_by_block_and_number() -> None:
    empty: list[Record] = []
    data = dump([W0, empty, empty, empty], grid=(2, 1, 1), block=(20, 2, 1))
    assert refusal(data) == "PW659: '0.bin': warp 1 of block 0 never started"


@settings(max_examples=drawn(150), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 319), st.integers(0, 255)), max_size=4))
def test_any_damage_is_read_or_refused(changes: list[tuple[int, int]]) -> None:
    data = bytearray(dump([W0, W1]))
    for place, value in changes:
        data[place] = value
    try:
        trace = read(bytes(data))
    except PtxwcetError as error:
        if len(error.diagnostics) != 1:
            raise
        return
    assert trace.cycle.min() == 0
    assert (np.diff(trace.cycle) >= 0).all()


# --- what the host prepares -----------------------------------------------------------------------


def test_a_prepared_buffer() -> None:
    buffer, chunks = prepare_buffer(1000, (3, 1, 1), (40, 1, 1), b"identity")
    assert (len(buffer), chunks) == (64 + 7 * 128, 7)
    header = unpack_header(buffer[:64].tobytes())
    assert (header.used, header.chunks, header.warps) == (6, 7, 6)
    assert not buffer[64:].any()
    assert written_part(buffer) == buffer[: 64 + 6 * 128].tobytes()


@pytest.mark.parametrize("size", [0, 63, 64, 64 + 5 * 128])
def test_a_buffer_without_room_for_each_warp(size: int) -> None:
    (problem,) = refusals_of(prepare_buffer, size, (3, 1, 1), (40, 1, 1), b"identity")
    assert problem.code == "PW657"
    assert f"{size:,} bytes is too small: 6 warps need at least 832" in problem.message


def test_a_buffer_that_the_machine_has_no_memory_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **more: object) -> None:
        raise MemoryError

    monkeypatch.setattr(np, "zeros", refuse)
    assert refusal_of(prepare_buffer, 1 << 30, (3, 1, 1), (40, 1, 1), b"identity").code == "PW657"


def test_more_warps_than_can_be_counted() -> None:
    assert "cannot be recorded" in (
        refusal_of(prepare_buffer, 1 << 20, (MOST_CHUNKS + 1, 1, 1), (32, 1, 1), b"identity").help
        or ""
    )


# --- the description ------------------------------------------------------------------------------


def test_a_description_survives() -> None:
    assert read_sidecar(sidecar_text(SIDECAR).encode(), "k.json") == SIDECAR


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('{\n  "schema', "{\n  schema", "it is not JSON"),
        ('"schema": 1', '"schema": 2', "schema 2 is not known, only 1"),
        ('"sha256"', '"sha257"', "'sha256' is missing"),
        ('"line": 5', '"line": -5', "a value has the wrong type"),
        ('"line": 5', '"line": "5"', "a value has the wrong type"),
        ('"label": "L"', '"label": null', "a value has the wrong type"),
        ('"parameters": [\n        "b",', '"parameters": [', "a value has the wrong type"),
    ],
)
def test_descriptions_that_are_none(old: str, new: str, reason: str) -> None:
    text = sidecar_text(SIDECAR)
    assert old in text
    changed = text.replace(old, new, 1)
    if "JSON" not in reason:
        (problem,) = refusals_of(read_sidecar, changed.encode(), "k.json")
        assert "not what was written" in problem.message
    changed = re.sub(r',\s*"digest": "[0-9a-f]{64}"', "", changed)
    (problem,) = refusals_of(read_sidecar, changed.encode(), "k.json")
    assert problem.code == "PW652"
    assert problem.message.endswith(f"is not the description of an instrumented file: {reason}")


@pytest.mark.parametrize("data", [b"", b"[]", b"3", b"\xff\xfe", b"null", b'{"schema": 1}'])
def test_other_files_are_no_descriptions(data: bytes) -> None:
    assert refusal_of(read_sidecar, data, "k.json").code == "PW652"
