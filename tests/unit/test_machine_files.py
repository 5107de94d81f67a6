"""Machine files: the ones that ship, against golden tables, and what is refused in others."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner
from places import DATA, PACKAGE, ROOT
from programs import run_program
from refusals import refusals_of

from ptxwcet.claims import AssumptionState
from ptxwcet.commands.machine.command import machine as machine_command
from ptxwcet.commands.machine.command import machine_check
from ptxwcet.ir.op_classes import OpClass
from ptxwcet.machine.assumptions import (
    ALONE,
    ASSUMPTIONS,
    COUNTED,
    NEVER_IDLE,
    OF_LAUNCHES,
    STORES_HOLD,
)
from ptxwcet.machine.loader import DEFAULT_MACHINE, load_machine, machine_files, machine_names
from ptxwcet.machine.model import Evidence, OpTiming, Reader, TimingMeaning
from ptxwcet.machine.results import vendor_cycles
from ptxwcet.support.diagnostics import Diagnostic

pytestmark = pytest.mark.fast

GOLDEN = DATA / "machines"
NAMES = (
    "a100",
    "ampere-realistic",
    "h100",
    "h200",
    "jetson-agx-orin",
    "orin-ecrts2025",
    "orin-ecrts2025-16sm",
    "orin-ecrts2025-hazard",
    "orin-ecrts2025-memory",
    "rtx-4070",
    "rtx3070-gpgpusim",
    "titan-v",
)


def test_names() -> None:
    assert machine_names() == NAMES
    assert load_machine().name == DEFAULT_MACHINE == "orin-ecrts2025-memory"


@pytest.mark.parametrize("name", NAMES)
def test_every_op_class_against_the_golden_table(name: str) -> None:
    machine = load_machine(name)
    table = [
        f"{op.value} {row.unit} {row.initiation_cycles} {row.latency_cycles}"
        + "".join(f" {reader.value}={cycles}" for reader, cycles in row.readers)
        if isinstance(row, OpTiming)
        else f"{op.value} refused"
        for op, row in machine.timings.items()
    ]
    assert table == (GOLDEN / f"{name}.txt").read_text().splitlines()
    assert {line.split()[0] for line in table} == {op.value for op in OpClass}


@pytest.mark.parametrize("name", NAMES)
def test_every_number_has_a_source_and_every_assumption_a_state(name: str) -> None:
    machine = load_machine(name)
    assert machine.name == name
    units = {unit.name for unit in machine.units}
    for row in machine.timings.values():
        if isinstance(row, OpTiming):
            assert len(row.source) > 10
            assert row.unit in units
        else:
            assert len(row.reason) > 10
    assert [a.key for a in machine.satisfies] == list(ASSUMPTIONS)
    assert all(a.source for a in machine.satisfies)


@pytest.mark.parametrize("name", NAMES)
def test_evidence_is_of_the_kind_of_its_source(name: str) -> None:
    """What a simulator is configured with cites a simulator, and nothing else calls itself so."""
    machine = load_machine(name)
    for row in machine.timings.values():
        if isinstance(row, OpTiming) and row.evidence is Evidence.SIMULATOR_CONFIG:
            assert re.search(r"GPU-Sim|orin-ecrts2025-memory", row.source), row
        if isinstance(row, OpTiming) and row.evidence is Evidence.MEASURED:
            assert "GPGPU-Sim configuration" not in row.source, row


# A second copy of what the vendor's compiler leaves before the slowest reader, from issue to issue.
ALU = ("int_add", "int_minmax", "int_dot", "shift", "bitfield", "sign")
FLOATS = ("fp32_add", "fp32_mul", "fp32_fma", "fp32_minmax")
PREDICATES = ("compare", "logic", "move", "vote")
LEFT: dict[str, dict[str, int]] = {
    "7.5": {
        **dict.fromkeys((*ALU, *FLOATS, "fp16_arith"), 8),
        **dict.fromkeys(("int_mul", "int_mad"), 10),
        **dict.fromkeys(PREDICATES, 12),
        "compare": 15,
    },
    "8.6": {
        **dict.fromkeys((*ALU, *FLOATS, "fp16_arith"), 5),
        **dict.fromkeys(("int_mul", "int_mad"), 6),
        **dict.fromkeys(PREDICATES, 13),
        "compare": 14,
        "mma": 24,
    },
    "12.0": {
        **dict.fromkeys((*ALU, *FLOATS, "fp16_arith", "int_mul", "int_mad"), 5),
        **dict.fromkeys(PREDICATES, 13),
        "mma": 584,
    },
}
F64 = dict.fromkeys(("fp64_add", "fp64_mul", "fp64_fma"), 10)  # by integers; 8 by other fp64
LEFT |= {
    "7.0": LEFT["7.5"] | dict.fromkeys(F64, 9),
    "8.0": {**LEFT["8.6"], "fp16_arith": 10},
    "8.7": {**LEFT["8.6"], "fp16_arith": 10},
    "8.9": LEFT["8.6"],
    "9.0": {**LEFT["8.6"], **F64, "fp16_arith": 10},
    "10.0": {**LEFT["8.6"], **F64},
}
SIMULATED = {name for name in NAMES if name.startswith(("orin-ecrts2025", "rtx3070-gpgpusim"))}


def test_the_table_of_the_vendor_is_that_of_this_file() -> None:
    found = {
        capability: {op.value: cycles for op, cycles in row.items()}
        for capability, row in vendor_cycles().items()
    }
    assert found == LEFT


@pytest.mark.parametrize("name", sorted(set(NAMES) - SIMULATED))
def test_no_upper_timing_is_below_that_of_the_vendor(name: str) -> None:
    machine = load_machine(name)
    assert machine.timing_meaning is TimingMeaning.UPPER
    assert machine.compute_capability is not None
    for op, least in LEFT[machine.compute_capability].items():
        row = machine.timings[OpClass(op)]
        if isinstance(row, OpTiming):
            assert row.initiation_cycles + row.latency_cycles >= least, op
    assert "none charged less" in run_program("machine", "check", name).out


@pytest.mark.parametrize("name", sorted(SIMULATED))
def test_a_machine_that_is_no_gpu_has_no_compute_capability(name: str) -> None:
    assert load_machine(name).compute_capability is None
    assert "not compared" in run_program("machine", "check", name).out


@pytest.mark.parametrize(
    ("meaning", "latency", "code", "word"),
    [("upper", 2, 1, "error[PW328]"), ("exact", 2, 0, "note[PW328]"), ("upper", 3, 0, "none")],
)
def test_what_is_charged_less_is_an_error_of_upper_files(
    meaning: str, latency: int, code: int, word: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.toml"
    row = (
        f"fp32_fma = {{ unit = 'SP', initiation_cycles = 2, latency_cycles = {latency}, "
        "evidence = 'assumed', source = 'machine' }\n"
    )
    others = "".join(
        f"{op} = {{ unit = 'INT', initiation_cycles = 2, latency_cycles = 13, evidence = "
        "'assumed', source = 'machine' }\n"
        for op in (*PREDICATES, "bitfield", "sign")
    )
    head = HEAD + f"timings = '{meaning}'\ncompute_capability = '8.6'\n[ops]\n"
    path.write_text(head + row + others)
    ended = run_program("machine", "check", str(path))
    assert ended.code == code
    assert word in ended.err + ended.out
    assert ("op class fp32_fma is charged 4 cycles" in ended.err) is (latency == 2)


def test_the_page_of_assumptions_says_what_the_code_says() -> None:
    page = (ROOT / "docs" / "assumptions.md").read_text()
    cells = dict(re.findall(r"^\| ([\w-]+) \| (.*) \|$", page, re.MULTILINE))
    assert ASSUMPTIONS.keys() <= cells.keys()
    for key in (ALONE, *OF_LAUNCHES):
        assert cells[key] == ASSUMPTIONS[key]


def test_states_of_the_ledger() -> None:
    def states(name: str) -> set[AssumptionState]:
        return {a.state for a in load_machine(name).satisfies}

    def stated(name: str) -> dict[str, AssumptionState]:
        return {a.key: a.state for a in load_machine(name).satisfies}

    orin = stated("orin-ecrts2025")
    assert orin.pop("alone-on-its-sm") is AssumptionState.ASSUMED
    assert orin.pop("no-other-kernels") is AssumptionState.ASSUMED
    for key in (COUNTED, NEVER_IDLE, STORES_HOLD):  # of what this machine does not have
        assert orin.pop(key) is AssumptionState.ASSUMED
    assert set(orin.values()) == {AssumptionState.BY_DEFINITION}
    hazard = stated("orin-ecrts2025-hazard")
    doubtful = {key for key, state in hazard.items() if state is AssumptionState.DOUBTFUL}
    assert doubtful == {"no-write-port-hazard", "units-independent"}
    for name in ("rtx3070-gpgpusim", "ampere-realistic"):
        assert AssumptionState.DOUBTFUL in states(name)


def test_the_charge_of_the_hazard_machine() -> None:
    """One more initiation, the same latency, where a longer operation of the unit may be ahead.

    On INT those that take one cycle as configured, on SFU all but the longest, and nothing else.
    """
    nominal, charged = load_machine("orin-ecrts2025"), load_machine("orin-ecrts2025-hazard")
    longest = OpClass.FP64_DIV
    for op, row in nominal.timings.items():
        other = charged.timings[op]
        assert isinstance(row, OpTiming) == isinstance(other, OpTiming)
        if not isinstance(row, OpTiming) or not isinstance(other, OpTiming):
            continue
        is_short_int = (row.unit, row.initiation_cycles) == ("INT", 1)
        if is_short_int or (row.unit == "SFU" and op is not longest):
            assert other.unit == row.unit
            assert other.initiation_cycles == row.initiation_cycles + 1
            assert other.latency_cycles == row.latency_cycles
        else:
            assert other == row
    assert charged.timing_meaning is TimingMeaning.UPPER


def test_no_machine_with_several_blocks_on_an_sm_has_a_block_alone_by_definition(
    tmp_path: Path,
) -> None:
    path = tmp_path / "mine.toml"
    alone = "[satisfies]\nalone-on-its-sm = { state = 'by-definition', source = 'machine' }\n"
    path.write_text(HEAD + alone)
    (problem,) = problems_of(str(path))
    assert problem.code == "PW312"
    assert "an SM holds 16 blocks" in problem.message
    path.write_text(HEAD + alone + "[limits]\nblocks_per_sm = 1\n")
    state = load_machine(str(path)).assumption("alone-on-its-sm").state
    assert state is AssumptionState.BY_DEFINITION


@pytest.mark.parametrize("latency", [1, 5, 50, 400, 10**6])
def test_memory_latency_is_a_parameter(latency: int) -> None:
    machine = load_machine("orin-ecrts2025", latency)
    assert machine.memory_latency_cycles == latency
    load = machine.timings[OpClass.LOAD_GLOBAL]
    atomic = machine.timings[OpClass.ATOMIC_GLOBAL]
    assert isinstance(load, OpTiming)
    assert isinstance(atomic, OpTiming)
    assert load.latency_cycles == latency + 3
    assert atomic.latency_cycles == max(latency + 3, 36)
    shared = machine.timings[OpClass.LOAD_SHARED]
    assert shared == load_machine("orin-ecrts2025").timings[OpClass.LOAD_SHARED]


@pytest.mark.parametrize("latency", [0, -1, 10**6 + 1])
def test_memory_latency_out_of_range(latency: int) -> None:
    assert codes_of("orin-ecrts2025", latency) == ["PW314"]


def test_assumed_numbers_say_so() -> None:
    row = load_machine("orin-ecrts2025").timings[OpClass.LOAD_GENERIC]
    assert isinstance(row, OpTiming)
    assert row.evidence is Evidence.ASSUMED


# --- files that are refused -----------------------------------------------------------------------


def problems_of(name: str, latency: int | None = None) -> tuple[Diagnostic, ...]:
    return refusals_of(load_machine, name, latency)


def codes_of(name: str, latency: int | None = None) -> list[str]:
    return [problem.code for problem in problems_of(name, latency)]


HEAD = 'schema = 1\nextends = "orin-ecrts2025"\nname = "mine"\n'
ROW = (
    'move = {{ unit = "INT", initiation_cycles = {init}, latency_cycles = {lat}, '
    'evidence = "{evidence}", source = "{source}" }}\n'
)


UPPER = 'timings = "upper"\n'
OCCUPANCY = 'sms = {{ value = {value}, evidence = "{evidence}", source = "{source}" }}\n'


def figure(value: str = "4", evidence: str = "assumed", source: str = "machine") -> str:
    return "[occupancy]\n" + OCCUPANCY.format(value=value, evidence=evidence, source=source)


def row(init: str = "1", lat: str = "4", evidence: str = "assumed", source: str = "machine") -> str:
    return "[ops]\n" + ROW.format(init=init, lat=lat, evidence=evidence, source=source)


def test_the_examples_of_the_page_are_machine_files(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "machine-files.md").read_text()
    examples = re.findall(r"^    schema = 1\n(?:    .*\n)+", page, re.MULTILINE)
    assert len(examples) == page.count("\n    [ops]\n") == 2
    for number, example in enumerate(examples):
        path = tmp_path / f"{number}.toml"
        path.write_text(re.sub(r"^    ", "", example, flags=re.MULTILINE))
        assert load_machine(str(path)).name == "mine"


def test_what_is_extended_may_extend_another(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(HEAD.replace("orin-ecrts2025", "orin-ecrts2025-memory") + row("7", "9"))
    machine, base = load_machine(str(path)), load_machine("orin-ecrts2025-memory")
    assert machine.memory == base.memory is not None
    move = machine.timings[OpClass.MOVE]
    assert isinstance(move, OpTiming)
    assert (move.initiation_cycles, move.latency_cycles) == (7, 9)
    files = [file.name for file in machine_files(str(path))]
    assert files == ["mine.toml", "orin-ecrts2025-memory.toml", "orin-ecrts2025.toml"]


def test_a_file_that_extends_itself_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "loop.toml"
    path.write_text(HEAD.replace("orin-ecrts2025", "loop"))
    plugin = SimpleNamespace(name="loop", package="p", load=lambda: str(path))
    monkeypatch.setattr("ptxwcet.machine.loader.plugins", lambda group: (plugin,))
    (problem,) = problems_of("loop")
    assert problem.code == "PW313"
    assert "extends this file again" in problem.message


def test_a_source_that_is_missing_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(HEAD + row(source="bench: own"))
    (problem,) = problems_of(str(path))
    assert problem.code == "PW311"
    assert problem.help is not None
    assert 'write [sources] bench = "where it is from"' in problem.help


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("schema = = 1\n", ["PW303"]),
        ("a = " + "[" * 5000, ["PW303"]),
        (HEAD.replace("schema = 1", "schema = 2"), ["PW304"]),
        (HEAD.replace("schema = 1\n", ""), ["PW304"]),
        (HEAD + "speed = 3\n", ["PW305"]),
        (HEAD + "[limits]\nwarps = 3\n", ["PW305"]),
        (HEAD + "issues_return = 1\n", ["PW306"]),
        (HEAD + "clock_mhz = true\n", ["PW306"]),
        (HEAD + 'scoreboard = "none"\n', ["PW306"]),
        (HEAD + "ops = 3\n", ["PW306"]),
        (HEAD + '[ops]\nmove = "free"\n', ["PW306"]),
        (HEAD + "[ops]\nmove = { refuse = 3 }\n", ["PW306"]),
        (HEAD + '[ops]\nmove = { refuse = "no", unit = "INT" }\n', ["PW306"]),
        (HEAD + '[ops]\nmove = { unit = "INT" }\n', ["PW306"] * 4),
        (HEAD + row(evidence="guess"), ["PW306"]),
        (HEAD + row(init="1.5"), ["PW306"]),
        (HEAD + row(lat="{ plus = 3 }"), ["PW306"]),
        (HEAD + "compute_capability = '8'\n", ["PW306"]),
        (HEAD + "compute_capability = 8.9\n", ["PW306"]),
        (HEAD + UPPER + row(lat="4, readers = { guards = 3 }"), ["PW305"]),
        (HEAD + UPPER + row(lat="4, readers = { guard = 5 }"), ["PW310"]),
        (HEAD + UPPER + row(lat="4, readers = { guard = -1 }"), ["PW310"]),
        (HEAD + UPPER + row(lat="4, readers = { guard = true }"), ["PW306"]),
        (HEAD + UPPER + row(lat="4, readers = { }"), ["PW306"]),
        (HEAD + UPPER + row(lat="4, readers = 3"), ["PW306"]),
        (HEAD + UPPER + row(lat="{ memory_latency = true }, readers = { guard = 3 }"), ["PW306"]),
        (
            HEAD + UPPER + row(lat="4, readers = { guard = 3 }").replace("move", "barrier"),
            ["PW306"],
        ),
        (HEAD + row(lat="4, readers = { guard = 3 }"), ["PW306"]),
        (HEAD + row(lat="4, stalls = true"), ["PW306"]),
        *(
            (HEAD + row(lat=f"4{rates}").replace("move", name), [code])
            for name, rates, code in (
                ("mbarrier", ", rates = { try_wait = 9 }", "PW306"),
                ("mbarrier_wait", "", "PW306"),
                ("mbarrier_wait", ", rates = { }", "PW306"),
                ("mbarrier_wait", ", rates = { bytes = 9 }", "PW305"),
                ("mbarrier_wait", ", rates = { try_wait = 0 }", "PW310"),
                ("async_bulk", "", "PW306"),
                ("async_bulk", ", rates = 3", "PW306"),
                ("async_bulk", ", rates = { test_wait = 9 }", "PW306"),
                ("async_bulk", ", rates = { bytes = 9, f16 = 9 }", "PW305"),
            )
        ),
        (HEAD + row(lat="4, stalls = 1").replace("move", "fence"), ["PW306"]),
        (HEAD + row(lat="4, rates = { f16 = 9, shared_bytes = 9 }"), ["PW306"]),
        *(
            (HEAD + row(lat=f"4{rates}").replace("move", "mma_async"), [code])
            for rates, code in (
                ("", "PW306"),
                (", rates = 3", "PW306"),
                (", rates = { f16 = 9 }", "PW306"),
                (", rates = { shared_bytes = 9 }", "PW306"),
                (", rates = { f16 = 0, shared_bytes = 9 }", "PW310"),
                (", rates = { f64 = 9, shared_bytes = 9 }", "PW305"),
            )
        ),
        *(
            (HEAD + row("9", f"4, forms = {forms}").replace("move", "fp32_sfu"), [code])
            for forms, code in (
                ("3", "PW306"),
                ("{ }", "PW306"),
                ("{ 'ex2.approx.ftz.f32' = 3 }", "PW306"),
                ("{ 'ex2.approx.ftz.f32' = [3] }", "PW306"),
                ("{ 'ex2.approx.ftz.f32' = [3, true] }", "PW306"),
                ("{ 'ex2.approx.ftz.f32' = [0, 1] }", "PW310"),
                ("{ 'ex2.approx.ftz.f32' = [3, -1] }", "PW310"),
                ("{ 'ex2.approx.ftz' = [3, 1] }", "PW305"),
                ("{ 'ex2.aprox.ftz.f32' = [3, 1] }", "PW305"),
                ("{ 'ex3.approx.ftz.f32' = [3, 1] }", "PW305"),
                ("{ 'add.f32' = [3, 1] }", "PW305"),
            )
        ),
        (HEAD + row(lat="{ memory_latency = true, times = 3 }"), ["PW305"]),
        (HEAD + '[ops]\nteleport = { refuse = "no" }\n', ["PW307"]),
        (HEAD + row().replace('"INT"', '"ALU"'), ["PW309"]),
        (HEAD + row(lat="-1"), ["PW310"]),
        (HEAD + row(init="0"), ["PW310"]),
        (HEAD + "[units]\nINT = 0\n", ["PW310"]),
        (HEAD + "memory_latency_cycles = 0\n", ["PW310"]),
        (HEAD + "taken_branch_bubble_cycles = -1\n", ["PW310"]),
        (HEAD + row(source="rumour: someone"), ["PW311"]),
        (HEAD + "[satisfies]\nluck = { state = 'assumed', source = 'machine' }\n", ["PW312"]),
        (HEAD + "[satisfies]\nsingle-issue = { state = 'sure', source = 'machine' }\n", ["PW306"]),
        (HEAD + "[satisfies]\nsingle-issue = { state = 'assumed' }\n", ["PW306"]),
        (HEAD + "occupancy = 3\n", ["PW306"]),
        (HEAD + "[occupancy]\nsms = 3\n", ["PW306"]),
        (HEAD + figure(value='"many"'), ["PW306"]),
        (HEAD + figure(evidence="guess"), ["PW306"]),
        (HEAD + figure().replace("sms", "cores"), ["PW305"]),
        (HEAD + figure(value="0"), ["PW310"]),
        (HEAD + figure(source="rumour: someone"), ["PW311"]),
        (HEAD.replace("orin-ecrts2025", "nowhere"), ["PW313"]),
    ],
)
def test_refused_files(text: str, codes: list[str], tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    assert codes_of(str(path)) == codes


def test_a_file_without_a_base_must_be_complete(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    text = (PACKAGE / "machine/models/orin-ecrts2025.toml").read_text()
    without = [
        line for line in text.splitlines() if not line.startswith(("fence", "GMEM", "clock"))
    ]
    path.write_text("\n".join(without))
    found = codes_of(str(path))
    assert found.count("PW308") == 1
    assert found.count("PW306") == 1
    assert found.count("PW309") > 3  # every row on the missing unit


@pytest.mark.parametrize("latency", ["4", "{ memory_latency = true }"])
def test_an_instruction_may_take_less_or_more_than_its_class(tmp_path: Path, latency: str) -> None:
    path = tmp_path / "mine.toml"
    forms = "{ 'ex2.approx.ftz.f32' = [3, 10], 'sqrt.rn.f32' = [90, 5000] }"
    path.write_text(HEAD + row("9", f"{latency}, forms = {forms}").replace("move", "fp32_sfu"))
    timing = load_machine(str(path)).timings[OpClass.FP32_SFU]
    assert isinstance(timing, OpTiming)
    assert timing.forms == (("ex2.approx.ftz.f32", (3, 10)), ("sqrt.rn.f32", (90, 5000)))


def test_readers_and_stalls_are_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    fence = row(lat="9, stalls = true").replace("move", "fence").removeprefix("[ops]\n")
    readers = row(lat="4, readers = { guard = 3, memory = 0 }", evidence="vendor-compiler")
    path.write_text(HEAD + UPPER + "compute_capability = '12.0'\n" + readers + fence)
    mine = load_machine(str(path))
    move, stalling = mine.timings[OpClass.MOVE], mine.timings[OpClass.FENCE]
    assert isinstance(move, OpTiming)
    assert isinstance(stalling, OpTiming)
    assert move.readers == ((Reader.GUARD, 3), (Reader.MEMORY, 0))
    assert move.evidence is Evidence.VENDOR_COMPILER
    assert (move.stalls, stalling.stalls) == (False, True)
    assert mine.compute_capability == "12.0"


def test_occupancy_is_whole_or_absent(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    text = (PACKAGE / "machine/models/orin-ecrts2025.toml").read_text()
    without = [line for line in text.splitlines() if not line.startswith("register_partitions")]
    path.write_text("\n".join(without))
    assert codes_of(str(path)) == ["PW306"]
    before, _, after = text.partition("[occupancy]")
    path.write_text(before + "[units]" + after.partition("[units]")[2])
    assert load_machine(str(path)).occupancy is None


def test_an_extension_may_change_one_figure_of_occupancy(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(HEAD + figure("14"))
    mine, base = load_machine(str(path)).occupancy, load_machine().occupancy
    assert mine is not None
    assert base is not None
    assert (mine.sms.value, base.sms.value) == (14, 1)
    assert mine.shared_bytes_unit == base.shared_bytes_unit


def test_diagnostics_point_at_the_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(HEAD + row(lat="-1"))
    (problem,) = problems_of(str(path))
    assert problem.span is not None
    assert problem.span.line == 5
    assert problem.span.text.startswith("move = {")
    assert "mine.toml:5:1: error[PW310]" in problem.render()


def test_unreadable_files(tmp_path: Path) -> None:
    assert codes_of(str(tmp_path)) == ["PW301"]
    assert codes_of("no such\0file") == ["PW301"]
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    assert codes_of(str(binary)) == ["PW302"]


def test_an_extension_changes_only_what_it_says(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(HEAD + row(init="3", lat="9"))
    mine, base = load_machine(str(path)), load_machine()
    changed = {op for op in OpClass if mine.timings[op] != base.timings[op]}
    assert changed == {OpClass.MOVE}
    assert mine.units == base.units


# --- the command ----------------------------------------------------------------------------------


def test_command_list_and_check() -> None:
    result = CliRunner().invoke(machine_command)
    assert result.exit_code == 0
    assert all(name in result.output for name in NAMES)
    result = CliRunner().invoke(machine_check, ["ampere-realistic"])
    assert result.exit_code == 0
    assert "op classes timed" in result.output


@pytest.mark.parametrize("name", NAMES)
def test_command_show(name: str) -> None:
    result = CliRunner().invoke(machine_command, [name, "--mem-latency", "77"])
    assert result.exit_code == 0
    assert "77 cycles" in result.output
    assert all(op.value in result.output for op in OpClass)
    assert all(key in result.output for key in ASSUMPTIONS)
    assert "register_partitions" in result.output
