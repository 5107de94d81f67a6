"""An option is declared once: a row of the table is all that the program needs of it."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter

import click
import command_tree as tree
import pytest
from places import PACKAGE, ROOT, SAMPLES

from ptxwcet.claims import Guarantee
from ptxwcet.support.options import OPTIONS, Words

pytestmark = pytest.mark.fast

TABLE = PACKAGE / "support/options.py"
ROW = """
    multiprocessors: Annotated[
        int | None,
        whole(1, 64)(
            "--multiprocessors N", "A throw-away.", EVERY_PLAN, field="sms", launch_key="mps"
        ),
    ]
"""
"""A throw-away option, which says what ``sms`` says."""
PROGRAM = """
import inspect, json, sys
from types import ModuleType

table = ModuleType("ptxwcet.support.options")
sys.modules[table.__name__] = table
exec(compile(sys.stdin.read(), "options.py", "exec"), vars(table))

import ptxwcet
from programs import run_program
from ptxwcet.library.hints import in_python
from ptxwcet.sweeps.sweep_plan import read_sweep_plan

sys.path.insert(0, sys.argv[1])
import man_page


def asked(*words):
    ended = run_program(*words)
    return ended.out + ended.err


def launched(*words):
    return json.loads(run_program(*words, "--format", "json").out)


def in_python_call(**given):
    try:
        launch = {"block": 64, "grid": 64, "params": {"n": 4096}, "machine": "titan-v"}
        return ptxwcet.bound("v.ptx", **launch, **given).launch_cycles
    except (TypeError, ptxwcet.PtxwcetError) as error:
        return str(error)


titan = ("--machine", "titan-v")
bound = ("bound", "v.ptx", "--block", "64", "--grid", "64", "--param", "n=4096", *titan)
check = ("check", "check.toml", "--workers", "1")
found = {
    "help": asked("bound", "--help"),
    "manual": man_page.manual_page(),
    "command line": launched(*bound, "--multiprocessors", "3")["kernels"][0]["launch"]["cycles"],
    "too many on the line": asked(*bound, "--multiprocessors", "65"),
    "check": launched(*check)["checks"][0]["answer"]["launch"]["cycles"],
    "sequence": launched("sequence", "sequence.toml", *titan)["cycles"],
    "sweep": [
        unit.request.gpu.sms
        for unit in read_sweep_plan(
            "sweep.toml"
        ).units()
    ],
    "too many in a plan": asked("check", "wrong.toml"),
    "launch file": asked("bound", "s.ptx", "--launch", "launch.toml", "-q"),
    "too many in a launch file": asked("bound", "s.ptx", "--launch", "wrong_launch.toml"),
    "Python": in_python_call(multiprocessors=3),
    "no number in Python": in_python_call(multiprocessors="3"),
    "signature": str(inspect.signature(ptxwcet.bound)),
    "words of Python": in_python("give --multiprocessors 3"),
    "sms": in_python_call(sms=3),
    "left out": in_python_call(),
}
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What the program says when the table has the throw-away option."""
    folder = tmp_path_factory.mktemp("once")
    for name, short in (("vector_add", "v"), ("saxpy", "s")):
        for end in ("ptx", "cu"):
            (folder / f"{short}.{end}").write_text((SAMPLES / f"{name}.{end}").read_text())
    launch = (SAMPLES / "launches/saxpy.toml").read_text()
    kernel = "block = 64\ngrid = 64\nparams = { n = 4096 }\n"
    for name, text in {
        "check": f'[[check]]\nmachines = "titan-v"\nfiles = "v.ptx"\n{kernel}multiprocessors = 3\n',
        "wrong": f'[[check]]\nfiles = "v.ptx"\n{kernel}multiprocessors = 65\n',
        "sequence": f'[[launch]]\nfile = "v.ptx"\n{kernel}multiprocessors = 3\n',
        "sweep": f'[[sweep]]\nfiles = "v.ptx"\n{kernel}multiprocessors = [3, 5]\n',
        "launch": f"mps = 3\n{launch}",
        "wrong_launch": f"mps = 65\n{launch}",
    }.items():
        (folder / f"{name}.toml").write_text(text)
    before, header, after = TABLE.read_text().partition("class GridArguments")
    docstring, end, rest = after.partition('bound``."""\n')
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, ROOT / "docs"],
        input=before + header + docstring + end + ROW + rest,
        env={"PYTHONPATH": f"{ROOT}:{ROOT / 'tests/support'}", "PATH": ""},
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_a_row_of_the_table_is_an_option_everywhere(found: dict[str, str]) -> None:
    assert "--multiprocessors N" in found["help"]
    assert "A throw-away.  [1<=x<=64]" in found["help"]
    assert "multiprocessors" in found["manual"]
    assert "multiprocessors: int | None = None" in found["signature"]
    assert found["words of Python"] == "give multiprocessors=3"
    assert found["sms"] != found["left out"]
    for entry in ("command line", "check", "sequence", "Python"):
        assert found[entry] == found["sms"], entry
    assert found["sweep"] == [3, 5]  # type: ignore[comparison-overlap]
    assert "safe-bound" in found["launch file"]


def test_its_values_are_checked_everywhere(found: dict[str, str]) -> None:
    assert "65 is not in the range 1<=x<=64" in found["too many on the line"]
    assert "multiprocessors is a whole number from 1 to 64" in found["too many in a plan"]
    assert "mps 65 is no number from 1 to 64" in found["too many in a launch file"]
    assert "multiprocessors='3' is none: a whole number is wanted" in found["no number in Python"]


def test_options_of_several_commands_are_rows_of_the_table() -> None:
    commands: Counter[str] = Counter()
    declared = {word for row in OPTIONS.values() for word in row.words.split()}
    for _, command in tree.all_commands():
        own = (one for one in command.params if isinstance(one, click.Option))
        commands.update(word for one in own for word in one.opts)
    of_all = {"-q", "--quiet", "-v", "--verbose", "--color"}
    several = {word for word, times in commands.items() if times > 1}
    assert several - declared - of_all == set()


def test_no_option_of_the_table_is_declared_a_second_time() -> None:
    declared = {word for row in OPTIONS.values() for word in row.words.split()}
    again = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("click.option", "Option"):
                words = {str(one.value) for one in node.args if isinstance(one, ast.Constant)}
                again += [f"{path.name}: {word}" for word in words & declared]
    assert again == []


def test_guarantees_of_the_table_are_guarantees() -> None:
    kind = OPTIONS["require"].kind
    assert isinstance(kind, Words)
    assert kind.words == (Guarantee.SAFE_BOUND.value, Guarantee.ESTIMATE.value)
