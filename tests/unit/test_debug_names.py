"""Names that a source does not tell as it is written: from the compiler, or a warning."""

from __future__ import annotations

import random
import re
import shutil
from pathlib import Path

import pytest
from disassembler import needs_nvdisasm
from places import DATA
from programs import run_program

from ptxwcet.flow.facts.debug_names import debug_names, loses_names, with_debug_names

pytestmark = pytest.mark.fast

TEXT = (DATA / "names" / "preprocessed.ptx").read_text(encoding="utf-8")
PTX, MARK, _ = TEXT.partition("// .section")
SOURCE = DATA / "names" / "preprocessed.cu"
needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on the PATH")
ANSWERS = {
    "macro": {"n": 7},
    "config": {"cfg.steps[2]": 7},
    "pair": {"p.limit": 3, "p.inner[1].steps[0]": 4},
    "derived": {"d.own": 3, "d.first": 3, "d.nested.deep": 1},
    "instance<Config>": {"m": 7},
}


def asked(path: Path, kernel: str, *options: str) -> str:
    """What is printed of a kernel without its parameters."""
    ended = run_program("bound", path, "-k", kernel, "--block", "32", *options)
    assert ended.code == 1, ended.out
    return ended.err


def iterations(path: Path, kernel: str, *options: str) -> str:
    """The bound of a kernel with the parameters that decide its loop."""
    given = [
        word for name, value in ANSWERS[kernel].items() for word in ("--param", f"{name}={value}")
    ]
    words = ("-k", kernel, "--block", "32", *given, *options, "--machine", "rtx-4070")
    ended = run_program("bound", path, *words)
    assert ended.code == 0, ended.err
    (bound,) = re.findall(r"BOUND +([\d,]+) cycles", ended.out)
    return bound


@pytest.mark.parametrize("kernel", ANSWERS)
def test_names_come_from_debug_information(kernel: str, tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(TEXT, encoding="utf-8")
    shown = asked(path, kernel)
    assert next(iter(ANSWERS[kernel])) in shown or kernel == "derived"
    assert "PW226" not in shown
    assert iterations(path, kernel)


def test_what_the_compiler_lays_out_is_all_there() -> None:
    told = debug_names(TEXT)
    pair, _ = told["pair"]
    assert (pair.name, pair.size) == ("p", 112)
    assert pair.members[8] == (".high", 8)
    assert pair.members[68] == (".inner[1].steps[0]", 4)
    assert pair.members[96] == (".limit", 4)
    derived, _ = told["derived"]  # twice is a name of two, a bit field is none
    assert dict(derived.members) == {0: (".first", 4), 8: (".own", 4), 20: (".nested.deep", 4)}


@needs_nvcc
@pytest.mark.parametrize("kernel", ANSWERS)
def test_nvcc_is_asked_where_the_source_does_not_tell(kernel: str, tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    shutil.copy(SOURCE, path)
    made = iterations(path, kernel, "--arch", "sm_86")
    kept = tmp_path / "k.ptx"
    kept.write_text(TEXT, encoding="utf-8")
    assert made == iterations(kept, kernel)


@needs_nvcc
@needs_nvdisasm
@pytest.mark.parametrize("kernel", ANSWERS)
def test_machine_code_has_these_names_too(kernel: str, tmp_path: Path) -> None:
    path = tmp_path / "k.cu"
    shutil.copy(SOURCE, path)
    assert iterations(path, kernel, "--arch", "sm_86", "--machine-code")


@pytest.mark.parametrize(
    ("kernel", "what"),
    [
        ("macro", "its parameters"),
        ("config", "its parameters"),
        ("instance<Config>", "members of t"),
    ],
)
def test_a_warning_says_that_names_are_lost(kernel: str, what: str, tmp_path: Path) -> None:
    """Of PTX with its source beside it nobody asks nvcc."""
    path = tmp_path / "k.ptx"
    path.write_text(PTX, encoding="utf-8")
    shutil.copy(SOURCE, tmp_path / "k.cu")
    shown = asked(path, kernel)
    assert f"warning[PW226]: kernel {kernel}: the source does not tell the names of {what}" in shown
    assert "--arch sm_86" in shown


def test_who_names_a_source_gets_its_names(tmp_path: Path) -> None:
    path, source = tmp_path / "k.ptx", tmp_path / "named.cu"
    path.write_text(TEXT, encoding="utf-8")
    source.write_text('extern "C" __global__ void macro(int many, float *out);\n')
    assert "parameter many" in asked(path, "macro", "--source", str(source))


def test_nothing_is_asked_where_the_source_tells_all() -> None:
    told = 'extern "C" __global__ void k(int n, float* out) {}'
    ptx = ".visible .entry k(\n.param .u32 k_param_0,\n.param .u64 .ptr .align 1 k_param_1\n)\n"
    assert not loses_names(ptx, told)
    assert loses_names(ptx, told.replace("int n", "PARAMETERS"))
    struct = ptx.replace(".u32 k_param_0", ".align 4 .b8 k_param_0[12]")
    assert not loses_names(struct, "struct S { int a, b, c; };" + told.replace("int", "S"))
    assert loses_names(struct, "struct S { E a; int b, c; };" + told.replace("int", "S"))
    listed = ".target sm_86\n.section k\n.registers 8\n.parameters 0x160\n.parameter 0x0 4\n"
    assert not loses_names(listed + ".parameter 0x8 8\n.kernel k\n", told)
    assert loses_names(listed + ".kernel k\n", told)


def test_damaged_debug_information_names_nothing_and_costs_little() -> None:
    numbers, generator = re.findall(r"\.b8 ([\d,]+)", TEXT), random.Random(5)
    for _ in range(300):
        text = ""
        for name, data in zip(("abbrev", "info"), numbers, strict=True):
            changed = data.split(",")
            for _ in range(generator.randint(0, 3)):
                changed[generator.randrange(len(changed))] = str(generator.randrange(256))
            cut = generator.choice((None, None, generator.randrange(len(changed))))
            text += f".section .debug_{name} {{.b8 {','.join(changed[:cut])}}}\n"
        for parameters in debug_names(text).values():
            assert all(isinstance(one.name, str | int | bytes) for one in parameters)
    assert debug_names(with_debug_names("", TEXT, "//")) == debug_names(TEXT)
    assert debug_names(PTX) == {}
