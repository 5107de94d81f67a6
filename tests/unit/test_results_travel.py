"""Results of the library and its errors pickle, copy, compare and hash: pools of processes give
them back.
"""

from __future__ import annotations

import copy
import inspect
import multiprocessing
import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from typing import Any

import pytest
from disassembler import needs_nvdisasm
from loopback import PATIENCE
from places import ROOT, SAMPLES

import ptxwcet
from ptxwcet.ir.terms import Op, const, source
from ptxwcet.support.diagnostics import Diagnostic, UsageError

ADD, SAXPY = SAMPLES / "vector_add.ptx", SAMPLES / "saxpy.ptx"
CUBIN = ROOT / "tests" / "data" / "sass" / "sgemm_naive_90.cubin"
BLOCK: dict[str, Any] = {"block": 256, "params": {"n": 1000}}
LAUNCH: dict[str, Any] = {**BLOCK, "grid": 4}
CALLS: dict[str, tuple[Callable[[], object], ...]] = {
    "analyse": (lambda: ptxwcet.analyse(ADD, **BLOCK), lambda: ptxwcet.analyse(SAXPY, block=256)),
    "annotate": (lambda: ptxwcet.annotate(SAXPY, **LAUNCH),),
    "bound": (lambda: ptxwcet.bound(SAXPY, **LAUNCH), lambda: ptxwcet.bound(ADD, **BLOCK)),
    "cfg": (
        lambda: ptxwcet.cfg(SAXPY, **LAUNCH),
        lambda: ptxwcet.cfg(ADD),
        lambda: ptxwcet.bound(SAMPLES / "scan.ptx", block=128).cfg,
    ),
    "check": (lambda: ptxwcet.check(SAMPLES / "ptxwcet.toml"),),
    "compare": (lambda: ptxwcet.compare(ADD, SAXPY, **LAUNCH),),
    "explain": (lambda: ptxwcet.explain("PW203"), ptxwcet.explain),
    "facts": (lambda: ptxwcet.facts(SAMPLES / "mandelbrot.ptx", block=(32, 8)),),
    "formula": (lambda: ptxwcet.formula(SAMPLES / "vector_add.ptx", "n=1..9", block=256),),
    "memory": (lambda: ptxwcet.memory(SAXPY, **LAUNCH), lambda: ptxwcet.memory(SAXPY, block=32)),
    "ports": (lambda: ptxwcet.ports(SAXPY, **LAUNCH),),
    "report": (lambda: ptxwcet.report(SAXPY, simulate=False, **LAUNCH),),
    "run": (lambda: ptxwcet.run(SAXPY, SAMPLES / "launches" / "saxpy.toml"),),
    "simulate": (lambda: ptxwcet.simulate(SAXPY, **LAUNCH),),
    "sweep": (),  # a table of pandas
    "what_if": (lambda: ptxwcet.what_if(ADD, {"fma.latency": 2}, **BLOCK),),
}


def error() -> ptxwcet.PtxwcetError:
    with pytest.raises(ptxwcet.PtxwcetError) as caught:
        ptxwcet.bound(SAXPY, block=256)
    return caught.value


def attributes() -> Iterator[object]:
    """What results give in turn."""
    bound = ptxwcet.bound(SAXPY, machine="h200", **LAUNCH)
    yield from (bound.machine, bound.residency, bound.roofline, *error().diagnostics)
    yield ptxwcet.analyse(SAXPY, block=256)["saxpy"]


def test_every_function_has_results_here() -> None:
    functions = (name for name in dir(ptxwcet) if inspect.isfunction(getattr(ptxwcet, name)))
    assert set(CALLS) == set(functions)


def require_same(result: Any) -> None:
    """It travels, and what comes back is and shows the same."""
    for again in (
        pickle.loads(pickle.dumps(result)),
        pickle.loads(pickle.dumps(result, 2)),
        copy.copy(result),
        copy.deepcopy(result),
    ):
        assert type(again) is type(result)
        assert again == result
        assert hash(again) == hash(result)
        assert repr(again) == repr(result)
        if hasattr(result, "text"):
            assert again.text() == result.text()
        if hasattr(result, "to_dict"):
            assert again.to_dict() == result.to_dict()
        if hasattr(result, "_repr_html_"):
            assert again._repr_html_() == result._repr_html_()


@pytest.mark.parametrize("name", sorted(CALLS))
def test_results_travel(name: str) -> None:
    results = [make() for make in CALLS[name]]
    for result in results:
        require_same(result)
    assert len({*results}) == len(results)


def test_what_results_give_travels() -> None:
    for given in attributes():
        require_same(given)


@needs_nvdisasm
def test_results_of_machine_code_travel() -> None:
    require_same(ptxwcet.cfg(CUBIN))
    params = dict.fromkeys(range(3), 64)
    require_same(ptxwcet.analyse(CUBIN, block=(16, 16), grid=(2, 2), params=params))


def test_unlike_results_are_not_equal() -> None:
    short, long = (ptxwcet.bound(ADD, block=256, params={"n": n}) for n in (1, 1000))
    assert short != long
    assert short != ptxwcet.simulate(ADD, block=256, params={"n": 1})
    assert {short: 1}[ptxwcet.bound(ADD, block=256, params={"n": 1})] == 1


def test_errors_travel() -> None:
    require_same(error())
    assert pickle.loads(pickle.dumps(error())).__notes__ == error().__notes__
    usage = UsageError((Diagnostic("PW208", "one"), Diagnostic("PW210", "two")))
    require_same(usage)
    assert usage != ptxwcet.PtxwcetError(usage.diagnostics)


def test_equal_terms_stay_one_object() -> None:
    term = source(0, 32) + const(3, 32)
    assert pickle.loads(pickle.dumps(term)) is copy.deepcopy(term) is term
    assert term.op is Op.ADD


def test_pools_give_results_and_errors_back() -> None:
    """A pool hung for ever on an error, and broke on a result."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(1) as pool:
        found = pool.apply_async(ptxwcet.bound, (ADD,), BLOCK).get(PATIENCE)
        assert found == ptxwcet.bound(ADD, **BLOCK)
        with pytest.raises(ptxwcet.PtxwcetError) as caught:
            pool.apply_async(ptxwcet.bound, (SAXPY,), {"block": 256}).get(PATIENCE)
        assert caught.value == error()
    with ProcessPoolExecutor(1, mp_context=context) as executor:
        future = executor.submit(ptxwcet.simulate, SAXPY, **LAUNCH)
        assert future.result(PATIENCE) == ptxwcet.simulate(SAXPY, **LAUNCH)
        refused = executor.submit(ptxwcet.bound, SAXPY, block=256)
        assert refused.exception(PATIENCE) == error()
    if find_spec("joblib") is not None:
        from joblib import Parallel, delayed

        made = Parallel(n_jobs=2)(delayed(ptxwcet.bound)(ADD, **BLOCK) for _ in range(2))
        assert made == [ptxwcet.bound(ADD, **BLOCK)] * 2
