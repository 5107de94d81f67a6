"""Bad files: one clear diagnostic, exit code 1, never a traceback, as a process of its own.

Bad options and statements are ``kernels/bad_options.ptx`` and ``kernels/bad_statements.ptx``.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from loopback import PATIENCE
from places import ROOT

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
KERNEL = ".visible .entry k(.param .u32 n)\n{\n.reg .b32 %r<4>;\nld.param.u32 %r1, [n];\nret;\n}\n"


def run(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [sys.executable, "-m", "ptxwcet", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert "Traceback" not in done.stderr + done.stdout
    return done.returncode, done.stdout, done.stderr


FILES: dict[str, tuple[bytes, str]] = {
    "not PTX": (b"hello, this is a letter\n", "PW1"),
    "truncated": ((HEADER + KERNEL)[:-20].encode(), "PW1"),
    "binary": (bytes(range(256)) * 20, "PW112"),
    "empty": (b"", "PW112"),
    "wrong encoding": (("\ufeff" + HEADER).encode("utf-16-le"), "PW112"),
    "braces": (b"{" * 10_000_000, "PW1"),
    "unknown target": ((HEADER.replace("sm_80", "sm_1234") + KERNEL).encode(), "PW110"),
    "duplicate labels": (
        (HEADER + KERNEL.replace("ret;", "A:\nmov.u32 %r2, 1;\nA:\nret;")).encode(),
        "PW105",
    ),
    "branch to nowhere": (
        (HEADER + KERNEL.replace("ret;", "bra.uni NOWHERE;\nret;")).encode(),
        "PW106",
    ),
}


@pytest.mark.parametrize("what", FILES)
def test_files(what: str, tmp_path: Path) -> None:
    content, code = FILES[what]
    path = tmp_path / "bad.ptx"
    path.write_bytes(content)
    returncode, output, error = run(str(path), "--block", "32")
    assert returncode == 1
    assert output == ""
    assert error.count("error[PW") == 1 or what == "not PTX"
    assert code in error


KERNELS = ROOT / "tests/data/reference-sim/ptx/one_fma.ptx"


def test_machine_file_with_a_missing_unit(tmp_path: Path) -> None:
    text = (ROOT / "ptxwcet/machine/models/orin-ecrts2025.toml").read_text()
    path = tmp_path / "machine.toml"
    path.write_text(text.replace("\nGMEM = 1\n", "\n"))
    returncode, _, error = run(str(KERNELS), "--block", "32", "--machine", str(path))
    assert returncode == 1
    assert "PW309" in error
