"""Linked programs against execution, against one file of the same code, and against nvlink.

``tests/data/linking`` has two translation units and the same code as one, compiled by nvcc. A
program of two files is also written into one PTX file by hand: bounds and loops have to be equal.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from refusals import refusals_of

import ptxwcet
from ptxwcet.ptx.linking import read_program
from ptxwcet.support.source import SourceFile

DATA = Path(__file__).parents[1] / "data/linking"
STATIC = re.compile(r"_ZN\d+_INTERNAL_\w+3(mix)Ei|__nv_static_\d+__\w+_(calls)")
"""What nvcc calls the functions and variables that are a file's own."""


def text_of(name: str, shared_names: bool = False) -> str:
    """A file's text; with ``shared_names`` its statics have the names that they have in CUDA."""
    text = (DATA / f"{name}.ptx").read_text()
    assert len(set(STATIC.findall(text))) == 2
    return STATIC.sub(lambda found: found[1] or found[2], text) if shared_names else text


def files(folder: Path, main: str, library: str) -> tuple[Path, Path, Path]:
    """The program's files in a folder, and a launch."""
    for name, text in (
        ("main.ptx", main),
        ("library.ptx", library),
        ("work.toml", (DATA / "work.toml").read_text()),
    ):
        (folder / name).write_text(text)
    return folder / "main.ptx", folder / "library.ptx", folder / "work.toml"


def concatenated(main: str, library: str) -> str:
    """Both files as one: the definitions of the second stand in the place of declarations."""
    head, _, rest = main.partition(".extern .func")
    _, _, rest = rest.partition(";\n")
    kept = [line for line in rest.split("\n") if not line.startswith(".extern")]
    return head + library.partition(".address_size 64\n")[2] + "\n".join(kept)


def expected(rounds: int = 6) -> np.ndarray:  # type: ignore[type-arg]
    """What the CUDA code says, by hand."""
    x = np.arange(64, dtype=np.int32)

    def series(n: int) -> np.ndarray:  # type: ignore[type-arg]
        total, mixed = np.ones_like(x), np.full_like(x, 7)
        for k in range(n):
            total = total * x + k
        for k in range(9):
            mixed = mixed * x + k
        return total + mixed

    total = sum((series(r) * 5 for r in range(rounds)), np.zeros_like(x))
    return 3 * total + 2


@pytest.mark.parametrize("shared_names", [False, True])
def test_a_linked_program_computes_what_its_source_says(shared_names: bool, tmp_path: Path) -> None:
    main, library, launch = files(
        tmp_path, text_of("main", shared_names), text_of("library", shared_names)
    )
    found = ptxwcet.run(main, launch, link=library).outputs["work_param_1"]
    one = ptxwcet.run(DATA / "one.ptx", launch).outputs["work_param_1"]
    assert (found == expected()).all()
    assert (one == expected()).all()


@pytest.mark.parametrize("rounds", [0, 1, 6, 11])
def test_a_linked_program_has_the_bound_of_one_file(rounds: int, tmp_path: Path) -> None:
    texts = (
        text_of("main"),
        text_of("library").replace("{1, 0, 0, 0, 6,", f"{{1, 0, 0, 0, {rounds},"),
    )
    main, library, launch = files(tmp_path, *texts)
    whole = tmp_path / "whole.ptx"
    whole.write_text(concatenated(*texts))
    linked = ptxwcet.bound(main, launch=launch, link=[library])
    one = ptxwcet.bound(whole, launch=launch)
    assert (linked.cycles, linked.launch_cycles) == (one.cycles, one.launch_cycles)
    assert set(linked.assumptions) - set(one.assumptions) == ({"linked-files"})
    shared = files(tmp_path, text_of("main", True), texts[1])
    assert ptxwcet.bound(shared[0], launch=launch, link=library).cycles == one.cycles
    outputs = ptxwcet.run(main, launch, link=library).outputs
    assert (outputs["work_param_1"] == expected(rounds)).all()


HEAD = ".version 8.0\n.target sm_80\n.address_size 64\n"
EXTERN = ".extern .func (.param .b32 r) f(.param .b32 x);\n"
CALL = """{ .param .b32 a; .param .b32 q; st.param.b32 [a], 9; call (q), f, (a);
ld.param.b32 %r2, [q]; }
st.global.u32 [%d1], %r2;"""
ONE = 'kernel = "k"\ngrid = 1\nblock = 1\n'
ONE += '[arguments]\np = { shape = 1, dtype = "int32", init = "zeros" }\n'


def kernel(number: int = 1, body: str = "st.global.u32 [%d1], %r2;") -> str:
    return (
        ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<4>; .reg .b64 %d<3>;\n"
        f"ld.param.u64 %d1, [p];\nmov.u32 %r2, {number};\n{body}\nret;\n}}\n"
    )


def body(
    link: str = ".visible",
    number: int = 2,
    head: str = "(.param .b32 r) f(.param .b32 x)",
    end: str = "st.param.b32 [r], %r1;",
) -> str:
    return f"{link} .func {head}\n{{\n.reg .b32 %r<3>;\nmov.u32 %r1, {number};\n{end}\nret;\n}}\n"


def held(link: str, declared: str = ".u32 v = 2", space: str = "global", align: int = 4) -> str:
    return f"{link} .{space} .align {align} {declared};\n"


def load(space: str = "global") -> str:
    return kernel(body=f"ld.{space}.u32 %r2, [v];\nst.global.u32 [%d1], %r2;")


CALLS = kernel(body=CALL)
UNSET = ".u32 v"
# Two files with what the kernel stores, or a part of the refusal; None: there is nothing to run.
PAIRS: dict[str, tuple[str, str, int | str | None]] = {
    "a body elsewhere": (EXTERN + CALLS, body(), 2),
    "two bodies": (body(number=1) + CALLS, body(), "defined in both"),
    "weak and strong": (body(".weak", 1) + CALLS, body(), 2),
    "strong and weak": (body(number=1) + CALLS, body(".weak"), 1),
    "weak and weak alike": (body(".weak") + CALLS, body(".weak"), 2),
    "weak and weak": (body(".weak", 1) + CALLS, body(".weak"), "not the same"),
    "own and another's": (body("", 1) + CALLS, body(), 1),
    "two own": (body("", 1) + CALLS, body(""), 1),
    "another's own": (EXTERN + CALLS, body(""), None),
    "no body": (EXTERN + CALLS, held(""), None),
    "more": (EXTERN + CALLS, body(head="(.param .b32 r) f(.param .b32 x, .param .b32 y)"), "decl"),
    "wider": (
        EXTERN + CALLS,
        body(head="(.param .b32 r) f(.param .b64 x)"),
        "declared differently",
    ),
    "float": (
        EXTERN + CALLS,
        body(head="(.param .b32 r) f(.param .f32 x)"),
        "declared differently",
    ),
    "array": (EXTERN + CALLS, body(head="(.param .b32 r) f(.param .align 8 .b8 x[4])"), "declared"),
    "register": (EXTERN + CALLS, body(head="(.param .b32 r) f(.reg .b32 x)"), "differently"),
    "no result": (EXTERN + CALLS, body(head="f(.param .b32 x)", end=""), "declared differently"),
    "variable": (held(".extern", UNSET) + load(), held(".visible"), 2),
    "two variables": (held(".visible") + load(), held(".visible"), "defined in both"),
    "weak variable": (held(".weak", ".u32 v = 1") + load(), held(".visible"), 2),
    "weak variables": (held(".weak", ".u32 v = 1") + load(), held(".weak"), "not the same"),
    "weak sizes": (held(".weak") + load(), held(".visible", ".u32 v[2]"), "declared differently"),
    "too large": (held(".extern", ".u32 v[2]") + load(), held(".visible"), "declared differently"),
    "too small": (held(".extern", UNSET) + load(), held(".visible", ".u32 v[2]"), "differently"),
    "no size": (held(".extern", ".u32 v[]") + load(), held(".visible", ".u32 v[2] = {2, 3}"), 2),
    "type": (held(".extern", ".b8 v[4]") + load(), held(".visible"), "declared differently"),
    "alignment": (held(".extern", UNSET, align=16) + load(), held(".visible"), "differently"),
    "space": (held(".extern", UNSET) + load(), held(".visible", space="const"), "differently"),
    "constant": (
        held(".extern", UNSET, "const") + load("const"),
        held(".visible", space="const"),
        2,
    ),
    "common": (held(".common", UNSET) + load(), held(".common", UNSET), 0),
    "common sizes": (held(".common", UNSET) + load(), held(".common", ".u32 v[2]"), "differently"),
    "common and strong": (held(".common", UNSET) + load(), held(".visible"), 2),
    "common and weak": (held(".common", UNSET) + load(), held(".weak"), ".common"),
    "extern and common": (held(".extern", UNSET) + load(), held(".common", UNSET), 0),
    "sized by the launch": (
        held(".extern", ".b8 v[]", "shared") + load("shared"),
        held(".visible", ".b8 v[64]", "shared"),
        "declared differently",
    ),
    "shared": (
        held(".extern", ".b8 v[64]", "shared") + load("shared"),
        held(".visible", ".b8 v[64]", "shared"),
        None,
    ),
    "function and variable": (EXTERN + CALLS, held(".visible", ".u32 f"), "is a function in one"),
    "two kernels": (kernel(), kernel(2), "defined in both"),
    "a kernel and another's own": (kernel(), kernel(2).replace(".visible", ""), 1),
    "own variable": (held("", ".u32 v = 1") + load(), held(".visible"), 1),
    "two own variables": (held("", ".u32 v = 1") + load(), held(""), 1),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_names_are_those_of_the_program(pair: str, tmp_path: Path) -> None:
    first, second, expected = PAIRS[pair]
    for name, text in (("a.ptx", HEAD + first), ("b.ptx", HEAD + second), ("l.toml", ONE)):
        (tmp_path / name).write_text(text)
    sources = [SourceFile(name, (tmp_path / name).read_text()) for name in ("a.ptx", "b.ptx")]
    if isinstance(expected, str):
        (only,) = refusals_of(read_program, *sources)
        assert only.code == "PW122"
        assert expected in only.message
        assert str(only.span).startswith("b.ptx:")
        assert only.notes[0].startswith("a.ptx:")
        return
    assert [one.name for one in read_program(*sources).kernels] == ["k"]
    if expected is not None:
        run = ptxwcet.run(tmp_path / "a.ptx", tmp_path / "l.toml", link=tmp_path / "b.ptx")
        assert run.outputs["p"].tolist() == [expected]
        assert not run.diagnostics


@pytest.mark.every(20)
@pytest.mark.skipif(shutil.which("nvlink") is None, reason="needs nvlink")
@pytest.mark.parametrize("pair", PAIRS)
def test_what_nvlink_refuses_is_refused(pair: str, tmp_path: Path) -> None:
    first, second, expected = PAIRS[pair]
    for name, text in (("a", HEAD + first), ("b", HEAD + second)):
        (tmp_path / f"{name}.ptx").write_text(text)
        words = ("ptxas", "-c", "-arch=sm_80", f"{name}.ptx", "-o", f"{name}.cubin")
        subprocess.run(words, cwd=tmp_path, check=True)
    words = ("nvlink", "-arch=sm_80", "a.cubin", "b.cubin", "-o", "c")
    linked = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    if "Undefined reference" in linked.stderr:
        assert expected is None
    elif linked.returncode:
        assert isinstance(expected, str)
