"""Files, streams and headers that are not what they should be: said, and nothing is damaged."""

from __future__ import annotations

import json
import os
import stat
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from places import SAMPLES
from programs import run_program

import ptxwcet
from ptxwcet.bounds.register_use import read_register_use
from ptxwcet.emulator import launch_arrays
from ptxwcet.support import whole_files
from ptxwcet.support.csv_cells import spelled
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.input_files import MOST_DATA_BYTES, read_bytes

pytestmark = pytest.mark.fast

KERNEL = SAMPLES / "vector_add.ptx"
BOUND = (KERNEL, "--block", "256", "--param", "3=1000")
PROGRAM = (sys.executable, "-m", "ptxwcet", *map(str, BOUND))


def test_no_more_memory_than_there_is_data(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_bytes(b"x" * 3_000_000)
    code = (
        "import resource, sys\n"
        "from ptxwcet.support.input_files import MOST_DATA_BYTES, read_bytes\n"
        "resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        f"print(len(read_bytes({str(path)!r}, MOST_DATA_BYTES)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "3000000\n", done.stderr
    assert len(read_bytes(path, 3_000_000)) == 3_000_000
    with pytest.raises(OSError, match="larger"):
        read_bytes(path, 2_999_999)
    assert len(read_bytes("/proc/self/status", MOST_DATA_BYTES)) > 0


def test_permissions_stay(tmp_path: Path) -> None:
    path = tmp_path / "out.txt"
    assert run_program(*BOUND, "-o", path).code == 0
    first = stat.S_IMODE(path.stat().st_mode)
    for mode in (0o600, 0o640, first):
        path.chmod(mode)
        assert run_program(*BOUND, "-o", path).code == 0
        assert stat.S_IMODE(path.stat().st_mode) == mode
    path.write_text("older")
    path.chmod(0o444)
    shown = run_program(*BOUND, "-o", path)
    assert (shown.code, path.read_text()) == (1, "older")
    assert "Permission denied" in shown.err
    assert not list(tmp_path.glob(".ptxwcet-*"))


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(whole_files.os, "replace", full)
    path = tmp_path / "out.txt"
    shown = run_program(*BOUND, "-o", path)
    assert (shown.code, path.exists()) == (1, False)
    assert "No space left" in shown.err
    assert str(path) in shown.err
    assert not list(tmp_path.glob(".ptxwcet-*"))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is full")
def test_a_device_that_is_full() -> None:
    shown = run_program(*BOUND, "-o", "/dev/full")
    assert shown.code == 1
    assert "No space left" in shown.err


@pytest.mark.parametrize(("closed", "code"), [("<&-", 0), (">&-", 1), ("2>&-", 0), ("<&- 2>&-", 0)])
def test_closed_streams(closed: str, code: int) -> None:
    line = " ".join([*(f"'{one}'" for one in PROGRAM), closed])
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, "PW901" in done.stderr) == (code, False), done.stderr
    assert ("KERNEL" in done.stdout or "BOUND" in done.stdout) == (code == 0)


def test_standard_input_that_is_closed() -> None:
    line = " ".join([*(f"'{one}'" for one in PROGRAM[:3]), "- --block 32 <&-"])
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert "PW901" not in done.stderr
    assert done.returncode in (1, 2)


@pytest.mark.parametrize("number", ["08", "0x", "0b2", "0b", "09U"])
def test_numbers_of_files(number: str) -> None:
    text = f'.version 8.0\n.target sm_80\n.address_size 64\n.file {number} "x.cu"\n'
    with pytest.raises(PtxwcetError) as raised:
        ptxwcet.bound(text + ".entry k() { ret; }\n", block=32)
    assert "PW901" not in [one.code for one in raised.value.diagnostics]


def elf(begin: int = 64, size: int = 64, count: int = 3, section: bytes = b"") -> bytes:
    """A file of 64 bits that says it is for CUDA and has so many sections."""
    head = bytearray(b"\x7fELF\x02\x01" + bytes(58))
    struct.pack_into("<H", head, 18, 190)
    struct.pack_into("<Q", head, 40, begin)
    struct.pack_into("<HH", head, 58, size, count)
    return bytes(head) + section * count


def section(kind: int, offset: int, size: int, link: int = 0) -> bytes:
    return struct.pack("<IIQQQQIIQQ", 0, kind, 0, 0, offset, size, link, 0, 0, 0)


LARGEST = (1 << 64) - 1
INFO = 0x70000000
LIARS = {
    "far sections": elf(begin=LARGEST),
    "far, but an index": elf(begin=(1 << 63) - 1),
    "far symbols": elf(section=section(2, LARGEST, 48)),
    "endless symbols": elf(section=section(2, 0, LARGEST)),
    "far names": elf(section=section(2, 0, 240, link=LARGEST & 0xFFFF)),
    "far info": elf(section=section(INFO, LARGEST, LARGEST)),
    "one section over and over": elf(size=0, count=65_535)[:64] + section(2, 0, 1 << 20) * 20_000,
    "all of it symbols, often": elf(count=60_000, section=section(2, 0, 3_000_000)),
}


@pytest.mark.parametrize("case", LIARS)
def test_headers_that_lie(case: str, tmp_path: Path) -> None:
    path = tmp_path / "k.cubin"
    path.write_bytes(LIARS[case])
    shown = run_program(*BOUND, "--grid", "4", "--registers", path)
    assert "PW317" in shown.err
    assert "PW901" not in shown.err


def test_no_kernel_has_no_registers(tmp_path: Path) -> None:
    path = tmp_path / "info.txt"
    text = "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
    path.write_text(text + "ptxas info    : Used 0 registers, 380 bytes cmem[0]\n")
    with pytest.raises(PtxwcetError) as raised:
        read_register_use(str(path))
    assert raised.value.diagnostics[0].code == "PW317"


def test_a_file_of_attacks_that_exits(tmp_path: Path) -> None:
    path = tmp_path / "attacks.py"
    path.write_text("import sys\nsys.exit(0)\n")
    shown = run_program("validate", "attack", path, "-o", tmp_path / "out", "--cases", "1")
    assert shown.code == 2
    assert "PW831" in shown.err


def test_large_bounds_can_be_compared(tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    assert run_program(*BOUND, "--format", "json", "-o", path).code == 0
    large = tmp_path / "new.json"
    text = path.read_text()
    changed = json.loads(text.replace(": 662", f": {662 * 10**60}"))
    assert changed != json.loads(text)
    del changed["digest"]
    large.write_text(json.dumps(changed))
    assert "PW580" not in run_program("compare", path, large).err


@pytest.mark.parametrize(
    ("cell", "written"),
    [
        ("=1+1", "'=1+1"),
        ("@x", "'@x"),
        ("+x", "'+x"),
        ("-x", "'-x"),
        ("\t=x", "'\t=x"),
        ("'=x", "''=x"),
        ("'x", "'x"),
        ("-1", "-1"),
        ("-1.5e3", "-1.5e3"),
        ("k.ptx", "k.ptx"),
        ("", ""),
    ],
)
def test_cells(cell: str, written: str) -> None:
    assert spelled(cell) == written
    assert spelled(-1) == -1


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("zeros", {}),
        ("ones", {}),
        ("value", {"value": 3}),
        ("arange", {"start": 99, "step": -1}),
        ("uniform", {"low": 0.5, "high": 90.0, "seed": 4}),
        ("integers", {"low": 0, "high": 100, "seed": 5}),
    ],
)
@pytest.mark.parametrize("dtype", ["uint8", "int64", "float32"])
def test_arrays_made_in_parts(
    kind: str, settings: dict[str, float], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = launch_arrays.ArraySource(None, dtype, (9, 11), kind, settings)
    whole = source.build()
    monkeypatch.setattr(launch_arrays, "_PART", 7)
    parts = source.build()
    assert (parts.dtype, parts.tobytes()) == (whole.dtype, whole.tobytes())
    assert whole.dtype == dtype
    assert kind not in ("value", "arange") or whole[0, 1] == settings.get("value", 98)
