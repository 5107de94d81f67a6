"""Keys of kept answers: all that an answer rests on changes them, and nothing else is opened."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import fields, replace
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import IO, Any

import numpy as np
import pytest
from places import ROOT, SAMPLES

from ptxwcet.bounds.wishes import GridWishes, Spills
from ptxwcet.commands.bound.answers import answer_kernel
from ptxwcet.commands.check.study import answer_keyed, read_plan
from ptxwcet.machine import loader
from ptxwcet.machine.loader import machine_files
from ptxwcet.opened import inputs, opening
from ptxwcet.opened.inputs import ChangedFile, Inputs, read_unchanged
from ptxwcet.opened.request import Request
from ptxwcet.support import input_files
from ptxwcet.support.first_use import cache_folder
from ptxwcet.support.input_files import supplied_inputs
from ptxwcet.support.plugins import BOUND_METHODS, Plugin
from ptxwcet.sweeps.kernel_work import bound_unit, kernel_unit

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.const .align 4 .b8 weights[8];
.file 1 "{folder}/k.cpp"
.visible .entry k(.param .u64 k_param_0, .param .u32 k_param_1)
{{
.reg .b32 %r<9>; .reg .b64 %d<4>; .reg .pred %p<9>;
.loc 1 3 1
ld.param.u32 %r1, [k_param_1]; mov.u32 %r2, 0;
L: add.s32 %r2, %r2, 1; setp.lt.s32 %p1, %r2, %r1; @%p1 bra L;
ret;
}}
"""
LAUNCH = """kernel = "k"
block = 32
grid = 2
[arguments]
k_param_0 = { shape = 4, dtype = "float32", init = "ones" }
k_param_1 = 7
[variables]
weights = { file = "weights.npy" }
"""
MACHINE = """schema = 1
extends = "orin-ecrts2025"
name = "mine"
description = "mine"
"""
PTXAS = """ptxas info    : Compiling entry function 'k' for 'sm_80'
ptxas info    : Used 24 registers, 368 bytes cmem[0]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kernel with all that may lie around it; the working directory."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "k.ptx").write_text(KERNEL.format(folder=tmp_path))
    (tmp_path / "launch.toml").write_text(LAUNCH)
    np.save(tmp_path / "weights.npy", np.ones(2, np.float32))
    (tmp_path / "machine.toml").write_text(MACHINE)
    (tmp_path / "ptxas.txt").write_text(PTXAS)
    digest = hashlib.sha256((tmp_path / "k.ptx").read_bytes()).hexdigest()
    (tmp_path / "facts.toml").write_text(f'ptx = "sha256:{digest}"\n')
    for name in ("k.cpp", "k.cu", "other.cu"):
        (tmp_path / name).write_text("__global__ void k(float *out, int n) {}\n")
    return tmp_path


def plain() -> Request:
    """With options: names come from the source beside the PTX."""
    return Request("k.ptx", ("k",), "32", "2", ("n=7",), machine="machine.toml")


def whole() -> Request:
    """With all files that can be named."""
    return Request(
        "k.ptx",
        ("k",),
        source="other.cu",
        machine="machine.toml",
        launch_file="launch.toml",
        facts_file="facts.toml",
        ptxas_info="ptxas.txt",
    )


def key(request: Request) -> str:
    return Inputs().keyed(request).key


CHANGES: dict[str, Any] = {
    "path": "./k.ptx",
    "kernels": (),
    "block": "64",
    "grid": None,
    "parameters": ("n=8",),
    "source": "other.cu",
    "loop_bounds": ("L=9",),
    "machine": "titan-v",
    "memory_latency_cycles": 300,
    "unknown_at_worst": True,
    "policy": "gto",
    "method": "scheduled",
    "launch_file": "launch.toml",
    "facts_file": "facts.toml",
    "text": "",
    "links": ("library.ptx",),
    "ptxas_info": "ptxas.txt",
    "asks_ptxas": True,
    "is_code": True,
    "how": "by nvcc",
    "parameter_names": (("k", ("count",)),),
}


def test_every_field_changes_the_key(folder: Path) -> None:
    assert {*CHANGES, "gpu"} == {field.name for field in fields(Request)}
    changed = [replace(plain(), **{name: value}) for name, value in CHANGES.items()]
    said: dict[str, Any] = {"sms": 3, "resident_blocks": 2, "registers": 9}
    said |= {
        "registers_source": "x",
        "launch_gap_cycles": 5,
        "co_runner": "96 bytes",
        "dynamic_shared": 0,
        "spills": Spills(8, 4),
    }
    assert set(said) == {field.name for field in fields(GridWishes)}
    changed += [replace(plain(), gpu=GridWishes(**{name: said[name]})) for name in said]
    keys = [key(request) for request in (plain(), *changed)]
    assert len(set(keys)) == len(keys)
    in_one = Inputs()
    assert [in_one.keyed(request).key for request in (plain(), *changed)] == keys


@pytest.mark.parametrize(
    ("request_of", "names"),
    [
        (plain, ("k.ptx", "k.cu", "machine.toml")),
        (
            whole,
            (
                *("k.ptx", "other.cu", "machine.toml", "launch.toml", "weights.npy"),
                *("facts.toml", "ptxas.txt"),
            ),
        ),
    ],
)
def test_every_file_changes_the_key(
    request_of: Callable[[], Request], names: tuple[str, ...], folder: Path
) -> None:
    request = request_of()
    before = key(request)
    for name in names:
        file = folder / name
        data = file.read_bytes()
        file.write_bytes(data + b"\n")
        changed = key(request)
        file.unlink()
        without = key(request)
        file.mkdir()
        unreadable = key(request)
        file.rmdir()
        assert len({before, changed, without, unreadable}) == 4, name
        file.write_bytes(data)
        assert key(request) == before, name


def test_the_source_that_lines_are_of(folder: Path) -> None:
    (folder / "k.cu").unlink()
    before = key(plain())
    (folder / "k.cpp").write_text("__global__ void k(float *out, int m) {}\n")
    changed = key(plain())
    (folder / "k.cpp").unlink()
    assert len({before, changed, key(plain())}) == 3
    (folder / "k.cu").write_text("// appears\n")
    assert key(plain()) != before


def test_what_a_machine_extends(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = key(plain())
    other = folder / "base.toml"
    other.write_text("changed")
    monkeypatch.setattr(inputs, "machine_files", lambda name: (*machine_files(name)[:1], other))
    assert key(plain()) != before


def test_the_installation(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, here = key(plain()), dict(inputs.describe_here())
    for name in here:
        monkeypatch.setattr(inputs, "describe_here", lambda n=name: here | {n: "another"})
        assert key(plain()) != before, name


def test_what_is_no_input_changes_nothing(folder: Path) -> None:
    before = [key(plain()), key(whole())]
    (folder / "other.ptx").write_text("another")
    for file in folder.iterdir():
        os.utime(file, (1, 1))
    assert [key(plain()), key(whole())] == before
    (folder / "k.cu").write_text("changed")  # --source is given
    assert key(whole()) == before[1]


def test_the_working_directory_counts_where_names_are_shown_from_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = Request(str(folder / "k.ptx"), ("k",), "32", parameters=("n=7",))
    here = key(request)
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    assert key(request) != here


@pytest.mark.parametrize("machine", ["nowhere.toml", "extends = 5", "extends = 'x'", "[", "\0"])
def test_machines_that_are_none(machine: str, folder: Path) -> None:
    (folder / "machine.toml").write_text(machine)
    request = replace(plain(), machine=machine if "." in machine else "machine.toml")
    keyed = Inputs().keyed(request)
    with supplied_inputs(read_unchanged(keyed)):
        found = answer_kernel(request)
    assert found == answer_kernel(request)


def test_changed_files_are_told(folder: Path) -> None:
    known = Inputs()
    keyed = known.keyed(whole())
    first = read_unchanged(keyed)
    assert known.supplied(keyed) == first
    assert len(first.files) >= 7
    for path in first.files:
        data = (folder / path).read_bytes()
        (folder / path).write_bytes(data + b"\n")
        with pytest.raises(ChangedFile):
            read_unchanged(keyed)
        (folder / path).unlink()
        with pytest.raises(ChangedFile):
            read_unchanged(keyed)
        (folder / path).write_bytes(data)
    assert read_unchanged(keyed) == first


PARTS = 12  # of the launches
OPENS = """
import json, os, sys
from ptxwcet.machine.loader import machine_files
from ptxwcet.commands.bound.answers import answer_kernel
from ptxwcet.commands.check.study import answer_keyed
from ptxwcet.opened.inputs import KeyedRequest, read_unchanged
from ptxwcet.support.first_use import cache_folder
from ptxwcet.support.input_files import supplied_inputs
from ptxwcet.support.plugins import BOUND_METHODS, Plugin
import pickle

opened, supplied = [], []

def note(event, arguments):
    if event == "open" and not isinstance(arguments[0], int):
        opened.append(os.path.realpath(os.fsdecode(arguments[0])))

requests = pickle.loads(sys.stdin.buffer.read())
os.chdir(sys.argv[1])
sys.addaudithook(note)
answers = []
for request, inputs in requests:
    with supplied_inputs(inputs):
        answers.append(answer_kernel(request).to_json())
json.dump([opened, answers], sys.stdout)
"""


@pytest.mark.parametrize(
    "part", [0, *(pytest.param(part, marks=pytest.mark.thorough) for part in range(1, PARTS))]
)
def test_nothing_else_is_opened(part: int, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples, launches and the plan, analysed from memory in another working directory."""
    known = Inputs()
    mine = [plain(), whole(), replace(plain(), machine="nowhere.toml", block=None)]
    asked = [(request, read_unchanged(known.keyed(request))) for request in mine]
    direct = [answer_kernel(request).to_json() for request in mine]
    assert [one["answer"]["status"] for one in direct] == ["bounded", "bounded", "refused"]
    monkeypatch.chdir(ROOT)
    known = Inputs()
    samples = [job.request for job in read_plan("samples/ptxwcet.toml").jobs]
    for launch in sorted((SAMPLES / "launches").glob("*.toml"))[part::PARTS]:
        name = f".entry {tomllib.loads(launch.read_text())['kernel']}("
        ptx = next(one for one in sorted(SAMPLES.glob("*.ptx")) if name in one.read_text())
        path, launch_file = (str(one.relative_to(ROOT)) for one in (ptx, launch))
        samples.append(Request(path, launch_file=launch_file, machine="titan-v"))
    asked += [(request, read_unchanged(known.keyed(request))) for request in samples]
    direct += [answer_kernel(request).to_json() for request in samples]
    ended = subprocess.run(
        [sys.executable, "-c", OPENS, str(folder / "..")],
        input=pickle.dumps(asked),
        capture_output=True,
        check=True,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    opened, answers = json.loads(ended.stdout)
    assert answers == json.loads(json.dumps(direct))
    installed = [ROOT / "ptxwcet", ROOT / "grammar", Path(sys.prefix), Path(sys.base_prefix)]
    installed += [Path(folder) for folder in (cache_folder(),) if folder]
    allowed = tuple(os.path.realpath(one) + os.sep for one in installed)
    assert [one for one in opened if not one.startswith(allowed)] == []


def test_an_array_whose_size_an_option_states(folder: Path) -> None:
    """Its file is opened to compare the size, so it is one of the inputs."""
    np.save(folder / "out.npy", np.ones(4, np.float32))
    launch = LAUNCH.replace(
        '{ shape = 4, dtype = "float32", init = "ones" }', '{ file = "out.npy" }'
    )
    (folder / "launch.toml").write_text(launch)
    known = Inputs()
    for parameters in ((), ("k_param_0=bytes:16",)):
        keyed = known.keyed(replace(whole(), parameters=parameters))
        assert ("out.npy" in dict(keyed.files)) is bool(parameters)
        assert answer_keyed(keyed).is_of_key


def test_a_module_is_parsed_of_what_is_there_when_it_is_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the file changes for a moment, or the text is given."""
    file, one = folder / "k.ptx", (folder / "k.ptx").read_text()
    two = one.replace("%r2, 1;", "%r2, 2;")

    def changing(path: object, most: int) -> IO[bytes]:
        data = io.BytesIO(file.read_bytes())
        file.write_text(two)
        return data

    with monkeypatch.context() as patched:
        patched.setattr(input_files, "open_input", changing)
        opening.recent_module(plain())
    file.write_text(one)
    assert opening.recent_module(plain()).source.text == one
    assert opening.recent_module(plain()) is opening.recent_module(plain())
    assert opening.recent_module(replace(plain(), text=two)).source.text == two


@pytest.mark.parametrize("name", ["plugged_in_here.py", "plugged_in_here/part.py"])
def test_the_sources_of_other_packages(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a package that is being written the version says nothing."""
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.with_name("__init__.py").touch()
    entry = EntryPoint("mine", "plugged_in_here:METHOD", BOUND_METHODS)
    found = {BOUND_METHODS: (Plugin("mine", "plugged-in", entry),)}
    monkeypatch.setattr(inputs, "plugins", lambda group: found.get(group, ()))
    monkeypatch.syspath_prepend(folder)
    told = []
    for text in ("METHOD = 1\n", "METHOD = 2\n", "METHOD = 1\n"):
        file.write_text(text)
        told.append(inputs.describe_here.__wrapped__())
    assert told[0] == told[2] != told[1]
    assert f"{BOUND_METHODS}: mine" in told[0]


def test_a_file_that_is_read_for_something_else_is_no_source_of_lines(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies outside of the working directory, where sources of lines are not looked for."""
    (folder / "k.cu").unlink()
    launch = folder / "launch.toml"
    called = LAUNCH.replace("k_param_0", "out").replace("k_param_1", "n")
    called = called.partition("[variables]")[0]
    launch.write_text(f"# __global__ void k(float *out, int n) {{}}\n{called}")
    (folder / "k.ptx").write_text(KERNEL.format(folder=folder).replace("k.cpp", "launch.toml"))
    (folder / "below").mkdir()
    request = Request(str(folder / "k.ptx"), ("k",), launch_file=str(launch))
    for place, status in (("below", "refused"), (".", "bounded")):
        monkeypatch.chdir(folder / place)
        found = answer_keyed(Inputs().keyed(request))
        assert found.is_of_key
        assert found.kept == answer_kernel(request)
        assert found.kept.to_json()["answer"]["status"] == status


def test_a_machine_of_a_package_that_changes_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is read from its package at the analysis: what it says then is none of an older key."""
    models = tmp_path / "models"
    shutil.copytree(loader._MODELS, models)
    monkeypatch.setattr(loader, "_MODELS", models)
    request = Request(
        str(SAMPLES / "saxpy.ptx"), ("saxpy",), "64", "4", ("n=100",), machine="orin-ecrts2025"
    )
    inputs = Inputs()
    keyed = inputs.keyed(request)
    unit = kernel_unit(0, keyed, inputs.supplied(keyed))
    right = answer_keyed(keyed)
    assert right.is_of_key
    assert bound_unit(unit.payload, unit.shared)["answer"] is not None
    file = models / "orin-ecrts2025.toml"
    text = file.read_text()
    file.write_text(re.sub(r"(?m)^memory_latency_cycles = \d+", "memory_latency_cycles = 10", text))
    assert file.read_text() != text
    assert not answer_keyed(keyed).is_of_key
    value = bound_unit(unit.payload, unit.shared)
    assert (value["answer"], value["summary"]["code"]) == (None, "PW804")
    file.write_text(text)
    assert answer_keyed(keyed).kept == right.kept
