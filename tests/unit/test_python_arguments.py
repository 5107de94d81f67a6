"""Functions of ``import ptxwcet`` refuse what they do not know, and use whatever they take."""

from __future__ import annotations

import inspect
import pydoc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from places import SAMPLES
from refusals import refusal_of

import ptxwcet

FUNCTIONS = ("accesses", "analyse", "bound", "cfg", "check", "run", "simulate", "sweep")
ADD = SAMPLES / "vector_add.ptx"
LAUNCH = 'kernel = "vector_add"\nblock = [256]\ngrid = [2]\n[parameters]\nn = 400\n'


def call(name: str) -> Callable[..., Any]:
    return getattr(ptxwcet, name)  # type: ignore[no-any-return]


def test_the_public_functions_are_these() -> None:
    found = {name for name in dir(ptxwcet) if inspect.isfunction(getattr(ptxwcet, name))}
    assert {name for name in found if not name.startswith("_")} - {"import_module"} == set(
        FUNCTIONS
    )


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_argument_has_a_name_a_type_and_a_check(name: str) -> None:
    signature = inspect.signature(call(name))
    kinds = {one.kind for one in signature.parameters.values()}
    assert not kinds & {inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL}
    assert all(
        one.annotation is not inspect.Parameter.empty for one in signature.parameters.values()
    )
    shown = pydoc.render_doc(call(name), renderer=pydoc.plaintext)
    assert all(f"{key}:" in shown for key in signature.parameters)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    "key", ["machin", "mem_latency", "sm", "dynamic_shared_bytes", "blok", "workerz", "n"]
)
def test_an_unknown_keyword_is_refused(name: str, key: str) -> None:
    source = () if name in ("check", "sweep") else (ADD,)
    with pytest.raises(TypeError, match=rf"^{name}\(\) has no argument '{key}': ") as refused:
        call(name)(*source, **{key: 1})
    near = {"machin": "machine", "mem_latency": "memory_latency", "blok": "block", "sm": "sms"}
    known = inspect.signature(call(name)).parameters
    if near.get(key) in known:
        assert f"did you mean {near[key]}?" in str(refused.value)


# Values that no argument of that name takes.
WRONG: dict[str, tuple[object, ...]] = {
    "block": (True, 2.5, b"256", (), (1, 2, 3, 4), (2.0,), range(3), "", {}),
    "grid": (True, 2.5, b"4", (), ("4",), ""),
    "params": (5, [("n", 1)], {"n": None}, {"n": True}, {"n": [1]}, {"n=1": 2}, {True: 1}, {"": 1}),
    "loop_bounds": (5, {"a": "3"}, {"a": True}, {"a": 2.0}, {"": 1}),
    "kernel": (3, "", b"k"),
    "arch": (86, ""),
    "machine_code": (1, "yes", None),
    "launch": (3, ""),
    "link": (3, "", [3], {"a.ptx": 1}),
    "facts": (3, "", {"loop": []}),
    "cuda_source": (3, ""),
    "machine": (None, 3, ""),
    "memory_latency": ("400", 4.5, True),
    "on_unknown": (None, "worse", 1),
    "sms": ("2", 2.0, True),
    "registers": ("2", 2.0, True),
    "resident_blocks": ("2", 2.0, True),
    "dynamic_shared": ("2", 2.0, True),
    "ptxas_info": (3, ""),
    "co_runner": (3, "", (65536, 20)),
    "policy": (3, ""),
    "method": (None, "sage", 3),
    "seed": (-1, "1", 1.5, None),
    "plan": (3, "", None),
    "cache": (3, ""),
    "output": (3, ""),
    "scheduler": (3, ""),
    "workers": (0, -1, "2", 1.5, 2000),
    "resume": (1, "yes", None),
    "source": (3, "", None),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_value_of_another_type_is_refused(name: str) -> None:
    parameters = inspect.signature(call(name)).parameters
    needed = {"source": ADD, "launch": SAMPLES / "launches/saxpy.toml"}
    source = {key: needed[key] for key, one in parameters.items() if one.default is one.empty}
    for key in parameters:
        if key == "signature" or (key == "source" and name != "run"):
            continue
        for value in WRONG[key]:
            with pytest.raises(TypeError, match=rf"{name}\(\): {key}=.* is none: .* wanted"):
                call(name)(**{**source, key: value})


def said(**arguments: Any) -> object:
    """What a kernel's bound, and that of its launch, are said to be; or why there is none."""
    given = {"source": ADD, "block": 256, "grid": 64, "params": {"n": 16384}, "machine": "titan-v"}
    try:
        found = ptxwcet.analyse(**{**given, **arguments})  # type: ignore[arg-type]
    except (ptxwcet.PtxwcetError, TypeError) as error:
        return str(error)
    return [
        str(one) if isinstance(one, ptxwcet.Refused) else one.to_dict() for one in found.values()
    ]


def test_whatever_is_taken_counts(tmp_path: Path) -> None:
    """Each keyword changes the answer, or is refused with a reason."""
    (tmp_path / "l.toml").write_text(LAUNCH)
    (tmp_path / "facts.toml").write_text("[parameters]\nn = 5\n")
    (tmp_path / "info.txt").write_text("x\n")
    (tmp_path / "names.cu").write_text(
        "__global__ void vector_add(float *a, float *b, float *c, int m) {}\n"
    )
    changes: dict[str, object] = {
        "block": 128,
        "grid": (32, 2),
        "params": {"n": 10},
        "kernel": "no_such",
        "signature": "void()",
        "arch": "sm_86",
        "machine_code": True,
        "launch": tmp_path / "l.toml",
        "link": [ADD],
        "facts": tmp_path / "facts.toml",
        "loop_bounds": {"nowhere": 3},
        "cuda_source": tmp_path / "names.cu",
        "machine": "jetson-agx-orin",
        "memory_latency": 700,
        "sms": 2,
        "registers": 64,
        "resident_blocks": 1,
        "dynamic_shared": 9000,
        "ptxas_info": tmp_path / "info.txt",
        "co_runner": "65536,20",
        "policy": "gto",
        "method": "scheduled",
    }
    usual = said()
    same = [key for key, value in changes.items() if said(**{key: value}) == usual]
    assert same == []
    keys = set(inspect.signature(ptxwcet.analyse).parameters)
    assert keys - set(changes) == {"source", "on_unknown"}
    text = {"source": ADD.read_text().replace("add.f32", "frobnicate.f32"), "params": {3: 9}}
    assert said(**text) != said(**text, on_unknown="worst")
    assert inspect.signature(ptxwcet.bound).parameters.keys() == keys


@pytest.mark.parametrize(
    ("key", "none"),
    [
        *((key, (0, -1, 1025)) for key in ("sms", "registers", "resident_blocks")),
        ("dynamic_shared", (-1, (1 << 20) + 1)),
    ],
)
def test_what_is_said_of_the_gpu_needs_a_grid_and_a_number(key: str, none: tuple[int]) -> None:
    launch: dict[str, Any] = {"block": 256, "params": {"n": 1000}}
    refused = refusal_of(ptxwcet.bound, ADD, **launch, **{key: 4})
    assert (refused.code, refused.message.partition(":")[0]) == ("PW327", key)
    for number in none:
        assert refusal_of(ptxwcet.bound, ADD, **launch, grid=4, **{key: number}).code == "PW327"


@pytest.mark.parametrize("params", [{"m": 1}, {9: 1}, {-1: 1}, {"n": 1, 3: 2}, {"n": 2**32}])
def test_parameters_that_are_not_there_are_refused(params: dict[str | int, int]) -> None:
    found = refusal_of(ptxwcet.bound, ADD, block=256, params=params)
    assert found.code in ("PW213", "PW214", "PW215")


def test_arguments_that_exclude_each_other() -> None:
    with pytest.raises(TypeError, match="leave it out with scheduler"):
        ptxwcet.sweep("sweep.toml", workers=2, scheduler="tcp://nowhere:1")
    with pytest.raises(TypeError, match="say output="):
        ptxwcet.sweep("sweep.toml", resume=True)
