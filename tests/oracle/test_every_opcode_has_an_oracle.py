"""Every opcode that is executed occurs in an oracle test: a new row needs one."""

import re
from pathlib import Path

import pytest

from ptxwcet.emulator.semantics import SEMANTICS

# Hints, fences and ends of life: they have no result that could be compared.
WITHOUT_RESULT = {
    "applypriority", "bar.warp.sync", "cp.async.bulk.commit_group", "cp.async.bulk.wait_group",
    "createpolicy", "discard", "fence", "griddepcontrol.launch_dependents", "griddepcontrol.wait",
    "ldu", "mbarrier.inval", "membar", "nanosleep", "pmevent", "prefetch", "prefetchu",
    "setmaxnreg",
}  # fmt: skip
TESTS = Path(__file__).parent
TEXT = "\n".join(path.read_text() for path in sorted(TESTS.glob("test_emulator_*.py")))


@pytest.mark.parametrize("name", sorted(set(SEMANTICS) - WITHOUT_RESULT))
def test_opcode(name):
    assert re.search(rf"(?<![\w.]){re.escape(name)}(?![\w])", TEXT), "no oracle test names it"
