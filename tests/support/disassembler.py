"""What needs the vendor's disassembler, of its wheel or on the PATH, is skipped without it."""

from __future__ import annotations

import pytest

from ptxwcet.sass import disassembler
from ptxwcet.support.diagnostics import PtxwcetError


def _is_there() -> bool:
    try:
        disassembler._found("")
    except PtxwcetError:
        return False
    return True


needs_nvdisasm = pytest.mark.skipif(not _is_there(), reason="no nvdisasm")
