"""The boxes of tensor maps, as every door takes them; what is no box is refused."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from places import ROOT
from programs import run_program

import ptxwcet

FILE = ROOT / "tests" / "data" / "engines" / "engines.ptx"
BOTH = ("-k", "there_and_back", "--block", "64")
RING = ("-k", "tensor_ring", "--block", "128", "--param", "tiles=6")
ENGINE = """schema = 1
extends = "orin-ecrts2025"
name = "with-engine"
[units]
TMA = 1
[sources]
test = "a test"
[ops]
"""
TIMES = "initiation_cycles = 4, latency_cycles = 25"
ROW = 'unit = "{}", ' + TIMES + ', {}evidence = "assumed", source = "test"'
ROWS = (
    ("mbarrier", "MEM", ""),
    ("mbarrier_wait", "MEM", "rates = { try_wait = 4000 }, "),
    ("async_bulk", "TMA", "rates = { bytes = 32, tensor_bytes = 32 }, "),
)


@pytest.fixture
def machine(tmp_path: Path) -> str:
    path = tmp_path / "engine.toml"
    rows = "".join(f"{name} = {{ {ROW.format(unit, rates)} }}\n" for name, unit, rates in ROWS)
    path.write_text(ENGINE + rows, encoding="utf-8")
    return str(path)


def test_each_door_takes_the_box(machine: str, tmp_path: Path) -> None:
    boxes = {"problem+128": "box:64x16:4", "problem+256": "box:64x16:4"}
    given = [word for name, box in boxes.items() for word in ("--param", f"{name}={box}")]
    said = run_program("bound", FILE, *BOTH, "--machine", machine, *given)
    assert said.code == 0, said.err
    assert "16 bytes: problem+128 64x16:4, problem+256 64x16:4 [assumed]" in said.out
    found = ptxwcet.bound(FILE, kernel=BOTH[1], block=64, machine=machine, params=boxes)
    assert f"{found.cycles:,} cycles" in said.out
    facts = tmp_path / "facts.toml"
    whole = hashlib.sha256(FILE.read_bytes()).hexdigest()
    table = "".join(f'"{name}" = "{box}"\n' for name, box in boxes.items())
    facts.write_text(f'ptx = "sha256:{whole}"\n[parameters.{BOTH[1]}]\n{table}')
    by_file = run_program("bound", FILE, *BOTH, "--machine", machine, "--facts", facts)
    assert f"{found.cycles:,} cycles" in by_file.out, by_file.err


@pytest.mark.parametrize(
    ("fact", "code", "message"),
    [
        ("in=box:64x4", "PW214", "'64x4' is no box of a tensor map"),
        ("in=box:3x4:4", "PW214", "a multiple of 16 bytes"),
        ("in=box:64x257:4", "PW214", "1 to 256 elements"),
        ("in=box:64x4:3", "PW214", "the bytes of an element"),
        ("in=box:64x1x1x1x1x1:4", "PW214", "is no box"),
        ("in+64=box:64x4:4", "PW213", "has no parameter 'in+64'"),
        ("out=box:64x4:4", "PW214", "tensor maps of its copies: in"),
        ("tiles=box:64x4:4", "PW214", "tiles is no pointer"),
        ("nothing=box:64x4:4", "PW213", "has no parameter 'nothing'"),
        ("in=align:64", "PW214", "in is an aggregate"),
    ],
)
def test_what_is_no_box_is_refused(machine: str, fact: str, code: str, message: str) -> None:
    told = run_program("bound", FILE, *RING, "--machine", machine, "--param", fact)
    assert told.code == 2
    assert f"error[{code}]" in told.err
    assert message in told.err
