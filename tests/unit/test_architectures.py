"""Code for an architecture that the machine does not run is refused at every door, and code for
another one that it runs rests on a printed assumption.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from disassembler import needs_nvdisasm
from places import PACKAGE, ROOT, SAMPLES
from programs import Ended, run_program
from refusals import refusal_of

import ptxwcet
from ptxwcet.machine.architectures import runs_on
from ptxwcet.machine.loader import load_machine, shipped_machines

pytestmark = pytest.mark.fast

CUBIN = ROOT / "tests" / "data" / "sass" / "control_86.cubin"
WORDS = ("--block", "256", "--param", "3=1000")
BLOCK: dict[str, Any] = {"block": 256, "params": {3: 1000}}
KEY = "other-architecture"


@pytest.mark.parametrize(
    ("target", "capability", "of_ptx", "of_code"),
    [
        ("sm_86", "8.6", True, True),
        ("sm_80", "8.6", True, True),
        ("compute_80", "8.9", True, True),
        ("sm_86", "8.0", False, False),
        ("sm_86", "9.0", True, False),
        ("sm_52", "9.0", True, False),
        ("sm_100", "9.0", False, False),
        ("sm_90", "12.1", True, False),
        ("sm_80", "8.7", True, False),  # of an embedded GPU
        ("sm_87", "8.9", True, False),
        ("sm_87", "8.7", True, True),
        ("sm_90a", "9.0", True, True),
        ("sm_90a", "10.0", False, False),
        ("sm_100a", "10.0", True, True),
        ("sm_100a", "10.3", False, False),
        ("sm_100f", "10.3", True, False),
        ("sm_100f", "12.0", False, False),
        ("sm_120f", "12.1", True, False),
        ("sm_103f", "10.0", False, False),
        ("sm_100", "10.3", True, False),  # a cubin does not say whether it is of sm_100a
        ("nonsense", "9.0", False, False),
    ],
)
def test_who_runs_what(target: str, capability: str, of_ptx: bool, of_code: bool) -> None:
    assert runs_on(target, capability, is_code=False) is of_ptx
    assert runs_on(target, capability, is_code=True) is of_code


def ptx(folder: Path, target: str, name: str = "k.ptx") -> Path:
    text = (SAMPLES / "vector_add.ptx").read_text()
    path = folder / name
    path.write_text(text.replace(".target sm_70", f".target {target}"))
    return path


def test_machines_of_silicon_say_their_architecture() -> None:
    without = {name for name in shipped_machines() if not load_machine(name).compute_capability}
    assert all(name.startswith("orin-ecrts2025") or "gpgpusim" in name for name in without)


COMMANDS = {
    "bound": (),
    "annotate": (),
    "memory": (),
    "report": ("-o", "page.html"),
    "what-if": ("--set", "memory.latency=300"),
    "simulate": (),
    "validate": ("--runs", "1"),
    "cfg": (),
}


def refused(ended: Ended, what: str) -> None:
    assert ended.code == 1, ended.err
    assert f"error[PW329]: {what}" in ended.err + ended.out


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_refuses(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = ptx(tmp_path, "sm_86")
    ended = run_program(command, file, *WORDS, "--machine", "a100", *COMMANDS[command])
    refused(ended, "kernel vector_add is PTX for sm_86, which a GPU of compute capability 8.0")


def test_plans_and_sequences_refuse(tmp_path: Path) -> None:
    file = ptx(tmp_path, "sm_86")
    launch = 'block = 256\nparams = { 3 = 1000 }\nmachines = "a100"\n'
    (tmp_path / "plan.toml").write_text(f'[[check]]\nfiles = "{file.name}"\n{launch}')
    (row,) = ptxwcet.check(tmp_path / "plan.toml").checks
    assert (row.outcome, [one.code for one in row.problems]) == ("refused", ["PW329"])
    (tmp_path / "sweep.toml").write_text(f'[[sweep]]\nfiles = "{file.name}"\n{launch}')
    table = ptxwcet.sweep(tmp_path / "sweep.toml", workers=1)
    assert "PW329" in str(table.iloc[0].to_dict())
    (tmp_path / "frame.toml").write_text(
        f'[[launch]]\nfile = "{file.name}"\nblock = 256\ngrid = 4\nparams = {{ 3 = 1000 }}\n'
    )
    refused(run_program("sequence", tmp_path / "frame.toml", "--machine", "a100"), "kernel")


@pytest.mark.parametrize("name", ["bound", "annotate", "ports", "memory", "simulate", "report"])
def test_each_function_refuses(name: str, tmp_path: Path) -> None:
    file, given = ptx(tmp_path, "sm_90a"), {**BLOCK, "machine": "a100"}
    more = {"simulate": False} if name == "report" else {}
    with suppress(ptxwcet.PtxwcetError):
        codes = [one.code for one in getattr(ptxwcet, name)(file, **given, **more).diagnostics]
        assert codes == ["PW329"]
    assert refusal_of(ptxwcet.bound, file, **given).code == "PW329"


def test_launch_files_refuse(tmp_path: Path) -> None:
    text = (SAMPLES / "saxpy.ptx").read_text().replace(".target sm_70", ".target sm_90")
    (tmp_path / "saxpy.ptx").write_text(text)
    (tmp_path / "saxpy.cu").write_text((SAMPLES / "saxpy.cu").read_text())
    launch = SAMPLES / "launches" / "saxpy.toml"
    for more in (("--executed",), ()):
        words = ("bound", tmp_path / "saxpy.ptx", "--launch", launch, "--machine", "rtx-4070")
        refused(run_program(*words, *more), "kernel saxpy is PTX for sm_90")


@needs_nvdisasm
def test_a_cubin_of_another_major_revision_is_refused() -> None:
    named = refusal_of(ptxwcet.cfg(CUBIN, kernel="parted", machine="h200").dot)
    assert named.code == "PW329"
    assert "parted is machine code for sm_86, which a GPU of compute capability 9.0" in (
        named.message
    )
    assert named.help is not None
    assert "compile it for sm_90 ('nvcc -arch=sm_90'" in named.help
    assert "--machine rtx-4070" in named.help
    assert "h100" not in named.help
    assert "jetson" not in named.help
    assert ptxwcet.cfg(CUBIN, kernel="parted", machine="rtx-4070").dot()
    assert ptxwcet.cfg(CUBIN, kernel="parted").dot()


def test_a_linked_program_needs_what_its_newest_file_needs(tmp_path: Path) -> None:
    head = ".version 8.0\n.target {}\n.address_size 64\n"
    main = f"{head.format('sm_75')}.extern .func f();\n.visible .entry k()\n{{ call f; ret; }}\n"
    (tmp_path / "k.ptx").write_text(main)
    (tmp_path / "f.ptx").write_text(f"{head.format('sm_86')}.visible .func f()\n{{ ret; }}\n")
    given = {"link": tmp_path / "f.ptx", "block": 32}
    named = refusal_of(ptxwcet.bound, tmp_path / "k.ptx", machine="a100", **given)
    assert (named.code, "for sm_86" in named.message) == ("PW329", True)
    assert ptxwcet.bound(tmp_path / "k.ptx", machine="rtx-4070", **given).cycles


def test_the_remedies_lead_on(tmp_path: Path) -> None:
    file = ptx(tmp_path, "sm_90")
    named = refusal_of(ptxwcet.bound, file, block=256, params={3: 9}, machine="rtx-4070")
    assert named.help is not None
    found = re.search(r"machine=\W*(\w+)", named.help)
    assert found is not None
    assert ptxwcet.bound(file, block=256, params={3: 9}, machine=found[1]).cycles
    assert "compile it for sm_89" in named.help
    again = ptx(tmp_path, "sm_89", "again.ptx")
    assert ptxwcet.bound(again, block=256, params={3: 9}, machine="rtx-4070").cycles


def test_another_architecture_that_runs_is_an_assumption(tmp_path: Path) -> None:
    given = {"block": 256, "params": {3: 1000}}
    older = ptxwcet.bound(ptx(tmp_path, "sm_52"), machine="h200", **given)
    assert KEY in older.assumptions
    assert "the code is for sm_52, and the driver compiles it" in older.text()
    (row,) = [one for one in older.to_dict()["assumptions"] if one["key"] == KEY]
    assert "capability 9.0: what is compiled for sm_90 is other code" in json.dumps(row)
    for target, machine in (("sm_90", "h200"), ("sm_90a", "h200"), ("sm_52", "orin-ecrts2025")):
        assert KEY not in ptxwcet.bound(ptx(tmp_path, target), machine=machine, **given).assumptions


def test_a_machine_file_of_a_user_says_what_it_runs(tmp_path: Path) -> None:
    text = (PACKAGE / "machine/models/titan-v.toml").read_text(encoding="utf-8")
    path = tmp_path / "mine.toml"
    path.write_text(text.replace('"7.0"', '"12.0"').replace('name = "titan-v"', 'name = "mine"'))
    given = {"block": 256, "params": {3: 1000}, "machine": path}
    assert ptxwcet.bound(ptx(tmp_path, "sm_120a"), **given).cycles
    assert refusal_of(ptxwcet.bound, ptx(tmp_path, "sm_121"), **given).code == "PW329"
