"""Files that ptxas takes or refuses because of one token, and what the parser says of them."""

from __future__ import annotations

from pathlib import Path

import pytest
from parsing import parse_text
from places import ROOT

from ptxwcet.support.diagnostics import PtxwcetError

FAULTS = ROOT / "tests" / "data" / "faults"
FILES = [*sorted((FAULTS / "statements").glob("*.ptx")), FAULTS / "mma_scale_in_braces.ptx"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_is_taken_as_ptxas_takes_it(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    if path.stem.startswith("MISSED"):
        with pytest.raises(PtxwcetError):
            parse_text(text)
    else:
        assert parse_text(text).kernels
