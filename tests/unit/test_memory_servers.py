"""What servers behind the units add to bounds of blocks and launches, part by part."""

import json
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from click.testing import CliRunner
from places import SAMPLES
from programs import run_program

import ptxwcet
from ptxwcet.bounds.analysis import analyse_block
from ptxwcet.bounds.explanation import explain_launch, explain_safe
from ptxwcet.bounds.grid import BlockKind, CoRunner, Dispatch, MemoryServer, bound_grid
from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.bounds.safe import bound_safe
from ptxwcet.cli.main import commands
from ptxwcet.machine.loader import load_machine
from ptxwcet.simulator.configuration import SmConfiguration
from ptxwcet.simulator.engine import Simulator
from ptxwcet.simulator.policies import Policy
from ptxwcet.simulator.reference import reference_run
from ptxwcet.warp.program import (
    BlockWorkload,
    Node,
    Repeat,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
)

pytestmark = pytest.mark.fast

FIGURES = (
    *("line_cycles", "pass_cycles", "word_cycles", "serial_cycles"),
    *("path_request_cycles", "path_line_cycles", "path_pass_cycles"),
    *("server_cycles_per_1024_sectors", "partial_sector_fetches"),
)
SIDES = {"width": 1024, "height": 1024}
SECTORS = 8 * (4 + 32)  # of a block of the naive transpose


Made = Callable[..., str]


@pytest.fixture
def machine(tmp_path: Path) -> Made:
    def made(**values: int) -> str:
        rows = "\n".join(
            f'{name} = {{ value = {values.get(name, 0)}, evidence = "assumed", source = "x" }}'
            for name in FIGURES
        )
        text = 'schema = 1\nextends = "orin-ecrts2025"\nname = "m"\n[sources]\nx = "a test"\n'
        path = tmp_path / f"m{len(list(tmp_path.iterdir()))}.toml"
        path.write_text(f"{text}[memory]\n{rows}\n")
        return str(path)

    return made


def launch(machine: str) -> ptxwcet.Bound:
    path = SAMPLES / "transpose_naive.ptx"
    return ptxwcet.bound(
        path, block=(32, 8), grid=(32, 128), params=SIDES, machine=machine, resident_blocks=2
    )


def test_nothing_is_added_without_servers(machine: Made) -> None:
    assert launch(machine()).cycles == launch("orin-ecrts2025").cycles
    assert launch(machine()).launch_cycles == launch("orin-ecrts2025").launch_cycles


def test_the_path_is_charged_for_each_access(machine: Made) -> None:
    plain, charged = launch(machine()), launch(machine(path_request_cycles=3))
    # two accesses of 8 warps, and each is as much later for the warp that determines the bound
    assert charged.cycles == plain.cycles + 2 * 8 * 3 + 2 * 3
    bounds = [one.analysis.launch_bound for one in (plain, charged)]
    works = [one.bound.work_cycles for one in bounds if isinstance(one, LaunchBound)]
    assert works[1] - works[0] == 4096 * 2 * 8 * 3


def test_the_memory_is_charged_for_all_sectors(machine: Made) -> None:
    each = 279
    plain, charged = launch(machine()), launch(machine(server_cycles_per_1024_sectors=each))
    own = -(-each * 4 // 1024) + -(-each * 32 // 1024)  # of the two accesses: later results
    assert charged.cycles == plain.cycles + own - (-each * SECTORS // 1024)
    assert "alone-on-the-memory" in charged.assumptions
    found = charged.analysis.launch_bound
    assert isinstance(found, LaunchBound)
    assert found.bound.memory_cycles == -(-each * SECTORS * 4096 // 1024)


def test_sectors_that_stores_do_not_fill_are_fetched(machine: Made) -> None:
    """The transpose writes a word of each of 32 sectors; a file that does not say it is so."""
    each = 279
    filled = launch(machine(server_cycles_per_1024_sectors=each))
    asked = machine(server_cycles_per_1024_sectors=each, partial_sector_fetches=1)
    unsaid = re.sub("partial_sector_fetches.*", "", Path(asked).read_text())
    silent = Path(asked).with_name("silent.toml")
    silent.write_text(unsaid)
    for path in (asked, str(silent)):
        charged = launch(path)
        own = -(-each * 64 // 1024) - -(-each * 32 // 1024)
        whole = -(-each * (SECTORS + 8 * 32) // 1024) - -(-each * SECTORS // 1024)
        assert charged.cycles == filled.cycles + own + whole
        found = charged.analysis.launch_bound
        assert isinstance(found, LaunchBound)
        assert found.bound.memory_cycles == -(-each * (SECTORS + 8 * 32) * 4096 // 1024)


def test_the_worst_rate_is_charged(machine: Made) -> None:
    each, worst = 279, 400
    streams = machine(server_cycles_per_1024_sectors=each)
    row = f'server_worst_cycles_per_1024_sectors = {{ value = {worst}, evidence = "assumed", '
    for path in (streams, machine(server_cycles_per_1024_sectors=worst + 1)):
        with Path(path).open("a") as file:
            file.write(f'{row}source = "x" }}\n')
    expected = launch(machine(server_cycles_per_1024_sectors=worst))
    assert launch(streams).launch_cycles == expected.launch_cycles
    with pytest.raises(ptxwcet.PtxwcetError, match="the worst rate is at least that of streams"):
        launch(path)


def test_each_cycle_is_paid_by_a_line(machine: Made) -> None:
    figures = {"path_line_cycles": 1, "server_cycles_per_1024_sectors": 500}
    analysis = launch(machine(**figures)).analysis
    explained = explain_safe(analysis.worst.analysis)
    assert sum(one.total for one in explained.paid.values()) == explained.cycles
    found = analysis.launch_bound
    assert isinstance(found, LaunchBound)
    paid = explain_launch(found, [(one.analysis, one.count) for one in analysis.pieces])
    assert sum(one.total for one in paid.values()) == found.bound.cycles
    assert sum(one.memory for one in paid.values()) == found.bound.memory_cycles


def test_other_methods_refuse(machine: Made) -> None:
    arguments = [str(SAMPLES / "transpose_naive.ptx"), "--block", "32x8", "--param", "2=64"]
    arguments += ["--param", "3=64", "--machine", machine(path_request_cycles=2)]
    found = CliRunner().invoke(commands, [*arguments, "--details"]).output
    assert "GUB is given for machines without servers behind the units" in found


def block_of(*programs: tuple[Node, ...]) -> BlockWorkload:
    classes = (WarpClass(WarpProgram(body), (n,)) for n, body in enumerate(programs))
    return BlockWorkload(tuple(classes), Scoreboard.RAW)


def ends(block: BlockWorkload, memory_cycles: int) -> list[int]:
    """When each instruction ends, in the order of issue."""
    shape = SmConfiguration(memory_cycles=memory_cycles)
    run = Simulator(block, shape).run(Policy.OLDEST, record=10)
    assert run.events == reference_run(block, shape, Policy.OLDEST).events
    return [event.end_cycle for event in run.events]


def test_a_memory_serves_parts_of_cycles() -> None:
    """Each takes 0.31 cycles: the fourth of those that come at once is ready a cycle later."""
    units = tuple(TimedInstruction(unit, 9 - n, 1, sectors=4) for n, unit in enumerate("ABCDE"))
    assert ends(block_of(units), 79) == [10, 10, 10, 11, 11]  # dispatched one a cycle


def test_the_path_comes_before_the_memory() -> None:
    """The path lets one through every 4 cycles; the memory, of 6 cycles each, is behind it."""
    one = TimedInstruction("A", 1, 30 + 4 + 6, path_cycles=4, sectors=6)
    assert ends(block_of((one, one), (one,)), 1024) == [1 + 4 + 6 + 30, 47, 53]


def test_what_needs_no_memory_does_not_wait_for_it() -> None:
    access = TimedInstruction("A", 1, 1 + 100, path_cycles=1, sectors=100)
    local = TimedInstruction("A", 1, 1, path_cycles=1)
    assert ends(block_of((access, local)), 1024) == [102, 3]


def test_a_latency_has_room_for_its_servers() -> None:
    short = block_of((TimedInstruction("A", 1, 3, path_cycles=4),))
    with pytest.raises(ValueError, match="a latency includes"):
        Simulator(short, SmConfiguration())


def test_the_length_of_a_warp_alone_leaves_out_its_waiting(tmp_path: Path) -> None:
    """A warp waits behind its own accesses: its run takes longer than L."""
    loads = "\n".join(f"ld.global.u32 %r{2 + i}, [%rd3+{128 * i}];" for i in range(6))
    ptx = tmp_path / "k.ptx"
    ptx.write_text(
        ".version 8.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n"
        ".reg .b64 %rd<4>; .reg .b32 %r<9>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n"
        f"mul.wide.u32 %rd2, %r1, 4096;\nadd.s64 %rd3, %rd1, %rd2;\n{loads}\nret;\n}}\n",
        encoding="utf-8",
    )
    for machine, waits in (("titan-v", True), ("orin-ecrts2025-memory", False)):
        given = [str(ptx), "--block", "32", "--grid", "1", "--machine", machine]
        run = CliRunner().invoke(
            commands, ["simulate", *given, "--policy", "gto", "--format", "json"]
        )
        alone = CliRunner().invoke(commands, ["annotate", "phases", *given, "--format", "json"])
        (warp,) = json.loads(alone.output)
        (observed,) = json.loads(run.output)["kernels"]
        assert (observed["cycles"] > warp["isolated_cycles"]) is waits
        assert warp["waits_behind_units"] is waits
        for command in (["annotate", "phases", *given], [*given, "--details"]):
            text = CliRunner().invoke(commands, command).output
            assert ("without waiting at the memory path" in text) is waits


def test_many_stores_under_way() -> None:
    """More than there is room for at first; the run is made again with more."""
    store = TimedInstruction("A", 1, 50, path_cycles=50)
    block = block_of((Repeat(2000, (store,)),))
    assert Simulator(block, SmConfiguration()).cycles(Policy.GTO) == 1 + 50 * 2000


@pytest.mark.parametrize("machine", ["titan-v", "jetson-agx-orin"])
def test_blocks_are_run_on_machines_with_servers(machine: str) -> None:
    arguments = [str(SAMPLES / "transpose_naive.ptx"), "--block", "32x8", "--grid", "32x128"]
    arguments += ["--param", "width=1024", "--param", "height=1024", "--machine", machine]
    found = CliRunner().invoke(commands, ["validate", *arguments, "--runs", "1", "--timeout", "1"])
    assert found.exit_code == 0, found.output
    assert "safe " in found.output


def test_others_share_the_memory() -> None:
    kinds = [BlockKind(100, 300, 200, sectors=1024)]
    alone = bound_grid(kinds, Dispatch(4, 2, memory=MemoryServer(10)))
    assert alone.memory_cycles == 1000
    server = MemoryServer(10, CoRunner(77, Fraction(1, 4)))
    shared = bound_grid(kinds, Dispatch(4, 2, memory=server))
    own = alone.cycles - 1000
    assert shared.cycles == -(-(own + 1000 + 77) * 4 // 3)


@pytest.mark.parametrize("sectors", [0, 1])
def test_a_block_that_asks_no_memory_rests_on_nothing_about_it(sectors: int) -> None:
    block = block_of((TimedInstruction("ALU", 1, 900, sectors=sectors),))
    claim = bound_safe(analyse_block(block, load_machine("titan-v"))).claim
    assert ("alone-on-the-memory" in {one.key for one in claim.assumptions}) == bool(sectors)


def test_a_launch_says_whether_others_use_the_memory() -> None:
    arguments = [str(SAMPLES / "vector_add.ptx"), "--block", "256", "--grid", "4"]
    arguments += ["--param", "n=1000"]
    for more, key in (
        (["--machine", "titan-v"], "alone-on-the-memory"),
        (["--machine", "titan-v", "--co-runner", "65536,2"], "co-runner"),
        ([], None),
    ):
        found = CliRunner().invoke(commands, [*arguments, *more, "--format", "json"])
        (row,) = json.loads(found.output)["kernels"]
        keys = {one["key"] for one in row["launch"]["assumptions"]}
        assert keys & {"alone-on-the-memory", "co-runner"} == ({key} if key else set())


@pytest.mark.parametrize("said", ["x", "1,", "64,1000", "-1,2", "5,5,5"])
def test_what_others_cannot_be_is_refused(said: str) -> None:
    arguments = [str(SAMPLES / "vector_add.ptx"), "--block", "256", "--grid", "4"]
    arguments += ["--param", "n=1000", "--machine", "titan-v", "--co-runner", said]
    assert "PW323" in CliRunner().invoke(commands, arguments).output


def test_a_machine_without_a_memory_is_shared_by_nobody() -> None:
    arguments = [str(SAMPLES / "vector_add.ptx"), "--block", "256", "--grid", "4"]
    arguments += ["--param", "n=1000", "--co-runner", "65536,2"]
    assert "has no memory to share" in CliRunner().invoke(commands, arguments).output


@pytest.mark.parametrize("more", [[], ["--symbolic", "n=1..9"]])
def test_without_a_grid_others_are_not_left_out_in_silence(more: list[str]) -> None:
    """Only the bound of a launch counts them."""
    arguments = [str(SAMPLES / "vector_add.ptx"), "--block", "256", "--machine", "titan-v"]
    arguments += [] if "--symbolic" in more else ["--param", "n=1000"]
    ended = run_program(*arguments, "--co-runner", "65536,2", *more)
    assert ended.code == 2
    assert "error[PW327]: co_runner: " in ended.err


def test_a_block_s_budget_is_not_judged_where_others_use_the_memory() -> None:
    """The bound of a block says that it has the memory alone, which --co-runner denies."""
    arguments = [str(SAMPLES / "vector_add.ptx"), "--block", "256", "--grid", "4"]
    arguments += ["--param", "n=1000", "--machine", "titan-v", "--budget"]
    others = ["--co-runner", "65536,20"]
    for more in (["block:1000000"], ["1000000"], ["1000000", *others]):
        assert "PW522" not in run_program(*arguments, *more).err
    ended = run_program(*arguments, "block:1000000", *others)
    assert (ended.code, "PW522" in ended.err) == (1, True)
