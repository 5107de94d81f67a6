"""Registers of a thread: from the text of ptxas -v, from cubins, from ptxas itself."""

from __future__ import annotations

import random
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ptxwcet.bounds.launch_bound import LaunchBound
from ptxwcet.bounds.register_use import RegisterUse, ask_ptxas, read_register_use
from ptxwcet.bounds.wishes import Spills
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened.opening import RefusedKernel
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[2]
DATA = ROOT / "tests/data/ptxas"
BLOCK_REDUCE = ROOT / "samples/block_reduce.ptx"


def problem(call: Any, *arguments: Any) -> tuple[str, str]:
    with pytest.raises(PtxwcetError) as caught:
        call(*arguments)
    (found,) = caught.value.diagnostics
    return found.code, found.message


def test_the_text_of_ptxas() -> None:
    use = read_register_use(str(DATA / "block_reduce.txt"))
    assert use.of("block_reduce_tree")[0] == 12
    count, source = use.of("block_reduce_shuffle")
    assert count == 13
    assert source.endswith("block_reduce.txt, sm_90")


def test_a_text_with_other_lines_and_older_forms(tmp_path: Path) -> None:
    path = tmp_path / "build.log"
    path.write_text(
        "make: Entering directory\n"
        "ptxas info    : Compiling entry function '_Z5sobelPKf' for 'sm_52'\n"
        "warning: something\n"
        "ptxas info    : Used 10 registers, 44 bytes cmem[0]\n"
        "ptxas info    : Function properties for _Z3devv\n"
        "ptxas info    : Used 99 registers\n"  # belongs to no kernel
    )
    use = read_register_use(str(path))
    assert use.found == (("_Z5sobelPKf", "sm_52", 10),)
    assert use.spills_of("_Z5sobelPKf") is None


def test_what_is_spilled_is_that_of_the_kernel_and_of_no_function_behind_it(tmp_path: Path) -> None:
    """Lines of ptxas 13.0, of a kernel for two architectures and of a function it calls."""
    path = tmp_path / "build.log"
    kernel = (
        "ptxas info    : Compiling entry function '{0}' for 'sm_{1}'\n"
        "ptxas info    : Function properties for {0}\n"
        "    552 bytes stack frame, {2} bytes spill stores, 524 bytes spill loads\n"
        "ptxas info    : Used 32 registers, used 1 barriers, 364 bytes cmem[0]\n"
        "ptxas info    : Function properties for helper\n"
        "    8 bytes stack frame, 7 bytes spill stores, 9 bytes spill loads\n"
    )
    path.write_text(kernel.format("k", 80, 508) + kernel.format("k", 90, 508))
    assert read_register_use(str(path)).spills_of("k") == Spills(508, 524)
    path.write_text(kernel.format("k", 80, 508) + kernel.format("k", 90, 0))
    assert read_register_use(str(path)).spills_of("k") is None  # it depends on which is meant
    assert read_register_use(str(path)).of("k")[0] == 32


def test_several_architectures() -> None:
    use = read_register_use(str(DATA / "histogram_two.txt"))
    code, message = problem(use.of, "histogram")
    assert code == "PW317"
    assert "8 for sm_80, 10 for sm_90" in message
    same = RegisterUse("log", (("k", "sm_80", 8), ("k", "sm_90", 8)))
    assert same.of("k") == (8, "log, sm_80, sm_90")


@pytest.mark.parametrize("name", ["plain_87.cubin", "plain_90.cubin"])
def test_cubins(name: str) -> None:
    """ptxas -v says 8 for sm_87 and for sm_90."""
    assert read_register_use(str(DATA / name)).of("plain")[0] == 8


def test_files_that_say_nothing(tmp_path: Path) -> None:
    code, message = problem(read_register_use, str(ROOT / "README.md"))
    assert code == "PW317"
    assert "says of no kernel" in message
    assert problem(read_register_use, str(tmp_path))[0] == "PW317"
    assert problem(read_register_use, str(tmp_path / "missing"))[0] == "PW317"
    use = read_register_use(str(DATA / "transpose_tiled.txt"))
    assert problem(use.of, "sobel")[0] == "PW317"


@pytest.mark.parametrize("seed", range(30))
def test_damaged_cubins_are_read_or_refused(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    whole = (DATA / "plain_90.cubin").read_bytes()
    for _ in range(40):
        data = bytearray(whole)
        for _ in range(rng.randint(1, 8)):
            data[rng.randrange(4, len(data))] = rng.randrange(256)
        del data[rng.randrange(16, len(data)) if rng.random() < 0.3 else len(data) :]
        path = tmp_path / "damaged"
        path.write_bytes(data)
        found: tuple[tuple[str, str | None, int], ...] = ()
        with suppress(PtxwcetError):  # anything else is a bug
            found = read_register_use(str(path)).found
        assert all(0 < count <= 1024 for _, _, count in found)


def launch(**said: Any) -> LaunchBound:
    request = Request(
        str(BLOCK_REDUCE),
        ("block_reduce_tree",),
        "256",
        "8",
        parameters=("n=1000",),
        **said,
    )
    (row,) = bound_file(request).kernels
    if isinstance(row, RefusedKernel):
        raise PtxwcetError(row.diagnostics)
    assert isinstance(row.launch_bound, LaunchBound)
    return row.launch_bound


def test_bounds_take_what_ptxas_says() -> None:
    told = launch(ptxas_info=str(DATA / "block_reduce.txt"))
    assert (told.residency.least, told.residency.most) == (6, 6)
    (stated,) = (one for one in told.claim.assumptions if one.key == "registers-per-thread")
    assert stated.text == "a thread uses 12 registers"
    assert told.block.spills == Spills(0, 0)
    assert told.residency.most_percent == 100  # 6 blocks of 8 warps, of 48
    assert problem(lambda: launch(ptxas_info=str(DATA / "transpose_tiled.txt")))[0] == "PW317"
    # without a grid it would count for nothing
    request = Request(str(BLOCK_REDUCE), block="256", parameters=("n=1000",), ptxas_info="missing")
    assert problem(lambda: bound_file(request))[0] == "PW327"


def test_ptxas_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert problem(lambda: launch(asks_ptxas=True)) == (
        "PW318",
        "--registers ptxas: there is no ptxas on the PATH",
    )


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="needs ptxas")
def test_ptxas_is_asked() -> None:
    use = ask_ptxas(BLOCK_REDUCE.read_text(encoding="utf-8"))
    assert {kernel for kernel, _, _ in use.found} == {"block_reduce_tree", "block_reduce_shuffle"}
    assert launch(asks_ptxas=True).residency.open == ()
    assert problem(ask_ptxas, ".version 8.0\n.target sm_80\nnonsense")[0] == "PW318"
    assert problem(ask_ptxas, ".version 8.0\n.target sm_999\n")[0] == "PW318"
