"""Instrumented text: only insertions, where they belong, under names of their own."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from parsing import parse_file, parse_kernel, parse_text
from places import ROOT
from refusals import refusals_of

from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.ir.verifier import verify_kernel
from ptxwcet.methods.instrument.rewriting import (
    INSTRUCTIONS_AT_ENTRY,
    INSTRUCTIONS_AT_POINT,
    InstrumentedModule,
    instrument_module,
    text_digest,
)

FILES = sorted(
    [
        *(ROOT / "tests" / "corpus" / "ptx").rglob("*.ptx"),
        *(ROOT / "samples").glob("*.ptx"),
        *(ROOT / "tests" / "data" / "reference-sim" / "ptx").glob("*.ptx"),
    ]
)
VERDICTS = json.loads((ROOT / "tests" / "data" / "instrument" / "ptxas.json").read_text())
ARCHITECTURES = {"sm_86", "sm_87", "sm_90", "sm_100"}
"""What PTX for sm_86 can be assembled for; the older ones need the .cu (see the benchmark)."""

HEAD = ".version 7.0\n.target sm_75\n.address_size 64\n"
BODY = "{\n\tret;\n}\n"
_INSERTED = re.compile(r"[ \t]*// (ptxwcet\d*): (?!end\n).*?// \1: end\n", re.DOTALL)
_PARAMETERS = re.compile(
    r",\n\t\.param \.u64 ptxwcet\d*_buffer,\n\t\.param \.u64 ptxwcet\d*_chunks"
)


def instrument(text: str, places: tuple[str, ...] = (), *names: str) -> InstrumentedModule:
    module = parse_text(text)
    kernels = [row for row in module.kernels if not names or row.name in names]
    return instrument_module(module, kernels, places)


def refusal(text: str, *places: str) -> list[str]:
    return [f"{row.code}: {row.message}" for row in refusals_of(instrument, text, places)]


@pytest.mark.every(3)
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_but_insertions(path: Path) -> None:
    module = parse_file(path)
    text = module.source.text
    done = instrument_module(module, module.kernels)
    pieces, position = [], 0
    for row in done.insertions:
        assert row.text.count("\n") >= 2
        pieces.append(done.text[position : position + row.offset - sum(map(len, pieces))])
        position += len(pieces[-1]) + len(row.text)
    assert "".join([*pieces, done.text[position:]]) == text
    again = parse_text(done.text)
    for before, after in zip(module.kernels, again.kernels, strict=True):
        assert len(after.parameters) == len(before.parameters) + 2
        assert verify_kernel(after) == ()
        control = [i.mnemonic for i in before.instructions if i.control is not ControlEffect.NONE]
        more = [i.mnemonic for i in after.instructions if i.control is not ControlEffect.NONE]
        assert control == more
    counts = [len(k.instructions) for k in again.kernels]
    plain = [len(k.instructions) for k in module.kernels]
    added = [INSTRUCTIONS_AT_ENTRY + INSTRUCTIONS_AT_POINT * row.inserted for row in done.kernels]
    assert counts == [old + new for old, new in zip(plain, added, strict=True)]


@pytest.mark.parametrize("path", sorted((ROOT / "samples").glob("*.ptx")), ids=lambda p: p.name)
def test_without_the_marked_lines_a_sample_is_what_it_was(path: Path) -> None:
    """The comments mark all that was inserted: a text tool can take it out again."""
    text = path.read_text(encoding="utf-8")
    added = instrument(text).text
    assert _PARAMETERS.sub("", _INSERTED.sub("", added)).replace("{\n\n", "{\n") == text


@pytest.mark.parametrize("name", sorted(VERDICTS))
def test_ptxas_has_accepted_what_is_made_today(name: str) -> None:
    """``benchmarks/instrumented_ptxas.py`` asked it; a change of the text needs a new answer."""
    done = instrument((ROOT / name).read_text(encoding="utf-8"))
    assert text_digest(done.text) == VERDICTS[name]["sha256"]
    assert set(VERDICTS[name]["accepted"]) >= ARCHITECTURES


def test_ptxas_was_asked_about_the_samples_and_the_suites() -> None:
    assert len(VERDICTS) >= 43
    kinds = {str(Path(name).parent) for name in VERDICTS}
    assert kinds == {"samples", "benchmarks/kernels/suite", "benchmarks/kernels/hybrid"}


HEADS = {
    "no list": ".entry k",
    "no list, directive": ".visible .entry k .maxntid 256, 1, 1",
    "empty list": ".visible .entry k()",
    "empty list with a comment": ".entry k( /* none) */ )",
    "list": ".visible .entry k(.param .u64 a, .param .align 8 .b8 b[24])",
    "list and directives": ".entry k(.param .u32 a)\n.maxntid 64\n.minnctapersm 2\n",
    "comment at the end": ".entry k(\n\t.param .u32 a // the last ), really\n)",
    "comment before the list": ".entry /* ( */ k /* ) */ (.param .u32 a)",
    "prototype": ".entry k(.param .u32 a);\n.visible .entry k(.param .u32 a)",
}


def assembled(text: str, folder: Path) -> str:
    """What ptxas says against a text; nothing where there is no ptxas."""
    ptxas = shutil.which("ptxas")
    if ptxas is None:
        return ""
    (folder / "k.ptx").write_text(text, encoding="utf-8")
    command = [ptxas, "-arch=sm_75", str(folder / "k.ptx"), "-o", str(folder / "k.cubin")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr


@pytest.mark.parametrize("name", HEADS)
def test_parameters_come_last(name: str, tmp_path: Path) -> None:
    text = HEAD + HEADS[name] + "\n" + BODY
    done = instrument(text).text
    module = parse_text(done)
    before = parse_kernel(text)
    for kernel in module.items:
        names = [parameter.name for parameter in kernel.parameters]
        assert names == [*(p.name for p in before.parameters), "ptxwcet_buffer", "ptxwcet_chunks"]
    assert module.kernels[0].performance == before.performance
    if assembled(text, tmp_path) == "":
        assert assembled(done, tmp_path) == ""


def test_names_do_not_meet_those_of_the_file() -> None:
    once = instrument(HEAD + ".entry k()\n" + BODY)
    twice = instrument(once.text)
    assert (once.names.prefix, twice.names.prefix) == ("ptxwcet", "ptxwcet2")
    assert instrument(twice.text).names.prefix == "ptxwcet3"
    kernel = parse_kernel(twice.text)
    assert verify_kernel(kernel) == ()
    assert len(kernel.parameters) == 4


def test_only_the_kernels_that_are_named() -> None:
    text = HEAD + ".entry a()\n" + BODY + ".entry b()\n" + BODY
    done = instrument(text, (), "b")
    a, b = parse_text(done.text).kernels
    assert (len(a.parameters), len(b.parameters)) == (0, 2)


def test_cost_is_what_is_counted() -> None:
    done = instrument(HEAD + ".entry k()\n" + BODY)
    kernel = parse_kernel(done.text)
    assert len(kernel.instructions) - 1 == INSTRUCTIONS_AT_ENTRY + 2 * INSTRUCTIONS_AT_POINT
    declared = {
        kind: sum(type_name == kind for type_name in kernel.registers.values())
        for kind in ("pred", "b32", "b64")
    }
    assert declared == {kind: len(row) for kind, row in done.names.registers.items()}


TWO = (
    HEAD
    + """.entry a() { .reg .pred %p;
L: setp.eq.u32 %p, 1, 1;
@%p bra L;
ret; }
.entry b() { .reg .pred %p;
setp.eq.u32 %p, 1, 1;
@%p bra M;
exit; M: ret; }
"""
)
"""Kernel a: L on lines 5 and 6, block 1 on line 7. Kernel b: block 1 and M are both on line 11."""


@pytest.mark.parametrize(
    ("places", "labels"),
    [
        ((), [["L", "block 1"], ["entry", "block 1", "M"]]),
        (("M",), [["L"], ["entry", "M"]]),
        (("11", "7"), [["L", "block 1"], ["entry", "block 1", "M"]]),
        (("6", "10"), [["L"], ["entry"]]),
        (("block 1", "L"), [["L", "block 1"], ["entry", "block 1"]]),
    ],
)
def test_places(places: tuple[str, ...], labels: list[list[str]]) -> None:
    done = instrument(TWO, places)
    found = [[p.ipoint.label for p in row.blocks] for row in done.kernels]
    assert found == labels


def test_places_that_are_none() -> None:
    assert refusal(TWO, "N", "M", "99") == [
        "PW651: no block 'N' that is reached in a, b",
        "PW651: no instruction on line 99 that is reached in a, b",
    ]
    unreachable = HEAD + ".entry k() { .reg .pred %p; bra E;\nX: bra X;\nE: ret; }"
    assert refusal(unreachable, "X") == ["PW651: no block 'X' that is reached in k"]


def test_refusals() -> None:
    kernel = ".entry k()\n" + BODY

    def old(version: str, target: str, size: int) -> str:
        return f".version {version}\n.target {target}\n.address_size {size}\n{kernel}"

    assert refusal(old("6.1", "sm_60", 64)) == [
        "PW650: k.ptx is PTX 6.1; points use activemask, which needs 6.2"
    ]
    assert [row[:6] for row in refusal(old("4.0", "sm_20", 32))] == ["PW650:"] * 3
    large = HEAD + ".entry k(.param .b8 a[4337])\n" + BODY
    assert refusal(large) == ["PW650: kernel k would have 4,360 bytes of parameters, 4,352 fit"]
    instrument(large.replace("4337", "4336"))
    instrument(large.replace("4337", "32744").replace("7.0", "8.1"))
    assert refusal(large.replace("4337", "32745").replace("7.0", "8.1"))[0].endswith("32,764 fit")


EXITS = """.func leave(.reg .b32 %x) { .reg .pred %p; setp.eq.u32 %p, %x, 0; @%p exit; ret; }
.func between(.reg .b32 %x) { call leave, (%x); ret; }
.func innocent(.reg .b32 %x) { ret; }
"""


@pytest.mark.parametrize(("callee", "is_refused"), [("between", True), ("innocent", False)])
def test_functions_that_end_threads(callee: str, is_refused: bool) -> None:
    body = f"{{ .reg .b32 %r; mov.u32 %r, %tid.x; call {callee}, (%r); ret; }}"
    text = HEAD + EXITS + ".entry k()\n" + body
    if is_refused:
        assert refusal(text) == ["PW650: function leave, which kernel k may call, ends threads"]
    else:
        instrument(text)
