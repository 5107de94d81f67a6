"""What the main job loads: each module costs a third of a millisecond or more of every start."""

import subprocess
import sys

from places import ROOT

MOST_MODULES = 215
"""Of the package, for a bound of a block. Whoever raises it says why in the commit."""
LEFT_OUT = {
    *("email", "networkx", "numba", "matplotlib", "subprocess"),
    "ptxwcet.bounds.register_use",
    "ptxwcet.flow.certificates",
    "ptxwcet.flow.facts.files",
    "ptxwcet.flow.paths.advice",
    "ptxwcet.flow.variants",
    "ptxwcet.opened.nvcc",
}
PROGRAM = """
import atexit, sys
atexit.register(lambda: print(*sys.modules))
from ptxwcet.cli.main import main
main()
"""


def test_the_main_job_loads_no_more_than_it_needs() -> None:
    sgemm = str(ROOT / "samples/sgemm_naive.ptx")
    launch = ["--block", "32x32", "--param", "3=1024", "--param", "4=1024", "--param", "5=1024"]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, sgemm, *launch, "-q"],
        capture_output=True,
        text=True,
        check=True,
    )
    bound, modules = done.stdout.splitlines()
    assert bound.startswith("sgemm_naive ")
    loaded = set(modules.split())
    assert loaded & LEFT_OUT == set()
    count = sum(name.startswith("ptxwcet.") for name in loaded)
    assert MOST_MODULES - 10 <= count <= MOST_MODULES
