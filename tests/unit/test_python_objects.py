"""Objects of Numba, CuPy and Triton are bounded as they run: options, architecture, provenance."""

from __future__ import annotations

from functools import wraps
from types import SimpleNamespace
from typing import Any

import pytest
from disassembler import needs_nvdisasm
from places import ROOT, SAMPLES
from refusals import refusal_of

import ptxwcet

cuda = pytest.importorskip("numba.cuda")

SIGNATURE = "void(float32[::1], float32[::1])"
LENGTHS = dict.fromkeys((2, 5, 9, 12), 16384)
LAUNCH: dict[str, Any] = {"block": 256, "params": LENGTHS}
IDEAL = "orin-ecrts2025-16sm"


def body(out, x):  # type: ignore[no-untyped-def]
    i = cuda.grid(1)
    if i < out.size:
        v = x[i]
        out[i] = v * x[i] / (v + x[i])


def compiled(**options: object) -> str:
    try:
        return str(cuda.compile_ptx(body, SIGNATURE, cc=(8, 0), **options)[0])
    except Exception as error:
        pytest.skip(f"Numba compiles no PTX here: {error}")


@pytest.mark.parametrize(
    "options", [{}, {"fastmath": True}, {"debug": True, "opt": False}, {"lineinfo": True}]
)
def test_options_of_numba_are_passed_on(options: dict[str, object]) -> None:
    """``debug=True, opt=False`` had the bound of optimised code, which runs exceed."""
    runs = ptxwcet.bound(compiled(**options), machine=IDEAL, **LAUNCH)
    kernel = cuda.jit(**options)(body)
    found = ptxwcet.bound(kernel, signature=SIGNATURE, machine=IDEAL, **LAUNCH)
    assert found.cycles == runs.cycles
    (text,) = [line for line in found.text().splitlines() if "compiled as it was here" in line]
    assert "by Numba" in text
    assert "for sm_80, for this machine is no GPU" in text
    told = {key: value for key, value in options.items() if key != "lineinfo"}
    assert all(f"{key}={value}" in text for key, value in told.items())


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({"max_registers": 16}, "state registers="),
        ({"link": ["other.ptx"]}, "link=FILE"),
        ({"device": True}, "give a kernel"),
        ({"invented": 3}, "leave invented= out"),
    ],
)
def test_other_options_are_refused_by_name(options: dict[str, object], remedy: str) -> None:
    kernel = SimpleNamespace(
        __name__="k", inspect_asm=dict, py_func=body, targetoptions={"opt": True, **options}
    )
    refused = refusal_of(ptxwcet.bound, kernel, signature=SIGNATURE, block=256)
    assert refused.code == "PW119"
    assert next(iter(options)) in refused.message
    assert remedy in str(refused.help)


@pytest.mark.parametrize(
    "name", ["bound", "analyse", "annotate", "memory", "ports", "cfg", "facts"]
)
def test_the_architecture_is_the_machine_s_or_stated(name: str) -> None:
    compiled()
    asked = []
    kernel, whole = cuda.jit(body), cuda.compile_ptx

    @wraps(whole)
    def compile_ptx(*arguments: object, cc: tuple[int, int], **options: Any) -> object:
        asked.append(cc)
        return whole(*arguments, cc=cc, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("numba.cuda.compile_ptx", compile_ptx)
        given = {"signature": SIGNATURE, **LAUNCH}
        getattr(ptxwcet, name)(kernel, machine="rtx-4070", **given)
        getattr(ptxwcet, name)(kernel, machine="h200", arch="sm_86", **given)
        getattr(ptxwcet, name)(kernel, **given)
    assert asked == [(8, 9), (8, 6), (8, 0)]


def test_the_compiler_s_libraries_are_named_where_they_are_missing() -> None:
    @wraps(cuda.compile_ptx)
    def compile_ptx(*_: object, **__: object) -> object:
        raise OSError('Failure finding "libnvrtc.so.13 or libnvrtc.so.12"')

    kernel = cuda.jit(body)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("numba.cuda.compile_ptx", compile_ptx)
        refused = refusal_of(ptxwcet.bound, kernel, signature=SIGNATURE, block=256)
    assert "pip install 'numba-cuda[cu13]'" in str(refused.help)


def raw(**more: object) -> SimpleNamespace:
    code = (SAMPLES / "vector_add.cu").read_text()
    return SimpleNamespace(name="vector_add", code=code, options=(), **more)


def test_options_and_architecture_of_cupy(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def compiled_ptx(_: str, options: list[str]) -> str:
        asked.append(options)
        return (SAMPLES / "vector_add.ptx").read_text()

    monkeypatch.setattr("ptxwcet.library.sources.compiled_ptx", compiled_ptx)
    given: dict[str, Any] = {"block": 256, "params": {"n": 1000}, "machine": "h200"}
    found = ptxwcet.bound(raw(), **given)
    assert "by nvcc for sm_90, the compute capability of the machine" in found.text()
    kernel = raw(enable_cooperative_groups=True)
    kernel.options = ("-DN=4", "--gpu-architecture=compute_80")
    assert "by nvcc for compute_80, as its options state" in ptxwcet.bound(kernel, **given).text()
    assert asked == [["-arch=sm_90"], [*kernel.options, "-rdc=true"]]
    kernel.options = ("-arch=native",)  # was said to be compiled for the machine's
    refusal = refusal_of(ptxwcet.bound, kernel, **given)
    assert "names no architecture" in refusal.message
    with pytest.raises(TypeError, match="both name an architecture"):
        ptxwcet.bound(kernel, arch="sm_90", **given)
    for refused in ({"translate_cucomplex": True}, {"jitify": True}):
        assert next(iter(refused)) in refusal_of(ptxwcet.bound, raw(**refused), **given).message
    kernel.options = "-DN=4"
    assert "options='-DN=4'" in refusal_of(ptxwcet.bound, kernel, **given).message


def test_a_kernel_of_triton_has_its_own_target() -> None:
    text = (SAMPLES / "triton_add.ptx").read_text()
    kernel = SimpleNamespace(asm={"ptx": text})
    with pytest.raises(TypeError, match="Triton compiles for its target="):
        ptxwcet.bound(kernel, arch="sm_90", grid=4, params={3: 1000})
    refused = refusal_of(ptxwcet.bound, kernel, grid=4, params={3: 1000}, machine="a100")
    assert refused.code == "PW329"


@needs_nvdisasm
def test_machine_code_of_triton_is_its_own() -> None:
    cubin = (ROOT / "tests" / "data" / "sass" / "control_86.cubin").read_bytes()
    kernel = SimpleNamespace(asm={"ptx": (SAMPLES / "triton_add.ptx").read_text(), "cubin": cubin})
    found = ptxwcet.cfg(kernel, machine_code=True, kernel="parted")
    assert found.kernel.code is not None
