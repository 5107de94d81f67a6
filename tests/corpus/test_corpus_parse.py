"""Every PTX file of the repository parses, lowers, verifies and survives printing.

Where ptxas is installed, it makes the same cubin sections of the printed text as of the original.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from parsing import parse_file, parse_text
from places import ROOT
from ptx_printer import print_module
from structures import structure

from ptxwcet.ir.kernel import unknown_instructions
from ptxwcet.ir.verifier import verify_kernel

sys.path.insert(0, str(Path(__file__).parent))
from cubin import PTXAS, assemble, sections

FILES = sorted(
    [
        *(ROOT / "tests" / "corpus" / "ptx").rglob("*.ptx"),
        *(ROOT / "tests" / "data" / "reference-sim" / "ptx").glob("*.ptx"),
        *(ROOT / "samples").rglob("*.ptx"),
    ]
)
NOT_FOR_THIS_PTXAS: dict[str, str] = {}
"""File name -> why ptxas is not asked."""
ZERO_OFFSET = re.compile(r"\+0(?=\])")
"""For ``.target debug``, ptxas makes other code of ``[x+0]`` than of ``[x]``, which is printed."""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.every(2)
@pytest.mark.parametrize("path", FILES, ids=name)
def test_parses_lowers_and_survives_printing(path: Path) -> None:
    module = parse_file(path)
    functions = module.kernels + module.functions
    assert functions
    for kernel in functions:
        assert unknown_instructions(kernel) == ()
        assert verify_kernel(kernel) == ()
    printed = print_module(module)
    assert structure(parse_text(printed)) == structure(module)


def test_the_corpus_is_there_and_is_lowered() -> None:
    lowered = 0
    for module in map(parse_file, FILES):
        for kernel in module.kernels + module.functions:
            lowered += sum(i.op_class is not None for i in kernel.instructions)
    assert lowered >= 30_000


@pytest.mark.every(4)
@pytest.mark.skipif(PTXAS is None, reason="ptxas is not installed")
@pytest.mark.parametrize("path", FILES, ids=name)
def test_ptxas_sees_no_difference(path: Path, tmp_path: Path) -> None:
    if path.name in NOT_FOR_THIS_PTXAS:
        pytest.skip(NOT_FOR_THIS_PTXAS[path.name])
    text = ZERO_OFFSET.sub("", path.read_text(encoding="utf-8"))
    original = assemble(text, tmp_path, "original")
    assert isinstance(original, bytes), original
    printed = assemble(print_module(parse_file(path)), tmp_path, "printed")
    assert isinstance(printed, bytes), printed
    assert sections(printed) == sections(original)
    assert sections(original)
