"""What is reported of mbarriers, named barriers and registers that are handed over."""

from __future__ import annotations

from pathlib import Path

import pytest
from places import DATA
from programs import run_program

FAULTS = DATA / "faults"


def refused(tmp_path: Path, name: str, *changes: tuple[str, str], block: int = 384) -> str:
    """What is printed of a kernel with changes, which must be refused."""
    text = (FAULTS / f"{name}.ptx").read_text(encoding="utf-8")
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    path = tmp_path / "k.ptx"
    path.write_text(text, encoding="utf-8")
    ended = run_program("bound", path, "--machine", "h200", "--block", str(block))
    assert ended.code == 1, ended.out
    return ended.err


ARRIVE = "mbarrier.arrive.shared.b64 s,[bar];"
SECOND = "mbarrier.init.shared.b64 [bar],1;"


def test_an_mbarrier_is_used_before_a_barrier_follows_its_initialisation(tmp_path: Path) -> None:
    shown = refused(tmp_path, "c24b_one")
    assert "no barrier of the block stands between its initialisation and this use" in shown
    assert "initialised twice" not in shown
    moved = [(f" {ARRIVE}", ""), ("W: bar.sync 0;", f"W: bar.sync 0; @!z {ARRIVE}")]
    path = tmp_path / "k.ptx"
    text = (FAULTS / "c24b_one.ptx").read_text(encoding="utf-8")
    for before, after in moved:
        text = text.replace(before, after)
    path.write_text(text, encoding="utf-8")  # as the help says
    assert run_program("bound", path, "--machine", "h200", "--block", "32").code == 0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([(ARRIVE, SECOND)], "it is initialised twice, and not invalidated"),
        (
            [("setp.ne.u32 z,t,0;", "and.b32 t,t,31; setp.ne.u32 z,t,0;")],
            "several warps initialise",
        ),
        ([(SECOND, "")], "it is not initialised when the barrier of the block before this opens"),
    ],
)
def test_other_reasons_about_mbarriers_are_true(
    changes: list[tuple[str, str]], why: str, tmp_path: Path
) -> None:
    shown = refused(tmp_path, "c24b_one", *changes)
    assert why in shown
    assert "let one thread initialise each mbarrier once" in shown


@pytest.mark.parametrize("written", ["bar.sync 14,32", "bar.sync 0", "barrier.sync.aligned 2, 64"])
def test_a_barrier_that_some_threads_of_a_warp_reach_is_named_as_written(
    written: str, tmp_path: Path
) -> None:
    shown = refused(tmp_path, "c08_named_split", ("A: bar.sync 14,32;", f"A: {written};"), block=64)
    assert f"'{written}' is reached by only some of the running threads of a warp" in shown
    assert "which must execute it together" in shown
    assert "block-wide" not in shown


def test_a_barrier_of_threads_is_only_refused_for_a_bound(tmp_path: Path) -> None:
    change = ("A: bar.sync 14,32;", "A: barrier.sync 14, 32;")
    shown = refused(tmp_path, "c08_named_split", change, block=64)
    assert "of a warp, which have to come together for a bound" in shown


# --- registers that are handed over --------------------------------------------------------------

GIVE, TAKE = "dec.sync.aligned.u32 152", "inc.sync.aligned.u32 240"


def test_registers_that_can_never_be_had_are_refused(tmp_path: Path) -> None:
    shown = refused(tmp_path, "reg_never")
    assert "they take 18,432 (setmaxnreg.inc), and the others of the block give up 2,048" in shown
    assert "8 warps take 18,432: each of their threads starts with 168 and has 240" in shown
    assert "4 warps give up 2,048: each of their threads starts with 168 and has 152" in shown


@pytest.mark.parametrize(
    ("give", "take", "most", "is_bounded"),
    [
        (24, 240, 168, True),  # as libraries do: 144 of one group, 72 of two
        (32, 240, 168, False),
        (24, 240, 166, True),  # an SM allots 168
        (24, 240, 160, False),
        (40, 232, 168, True),
        (24, 240, 255, True),  # ptxas lets the threads start with 240
        (152, 240, 300, True),  # ptxas ignores .maxnreg: nothing is known
    ],
)
def test_the_registers_of_a_block_are_added_up(
    give: int, take: int, most: int, is_bounded: bool, tmp_path: Path
) -> None:
    changes = [
        (GIVE, f"dec.sync.aligned.u32 {give}"),
        (TAKE, f"inc.sync.aligned.u32 {take}"),
        (".maxnreg 168", f".maxnreg {most}"),
    ]
    if not is_bounded:
        assert "warps wait for ever for registers" in refused(tmp_path, "reg_never", *changes)
        return
    text = (FAULTS / "reg_never.ptx").read_text(encoding="utf-8")
    for before, after in changes:
        text = text.replace(before, after)
    path = tmp_path / "k.ptx"
    path.write_text(text, encoding="utf-8")
    ended = run_program("bound", path, "--machine", "h200", "--block", "384")
    assert ended.code == 0, ended.err


def test_without_maxnreg_nothing_is_known_of_the_start(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    text = (FAULTS / "reg_never.ptx").read_text(encoding="utf-8").replace(".maxnreg 168", "")
    path.write_text(text, encoding="utf-8")
    ended = run_program("bound", path, "--machine", "h200", "--block", "384")
    assert ended.code == 0, ended.err
    assert "all together fit in what the block has" in ended.out


@pytest.mark.parametrize("number", [0, 16, 23, 25, 241, 255, 264])
def test_numbers_of_registers_are_those_of_ptxas(number: int, tmp_path: Path) -> None:
    shown = refused(tmp_path, "reg_odd", ("u32 241", f"u32 {number}"))
    assert f"the literal {number} is out of range: 24 to 256, in steps of 8" in shown


def test_residency_is_that_of_maxnreg_where_setmaxnreg_is(tmp_path: Path) -> None:
    """ptxas gives these kernels exactly so many registers (Used 168 registers)."""
    path = tmp_path / "k.ptx"
    text = (FAULTS / "reg_never.ptx").read_text(encoding="utf-8").replace(GIVE, GIVE[:-3] + "24")
    path.write_text(text, encoding="utf-8")
    launch = ("bound", path, "--machine", "h200", "--block", "384", "--grid", "264")
    ended = run_program(*launch)
    assert ended.code == 0, ended.err
    assert "a thread uses 168 registers" in ended.out
    same = run_program(*launch, "--registers", "168")
    assert same.code == 0
    other = run_program(*launch, "--registers", "90")
    assert "error[PW426]" in other.err
    assert "with setmaxnreg each thread starts with 168 of them" in other.err
