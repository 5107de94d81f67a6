"""What the corpus holds: every file accounted for, small, free of local paths; every opcode."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from ptxwcet.ir.instruction_set import find_opcode
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source

CORPUS = Path(__file__).parent / "ptx"
FILES = sorted(CORPUS.rglob("*.ptx"))
ABSOLUTE = re.compile(rb"/(?:home|root|tmp|usr|opt|work|Users|private|var)/")
BYTES = re.compile(rb"^\s*\.b8[ \t]+([0-9][0-9, \t]*)", re.MULTILINE)
# All when this was counted, but for two of ISA 9.1: ptxas 13.0 takes up to 9.0.
OPCODES_IN_THE_CORPUS = 190
LARGEST_FILE_BYTES = 300_000
LARGEST_CORPUS_BYTES = 4_000_000


@pytest.mark.parametrize("origin", ["clang", "nvcc", "numba", "triton"])
def test_the_manifest_names_the_files_that_are_there(origin: str) -> None:
    manifest = tomllib.loads((CORPUS / origin / "MANIFEST.toml").read_text(encoding="utf-8"))
    assert manifest["tool"]
    listed = [row["name"] for row in manifest["file"]]
    assert sorted(listed) == sorted(path.name for path in (CORPUS / origin).glob("*.ptx"))
    assert all(row["command"] for row in manifest["file"])


def test_sizes() -> None:
    sizes = [path.stat().st_size for path in FILES]
    assert max(sizes) <= LARGEST_FILE_BYTES
    assert sum(sizes) <= LARGEST_CORPUS_BYTES


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_absolute_paths(path: Path) -> None:
    text = path.read_bytes()
    debug = bytes(
        int(number) & 255
        for row in BYTES.finditer(text)
        for number in re.findall(rb"\d+", row.group(1))
    )
    assert ABSOLUTE.search(text) is None
    assert ABSOLUTE.search(debug) is None


def test_which_opcodes_occur() -> None:
    """A new one need not: it has a golden statement."""
    names = set()
    for module in map(parse_module, map(read_source, FILES)):
        for kernel in module.kernels + module.functions:
            for instruction in kernel.instructions:
                row, _ = find_opcode(instruction.mnemonic.split("."))
                assert row is not None, instruction.mnemonic
                names.add(row.name)
    assert len(names) >= OPCODES_IN_THE_CORPUS
