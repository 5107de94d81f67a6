"""``docs/isa-coverage.md`` is what the command makes of the tables and the corpus of today."""

import subprocess
import sys
from pathlib import Path

from ptxwcet.ir.opcodes import OPCODES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "isa-coverage.md"


def test_the_page_is_up_to_date():
    command = [sys.executable, str(ROOT / "benchmarks" / "isa_coverage.py"), "--out", str(PAGE)]
    done = subprocess.run([*command, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_opcode_has_a_row():
    rows = {line.split("|")[1].strip() for line in PAGE.read_text().splitlines() if "|" in line}
    assert set(OPCODES) <= rows
