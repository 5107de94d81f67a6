"""Bad input: one clear diagnostic, exit code 1 (usage: 2), never a traceback."""

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
OPTIONS: dict[str, tuple[tuple[str, ...], int, str]] = {
    "no file": (("absent.ptx", "--block", "32"), 2, "cannot read 'absent.ptx'"),
    "folder": (("docs", "--block", "32"), 2, "cannot read 'docs'"),
    "no block": ((str(KERNELS),), 2, "PW209"),
    "block of 0": ((str(KERNELS), "--block", "0"), 2, "PW210"),
    "block of 2000": ((str(KERNELS), "--block", "2000"), 1, "PW211"),
    "no such kernel": ((str(KERNELS), "--block", "32", "-k", "absent"), 2, "PW208"),
    "no such parameter": ((str(KERNELS), "--block", "32", "--param", "q=1"), 2, "PW213"),
    "does not fit": (
        ("samples/sgemm_naive.ptx", "--block", "32", "--param", f"K={2**32}"),
        2,
        "PW214",
    ),
    "negative latency": ((str(KERNELS), "--block", "32", "--mem-latency", "-1"), 2, "PW314"),
    "no such machine": ((str(KERNELS), "--block", "32", "--machine", "none"), 2, "PW301"),
    "no such option": ((str(KERNELS), "--blok", "32"), 2, "No such option"),
    "over the budget": ((str(KERNELS), "--block", "32", "--budget", "3"), 1, "PW520"),
    "weak guarantee": (
        (str(KERNELS), "--block", "32", "--machine", "rtx3070-gpgpusim", "--require", "safe-bound"),
        1,
        "PW521",
    ),
}


@pytest.mark.every(3)
@pytest.mark.parametrize("what", OPTIONS)
def test_options(what: str) -> None:
    arguments, expected, code = OPTIONS[what]
    returncode, _, error = run(*arguments)
    assert returncode == expected
    assert code in error


def test_block_over_maxntid(tmp_path: Path) -> None:
    path = tmp_path / "limited.ptx"
    path.write_text(HEADER + KERNEL.replace("\n{", "\n.maxntid 64, 1, 1\n{", 1))
    assert run(str(path), "--block", "64")[0] == 0
    returncode, _, error = run(str(path), "--block", "96")
    assert returncode == 1
    assert "PW212" in error


def test_machine_file_with_a_missing_unit(tmp_path: Path) -> None:
    text = (ROOT / "ptxwcet/machine/models/orin-ecrts2025.toml").read_text()
    path = tmp_path / "machine.toml"
    path.write_text(text.replace("\nGMEM = 1\n", "\n"))
    returncode, _, error = run(str(KERNELS), "--block", "32", "--machine", str(path))
    assert returncode == 1
    assert "PW309" in error


def test_two_kernels_give_a_row_each(tmp_path: Path) -> None:
    path = tmp_path / "two.ptx"
    refused = KERNEL.replace(" k(", " refused(").replace("ret;", "brkpt;\nret;")
    path.write_text(HEADER + KERNEL + refused)
    returncode, output, error = run(str(path), "--block", "32")
    assert returncode == 1
    assert "kernel     k\n" in output
    assert "kernel     refused\nREFUSED    [PW402]" in output
    assert "PW402" in error


def test_several_errors_of_one_file_are_all_shown(tmp_path: Path) -> None:
    path = tmp_path / "several.ptx"
    path.write_text(HEADER + KERNEL.replace("ret;", "add.s32 %r1, %q, 1;\nbra L;\nret;"))
    returncode, _, error = run(str(path), "--block", "32")
    assert returncode == 1
    assert "PW104" in error
    assert "PW106" in error


def test_unknown_opcode(tmp_path: Path) -> None:
    path = tmp_path / "unknown.ptx"
    path.write_text(HEADER + KERNEL.replace("ret;", "frobnicate.b32 %r2, %r1;\nret;"))
    returncode, _, error = run(str(path), "--block", "32")
    assert returncode == 1
    assert "PW401" in error
    returncode, output, _ = run(str(path), "--block", "32", "--on-unknown", "worst")
    assert returncode == 0
    assert "unknown" in output or "opcode without a row" in output
