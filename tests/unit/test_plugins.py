"""Machines and bound methods of other packages, found by their entry points."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from places import ROOT
from programs import run_program
from refusals import refusals_of

from ptxwcet.bounds import methods
from ptxwcet.bounds.methods import METHODS, SAFE, all_methods, names_to_report
from ptxwcet.machine.loader import load_machine, machine_names
from ptxwcet.support.plugins import plugins

pytestmark = pytest.mark.fast

VECTOR_ADD = (str(ROOT / "samples/vector_add.ptx"), "--block", "256", "--param", "n=1000")
MODULE = """
from dataclasses import replace
from pathlib import Path
from ptxwcet.bounds.methods import BoundMethod
from ptxwcet.bounds.safe import bound_safe

SLOW = str(Path(__file__).parent / "slow.toml")

def doubled(analysis):
    found = bound_safe(analysis)
    return replace(found, claim=replace(found.claim, cycles=2 * found.cycles))

def raising(analysis):
    raise RuntimeError("no luck")

DOUBLED = BoundMethod("x", "twice the safe bound", "", doubled)
RAISING = BoundMethod("x", "always fails", "", raising)
NO_METHOD = 7
"""
ENTRIES = """
[ptxwcet.machines]
slow = plugged_in:SLOW
orin-ecrts2025 = plugged_in:SLOW
lost = plugged_in:NO_SUCH_THING

[ptxwcet.bound_methods]
doubled = plugged_in:DOUBLED
raising = plugged_in:RAISING
number = plugged_in:NO_METHOD
safe = plugged_in:DOUBLED
"""


@pytest.fixture(autouse=True)
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A package that plugs in machines and methods, some of them broken."""
    (tmp_path / "plugged_in.py").write_text(MODULE)
    (tmp_path / "slow.toml").write_text(
        'schema = 1\nextends = "orin-ecrts2025"\nname = "slow"\ndescription = "slow"\n'
        "memory_latency_cycles = 400\n"
    )
    metadata = tmp_path / "plugged_in-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged-in\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(tmp_path)
    plugins.cache_clear()
    yield
    plugins.cache_clear()
    sys.modules.pop("plugged_in", None)


def test_a_machine_goes_by_its_name() -> None:
    assert {"slow", "lost"} < set(machine_names())
    assert load_machine("slow").memory_latency_cycles == 400
    code, out, _ = run_program(*VECTOR_ADD, "--machine", "slow", "-q")
    assert (code, out) == (0, "vector_add 1062 safe-bound\n")


def test_the_tools_own_names_stay_its_own() -> None:
    assert load_machine("orin-ecrts2025").memory_latency_cycles == 200
    assert [one.name for one in all_methods()][: len(METHODS)] == [one.name for one in METHODS]
    assert all_methods()[0] is METHODS[0]


def test_a_machine_that_cannot_be_loaded_is_refused() -> None:
    (problem,) = refusals_of(load_machine, "lost")
    assert problem.code == "PW302"
    assert "'lost' of package plugged-in cannot be loaded" in problem.message


def test_methods_answer_beside_the_tools_own() -> None:
    code, out, _ = run_program(*VECTOR_ADD, "--format", "json")
    assert code == 0
    (kernel,) = json.loads(out)["kernels"]
    rows = {row["method"]: row for row in kernel["bounds"]}
    assert kernel["bound_cycles"] == 662
    assert (rows["doubled"]["title"], rows["doubled"]["cycles"]) == ("twice the safe bound", 1324)
    assert rows["raising"]["cycles"] is None
    assert "raising of package plugged-in failed: RuntimeError: no luck" in rows["raising"]["note"]
    assert "it is a int, not a BoundMethod" in rows["number"]["note"]


def test_what_another_package_says_rests_on_it() -> None:
    code, out, _ = run_program(*VECTOR_ADD, "--method", "doubled")
    assert code == 0
    assert "BOUND      1,324 cycles" in out
    assert "the method doubled of package plugged-in is right [assumed]" in out
    assert run_program(*VECTOR_ADD, "--method", "none")[0] == 2
    code, _, err = run_program(*VECTOR_ADD, "--method", "raising")
    assert code == 1
    assert "error[PW536]: method raising gives no bound" in err


def test_a_row_of_the_registry_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(methods, "METHODS", (*METHODS, replace(SAFE, name="tighter")))
    assert "tighter" in names_to_report()
    assert not {"gub", "lower"} & set(names_to_report())
    done = run_program("bound", *VECTOR_ADD, "--method", "tighter")
    assert done.code == 0


def test_names_load_no_method() -> None:
    code = (
        "import sys; from ptxwcet.bounds.methods import names_to_report; names_to_report();"
        "print(sorted({'numpy', 'ptxwcet.bounds.safe', 'ptxwcet.timing'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
