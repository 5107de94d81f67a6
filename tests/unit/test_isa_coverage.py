"""``docs/isa-coverage.md`` says nothing that the tables and the corpus of today do not."""

import subprocess
import sys

from places import ROOT

PAGE = ROOT / "docs" / "isa-coverage.md"


def test_the_page_is_true():
    command = [sys.executable, str(ROOT / "benchmarks" / "isa_coverage.py"), "--out", str(PAGE)]
    done = subprocess.run([*command, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
