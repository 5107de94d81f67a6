"""Files of every kind refuse keys that they do not know, in every table, and name a near one."""

from __future__ import annotations

import copy
import hashlib
import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from places import ROOT, SAMPLES
from programs import run_program

pytestmark = pytest.mark.fast

SAXPY = str(SAMPLES / "saxpy.ptx")
SHARED = (
    f'files = "{SAXPY}"\nblock = 64\ngrid = 4\nregisters = 30\nresident_blocks = 2\n'
    "dynamic_shared = 0\n"
)
FACTS = f"""ptx = "sha256:{hashlib.sha256(Path(SAXPY).read_bytes()).hexdigest()}"
loop = [{{ kernel = "saxpy", at = "$L__BB0_2", bound = 3, total = 9 }}]
branch = [{{ kernel = "saxpy", at = "entry", never = "taken", uniform = "block" }}]
exclusive = [{{ kernel = "saxpy", branches = [["a", "taken"], ["b", "taken"]] }}]
call = [{{ kernel = "saxpy", function = "f", at = "entry", total = 3 }}]
parameters = {{ n = 5 }}
arrays = {{ x = "s32 0..9" }}
"""
BOUND = ("bound", SAXPY, "--block", "64", "--grid", "4")
KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "check": (
        f'machines = ["titan-v"]\nrequire = "estimate"\n[[check]]\n{SHARED}kernels = ["saxpy"]\n'
        'budget = "kernel: 9 ms"\nsms = 1\nparams = { n = 9 }\nloop_bounds = {}\n',
        ("check", "--workers", "1"),
    ),
    "sweep": (
        'machines = ["titan-v"]\nmethod = "safe"\nmemory_latency = 300\n'
        f"[limits]\nmemory_mib = 900\nseconds = 9\n[[sweep]]\n{SHARED}"
        'where = "k > 0"\nparams = { n = "{k}" }\n'
        "[sweep.axes]\nk = { from = 1, to = 2, step = 1 }\n",
        ("sweep", "-o", "out"),
    ),
    "sequence": (
        f'[[launch]]\nfile = "{SAXPY}"\nkernel = "saxpy"\nblock = 64\ngrid = 4\ntimes = 2\n'
        'stream = "a"\nregisters = 30\nparams = { n = 9 }\n',
        ("sequence",),
    ),
    "facts": (FACTS, (*BOUND, "--facts")),
    "launch": (
        (SAMPLES / "launches/saxpy.toml").read_text()
        + "[expected]\ny = { shape = 1000, dtype = 'float32', init = 'ones', relative = 1 }\n",
        ("run", SAXPY, "--launch"),
    ),
    "machine": (
        (ROOT / "ptxwcet/machine/models/titan-v.toml").read_text(),
        ("machine", "check"),
    ),
}
FREE = ("axes", "units", "sources", "makespan")
"""Tables whose keys are names of the user's own."""


def tables(data: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Where tables are; of alike ones in a machine file the first few."""
    if isinstance(data, dict):
        yield path
        for number, (key, value) in enumerate(data.items()):
            if number < 4 or not path or path == ("loop",):
                yield from tables(value, (*path, key))
    elif isinstance(data, list):
        for number, value in enumerate(data):
            yield from tables(value, (*path, number))


def at(data: Any, path: tuple[str | int, ...]) -> Any:
    for key in path:
        data = data[key]
    return data


def toml(value: object) -> str:
    """A value as TOML, tables inline."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{json.dumps(k)} = {toml(v)}' for k, v in value.items())} }}"
    return f"[{', '.join(map(toml, value))}]" if isinstance(value, list) else json.dumps(value)


def refused(kind: str, data: dict[str, Any], folder: Path) -> str:
    """What is said of a file: it is refused before anything is written."""
    path = folder / f"{kind}.toml"
    path.write_text("".join(f"{json.dumps(key)} = {toml(one)}\n" for key, one in data.items()))
    words = KINDS[kind][1]
    words = (words[0], path, *words[1:]) if kind in ("check", "sweep") else (*words, path)
    ended = run_program(*words)
    assert ended.code in (1, 2), ended.out
    assert "PW901" not in ended.err
    return ended.err


CASES = [
    (kind, path)
    for kind, (text, _) in KINDS.items()
    for path in tables(tomllib.loads(text))
    if not path or path[-1] not in FREE
]


@pytest.mark.parametrize(("kind", "path"), CASES)
def test_an_unknown_key_is_refused(
    kind: str, path: tuple[str | int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    good = tomllib.loads(KINDS[kind][0])
    data = copy.deepcopy(good)
    at(data, path)["surplus"] = 1
    assert "surplus" in refused(kind, data, tmp_path) or "only" in refused(kind, data, tmp_path)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_is_misspelt_is_named(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    good = tomllib.loads(KINDS[kind][0])
    for key in good:
        data = {f"{one}x" if one == key else one: value for one, value in good.items()}
        said = refused(kind, data, tmp_path)
        assert f"{key}x" in said
        assert "did you mean" in said


@pytest.mark.parametrize("kind", KINDS)
def test_a_value_of_another_type_is_refused(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    good = tomllib.loads(KINDS[kind][0])
    for key, value in good.items():
        wrong = [[]] if isinstance(value, (str, int)) else 3
        refused(kind, {**good, key: wrong}, tmp_path)


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ('n = { value = 1, dtype = "flaot32" }', "dtype 'flaot32' is none of a scalar"),
        ('n = { value = 1, dtype = "int64" }', "int64 does not fit .u32"),
        ('n = { value = 1, dtype = ["int32"] }', "is none of a scalar"),
        ('n = 1000\na = { value = 2.5, dtype = "float64" }', "float64 does not fit .f32"),
    ],
)
def test_a_scalar_of_another_type_is_refused(written: str, said: str, tmp_path: Path) -> None:
    text = KINDS["launch"][0].replace("n = 1000", written)
    path = tmp_path / "launch.toml"
    path.write_text(text.replace("\na = 2.5", "") if "\na = " in written else text)
    ended = run_program("run", SAXPY, "--launch", path)
    assert ended.code == 1
    assert said in ended.err
