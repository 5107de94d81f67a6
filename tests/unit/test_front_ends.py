"""Another input language: a few lines here, registered, and every door of the program opens it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from programs import run_program

from ptxwcet.ir.building import instruction_of
from ptxwcet.ir.kernel import Guard, Instruction, Kernel, Module, Origin, Parameter
from ptxwcet.ir.operands import Address, Immediate, Operand, Register, SpecialRegister, SymbolRef
from ptxwcet.ir.verifier import rewritten
from ptxwcet.opened.front_ends import FRONT_ENDS, FrontEnd
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.source import SourceFile, Span

pytestmark = pytest.mark.fast

STEPS = """total = tid
i = 0
again:
total += total
i += 1
loop again while i < 64
keep total
"""
"""The kernel ``steps``, in a language of four statements."""

PTX = """.version 8.3
.target sm_80
.address_size 64
.entry steps(.param .u64 out)
{
.reg .u32 total, i;
.reg .u64 at;
.reg .pred p;
mov.u32 total, %tid.x;
mov.u32 i, 0;
again:
add.u32 total, total, total;
add.u32 i, i, 1;
setp.lt.u32 p, i, 64;
@p bra again;
ld.param.u64 at, [out];
st.global.u32 [at], total;
ret;
}
"""


class Reader:
    """Reads the statements of one kernel."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.made: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.registers = {"at": "u64", "p": "pred"}

    def value(self, word: str) -> Operand:
        if word == "tid":
            return SpecialRegister("%tid.x")
        if word.isdigit():
            return Immediate(int(word), word)
        self.registers[word] = "u32"
        return Register(word)

    def module(self) -> Module:
        start = 0
        for line in self.source.text.splitlines(keepends=True):
            self.statement(line.split(), (start, start + len(line.rstrip())))
            start += len(line)
        self.add((start - 1, start), "ret")
        kernel = rewritten(
            Kernel(
                name="steps",
                is_entry=True,
                parameters=(Parameter("out", "u64", 8, 8, 0),),
                instructions=tuple(self.made),
                labels=self.labels,
                registers=self.registers,
                branch_tables={},
                variables=(),
                performance=(),
                body=(),
                span=Span(self.source, 0, start),
            )
        )
        return Module(self.source, items=(kernel,))

    def statement(self, words: list[str], place: tuple[int, int]) -> None:
        match words:
            case [target, "=", value]:
                self.add(place, "mov.u32", self.value(target), self.value(value))
            case [target, "+=", value]:
                into = self.value(target)
                self.add(place, "add.u32", into, into, self.value(value))
            case ["loop", label, "while", value, "<", limit]:
                self.add(place, "setp.lt.u32", Register("p"), self.value(value), self.value(limit))
                self.add(place, "bra", SymbolRef(label), guard=Guard("p", False), targets=(label,))
            case ["keep", value]:
                self.add(place, "ld.param.u64", Register("at"), Address(SymbolRef("out")))
                self.add(place, "st.global.u32", Address(Register("at")), self.value(value))
            case [label] if label.endswith(":"):
                self.labels[label[:-1]] = len(self.made)
            case _:
                message, span = "a statement is not understood", Span(self.source, *place)
                raise PtxwcetError(Diagnostic("PW101", message, span))

    def add(
        self,
        place: tuple[int, int],
        mnemonic: str,
        *operands: Operand,
        guard: Guard | None = None,
        targets: tuple[str, ...] = (),
    ) -> None:
        at = Origin(self.source, None), *place
        self.made.append(instruction_of(mnemonic, operands, at, guard=guard, targets=targets))


def read(path: str | os.PathLike[str]) -> SourceFile:
    return SourceFile(os.fspath(path), Path(path).read_text(encoding="utf-8"))


def program(main: SourceFile, *linked: SourceFile) -> Module:
    assert not linked
    return Reader(main).module()


TOY = FrontEnd((".steps",), read, program, lambda: "steps", lambda: None)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """The kernel in its language, and the same kernel as PTX."""
    monkeypatch.setattr("ptxwcet.opened.front_ends.FRONT_ENDS", [*FRONT_ENDS, TOY])
    toy, ptx = tmp_path / "k.steps", tmp_path / "k.ptx"
    toy.write_text(STEPS, encoding="utf-8")
    ptx.write_text(PTX, encoding="utf-8")
    return toy, ptx


def test_its_bound_is_that_of_the_same_kernel_as_ptx(files: tuple[Path, Path]) -> None:
    found = []
    for file in files:
        ended = run_program("bound", file, "--block", "64", "--format", "json")
        assert ended.code == 0, ended.err
        found.append(json.loads(ended.out)["kernels"][0]["bound_cycles"])
    assert found[0] == found[1] > 64


def test_a_folder_has_files_of_all_languages(files: tuple[Path, Path]) -> None:
    ended = run_program("bound", files[0].parent, "--block", "64", "-q")
    assert ended.code == 0, ended.err
    first, second = ended.out.splitlines()
    assert first == second


def test_its_graph_and_its_lines(files: tuple[Path, Path]) -> None:
    graph = run_program("cfg", files[0])
    assert graph.code == 0, graph.err
    assert "b1 -> b1" in graph.out
    costs = run_program("annotate", files[0], "--block", "64")
    assert costs.code == 0, costs.err
    assert all(line in costs.out for line in STEPS.splitlines() if line[-1] != ":")


def test_a_binary_of_its_own_is_not_searched_for_ptx(files: tuple[Path, Path]) -> None:
    files[0].write_text(f"\x7fELF = tid\n{STEPS}", encoding="utf-8")
    ended = run_program("bound", files[0], "--block", "64")
    assert ended.code == 0, ended.err


def test_what_it_does_not_know_is_refused_at_its_place(files: tuple[Path, Path]) -> None:
    files[0].write_text(STEPS.replace("i = 0", "i : 0"), encoding="utf-8")
    ended = run_program("bound", files[0], "--block", "64")
    assert ended.code
    assert f"{files[0].name}:2:1" in ended.err
    assert "PW101" in ended.err


def test_an_instruction_is_what_the_ptx_reader_makes_of_its_text() -> None:
    (kernel,) = FRONT_ENDS[0].program(SourceFile("k.ptx", PTX)).kernels
    for one in kernel.instructions:
        place = one.origin, one.start, one.end
        made = instruction_of(
            one.mnemonic, one.operands, place, guard=one.guard, targets=one.targets
        )
        for name in ("operands", "reads", "writes", "guard", "op_class", "control", "space"):
            assert getattr(made, name) == getattr(one, name), one.mnemonic


def test_what_writes_ptx_refuses_another_language(files: tuple[Path, Path]) -> None:
    ended = run_program("instrument", files[0], "-o", files[0].with_suffix(".out.ptx"))
    assert ended.code
    assert "PW65" in ended.err
