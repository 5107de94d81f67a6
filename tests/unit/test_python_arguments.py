"""Functions of ``import ptxwcet`` refuse what they do not know, and use whatever they take."""

from __future__ import annotations

import inspect
import pydoc
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from places import PACKAGE, SAMPLES
from refusals import refusal_of

import ptxwcet
from ptxwcet.cli.main import commands
from ptxwcet.library.hints import KEYWORDS, in_python

FUNCTIONS = (
    *("analyse", "annotate", "bound", "cfg", "check", "compare", "explain", "facts", "formula"),
    *("memory", "ports", "report", "run", "simulate", "sweep", "what_if"),
)
FIRST: dict[str, dict[str, Any]] = {
    **{name: {"source": SAMPLES / "vector_add.ptx"} for name in FUNCTIONS},
    "check": {},
    "sweep": {},
    "explain": {},
    "compare": {"old": SAMPLES / "vector_add.ptx", "new": SAMPLES / "vector_add.ptx"},
    "formula": {"source": SAMPLES / "vector_add.ptx", "symbolic": "n=1..9"},
    "run": {"source": SAMPLES / "saxpy.ptx", "launch": SAMPLES / "launches/saxpy.toml"},
    "what_if": {"source": SAMPLES / "vector_add.ptx", "changes": {"memory.latency": 300}},
}
"""What each function cannot do without."""
ADD = SAMPLES / "vector_add.ptx"
LAUNCH = 'kernel = "vector_add"\nblock = [256]\ngrid = [2]\n[parameters]\nn = 400\n'


def call(name: str) -> Callable[..., Any]:
    return getattr(ptxwcet, name)  # type: ignore[no-any-return]


def test_the_public_functions_are_these() -> None:
    found = {name for name in dir(ptxwcet) if inspect.isfunction(getattr(ptxwcet, name))}
    assert found == set(FUNCTIONS)
    classes = {"Analysis", "Bound", "Cfg", "PtxwcetError", "Refused"}
    assert set(dir(ptxwcet)) == found | classes | {"__version__"}


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
    with pytest.raises(TypeError, match=rf"^{name}\(\) has no argument '{key}': ") as refused:
        call(name)(**FIRST[name], **{key: 1})
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
    "at": (3, "", b"k", [3], [""]),
    "kernel": (3, "", b"k", [3], [""]),
    "arch": (86, ""),
    "machine_code": (1, "yes", None),
    "nvcc_options": (3, "", [3], None),
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
    "code": (3, ["PW203"]),
    "symbolic": (3, "", None),
    "changes": (None, {}, {"memory.latency": 2.5}, {"": 1}, ["memory.latency=3"]),
    "threshold": (-1, "2%", None, True),
    "jitter": ("2", 2.5, True, None),
    "max_instructions": (0, "2", 1.5, None),
    **dict.fromkeys(("executed", "ptx", "simulate"), (1, "yes", None)),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_value_of_another_type_is_refused(name: str) -> None:
    parameters = inspect.signature(call(name)).parameters
    for key in parameters:
        if key in ("signature", "old", "new") or (key == "source" and name != "run"):
            continue
        for value in WRONG[key]:
            with pytest.raises(TypeError, match=rf"{name}\(\): {key}=.* is none: .* wanted"):
                call(name)(**{**FIRST[name], key: value})


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
        "nvcc_options": "-DN=4",
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
        "executed": True,
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


def test_what_is_missing_or_too_much_is_said() -> None:
    with pytest.raises(TypeError, match=r"^bound\(\): missing a required argument: 'source'"):
        call("bound")()
    with pytest.raises(TypeError, match=r"^bound\(\): too many positional arguments"):
        call("bound")(ADD, 256)


def test_numbers_of_numpy_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    usual = {"block": 256, "grid": 64, "params": {"n": 16384}, "sms": 1, "registers": 32}
    whole = {key: numpy.int64(one) for key, one in usual.items() if key != "params"}
    whole["params"] = {"n": numpy.int32(16384)}
    found = [ptxwcet.bound(ADD, **one) for one in (usual, whole)]  # type: ignore[arg-type]
    assert found[0].to_dict() == found[1].to_dict()
    assert (
        found[0].launch_cycles != ptxwcet.bound(ADD, **{**usual, "registers": None}).launch_cycles
    )  # type: ignore[arg-type]


def test_arguments_that_exclude_each_other() -> None:
    with pytest.raises(TypeError, match="leave it out with scheduler"):
        ptxwcet.sweep("sweep.toml", workers=2, scheduler="tcp://nowhere:1")
    with pytest.raises(TypeError, match="say output="):
        ptxwcet.sweep("sweep.toml", resume=True)


PRINTED = {
    **dict.fromkeys(("--format", "--output", "--details"), "to_dict(), text(details=True)"),
    **dict.fromkeys(("--quiet", "--verbose", "--color", "--help"), "of a terminal"),
}
"""Options that say how an answer is printed: a result in Python has all forms."""
OTHERWISE = {
    "analyse": {
        "--budget": "found.cycles < 9000",
        "--require": "found.guarantee",
        "--explain": "annotate()",
        "--symbolic": "formula()",
    },
    "annotate": {"--ptx": "ptx", "--at": "at"},
    "cfg": {"--divergent": "found.dot(divergent)"},
    "compare": {"--threshold": "threshold"},
    "facts": {"--output": "output"},
    "report": {"--simulate": "simulate", "--output": "output"},
    "run": {"--output": "found.outputs", "--paths": "found.answer"},
    "simulate": {
        "--path-seed": "one path",
        "--timeline": "a file",
        "--picture": "a file",
        "--events": "of these files",
        "--max-instructions": "of the simulator",
    },
    "what_if": {"--set": "changes"},
}
"""Options that are no argument of the same name, and what says as much in Python."""
COMMANDS = {"analyse": "bound", "what_if": "what-if"}
OF_COMMANDS = ("analyse", "annotate", "cfg", "check", "compare", "facts", "memory", "report", "run")


@pytest.mark.parametrize("name", [*OF_COMMANDS, "simulate", "what_if"])
def test_what_a_command_says_can_be_said_in_python(name: str) -> None:
    command = commands.get_command(click.Context(commands), COMMANDS.get(name, name))
    assert command is not None
    parameters = inspect.signature(call(name)).parameters
    for option in command.params:
        if not isinstance(option, click.Option) or option.opts[-1] in PRINTED:
            continue
        if option.opts[-1] not in OTHERWISE.get(name, {}):
            assert KEYWORDS[option.opts[-1]] in parameters, option.name
    assert (
        inspect.signature(ptxwcet.bound).parameters == inspect.signature(ptxwcet.analyse).parameters
    )


def test_keywords_are_arguments() -> None:
    known = {key for name in FUNCTIONS for key in inspect.signature(call(name)).parameters}
    assert {*KEYWORDS.values()} <= known | {"divergent"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("use --block 32x1, or --block 256", "use block=(32, 1), or block=256"),
        ("give --grid SIZE: then", "give grid=SIZE: then"),
        ("--param n=VALUE and --param m=VALUE: so", 'params={"n": VALUE, "m": VALUE}: so'),
        ("--param n=1..9, --param p=align:16", 'params={"n": range(1, 10), "p": "align:16"}'),
        ("--loop-bound '$L__BB0_2=64'; or", 'loop_bounds={"$L__BB0_2": 64}; or'),
        ("(--on-unknown worst)", '(on_unknown="worst")'),
        ("a number (--registers 32), --registers FILE", "a number (registers=32), ptxas_info=FILE"),
        ("--registers ptxas: no", 'registers="ptxas": no'),
        ("example --co-runner 65536,20", 'example co_runner="65536,20"'),
        ("--kernel names one", "kernel= names one"),
        ("cannot read --source 'a b.cu': no", 'cannot read cuda_source="a b.cu": no'),
        ("for example --arch sm_86; what", 'for example arch="sm_86"; what'),
        ("--symbolic n=1..9", 'symbolic="n=1..9"'),
        ("--launch-gap 3, --launcher, x--grid", "--launch-gap 3, --launcher, x--grid"),
        ("ptxwcet facts tells", "ptxwcet.facts() tells"),
        ("example fma.latency=2", 'example {"fma.latency": 2}'),
        ("or load.initiation=1..4:2", 'or {"load.initiation": range(1, 5, 2)}'),
    ],
)
def test_hints_speak_python(text: str, said: str) -> None:
    assert in_python(text) == said
    assert in_python(said) == said


def test_all_options_that_diagnostics_name_have_a_keyword() -> None:
    """Of what Python asks, too; ``budget`` and what is printed stay options of commands."""
    named = set()
    for room in ("flow", "bounds", "timing", "memory", "opened", "emulator"):
        for path in (PACKAGE / room).rglob("*.py"):
            if path.name != "nvcc.py":  # which names the options of nvcc
                named |= {*re.findall(r"(?<![\w-])--[a-z][a-z-]+", path.read_text("utf-8"))}
    assert named - {*KEYWORDS} <= {"--budget", "--launch-gap"}
    assert len(named & {*KEYWORDS}) > 15
