"""Cubins, binaries and disassemblers that are made to do harm: one diagnostic, nothing else."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import fuzz_machine_code
import pytest
from effort import counted
from programs import run_program
from sass_listings import SASS, listing, raw, stand_in

from ptxwcet.bounds.launch_bound import grid_refusal
from ptxwcet.ir.kernel import UnreadKernel
from ptxwcet.ir.operands import Immediate, SpecialRegister
from ptxwcet.sass import disassembler
from ptxwcet.sass.elf import read_cubin
from ptxwcet.sass.lowering import read_program
from ptxwcet.sass.reading import read_source
from ptxwcet.sass.translation import translated_program
from ptxwcet.sass.webs import with_webs
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.source import SourceFile

pytestmark = pytest.mark.fast

FILE = SASS / "sgemm_naive_86.cubin"
WHOLE = FILE.read_bytes()
SECTION = struct.Struct("<IIQQQQIIQQ")


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that is taken for nvdisasm: it runs the Python text that is written to it."""
    return stand_in(tmp_path, monkeypatch)


def refusal(path: Path = FILE) -> Diagnostic:
    with pytest.raises(PtxwcetError) as raised:
        read_source(path)
    (one,) = raised.value.diagnostics
    assert one.help
    return one


def changed(number: int, **values: int) -> bytes:
    """The file with other values in a section header."""
    names = ("name", "kind", "flags", "address", "offset", "size", "link", "info", "align", "entry")
    at = struct.unpack_from("<Q", WHOLE, 40)[0] + SECTION.size * number
    row = dict(zip(names, SECTION.unpack_from(WHOLE, at), strict=True)) | values
    return WHOLE[:at] + SECTION.pack(*row.values()) + WHOLE[at + SECTION.size :]


def section(name: str) -> int:
    """The number of a section."""
    begin, count, names = (
        struct.unpack_from(form, WHOLE, at)[0] for form, at in (("<Q", 40), ("<H", 60), ("<H", 62))
    )
    rows = [SECTION.unpack_from(WHOLE, begin + SECTION.size * n) for n in range(count)]
    found = [WHOLE[rows[names][4] + row[0] :].partition(b"\0")[0].decode("ascii") for row in rows]
    return found.index(name)


@pytest.mark.parametrize("kind", ["file", "binary", "listing"])
def test_a_few_of_each_kind_of_mutants(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_machine_code, "MOST_SECONDS", 9)  # others use the processor, too
    cases = 40 if kind == "listing" else 600
    assert fuzz_machine_code.run([kind], 3, 60, cases, lists=False) == 0


# --- files ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [".symtab", ".strtab", ".text.sgemm_naive", ".nv.info"])
@pytest.mark.parametrize("size", [2**63, 2**64 - 1, 2**31, 0])
def test_sections_of_any_size(name: str, size: int) -> None:
    """Cut to nothing a section holds no names or no code, which is one diagnostic later on.

    The registers that ``.nv.info`` names stand in the header of the section of code, too.
    """
    data = changed(section(name), size=size)
    if size or name not in (".symtab", ".strtab", ".nv.info"):
        with pytest.raises(PtxwcetError) as raised:
            read_cubin("c", data)
        assert [one.code for one in raised.value.diagnostics] == ["PW123"]
    else:  # names of the file's other parts are not looked for in that size
        assert len(read_cubin("c", data).sections) == (name != ".symtab")


def test_names_that_overlap_cost_no_more_than_the_file_is_long() -> None:
    symbols = 60_000
    table = b"".join(struct.pack("<IBBHQQ", n % 4000, 2, 0x10, 1, 0, 16) for n in range(symbols))
    data = bytearray(changed(section(".symtab"), offset=len(WHOLE), size=len(table), kind=2))
    data += table
    strings = struct.pack("<IIQQQQIIQQ", 0, 3, 0, 0, len(data), 4097, 0, 0, 1, 0)
    at = struct.unpack_from("<Q", WHOLE, 40)[0] + SECTION.size * section(".strtab")
    data[at : at + SECTION.size] = strings
    data += b"a" * 4096 + b"\0"
    with pytest.raises(PtxwcetError, match="names are much longer"):
        read_cubin("c", bytes(data))


def test_more_sections_than_a_header_counts() -> None:
    data = bytearray(WHOLE)
    struct.pack_into("<H", data, 60, 0)
    with pytest.raises(PtxwcetError, match="more than 65,279 sections"):
        read_cubin("c", bytes(data))


def test_many_sections() -> None:
    header = bytearray(WHOLE[:64])
    struct.pack_into("<QIHHHHHH", header, 40, 64, 0, 64, 56, 0, 64, 65535, 0)
    assert read_cubin("c", bytes(header) + bytes(64 * 65535)).sections == ()


def test_variables_that_do_not_fit_are_refused() -> None:
    text = (SASS / "constants_86.sass").read_text(encoding="utf-8")
    for line in (
        ".variable const n 0x10",
        ".variable shared n 0x10 4",
        ".variable const n 0x10 4 f",
    ):
        with pytest.raises(PtxwcetError, match="directive is not understood"):
            read_program(SourceFile("k.cubin", text.replace(".variable const n 0x10 4", line)))


def test_code_that_is_changed_when_it_is_loaded_is_refused() -> None:
    number = section(".text.sgemm_naive")
    debug = section(".debug_line")  # is taken for relocations of the code
    found = read_cubin("c", changed(debug, kind=4, info=number))
    assert [one.unresolved is None for one in found.sections] == [False]
    text = listing("sgemm_naive_86").replace(".local 0", ".local 0\n.relocations 1")
    (kernel,) = read_program(SourceFile("k.cubin", text)).kernels
    assert isinstance(kernel, UnreadKernel)
    assert "whoever loads the file" in kernel.failure.message


def attribute(number: int, nth: int = 0) -> int:
    """Where an attribute of the kernel begins."""
    of = section(".nv.info.sgemm_naive")
    at = struct.unpack_from("<Q", WHOLE, 40)[0] + SECTION.size * of
    begin, size = SECTION.unpack_from(WHOLE, at)[4:6]
    place, found = begin, list[int]()
    while place < begin + size:
        form, name, length = struct.unpack_from("<BBH", WHOLE, place)
        found += [place] * (name == number)
        place += 4 + (length if form == 4 else 0)
    return found[nth]


BANK, PARAMETER = 0x0A, 0x17  # attributes: the last parameter is said first
SAID = {
    "nothing of where parameters lie": (BANK, 0, 2, "<H", 0, "where the parameters"),
    "less than it takes": (BANK, 0, 2, "<H", 7, "ends before"),
    "they lie on the launch": (BANK, 0, 8, "<H", 0x14, "where the parameters"),
    "they begin between words": (BANK, 0, 8, "<H", 0x161, "where the parameters"),
    "they are more than there is place for": (BANK, 0, 10, "<H", 8, "do not fit"),
    "a parameter on another one": (PARAMETER, 0, 10, "<H", 0, "do not fit"),
    "a parameter far off": (PARAMETER, 0, 10, "<H", 0xFFFF, "do not fit"),
    "a large one": (PARAMETER, 2, 12, "<I", 0xFFFFFFFF, "do not fit"),
    "one twice": (PARAMETER, 0, 8, "<H", 4, "there twice"),
    "one without number": (PARAMETER, 0, 8, "<H", 0xFFFF, "missing"),
    "a short attribute": (PARAMETER, 0, 2, "<H", 3, "ends before"),
    "a long attribute": (PARAMETER, 0, 2, "<H", 0xFFFF, "ends behind its section"),
}


@pytest.mark.parametrize("case", SAID)
def test_what_is_said_of_parameters_fits_or_is_refused(case: str) -> None:
    number, nth, offset, form, value, why = SAID[case]
    data = bytearray(WHOLE)
    struct.pack_into(form, data, attribute(number, nth) + offset, value)
    with pytest.raises(PtxwcetError, match=why) as raised:
        read_cubin("c", bytes(data))
    assert [one.code for one in raised.value.diagnostics] == ["PW123"]


@pytest.mark.parametrize(
    ("more", "cluster"),
    [
        (struct.pack("<BBHIII", 4, 0x3D, 12, 2, 1, 1), (2, 1, 1)),
        (struct.pack("<BBH", 1, 0x3E, 0), (0, 0, 0)),  # the launch has to say how many
        (struct.pack("<BBHBBHIII", 1, 0x3E, 0, 4, 0x3D, 12, 4, 2, 1), (4, 2, 1)),
        (b"", None),
    ],
)
def test_kernels_of_clusters_say_so(more: bytes, cluster: tuple[int, ...] | None) -> None:
    number = section(".nv.info.sgemm_naive")
    at = struct.unpack_from("<Q", WHOLE, 40)[0] + SECTION.size * number
    begin, size = SECTION.unpack_from(WHOLE, at)[4:6]
    data = changed(number, offset=len(WHOLE), size=size + len(more))
    (found,) = read_cubin("c", data + WHOLE[begin : begin + size] + more).sections
    assert found.cluster == cluster


@pytest.mark.parametrize("cluster", ["", "2 1 1", "0 0 0"])
def test_the_place_in_a_cluster_is_0_where_there_is_none(cluster: str) -> None:
    """Code of sm_90 adds it to addresses of shared memory."""
    text = listing("sgemm_naive_90")
    if cluster:
        text = text.replace(".local 0\n", f".local 0\n.reqnctapercluster {cluster}\n")
    (one,) = translated_program(read_program(SourceFile("k.cubin", text))).kernels
    assert not isinstance(one, UnreadKernel)
    assert one.code is not None
    reads = [at for at in one.instructions if at.mnemonic == "S2UR"]
    assert [[str(operand) for operand in at.operands[1:]] for at in reads] == [
        [str(Immediate(0, "0") if not cluster else SpecialRegister("SR_CgaCtaId"))]
    ]
    refused = grid_refusal(one)
    assert (refused is None) == (not cluster)


# --- listings -------------------------------------------------------------------------------------


def written(rows: Iterable[str], more: str = "") -> SourceFile:
    """A kernel of instructions, which say to wait for 5 cycles."""
    word = f"{(5 | 1 << 4 | 63 << 5) << 105:032x}"
    lines = [f"/*{16 * n:04x}*/ {row} ; /* {word} */" for n, row in enumerate((*rows, "EXIT"))]
    head = f".target sm_86\n.section k\n.registers 32\n.parameters 0x160\n{more}.kernel k\n"
    return SourceFile("k.cubin", head + "\n".join(lines) + "\n")


ILL_FORMED = (
    *("IDP R2, R3, R4, R5", "IDP.4A.S8 R2, R3, R4, R5", "I2I R2, R3", "I2IP R2, R3, R4, R5"),
    *("PRMT.F4E.B4E R2, R3, 0x1, R4", "IADD3", "IADD3 R2", "LOP3.LUT R2, R3, R4, R5, -0x1, !PT"),
    *(
        "LDG.E R3",
        "LDG.E R3, R4",
        "STG.E",
        "STG.E [R2.64]",
        "RED.E.ADD",
        "LDGSTS.E [R2]",
        "LDSM R2",
    ),
    *("ATOMS R2, [R4], R5", "SHFL PT, R2, R3, R4, R5", "LDC R2", "MOV R2, c[0x0][-0x10]"),
    *("MOV R2, c[0x0][0x161]", "LDC.64 R2, c[0x3][0xfffffffc]", "SHF.L.U32 R2, R3, -0x1, RZ"),
    *("LEA R2, R3, R4, 0x63", "P2R R2, PR, RZ, -0x1", "HFMA2 R2, -RZ, RZ, 1e300, 0", "B2R.RESULT"),
    *(
        "IADD3 R999999, R2, R3, RZ",
        "BRX R2 -0xfffffffffffffffffffffff",
        "BRA",
        "RET",
        "BSSY B0, 0x0",
    ),
    *("DEPBAR.LE SB0, -0x5", "DEPBAR.LE SB99, 0x1", "MUFU", "ISETP.EQ.AND P0, PT, R2"),
)


@pytest.mark.parametrize("text", ILL_FORMED)
def test_instructions_of_no_form_are_refused_or_unknown(text: str) -> None:
    """As a disassembler might write them that is broken: no internal error (PW901)."""
    for one in translated_program(read_program(written([text]))).kernels:
        assert not isinstance(one, UnreadKernel) or one.failure.code == "PW125"


@pytest.mark.parametrize(
    "targets", [[0], [16] * 20_000, [24], [1 << 60], [16 * n for n in range(41)]]
)
def test_indexed_branches_of_any_table(targets: list[int]) -> None:
    table = " ".join(f"{one:#x}" for one in targets)
    more = "".join(f".branches {16 * n:#x} {table}\n" for n in range(40))
    (one,) = translated_program(read_program(written(["BRX R2 -0x10"] * 40, more))).kernels
    is_inside = all(place % 16 == 0 and place <= 16 * 40 for place in targets)
    assert isinstance(one, UnreadKernel) != is_inside


SUM = "IADD3 R2, R2, 0x1, RZ"


@pytest.mark.parametrize("pattern", [(SUM,), (f"@P0 {SUM}", "STS [R4], R2")])
def test_long_code_of_one_register_costs_no_more_than_it_is_long(pattern: tuple[str, ...]) -> None:
    """Each write is a web of its own, or all are one, and each read sees all writes before."""
    count, calls = 2000, list[int]()
    for length in (count // 4, count):
        rows = [pattern[n % len(pattern)] for n in range(length)]
        (one,) = read_program(written(rows)).kernels
        found, effort = counted(partial(with_webs, one))
        calls.append(effort)
        names = {name for instruction in found.instructions for name in instruction.writes}
        assert len(names) == (length if len(pattern) == 1 else 1)
    assert calls[1] < 5 * calls[0]  # of four times as much code


# --- disassemblers --------------------------------------------------------------------------------


def test_a_disassembler_that_writes_without_end(
    tool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disassembler, "_LEAST_BYTES", 1 << 20)
    for stream in ("stdout", "stderr"):
        tool.write_text(f"import sys\nwhile True: sys.{stream}.write('x' * 100_000)")
        assert "writes more than" in refusal().message


def test_what_a_disassembler_has_started_ends_with_it(
    tool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive = tmp_path / "alive"
    child = (
        "import time\nfor n in range(100):\n"
        f"  open({str(alive)!r}, 'w').write(str(n)); time.sleep(.02)"
    )
    tool.write_text(
        f"import subprocess, sys, time\nsubprocess.Popen([sys.executable, '-S', '-c', {child!r}])\n"
        "time.sleep(60)"
    )
    monkeypatch.setattr(disassembler, "MOST_SECONDS", 0.4)
    assert "has not ended" in refusal().message
    time.sleep(0.05)
    last = alive.read_text() if alive.exists() else ""
    time.sleep(0.1)
    assert (alive.read_text() if alive.exists() else "") == last


NAMED = '\t//## File "a\n{}\n", line 7'
FAKE = "        /*0000*/    EXIT ;   /* 0x00000a0000017a02 */"
HEADER = "//--------------------- .text.{} --------"


@pytest.mark.parametrize(
    ("inside", "why"),
    [
        (HEADER.format("decoy"), "a section .text.decoy more"),
        (HEADER.format("sgemm_naive"), "a section .text.sgemm_naive more"),
        ("//--------------------- SYMBOLS --------", "code outside of its sections"),
        (FAKE, "not whole"),
        (".L_x_1:", "label .L_x_1 is there twice"),
    ],
)
def test_names_that_hold_lines_of_a_listing(inside: str, why: str, tool: Path) -> None:
    """A file's debugging names are the file's: what they hold is taken for no code."""
    begin, end = raw("sgemm_naive_86").split("\n.align 128\n", 1)
    whole = f"{begin}\n.align 128\n{NAMED.format(inside)}\n{end}"
    tool.write_text(f"print({whole!r})")
    found = refusal()
    assert found.code == "PW124"
    assert why in found.message


def test_a_line_that_is_long_costs_little(tool: Path) -> None:
    name = '", line 1 inlined at "' * 20_000
    spaces = "        /*0000*/    " + "a " * 200_000
    whole = raw("sgemm_naive_86").replace(".align 128", f'\t//## File "{name}\n{spaces}')
    tool.write_text(f"print({whole!r})")
    assert read_source(FILE).text == listing("sgemm_naive_86")


@pytest.mark.parametrize("name", ["$(touch pwned).cubin", "-o pwned.cubin", "`touch pwned`.cubin"])
def test_names_of_files_reach_no_shell(
    name: str, tool: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path(name).write_bytes(WHOLE)
    tool.write_text(
        f"import sys; assert sys.argv[-1] == 'kernel.cubin'\nprint({raw('sgemm_naive_86')!r})"
    )
    shown = run_program("cfg", "--format", "text", "--", name)
    assert (shown.code, shown.err) == (0, "")
    assert not Path("pwned").exists()
