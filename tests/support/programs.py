"""The program, called as from a shell."""

from __future__ import annotations

import io
import os
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

import pytest

from ptxwcet.cli.main import main


class Ended(NamedTuple):
    """How the program ended, and what it printed."""

    code: int
    out: str
    err: str


def run_program(*arguments: object) -> Ended:
    """Runs ``ptxwcet ARGUMENTS``. It shows a traceback only where the environment asks for one."""
    out, err = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    with redirect_stdout(out), redirect_stderr(err), pytest.raises(SystemExit) as stopped:
        main([str(one) for one in arguments])
    code = stopped.value.code or 0
    assert isinstance(code, int)
    for stream in (out, err):
        stream.seek(0)
    ended = Ended(code, out.read(), err.read())
    assert "Traceback" not in ended.err or "PTXWCET_TRACEBACK" in os.environ
    return ended
