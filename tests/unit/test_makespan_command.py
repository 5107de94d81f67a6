"""``ptxwcet makespan``: answers, pictures, time limits, and one clear line for bad input."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from functools import partial
from pathlib import Path

import pytest
from places import FLOW, SAMPLES
from programs import run_program
from refusals import refusal_of

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.machine.loader import load_machine
from ptxwcet.methods.makespan.strings import sections_of, unrolled
from ptxwcet.opened.request import Request
from ptxwcet.warp.program import (
    Barrier,
    BlockWorkload,
    Choice,
    Repeat,
    Scoreboard,
    TimedInstruction,
    WarpClass,
    WarpProgram,
    unroll,
)

ONE = ("--load-store", "1", "--cores", "1")
run = partial(run_program, "makespan")


def test_the_issues_command() -> None:
    code, out, err = run("LLCLL", "--warps", "600", *ONE)
    assert (code, err) == (0, "")
    assert "MAKESPAN   2,401 slots   safe-bound, exact\nmethod     closed-form\n" in out
    assert "schedule   2,401 slots, checked" in out
    assert "assumes    no-cache-misses" in out


@pytest.mark.parametrize(
    ("method", "slots", "claim"),
    [
        ("states", 9, "safe-bound, exact"),
        ("closed-form", 9, "safe-bound, exact"),
        ("ilp", 9, "safe-bound, exact"),
        ("extrapolate", 8, "estimate"),
        ("extrapolate-safe", 9, "safe-bound"),
        ("pessimistic", 12, "safe-bound"),
    ],
)
def test_methods(method: str, slots: int, claim: str) -> None:
    code, out, _ = run("LCL", "--warps", "4", "--method", method, *ONE)
    assert code == 0
    assert f"MAKESPAN   {slots} slots   {claim}\nmethod     {method}\n" in out


def test_long_constraints_and_fractions() -> None:
    arguments = ("--warps", "2", "--load-store", "1/2", "--cores", "1", "--method", "ilp:long")
    code, out, _ = run("LC", *arguments)
    assert code == 0
    assert "solved as LLC  (3 slots a warp)" in out
    assert "MAKESPAN   5 slots   safe-bound, exact" in out
    assert "(long)" in out


def test_json() -> None:
    code, out, _ = run("LCL", "--warps", "2", "--format", "json", *ONE)
    data = json.loads(out)
    assert code == 0
    assert (data["slots"], data["exact"], data["guarantee"]) == (4, True, "safe-bound")
    assert data["sections"][0]["method"] == "states"


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("LXC", "--warps", "3"), "PW560", "letter 2 of the kernel string is 'X'"),
        (("LC", "--warps", "0"), "PW561", "0 warps: at least one warp is needed"),
        (("LC", "--warps", "-4"), "PW561", "-4 warps"),
        (
            ("LC", "--warps", "3", "--timeout", "0"),
            "PW566",
            "a time limit of 0 seconds",
        ),
        (("LC", "--warps", "3", "--timeout", "nan"), "PW566", "a time limit of nan"),
        (
            ("LC", "--warps", "2", "--method", "closed-form"),
            "PW565",
            "the closed form is for one warp a slot",
        ),
        (
            ("LC" * 9, "--warps", "60", "--method", "states"),
            "PW564",
            "about 10^",
        ),
        (("L", "--warps", "90000000", "--method", "states"), "PW564", "90,000,001"),
        (("LC" * 9, "--warps", "60", "--method", "ilp"), "PW564", "variables"),
        (
            ("L", "--warps", "3", "--method", "extrapolate:0"),
            "PW566",
            "at most 0 warps",
        ),
    ],
)
def test_bad_input(arguments, code: str, message: str) -> None:
    exit_code, out, err = run(*arguments, *ONE)
    assert (exit_code, out) == (2 if code in ("PW560", "PW561", "PW566") else 1, "")
    first, *rest = err.splitlines()
    assert first.startswith(f"error[{code}]: ")
    assert message in first
    assert all(line.startswith("  help: ") for line in rest)


@pytest.mark.parametrize("capacity", ["0", "-1", "2/3", "x", "1e9", "1/0", "1/5000", "nan"])
def test_bad_capacities(capacity: str) -> None:
    code, _, err = run("LC", "--warps", "3", f"--cores={capacity}", "--load-store", "1")
    assert code == 2
    assert err.startswith("error[PW561]: capacity ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("--warps", "3"),
        ("LC",),
        ("k.ptx", "LC", "--warps", "3"),
        ("k.ptx", "--warps", "3"),
        ("LC", "--warps", "3", "--picture", "x.png"),
        ("LC", "--warps", "3", "--block", "256"),
        ("LC", "--warps", "3", "--machine", "orin-ecrts2025"),
        ("LC", "--warps", "3", "--method", "exact:long"),
        ("LC", "--warps", "3", "--method", "ilp:4"),
    ],
)
def test_usage(arguments) -> None:
    assert run(*arguments, *ONE)[0] == 2


def test_time_limit_ends_in_bounds_from_both_sides() -> None:
    arguments = ("--load-store", "2", "--cores", "1", "--timeout", "0.000001")
    code, out, _ = run("LLCLLCCL", "--warps", "14", *arguments)
    assert code == 0
    assert "MAKESPAN   79 slots   safe-bound\n" in out
    assert "slots in some schedule" in out
    assert "the time limit was reached" in out


def test_ilp_in_no_time_keeps_what_is_proved_otherwise() -> None:
    arguments = ("--method", "ilp", "--timeout", "0.01")
    code, out, _ = run("LLCLLC", "--warps", "4", *arguments, *ONE)
    assert code == 0
    assert "MAKESPAN   18 slots   safe-bound" in out
    assert "the time limit was reached" in out


def test_beyond_the_table_there_are_bounds() -> None:
    code, out, _ = run("LLCLLCCL", "--warps", "140", "--load-store", "2", "--cores", "1")
    assert code == 0
    assert "MAKESPAN   772 slots   safe-bound\n" in out
    assert "too many states for a table" in out


def test_schedule_is_drawn(tmp_path: Path) -> None:
    path = tmp_path / "s.svg"
    code, _, _ = run("LLC", "--warps", "4", "--picture", str(path), *ONE)
    assert code == 0
    picture = ElementTree.parse(path).getroot()
    texts = [one.text for one in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts.count("L") == 8
    assert texts.count("C") == 4
    assert "warp 4" in texts
    drawn = [
        one for one in picture.iter("{http://www.w3.org/2000/svg}text") if one.text in ("L", "C")
    ]
    assert len({one.get("y") for one in drawn}) == 4  # a row a warp
    assert len({one.get("x") for one in drawn}) == 9  # a column a slot
    assert len({(one.get("x"), one.get("y")) for one in drawn}) == 12


def test_pictures_that_cannot_be_drawn(tmp_path: Path) -> None:
    path = str(tmp_path / "s.svg")
    for arguments in (("LLC", "--warps", "9000"), ("LLC", "--warps", "900000")):
        code, _, err = run(*arguments, "--picture", path, *ONE)
        assert code == 1
        assert "error[PW567]" in err
    code, _, err = run("LLC", "--warps", "3", "--picture", "/no/such.svg", *ONE)
    assert code == 2
    assert "there is no folder '/no'" in err


def test_a_kernel_without_barriers() -> None:
    file = str(SAMPLES / "vector_add.ptx")
    code, out, _ = run(file, "--block", "256", "--grid", "4", "--param", "n=1024", *ONE)
    assert code == 0
    assert "string     LLLLCCCCCCCCCCCLLCCCLC  (22 instructions: 7 L, 15 C)" in out
    assert "MAKESPAN   148 slots   safe-bound, exact" in out


def test_the_kind_of_block_with_the_largest_makespan_counts() -> None:
    file = str(SAMPLES / "vector_add.ptx")  # block 4 has nothing to do
    code, out, _ = run(file, "--block", "256", "--grid", "5", "--param", "n=1024", *ONE)
    assert code == 0
    assert "MAKESPAN   148 slots   safe-bound, exact" in out


def test_a_kernel_against_its_instructions_one_by_one() -> None:
    """Every section of the unrolled path by its own, with M by dynamic programming."""
    file = str(SAMPLES / "sgemm_naive.ptx")
    machine = load_machine()
    answer = bound_file(Request(file, block="32x32", parameters=("N=160", "K=160")))
    workload = answer.answered[0].worst.analysis.workload
    assert len(workload.classes) == 1
    total, string = 0, ""
    for node in unroll(workload.classes[0].program.body):
        instruction = node.instruction if isinstance(node, Barrier) else node
        string += machine.makespan_letters[instruction.unit]
        if isinstance(node, Barrier):
            total += 32 * (len(string) - most_pairs(string)) + most_pairs(string)
            string = ""
    total += 32 * (len(string) - most_pairs(string)) + most_pairs(string)
    _, out, _ = run(
        file, "--block", "32x32", "--param", "N=160", "--param", "K=160", "--format", "json", *ONE
    )
    assert json.loads(out)[0]["slots"] == total


def most_pairs(string: str) -> int:
    best = [0, 0]
    for i in range(1, len(string)):
        best.append(max(best[i], best[i - 1] + (string[i] != string[i - 1])))
    return best[len(string)]


def test_a_kernel_with_barriers_and_loops() -> None:
    file = str(SAMPLES / "sgemm_naive.ptx")
    code, out, _ = run(file, "--block", "32x32", "--param", "N=1024", "--param", "K=1048576", *ONE)
    assert code == 0
    assert "all warps meet at the end of each" in out
    assert "safe-bound, exact" in out


def test_kernels_without_one_string() -> None:
    file = str(SAMPLES / "block_reduce.ptx")
    code, _, err = run(file, "--block", "256", "--grid", "4", "--param", "n=10000", *ONE)
    assert code == 1
    assert "error[PW562]" in err


@pytest.mark.parametrize(
    ("name", "machine", "cause"),
    [
        ("sgemm_cp_async", "orin-ecrts2025-memory", "charges cp.async.ca.shared.global above"),
        ("sgemm_naive", "titan-v", "the timings of machine titan-v are charged above"),
    ],
)
def test_timings_that_are_charged_are_the_cause(name: str, machine: str, cause: str) -> None:
    sizes = (one for axis in "MNK" for one in ("--param", f"{axis}=64"))
    said = ("--block", "32x32", "--grid", "1", *sizes, "--machine", machine, *ONE)
    code, _, err = run(str(SAMPLES / f"{name}.ptx"), *said)
    assert code == 1
    assert "error[PW562]" in err
    assert cause in err
    assert "unknown" not in err


def instruction(unit: str) -> TimedInstruction:
    return TimedInstruction(unit, 1, 1)


def workload(*bodies) -> BlockWorkload:
    classes = tuple(WarpClass(WarpProgram(body), (n,)) for n, body in enumerate(bodies))
    return BlockWorkload(classes, Scoreboard.RAW)


LETTERS = {"M": "L", "A": "C"}
LOAD, ADD, MEET = instruction("M"), instruction("A"), Barrier(instruction("A"))


def test_sections_between_barriers() -> None:
    body = (LOAD, Repeat(10**9, (ADD, MEET, LOAD, LOAD)), ADD)
    found = [(one.multiplicity, one.tree) for one in sections_of(workload(body, body), LETTERS)]
    once = sections_of(workload((Repeat(1, (LOAD,)), Repeat(0, (ADD,)), ADD)), LETTERS)
    assert [unrolled(one.tree, 9) for one in once] == ["LC"]
    assert found == [(1, ("LCC",)), (10**9 - 1, ("LLCC",)), (1, ("LLC",))]


@pytest.mark.parametrize(
    ("bodies", "code"),
    [
        (((LOAD,), (ADD,)), "PW562"),
        (((Choice(((LOAD,), (ADD,))),),), "PW562"),
        (((Repeat(3, (LOAD,), 2),),), "PW562"),
        (((instruction("SFU"),),), "PW563"),
        (((),), "PW560"),
    ],
)
def test_workloads_without_a_string(bodies, code: str) -> None:
    assert refusal_of(sections_of, workload(*bodies), LETTERS).code == code


def test_a_unit_gets_its_letter_in_the_machine_file(tmp_path: Path) -> None:
    machine = tmp_path / "m.toml"
    text = 'schema = 1\nextends = "orin-ecrts2025"\nname = "m"\n'
    machine.write_text(text + '[makespan]\nINT = "X"\nNONE = "L"\n')
    file = str(SAMPLES / "vector_add.ptx")
    launch = ("--block", "256", "--grid", "4", "--param", "n=1024")
    code, _, err = run(file, *launch, "--machine", str(machine), *ONE)
    assert code == 1
    assert "error[PW306]: makespan: unit INT is L or C" in err
    machine.write_text(text + '[makespan]\nNONE = "L"\n')
    assert "error[PW309]" in run(file, *launch, "--machine", str(machine), *ONE)[2]
    machine.write_text(text + '[makespan]\nINT = "L"\n')
    code, out, _ = run(file, *launch, "--machine", str(machine), *ONE)
    assert code == 0
    assert "method     closed-form" in out
    assert "(22 instructions: 21 L, 1 C)" in out


def test_counts_that_are_only_bounded_give_no_exact_makespan() -> None:
    """n rounds and 11 - n rounds: their largest numbers are not taken together."""
    path = str(FLOW / "two_barrier_loops.ptx")
    arguments = (path, "--block", "64", "--load-store", "1", "--cores", "1", "--param")
    assert run(*arguments, "n=1")[0] == 0
    code, out, err = run(*arguments, "n=1..10")
    assert code == 1
    assert "PW562" in out + err
