"""The verifier after each pass: silent on what passes make, and heard where one is broken."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from parsing import parse_file
from places import ROOT

from ptxwcet.flow.graph import inlining
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.paths import call_variables
from ptxwcet.flow.paths.call_variables import with_variable_registers
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.ir.verifier import lowered, rewritten, verify_rewritten
from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast

FILES = sorted(
    path
    for folder in ("tests/corpus/ptx", "samples", "benchmarks")
    for path in (ROOT / folder).rglob("*.ptx")
    if "call" in path.read_text(encoding="utf-8")
)


def calling() -> tuple[Kernel, Module]:
    """A kernel that calls a function through ``.param`` variables."""
    for module in map(parse_file, FILES):
        for kernel in module.kernels:
            whole = inline_calls(kernel, module)
            if with_variable_registers(whole).registers.keys() > whole.registers.keys():
                return kernel, module
    raise AssertionError("no such kernel")


def test_tests_run_under_the_switch() -> None:
    assert os.environ["PTXWCET_VERIFY"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_passes_keep_the_invariants(path: Path) -> None:
    module = parse_file(path)
    for kernel in module.kernels:
        whole = inline_calls(kernel, module)
        assert verify_rewritten(whole) == ()
        assert verify_rewritten(with_variable_registers(whole)) == ()


def test_some_files_have_calls_that_are_inlined() -> None:
    kernel, module = calling()
    assert any(one.control is ControlEffect.CALL for one in kernel.instructions)
    assert inline_calls(kernel, module) is not kernel


def test_a_broken_kernel_is_refused_only_under_the_switch(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, _ = calling()
    broken = replace(kernel, registers=MappingProxyType({}))
    for check in (lowered, rewritten):
        with pytest.raises(PtxwcetError, match="internal: register") as refused:
            check(broken)
        assert refused.value.diagnostics[0].code == "PW900"
    monkeypatch.delenv("PTXWCET_VERIFY")
    assert lowered(broken) is broken
    assert rewritten(broken) is broken


def test_inlining_that_forgets_the_names_of_copies_is_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel, module = calling()
    copied = inlining._Inliner._instruction
    monkeypatch.setattr(
        inlining._Inliner,
        "_instruction",
        lambda self, one, site: copied(self, one, replace(site, prefix="")),
    )
    with pytest.raises(PtxwcetError, match="internal"):
        inline_calls(kernel, module)


def test_registers_for_variables_that_are_not_declared_are_heard(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel, module = calling()
    whole = inline_calls(kernel, module)
    made = call_variables._rewritten
    monkeypatch.setattr(
        call_variables,
        "_rewritten",
        lambda kernel, kept: replace(made(kernel, kept), registers=kernel.registers),
    )
    with pytest.raises(PtxwcetError, match="is not declared"):
        with_variable_registers(whole)
