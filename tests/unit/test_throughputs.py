"""What machine files charge of silicon is no faster than the vendor's guide: of every instruction.

The guide's throughputs are the table ``results`` of ``machine/vendor.toml``. An instruction of
machine code is looked up by its opcode, its kind or its op class.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from parsing import parse_text
from places import DATA, ROOT
from programs import run_program

from ptxwcet.ir.kernel import Instruction
from ptxwcet.ir.op_classes import Kind, OpClass
from ptxwcet.machine.loader import load_machine, load_tables, machine_names
from ptxwcet.machine.model import Machine, OpTiming
from ptxwcet.machine.results import results_charged, vendor_results
from ptxwcet.sass.lowering import read_program
from ptxwcet.sass.opcodes import ROWS
from ptxwcet.support.source import SourceFile
from ptxwcet.timing.cost import row_of

pytestmark = pytest.mark.fast

SILICON = tuple(one for one in machine_names() if load_machine(one).compute_capability)
HEAD = ".target sm_86\n.disassembler 13.5\n.section k\n.registers 9\n.shared 0\n.local 0\n"
WIDE = {"F64", "S64", "U64"}
# Of these the guide says nothing; what was measured is tested below.
UNSTATED = {
    *("SEL", "MOV", "P2R", "R2P", "CS2R", "LEPC", "FSEL", "F2FP", "I2FP"),
    *[
        "BMSK",
        "SGXT",
        "PRMT",
        "VABSDIFF4",
        "MATCH",
        "HMMA",
        "IMMA",
        "BMMA",
        "DMMA",
        "MOVM",
        "ELECT",
        "VOTEU",
        "R2UR",
    ],
    *(name for name in ROWS if name[0] == "U"),  # of the uniform datapath
}
NO_ARITHMETIC = (
    *("load_", "store_", "atomic_", "async_", "fence", "barrier", "nanosleep", "prefetch"),
    *("matrix_", "branch", "call", "return", "trap", "control_"),
)


def placeholder() -> Instruction:
    text = "/*0000*/ NOP ; /* " + f"{(1 | 0x7F << 5) << 105:032x}" + " */\n"
    source = HEAD + ".parameters 0x160\n.kernel k\n" + text
    (kernel,) = read_program(SourceFile("k.sass", source)).kernels
    return kernel.instructions[0]


PLAIN = placeholder()


def charged(machine: Machine, mnemonic: str) -> OpTiming | None:
    """What a machine charges one instruction of machine code, None if it refuses it."""
    name, *words = mnemonic.split(".")
    opcode, kind = ROWS[name].opcode, ROWS[name].kind
    op_class = opcode.op_class(words)
    form = replace(
        PLAIN.form,
        opcode=opcode,
        mnemonic=mnemonic,
        modifiers=tuple(words),
        op_class=op_class,
        control=opcode.control,
    )
    row = row_of(PLAIN._replace(form=form), op_class, machine, kind)
    return row if isinstance(row, OpTiming) else None


def stated(name: str, words: set[str], known: dict[str, int]) -> int | None:
    """What the guide says of an instruction, on the compute capability that is known."""
    kind, op_class = ROWS[name].kind, ROWS[name].opcode.op_class(())
    if kind is Kind.SPECIAL:
        return known["wide" if WIDE & words and name[0] in "FI" else "special"]
    if kind is Kind.DOUBLE:
        return known["fp64_add"]
    return known.get(name.lower(), known.get(op_class.value))


def is_compared(name: str) -> bool:
    return not ROWS[name].opcode.op_class(()).value.startswith(NO_ARITHMETIC)


def mnemonics(name: str) -> list[str]:
    return [name, *(f"{name}.{word}" for word in sorted(ROWS[name].modifiers))]


@pytest.mark.parametrize("machine_name", SILICON)
def test_no_opcode_of_machine_code_is_faster_than_the_guide_says(machine_name: str) -> None:
    machine = load_machine(machine_name)
    assert machine.compute_capability is not None
    known = dict(vendor_results()[machine.compute_capability])
    compared = set()
    for name in filter(is_compared, ROWS):
        op_class = ROWS[name].opcode.op_class(())
        for mnemonic in mnemonics(name):
            most = stated(name, set(mnemonic.split(".")), known)
            charge = charged(machine, mnemonic)
            if most is None or charge is None or name in UNSTATED:
                continue
            halves = 2 if op_class is OpClass.FP16_ARITH else 1
            assert (
                halves * results_charged(machine, charge.unit, charge.initiation_cycles) <= most
            ), (mnemonic, charge)
            compared.add(name)
    wanted = {name for name in ROWS if is_compared(name)}
    of_newer = {"REDUX"} if "redux" not in known else set()
    refused = {one for one in wanted if charged(machine, one) is None}
    assert wanted <= compared | refused | UNSTATED | of_newer


@pytest.mark.parametrize("machine_name", SILICON)
def test_what_one_unit_does_is_charged_at_one_unit(machine_name: str) -> None:
    """Conversions and counts of bits share the unit for special functions, DSETP that for f64."""
    machine = load_machine(machine_name)
    special, double = (machine.timings[one] for one in (OpClass.FP32_SFU, OpClass.FP64_ADD))
    assert isinstance(special, OpTiming)
    assert isinstance(double, OpTiming)
    for name in ("I2F", "F2I.TRUNC", "F2F.F64.F32", "FRND", "POPC", "FLO", "BREV", "S2R"):
        charge = charged(machine, name)
        assert charge is not None
        assert charge.unit == special.unit, name
    compared = charged(machine, "DSETP.LT")
    assert compared is not None
    assert compared.unit == double.unit
    assert compared.initiation_cycles >= double.initiation_cycles


# Cycles that one warp of an H200 takes for an instruction, of those that depend on none
# (docs/experiments/silicon-h200-instructions.json), as far as one form is one instruction.
MEASURED: dict[str, int | Fraction] = {
    **dict.fromkeys(("F2I.TRUNC", "F2I", "FRND", "POPC", "FLO", "BREV"), 12),
    **dict.fromkeys(("F2I.S64.F64", "I2F.F64.S64", "FRND.F64"), Fraction("11.38")),
    **dict.fromkeys(("IMNMX", "SHF", "LOP3", "VABSDIFF", "PRMT"), 2),
    "SHFL": 4,
    "REDUX.SUM": Fraction("11.8"),
    "MATCH.ANY": 273,
    "MUFU.EX2": 8,
    "LDC": 8,
    "DADD": 2,
    "FADD": 1,
    "IDP": 2,
    "S2R": Fraction("10.5"),
    "QSPC": 12,
}


@pytest.mark.parametrize("machine_name", SILICON)
def test_no_opcode_is_faster_than_an_h200_is(machine_name: str) -> None:
    machine = load_machine(machine_name)
    if machine.compute_capability == "7.0":
        own = {name: cycles for name, cycles in MEASURED.items() if "REDUX" not in name}
    else:
        own = MEASURED
    for mnemonic, cycles in own.items():
        charge = charged(machine, mnemonic)
        assert charge is None or charge.initiation_cycles >= int(cycles), mnemonic


@pytest.mark.parametrize("machine_name", SILICON)
def test_what_forms_of_ptx_are_made_of_is_no_faster(machine_name: str) -> None:
    """A form is charged these figures for each instruction that ptxas makes of it."""
    machine = load_machine(machine_name)
    rules = machine.expansion
    assert rules is not None
    assert machine.compute_capability is not None
    known = vendor_results()[machine.compute_capability]
    lanes = 32 * machine.schedulers_per_sm
    for figure, name in (
        (rules.ordinary_issue_cycles, "int_add"),
        (rules.special_issue_cycles, "special"),
        (rules.double_issue_cycles, "wide"),
    ):
        assert figure.value * known[name] >= lanes, name


@pytest.mark.parametrize("statement", ["setp.lt.f64 %p, %d1, %d2;", "abs.f64 %d1, %d2;"])
@pytest.mark.parametrize("machine_name", SILICON)
def test_tests_and_signs_of_f64_are_charged_as_f64(machine_name: str, statement: str) -> None:
    machine = load_machine(machine_name)
    head = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() {\n"
    text = f"{head}.reg .f64 %d<4>; .reg .pred %p;\n{statement}\nret; }}\n"
    (kernel,) = parse_text(text).kernels
    instruction = kernel.instructions[0]
    assert instruction.op_class is not None
    row, least = (
        row_of(instruction, instruction.op_class, machine),
        machine.timings[OpClass.FP64_ADD],
    )
    assert isinstance(row, OpTiming)
    assert isinstance(least, OpTiming)
    assert (row.unit, row.initiation_cycles >= least.initiation_cycles) == (least.unit, True)


def test_the_counts_of_forms_tell_the_same_opcodes_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    monkeypatch.setattr(sys, "path", list(sys.path))
    import form_counts

    kinds = {name: row.kind for name, row in ROWS.items()}
    for name in form_counts._SPECIAL - {"MUFU"}:
        assert kinds[name] is Kind.SPECIAL, name
    for name in form_counts._DOUBLE:
        assert kinds[name] is Kind.DOUBLE or ROWS[name].pipe.value == "fp64", name


@pytest.mark.parametrize("machine_name", SILICON)
def test_random_sectors_are_charged_more_than_streams(machine_name: str) -> None:
    rows = load_tables(machine_name).get("memory")
    if rows is None:  # an SM alone
        assert machine_name == "ampere-realistic"
        return
    streams = rows["server_cycles_per_1024_sectors"]["value"]
    worst = rows["server_worst_cycles_per_1024_sectors"]
    measured = load_tables("h200")["memory"]
    ratio = Fraction(
        measured["server_worst_cycles_per_1024_sectors"]["value"],
        measured["server_cycles_per_1024_sectors"]["value"],
    )
    assert worst["value"] >= ratio * streams > streams > 0
    assert worst["source"].startswith(("h200:", "silicon:"))


FASTER = """schema = 1
extends = "titan-v"
name = "mine"

[ops]
shuffle = { unit = "MEM", initiation_cycles = 1, latency_cycles = 30, evidence = "assumed", \
source = "silicon: too fast" }

[expansion]
special_issue_cycles = { value = 2, evidence = "assumed", source = "silicon: too fast" }
"""


def test_a_file_that_is_faster_than_the_guide_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(FASTER)
    ended = run_program("machine", "check", str(path))
    assert ended.code == 1
    assert "op class shuffle is charged for 128 results a cycle and SM" in ended.err
    assert "op class bitfield is charged for 64 results a cycle and SM" in ended.err
    assert "the vendor's guide has 16" in ended.err


KEPT = DATA / "faults" / "machines"


def code(*words: str) -> str:
    """What a command prints of machine code that nvcc made of the sources beside it."""
    ended = run_program(*words)
    if "PW124" in ended.err:
        pytest.skip("no nvdisasm")
    assert ended.code == 0, ended.err
    return ended.out


@pytest.mark.parametrize(
    ("machine_name", "file"),
    [
        ("titan-v", "convert.ptx"),
        ("jetson-agx-orin", "convert_87.cubin"),
        ("a100", "convert_80.cubin"),
        ("rtx-4070", "convert_80.cubin"),
    ],
)
def test_conversions_take_as_long_as_the_guide_says(machine_name: str, file: str) -> None:
    """16 a step, of 32 warps on four sub-cores, no more than 16 lanes a cycle and SM."""
    words = ("--block", "1024", "--param", "0=align:4", "--param", "1=10000", "-q")
    out = code(str(KEPT / file), *words, "--machine", machine_name)
    assert int(out.split()[1]) >= 10_000 * 16 * 32 * 32 // 16


@pytest.mark.parametrize(
    ("machine_name", "architecture"), [("a100", 80), ("h100", 90), ("h200", 90), ("rtx-4070", 80)]
)
def test_a_comparison_is_one_instruction_of_a_chain(machine_name: str, architecture: int) -> None:
    """Beside the stalls of four FFMA, 15 cycles, two instructions of the pipe and a taken branch.

    An ISETP kept its warp for 13 of 48 cycles, as long as the slowest of its class on an A100.
    """
    file = str(KEPT / f"chain_{architecture}.cubin")
    words = ("--block", "256", "--param", "2=1024", "--machine", machine_name, "--format", "json")
    report = json.loads(code("annotate", "ports", file, "-k", "chain", *words))
    loop = report["kernels"][0]["loops"][0]
    assert loop["chain_cycles"] == 15 + 3 + 3 + 5 + 11
    assert loop["sources"].keys() == {"IADD3", "ISETP", "FFMA", "BRA"}
    assert "of one H200" in loop["sources"]["ISETP"]
    assert "taken, 11 more, as the file says without a source" in loop["sources"]["BRA"]
