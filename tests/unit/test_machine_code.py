"""Machine code: cubins are read whole or refused, listed, lowered, drawn, and checked for hazards.

What needs no disassembler is tested on listings that are kept; tools on the PATH stand in for it.
"""

from __future__ import annotations

import re
import shutil
import struct
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from disassembler import needs_nvdisasm
from programs import run_program
from sass_listings import SASS, listing, raw, stand_in

from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.ir.kernel import Instruction, Kernel, Module, UnreadKernel
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.sass import disassembler, reading
from ptxwcet.sass.elf import read_cubin
from ptxwcet.sass.lowering import read_program
from ptxwcet.sass.reading import read_source
from ptxwcet.sass.splicing import with_copies
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.source import SourceFile

pytestmark = pytest.mark.fast

NAMES = ("control_86", "sgemm_naive_75", "sgemm_naive_86", "sgemm_naive_90")


def module(text: str) -> Module:
    return read_program(SourceFile("k.cubin", text))


def kernel(name: str, text: str | None = None) -> Kernel:
    found = module(text or listing("control_86"))
    return next(one for one in (*found.kernels, *found.functions) if one.name == name)


def at(one: Kernel, address: int) -> Instruction:
    assert one.code is not None
    addresses = [encoded.address for encoded in one.code.encoded]
    return one.instructions[addresses.index(address)]


def only(error: pytest.ExceptionInfo[PtxwcetError]) -> Diagnostic:
    (found,) = error.value.diagnostics
    return found


# --- the file -------------------------------------------------------------------------------------


def test_what_a_cubin_says_of_its_kernels() -> None:
    cubin = read_cubin("c", (SASS / "control_86.cubin").read_bytes())
    assert cubin.architecture == 86
    by_name = {one.name: one for one in cubin.sections}
    assert list(by_name) == ["unknown", "calls", "chosen", "parted"]
    parted = by_name["parted"]
    assert [(one.offset, one.size) for one in parted.parameters] == [(0, 8), (8, 4)]
    assert (parted.parameters_at, parted.shared_bytes) == (0x160, 128)
    assert by_name["calls"].most_threads == (128, 1, 1)
    assert [one.name for one in by_name["calls"].functions] == ["calls", "$calls$_Z9fibonaccii"]
    assert all(0 < one.registers < 64 for one in cubin.sections)
    assert len(by_name["chosen"].branches) == 3


@pytest.mark.parametrize("name", NAMES[1:])
def test_architectures_and_their_constants(name: str) -> None:
    cubin = read_cubin("c", (SASS / f"{name}.cubin").read_bytes())
    assert cubin.architecture == int(name[-2:])
    (only_one,) = cubin.sections
    assert only_one.parameters_at == (0x210 if name.endswith("90") else 0x160)
    assert [one.size for one in only_one.parameters] == [8, 8, 8, 4, 4, 4]


def test_a_file_that_is_cut_short_or_changed_is_one_diagnostic() -> None:
    whole = (SASS / "control_86.cubin").read_bytes()
    for length in (*range(0, 64, 5), *range(64, len(whole), 601)):
        with pytest.raises(PtxwcetError) as error:
            read_cubin("c", whole[:length])
        assert only(error).code == "PW123"
    header_end = len(whole) - 56 * 4  # sections and program headers are last
    for place in (*range(4, 64), *range(header_end - 30 * 64, header_end, 7)):
        for value in (0, 0x7F, 0xFF):
            changed = whole[:place] + bytes([value]) + whole[place + 1 :]
            with suppress(PtxwcetError):  # and nothing else is raised
                read_cubin("c", changed)


def test_a_second_form_of_the_code_may_lie_on_the_bytes_of_others() -> None:
    """As in files from sm_100 on, which are refused for their architecture."""
    whole = bytearray((SASS / "sgemm_naive_86.cubin").read_bytes())
    headers = struct.unpack_from("<Q", whole, 40)[0]
    count = struct.unpack_from("<H", whole, 60)[0]
    at = whole.index(b".note.nv.tkinfo\0")
    names = struct.unpack_from("<Q", whole, headers + 64 + 24)[0]
    for name in (b".nv.merc.other\0\0", b".nv.mere.other\0\0"):
        whole[at : at + 16] = name
        (row,) = (
            headers + 64 * n
            for n in range(count)
            if names + struct.unpack_from("<I", whole, headers + 64 * n)[0] == at
        )
        struct.pack_into("<QQ", whole, row + 24, 0, len(whole))
        if name.startswith(b".nv.merc."):
            assert read_cubin("c", bytes(whole)).architecture == 86
            continue
        with pytest.raises(PtxwcetError) as error:
            read_cubin("c", bytes(whole))
        assert "overlap" in only(error).message


def test_other_files_are_told_apart() -> None:
    whole = bytearray((SASS / "sgemm_naive_86.cubin").read_bytes())
    for place, value, why in ((0, 0, "ELF"), (18, 62, "another machine"), (16, 1, "not linked")):
        changed = whole[:]
        struct.pack_into("<H" if place else "<B", changed, place, value)
        with pytest.raises(PtxwcetError) as error:
            read_cubin("c", bytes(changed))
        assert only(error).code == "PW123"
        assert why in only(error).message


# --- the disassembler -----------------------------------------------------------------------------


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that is taken for nvdisasm: it runs the Python text that is written to it."""
    return stand_in(tmp_path, monkeypatch)


@pytest.mark.parametrize("name", NAMES)
def test_a_listing_is_written_of_file_and_disassembly(name: str, tool: Path) -> None:
    tool.write_text(f"print({raw(name)!r})")
    assert read_source(SASS / f"{name}.cubin").text == listing(name)


@needs_nvdisasm
def test_the_disassembler_writes_what_is_kept() -> None:
    found = read_source(SASS / "sgemm_naive_86.cubin").text
    version = re.compile(r"\.disassembler .*")
    assert version.sub("", found) == version.sub("", listing("sgemm_naive_86"))


BROKEN = {
    "import os; os.abort()": "ended by signal 6",
    "import sys; print('not an ELF file', file=sys.stderr); sys.exit(1)": "ended with code 1",
    "print('nothing')": "kernel sgemm_naive is missing",
}


@pytest.mark.parametrize("does", BROKEN)
def test_a_disassembler_that_fails_is_named(does: str, tool: Path) -> None:
    tool.write_text(does)
    with pytest.raises(PtxwcetError) as error:
        read_source(SASS / "sgemm_naive_86.cubin")
    assert only(error).code == "PW124"
    assert BROKEN[does] in only(error).message


def test_a_disassembler_that_does_not_end_is_stopped(
    tool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool.write_text("import time\nwhile True: time.sleep(9)")
    monkeypatch.setattr(disassembler, "MOST_SECONDS", 0.2)
    with pytest.raises(PtxwcetError) as error:
        read_source(SASS / "sgemm_naive_86.cubin")
    assert "has not ended" in only(error).message


def test_a_listing_of_other_code_is_refused(tool: Path) -> None:
    changed = raw("sgemm_naive_86").replace("/* 0x00000a0000017a02", "/* 0x00000a0000017a03")
    tool.write_text(f"print({changed!r})")
    with pytest.raises(PtxwcetError) as error:
        read_source(SASS / "sgemm_naive_86.cubin")
    assert only(error).code == "PW124"
    assert "word at 0x0000" in only(error).message


def test_without_a_disassembler_the_remedy_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disassembler, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    ended = run_program("cfg", SASS / "sgemm_naive_86.cubin")
    assert ended.code
    assert "PW124" in ended.err
    assert "pip install 'ptxwcet[sass]'" in ended.err


def test_no_name_reaches_the_disassembler(tool: Path, tmp_path: Path) -> None:
    file = tmp_path / "$(touch gone); -x.cubin"
    shutil.copy(SASS / "sgemm_naive_86.cubin", file)
    tool.write_text(f"import sys; assert sys.argv[-1] == 'kernel.cubin'\nprint({raw(NAMES[2])!r})")
    assert read_source(file).text == listing(NAMES[2])


def test_lines_of_ptx_of_linked_files_are_counted_one_behind_the_other(
    tool: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = (SASS / "sgemm_naive_86.cubin").read_bytes()
    files = ((".nv_debug_ptx_txt.1", b"\0one\n\0"), (".nv_debug_ptx_txt.2", b"\0\xff\0.x\0"))
    cubin = replace(read_cubin("c", data), ptx=files)
    monkeypatch.setattr("ptxwcet.sass.reading.read_cubin", lambda name, data: cubin)
    linked = raw(NAMES[2]).replace('.nv_debug_ptx_txt"', '.nv_debug_ptx_txt.2"')
    tool.write_text(f"print({linked!r})")
    text = reading.listed("c", data).text
    assert text.endswith("\n.ptx 2 one\n.ptx 4 \ufffd\n.ptx 5 .x\n")
    own = kernel("sgemm_naive", listing(NAMES[2])).code
    found = kernel("sgemm_naive", text).code
    assert own is not None
    assert found is not None
    lines = [one.ptx_line for one in found.encoded]
    assert lines == [one.ptx_line + 2 for one in own.encoded]
    assert found.ptx == {2: "one", 4: "\ufffd", 5: ".x"}


# --- from listing to graph ------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES[1:])
def test_the_graph_of_sgemm(name: str) -> None:
    (one,) = module(listing(name)).kernels
    cfg = build_cfg(one)
    loops = [(a, b) for a, b in cfg.edges() if b <= a]
    assert len(loops) == 1
    assert len(cfg.barriers) == 2
    assert not cfg.unreachable
    assert one.shared_bytes == 8192  # without the 1,024 bytes of the system on sm_90


def test_indexed_branches_lead_where_the_compiler_says() -> None:
    chosen = kernel("chosen")
    indexed = [one for one in chosen.instructions if one.control is ControlEffect.INDIRECT_BRANCH]
    assert len(indexed) == 3
    assert all(len(one.targets) == 3 for one in indexed)
    without = re.sub(r"\.branches .*\n", "", listing("control_86"), count=0)
    refused = kernel("chosen", without)
    assert isinstance(refused, UnreadKernel)
    assert "BRX" in refused.failure.message


def test_calls_and_returns() -> None:
    calls, function = kernel("calls"), kernel("$calls$_Z9fibonaccii")
    assert [one.callee for one in calls.instructions if one.callee] == [function.name]
    assert not function.is_entry
    assert ControlEffect.RETURN in [one.control for one in function.instructions]
    through = kernel("$unknown$through")
    assert isinstance(through, UnreadKernel)
    assert "what a register holds" in through.failure.message
    moved = listing("control_86").replace("MOV R20, 0x90 ;", "MOV R20, 0xa0 ;")
    assert isinstance(kernel("calls", moved), UnreadKernel)


def test_registers_are_those_that_the_hardware_reads_and_writes() -> None:
    sgemm = kernel("sgemm_naive", listing("sgemm_naive_86"))
    for address, mnemonic, writes, reads in (
        (0x060, "ISETP.GE.AND", {"P0"}, {"R2"}),
        (0x0D0, "IMAD.WIDE", {"R22", "R23"}, {"R3", "R22"}),
        (0x0E0, "BRA", set(), {"P0"}),
        (0x1F0, "LDG.E", {"R17"}, {"R16", "R17", "UR4", "UR5"}),
        (0x210, "IADD3", {"R4", "P1"}, {"R4"}),
        (0x240, "IADD3.X", {"R3"}, {"R3", "P1"}),
        (0x250, "STS", set(), {"R6", "R19"}),
        (0x290, "LDS.128", {"R12", "R13", "R14", "R15"}, {"R20"}),
    ):
        found = at(sgemm, address)
        assert found.mnemonic == mnemonic
        assert (set(found.writes), set(found.reads)) == (writes, reads), mnemonic


def test_bits_of_a_word() -> None:
    text = listing("sgemm_naive_86")
    one = kernel("sgemm_naive", text)
    assert one.code is not None
    words = [f"{int(word, 16):0128b}"[::-1] for word in re.findall(r"/\* (\w{32}) \*/", text)]
    assert len(words) > len(one.code.encoded) > 100
    for bits, found in zip(words, one.code.encoded, strict=False):
        # stall, yield, scoreboards of write and read, those waited for, reuse: lowest bit first
        stall, yields, write, read, waits, reuse = re.findall(
            "(.{4})(.)(.{3})(.{3})(.{6})(.{4})", bits[105:126]
        )[0]
        assert found.stall == int(stall[::-1], 2)
        assert found.yields == (yields == "0")
        assert found.on_write == (None if write == "111" else int(write[::-1], 2))
        assert found.on_read == (None if read == "111" else int(read[::-1], 2))
        assert found.waits == tuple(n for n in range(6) if waits[n] == "1")
        assert found.reuse == int(reuse[::-1], 2)


def test_what_has_no_row_is_named_with_its_address() -> None:
    text = listing("sgemm_naive_86")
    for old, new, why in (
        ("IADD3 R2, R2, 0x20", "IADD9 R2, R2, 0x20", "no row for IADD9"),
        ("IADD3 R2, R2, 0x20", "IADD3.Q R2, R2, 0x20", "IADD3.Q with .Q"),
        ("IADD3 R2, R2, 0x20", "IADD3 R2, R2, @x", "IADD3 with the operand @x"),
        ("`(.L_x_0)", "`(.L_x_9)", "leads out of the function"),
    ):
        found = kernel("sgemm_naive", text.replace(old, new, 1))
        assert isinstance(found, UnreadKernel), why
        failure = found.failure
        assert failure.code == "PW125"
        assert why in failure.message
        assert re.search(r" at 0x0[0-9a-f]{3}:", failure.message)
        assert failure.span is not None
        assert failure.span.text.startswith(new.split()[0].removeprefix("`(.L_x_9)") or "@!P0 BRA")


def test_another_architecture_and_no_listing_are_refused() -> None:
    text = listing("sgemm_naive_86")
    for changed, code in (
        (text.replace("sm_86", "sm_120"), "PW125"),
        (text.replace(".section", "section"), "PW123"),
        ("", "PW123"),
        (".target sm_86\n/*0000*/ NOP ; /* 000fc000000000000000000000007918 */\n", "PW123"),
        (text.replace("/*0010*/", "/*0020*/"), "PW123"),
    ):
        with pytest.raises(PtxwcetError) as error:
            module(changed)
        assert only(error).code == code


# --- hazards --------------------------------------------------------------------------------------


def with_bits(text: str, address: int, first: int, last: int, value: int) -> str:
    """The listing with other bits in the word of the first instruction at an address."""
    found = re.search(rf"(/\*{address:04x}\*/ .* ; /\* )(\w{{32}})", text)
    assert found is not None
    width = last - first + 1
    word = int(found[2], 16) & ~(((1 << width) - 1) << first) | value << first
    return text[: found.start(2)] + f"{word:032x}" + text[found.end(2) :]


@pytest.mark.parametrize("name", NAMES)
def test_the_compilers_own_code_waits_for_all_that_it_reads(name: str) -> None:
    assert module(listing(name)).warnings == ()


# Of sm_86: what one pipe leaves before another reads, by hand from the vendor's table.
ALU = {"IADD3", "LOP3", "LEA", "SHF", "MOV", "SEL"}
FMA = {"FFMA", "FADD", "FMUL", "IMAD"}


def too_near(lines: list[tuple[str, str, int]]) -> set[int]:
    """By rule of thumb: which of (opcode, operands, stall) in a straight line read too early."""
    found = set()
    for reader, (opcode, operands, _) in enumerate(lines):
        name = opcode.split(".")[0]
        if name not in ALU | FMA or "WIDE" in opcode:
            continue
        reads = set(re.findall(r"\bR\d+\b", operands.split(",", 1)[1]))
        for register in reads:
            cycles = 0
            for writer in range(reader - 1, -1, -1):
                other, written, stall = lines[writer]
                cycles += stall
                if written.split(",")[0].strip() == register and "WIDE" not in other:
                    kinds = [part in ALU for part in (other.split(".")[0], name)]
                    known = other.split(".")[0] in ALU | FMA
                    if known and cycles < (4 if kinds[0] == kinds[1] else 5):
                        found.add(reader)
                    break
                if re.search(rf"\b{register}\b", written.split(",")[0]) or "128" in other:
                    break
    return found


def test_each_stall_that_is_cut_short_is_told_where_a_rule_by_hand_says_so() -> None:
    text = listing("sgemm_naive_86")
    row = re.compile(r"/\*(\w{4})\*/ (?:@!?P\d )?([\w.]+) (.*) ; /\* (\w{32}) \*/")
    rows = [one for one in map(row.fullmatch, text.splitlines()) if one]
    inside = [one for one in rows if 0x1C0 <= int(one[1], 16) <= 0x700]
    lines = [(one[2], one[3], int(one[4], 16) >> 105 & 15) for one in inside]
    assert too_near(lines) == set()
    told = 0
    for number in range(0, len(inside), 2):
        address, stall = int(inside[number][1], 16), lines[number][2]
        if stall < 2:
            continue
        cut = [*lines[:number], (*lines[number][:2], 1), *lines[number + 1 :]]
        wanted = {int(inside[one][1], 16) for one in too_near(cut)}
        found = module(with_bits(text, address, 105, 108, 1)).warnings
        said = {int(one.message.split(" at 0x")[1][:4], 16) for one in found}
        assert wanted <= said, hex(address)
        assert {one.code for one in found} <= {"PW126"}
        told += len(wanted)
    assert told >= 10


def test_each_wait_that_is_taken_away_is_told() -> None:
    text = listing("sgemm_naive_86")
    one = kernel("sgemm_naive", text)
    assert one.code is not None
    waiting = [encoded.address for encoded in one.code.encoded if encoded.waits]
    assert len(waiting) > 10
    unheard = []
    for address in waiting[::2]:
        found = module(with_bits(text, address, 116, 121, 0)).warnings
        unheard += [address] * (not found)
    # some wait for what only a later write must not overtake
    assert len(unheard) <= len(waiting) // 4


def assembled(*rows: str) -> str:
    """A listing of ``address text | stall write read waits``, of which ``-`` is no scoreboard."""
    lines = [".target sm_86", ".section k", ".registers 32", ".parameters 0x160", ".kernel k"]
    address = 0
    for row in rows:
        text, _, bits = row.partition("|")
        if row.startswith("."):
            lines.append(row)
            continue
        stall, write, read, *waits = (*bits.split(), "-", "-")[: max(3, len(bits.split()))]
        word = int(stall) | 1 << 4
        word |= (7 if write == "-" else int(write)) << 5 | (7 if read == "-" else int(read)) << 8
        word |= sum(1 << 11 + int(one) for one in waits)
        lines.append(f"/*{address:04x}*/ {text.strip()} ; /* {word << 105:032x} */")
        address += 16
    return "\n".join(lines) + "\n"


LOOP = ("MOV R0, RZ | 5", ".L:", "IADD3 R2, R0, 0x1, RZ | 1", "IADD3 R0, R0, 0x1, RZ | {}")
HAZARDS = {
    "over a back edge": ((*LOOP, "@P0 BRA `(.L) | 2", "EXIT | 5"), "1", {0x10}),
    "far enough over it": ((*LOOP, "@P0 BRA `(.L) | 2", "EXIT | 5"), "2", set()),
    "a guard": (("ISETP.EQ.AND P0, PT, R1, RZ, PT | {}", "@P0 EXIT | 5", "EXIT | 5"), "12", {0x10}),
    "13 cycles": (
        ("ISETP.EQ.AND P0, PT, R1, RZ, PT | {}", "@P0 EXIT | 5", "EXIT | 5"),
        "13",
        set(),
    ),
    "a scoreboard": (("LDS R2, [R1] | 1 {}", "FADD R3, R2, R2 | 5 - - 0", "EXIT | 5"), "0", set()),
    "another one": (("LDS R2, [R1] | 1 {}", "FADD R3, R2, R2 | 5 - - 0", "EXIT | 5"), "1", {0x10}),
    "in order": (
        ("LDS R2, [R1] | 1", "LDS R4, [R1] | 1 {}", "FADD R3, R2, R2 | 5 - - 0", "EXIT | 5"),
        "0",
        set(),
    ),
    "in no order": (
        ("LDS R2, [R1] | 1", "LDG.E R4, [R6.64] | 1 {}", "FADD R3, R2, R2 | 5 - - 0", "EXIT | 5"),
        "0",
        {0x20},
    ),
    "written again": (
        ("LDS R2, [R1] | 1 {}", "MOV R2, RZ | 5", "FADD R3, R2, R2 | 5", "EXIT | 5"),
        "0",
        set(),
    ),
    "written again by some": (
        ("LDS R2, [R1] | 1 {}", "@P0 MOV R2, RZ | 5", "FADD R3, R2, R2 | 5", "EXIT | 5"),
        "0",
        {0x20},
    ),
    **{
        f"opposite guards: {name}": ((*rows, "EXIT | 5"), "1", wanted)
        for name, (rows, wanted) in {
            "no thread does both": (
                ("@P0 MOV R2, RZ | {}", "@!P0 IADD3 R3, R2, R2, RZ | 5"),
                set(),
            ),
            "nor waits": (("@!P0 LDS R2, [R1] | {} 0", "@P0 FADD R3, R2, R2 | 5"), set()),
            "nor the loads before": (
                ("@P0 LDS R2, [R1] | {}", "@!P0 FADD R3, R2, R2 | 5", "LDS R4, [R1] | 1 0"),
                set(),
            ),
            "the same": (("@P0 MOV R2, RZ | {}", "@P0 IADD3 R3, R2, R2, RZ | 5"), {0x10}),
            "another": (("@P0 MOV R2, RZ | {}", "@!P1 IADD3 R3, R2, R2, RZ | 5"), {0x10}),
            "no guard": (("@P0 LDS R2, [R1] | {} 0", "FADD R3, R2, R2 | 5"), {0x10}),
            "only the reader's": (("LDS R2, [R1] | {} 0", "@!P0 FADD R3, R2, R2 | 5"), {0x10}),
            "written between": (
                (
                    "@P0 LDS R2, [R1] | {} 0",
                    "ISETP.EQ.AND P0, PT, R1, RZ, PT | 13",
                    "@!P0 FADD R3, R2, R2 | 5",
                ),
                {0x20},
            ),
            "written by some between": (
                (
                    "@P0 LDS R2, [R1] | {} 0",
                    "@P1 ISETP.EQ.AND P0, PT, R1, RZ, PT | 13",
                    "@!P0 FADD R3, R2, R2 | 5",
                ),
                {0x20},
            ),
            "written by the producer": (
                (
                    "@P0 IADD3 R2, P0, R1, R4, RZ | {}",
                    "MOV R9, RZ | 1",
                    "@!P0 IADD3 R3, R2, R2, RZ | 5",
                ),
                {0x20},
            ),
            **{
                f"both, read under {guard}": (
                    (
                        "@P0 LDS R2, [R1] | {} 0",
                        "@!P0 LDS R2, [R4] | 1 0",
                        f"@{guard} FADD R3, R2, R2 | 5",
                    ),
                    {0x20},
                )
                for guard in ("P0", "!P0")
            },
            "the other was waited for": (
                (
                    "@P0 LDS R2, [R1] | {} 0",
                    "@!P0 LDS R2, [R4] | 1 1 - 0",
                    "@P0 FADD R3, R2, R2 | 5",
                ),
                set(),
            ),
            "on one way": (
                (
                    "@P1 BRA `(.L) | 13",
                    "@P0 LDS R2, [R1] | {} 0",
                    ".L:",
                    "@!P0 FADD R3, R2, R2 | 5",
                ),
                set(),
            ),
            **{
                f"{one} and {other} on two ways": (
                    (
                        "@P1 BRA `(.L) | 13",
                        f"{one} LDS R2, [R1] | {{}} 0",
                        "BRA `(.M) | 5",
                        ".L:",
                        f"{other} LDS R2, [R1] | {{}} 0",
                        ".M:",
                        "@!P0 FADD R3, R2, R2 | 5",
                    ),
                    {0x40},
                )
                for one, other in (("@P0", "@!P0"), ("@!P0", "@P0"), ("@P0", ""), ("", "@P0"))
            },
            "a predicate": (
                ("@P0 ISETP.EQ.AND P1, PT, R1, RZ, PT | {}", "@!P0 SEL R3, R2, R4, P1 | 5"),
                set(),
            ),
            "of the whole warp": (
                ("@P0 R2UR UR4, R2 | {}", "@!P0 IADD3 R3, R2, UR4, RZ | 5"),
                {0x10},
            ),
        }.items()
    },
    "what is added": (("MOV R5, RZ | {}", "IMAD.WIDE R2, R0, R1, R4 | 5", "EXIT | 5"), "2", {0x10}),
    "added in time": (("MOV R5, RZ | {}", "IMAD.WIDE R2, R0, R1, R4 | 5", "EXIT | 5"), "3", set()),
    "the high half": (
        ("IMAD.WIDE R2, R0, R1, R4 | {}", "IADD3 R6, R3, R3, RZ | 5", "EXIT | 5"),
        "4",
        {0x10},
    ),
    "the low half": (
        ("IMAD.WIDE R2, R0, R1, R4 | {}", "IADD3 R6, R2, R2, RZ | 5", "EXIT | 5"),
        "4",
        set(),
    ),
}


@pytest.mark.parametrize("case", HAZARDS)
def test_hazards_by_hand(case: str) -> None:
    rows, value, wanted = HAZARDS[case]
    text = assembled(*(row.replace("{}", value) for row in rows))
    found = module(text)
    assert not isinstance(found.kernels[0], UnreadKernel), found.kernels[0].failure.render()
    assert {int(one.message.split(" at 0x")[1][:4], 16) for one in found.warnings} == wanted
    assert {one.code for one in found.warnings} <= {"PW126"}


# --- returns --------------------------------------------------------------------------------------

CALL = ("MOV R8, 0x20 | 5", "CALL.REL.NOINC `(f) | 5", "EXIT | 5", ".function f")
RETURNS = {
    "by itself": (("MOV R9, 0x0 | 5", "RET.REL.NODEC R8 `(k) | 5"), None),
    "by a copy": (("MOV R2, R8 | 5", "MOV R3, 0x0 | 5", "RET.REL.NODEC R2 `(k) | 5"), None),
    "half precision": (("HFMA2.MMA R9, -RZ, RZ, 0, 0 | 5", "RET.REL.NODEC R8 `(k) | 5"), None),
    "a product": (("IMAD.MOV.U32 R9, RZ, RZ, RZ | 5", "RET.REL.NODEC R8 `(k) | 5"), None),
    "a sum": (("IADD3 R9, RZ, RZ, RZ | 5", "RET.REL.NODEC R8 `(k) | 5"), None),
    "no zero": (("HFMA2.MMA R9, -RZ, RZ, 0, 5.9604644775390625e-08 | 5",), "R9"),
    "nor this": (("HFMA2.MMA R9, -RZ, RZ, 1.875, 0 | 5",), "R9"),
    "not always": (("@P0 MOV R9, 0x0 | 5",), "R9"),
    "a register": (("MOV R9, R1 | 5",), "R9"),
    "nothing": ((), "R9"),
    "in another block": (("MOV R9, 0x0 | 5", ".L:", "@P0 BRA `(.L) | 5"), "R9"),
    "written, too": (("MOV R9, 0x0 | 5", "IADD3 R8, R8, 0x10, RZ | 5"), "R8"),
}


@pytest.mark.parametrize("case", RETURNS)
def test_a_function_returns_behind_its_call_or_is_refused(case: str) -> None:
    rows, register = RETURNS[case]
    last = () if rows and rows[-1].startswith("RET") else ("RET.REL.NODEC R8 `(k) | 5",)
    found = module(assembled(*CALL, *rows, *last))
    whole = found.kernels[0]
    assert not isinstance(whole, UnreadKernel), whole.failure.render()
    functions = {one.name: one for one in found.functions}
    if register is None:
        jumps = with_copies(whole, functions).instructions[-1]
        assert [jumps.mnemonic, jumps.targets] == ["RET.REL.NODEC", ("f 1:behind",)]
        return
    with pytest.raises(PtxwcetError, match=rf"\b{register}\b") as refused:
        with_copies(whole, functions)
    assert only(refused).code == "PW125"


# --- the program ----------------------------------------------------------------------------------


def test_cfg_shows_machine_code(tool: Path) -> None:
    tool.write_text(f"print({raw('control_86')!r})")
    file = SASS / "control_86.cubin"
    shown = run_program("cfg", file, "-k", "chosen", "--format", "text")
    assert shown.code == 0, shown.err
    assert "registers  " in shown.out
    assert "control.cu 16-17, ptx " in shown.out
    assert "at 0x0000 to 0x00" in shown.out
    drawn = run_program("cfg", file, "-k", "parted")
    assert drawn.code == 0, drawn.err
    assert "cycles" not in drawn.out
    assert "BAR.SYNC" in drawn.out
    partly = run_program("cfg", file, "-k", "unknown", "-k", "$unknown$through")
    assert partly.code == 1
    assert "PW125" in partly.err
    assert partly.out.startswith("digraph")
    idle = run_program("cfg", file, "--machine", "jetson-agx-orin")
    assert idle.code == 2


def test_cfg_says_where_code_reads_too_early(tool: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = with_bits(listing("sgemm_naive_86"), 0xC0, 105, 108, 1)
    source = SourceFile("k.cubin", text)
    monkeypatch.setattr("ptxwcet.sass.reading.read_source", lambda path: source)
    shown = run_program("cfg", SASS / "sgemm_naive_86.cubin", "--format", "text")
    assert shown.code == 0
    assert "warning[PW126]: IMAD.WIDE at 0x00d0 reads R3 too early, 1 cycles after" in shown.err


NUMBERS = ("--param", "3=64", "--param", "4=64", "--param", "5=64")
LAUNCH = ("--block", "32x32", "--grid", "2x2", *NUMBERS)
COMMANDS = {
    "bound": LAUNCH,
    "annotate": LAUNCH,
    "facts": LAUNCH,
    "memory": LAUNCH,
    "simulate": (*LAUNCH, "--policy", "gto"),
    "report": (*LAUNCH, "-o", "{}/page.html"),
    "what-if": (*LAUNCH, "--set", "fp32_fma.latency=2"),
    "cfg": (*LAUNCH, "--format", "text"),
    "compare": ("{}/again.cubin", *LAUNCH),
}


@pytest.fixture
def listed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of machine code are listed without the disassembler: that of sgemm_naive."""
    text = listing("sgemm_naive_86")
    monkeypatch.setattr(
        "ptxwcet.sass.reading.read_source", lambda path: SourceFile(str(path), text)
    )


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_take_machine_code(command: str, tmp_path: Path) -> None:
    shutil.copy(SASS / "sgemm_naive_86.cubin", tmp_path / "again.cubin")
    options = [one.format(tmp_path) for one in COMMANDS[command]]
    ended = run_program(command, SASS / "sgemm_naive_86.cubin", *options)
    assert ended.code == 0, ended.err


EXECUTING = (
    "run {cubin} --launch {launch}",
    "instrument {cubin} -o {folder}/out.ptx",
    "bound {cubin} --launch {launch} --executed",
    "simulate {cubin} --launch {launch} --executed --policy gto",
    "simulate launch {cubin} --launch {launch} --executed --policy gto -o {folder}/t.csv",
)


@pytest.mark.usefixtures("listed")
@pytest.mark.parametrize("command", EXECUTING)
def test_what_executes_ptx_refuses_machine_code(command: str, tmp_path: Path) -> None:
    launch, cubin = tmp_path / "launch.toml", SASS / "sgemm_naive_86.cubin"
    launch.write_text(LAUNCHED)
    ended = run_program(*command.format(cubin=cubin, launch=launch, folder=tmp_path).split())
    assert ended.code, ended.out
    assert "error[PW127]: kernel sgemm_naive is machine code, and " in ended.err
    assert ended.err.count("error[") == 1


@pytest.mark.usefixtures("listed")
def test_a_launch_on_the_grid_takes_the_registers_of_the_file(tmp_path: Path) -> None:
    launch, cubin = tmp_path / "launch.toml", SASS / "sgemm_naive_86.cubin"
    launch.write_text(LAUNCHED)
    given = ("simulate", "launch", cubin, "--launch", launch, "--policy", "gto", "-o")
    shown = run_program(*given, tmp_path / "t.csv")
    assert "a thread uses 38 registers [the machine code]" in shown.out
    assert "PW426" in run_program(*given, tmp_path / "t.csv", "--registers", "37").err


LAUNCHED = """
block = [32, 32]
grid = 1
[arguments]
sgemm_naive_param_0 = { shape = [32, 32], dtype = "float32", init = "zeros" }
sgemm_naive_param_1 = { shape = [32, 32], dtype = "float32", init = "zeros" }
sgemm_naive_param_2 = { shape = [32, 32], dtype = "float32", init = "zeros" }
sgemm_naive_param_3 = 32
sgemm_naive_param_4 = 32
sgemm_naive_param_5 = 32
"""


def test_a_folder_of_both_is_one_of_ptx(tmp_path: Path) -> None:
    shutil.copy(SASS / "sgemm_naive_86.cubin", tmp_path / "k.cubin")
    (tmp_path / "k.ptx").write_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n.entry k() { ret; }\n"
    )
    ended = run_program("bound", tmp_path, "--block", "32", "-q")
    assert ended.code == 0, ended.err
