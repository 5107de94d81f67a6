"""The functions of ``import ptxwcet`` that correspond to a command of the same name.

>>> import ptxwcet
>>> ptxwcet.what_if("samples/vector_add.ptx", {"memory.latency": 300}, block=256, params={"n": 9})
<what-if of samples/vector_add.ptx>
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Unpack, cast

from ptxwcet.cli.paths import split_kernel
from ptxwcet.commands.annotate.report import AnnotationReport, build_annotation
from ptxwcet.commands.annotate.study import explain_file
from ptxwcet.commands.annotate.text import render_annotation_text
from ptxwcet.commands.bound.build import build_report
from ptxwcet.commands.check.report import CheckReport, run_plan
from ptxwcet.commands.check.study import PLAN, read_plan
from ptxwcet.commands.check.text import render_check_text
from ptxwcet.commands.compare.report import (
    DiffReport,
    Result,
    bounded_version,
    compare_results,
    is_result,
    read_results,
    results_of,
)
from ptxwcet.commands.compare.text import render_difference
from ptxwcet.commands.explain.text import pages_of, render_explanations
from ptxwcet.commands.facts.study import FactsTemplate, facts_template
from ptxwcet.commands.memory.report import MemoryReport, build_memory_report, render_memory_text
from ptxwcet.commands.memory.study import study_accesses
from ptxwcet.commands.what_if.report import (
    WhatIfReport,
    build_what_if_report,
    render_what_if_text,
)
from ptxwcet.commands.what_if.study import bound_variants
from ptxwcet.library.arguments import (
    checked,
    request_of,
    said,
)
from ptxwcet.library.hints import in_python, said_in_python
from ptxwcet.library.results import Analysis, Bound, Page, Refused, Shown
from ptxwcet.library.shown import (
    annotation_tables,
    check_tables,
    difference_tables,
    explanation_tables,
    memory_tables,
    ports_tables,
    shown,
    template_tables,
    what_if_tables,
)
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.explanations import Explanation
from ptxwcet.support.extras import require_extra
from ptxwcet.support.options import File, GridArguments, MachineArguments
from ptxwcet.support.printable import plural
from ptxwcet.support.whole_files import write_text

if TYPE_CHECKING:
    import pandas

    from ptxwcet.commands.annotate.ports import PortsReport


@checked
def explain(code: object = None) -> Shown[Mapping[str, Explanation]]:
    """Explains a diagnostic and its remedy; without one, all diagnostics.

    ``code`` is ``"PW203"``, a diagnostic, a refused kernel or a PtxwcetError. Raises ValueError for
    an unknown code.

    Examples:
        >>> import ptxwcet
        >>> print(ptxwcet.explain("PW210").text().splitlines()[0])
        PW210: malformed size
    """
    if isinstance(code, Refused | PtxwcetError):
        code = code.diagnostics[0]
    name = code.code if isinstance(code, Diagnostic) else code
    if not isinstance(name, str | None):
        raise TypeError(f"explain(): code={code!r:.80} is none: a code as 'PW203' is wanted")
    pages = {
        name: replace(page, remedy=in_python(page.remedy)) for name, page in pages_of(name).items()
    }
    title = f"{len(pages)} diagnostics"
    if name is not None:
        ((title, page),) = pages.items()
        title = f"{title}: {page.title}"
    return shown(pages, title, render_explanations, explanation_tables)


@checked
def memory(source: object, **given: Unpack[MachineArguments]) -> Shown[MemoryReport]:
    """Returns the transactions of each memory access of a warp, and their cause; nothing is run.

    The report of ``ptxwcet memory``: ``kernels`` has a row for each, ``accesses`` in it a row for
    each access, also of a kernel without a bound. Arguments as of ``bound``. Raises PtxwcetError
    for input that concerns no single kernel. Cost: as ``analyse``.

    Examples:
        >>> import ptxwcet
        >>> size = {"width": 1024, "height": 1024}
        >>> found = ptxwcet.memory("samples/transpose_naive.ptx", block=(32, 8), params=size)
        >>> [(one.purpose, one.most.sectors, one.reason) for one in found.kernels[0].accesses]
        [('load', 4, 'consecutive'), ('store', 32, 'stride 4096 bytes between lanes')]
    """
    request = request_of(source, **given)
    answer = study_accesses(request)
    report = build_memory_report(answer, request.source)
    title = f"memory accesses of {request.path}"
    return shown(report, title, render_memory_text, memory_tables, answer)


@checked
def annotate(
    source: object,
    *,
    ptx: bool = False,
    at: str | Sequence[str] = (),
    **given: Unpack[GridArguments],
) -> Shown[AnnotationReport]:
    """Returns the code of kernels with the cycles of their bounds by line, and the causes.

    The report of ``ptxwcet annotate``: the code is CUDA source if available, unless ``ptx`` is
    requested. ``at``: only these parts, ``"kernel.cu:20-35"`` or a marked region, with their sums
    in ``regions``. Other arguments as of ``bound``. Raises PtxwcetError for input that concerns no
    single kernel. Cost: as the bounds, and an attribution.

    Examples:
        >>> import ptxwcet
        >>> found = ptxwcet.annotate("samples/vector_add.ptx", block=256, params={"n": 1000})
        >>> [one.cycles for one in found.kernels[0].files[0].lines if one.cycles]
        [32, 83, 539, 8]
    """
    request = request_of(source, **given)
    answer = explain_file(request, (at,) if isinstance(at, str) else tuple(at))
    report = build_annotation(answer, source=request.source, wants_ptx=ptx, only=bool(at))
    title = f"code of {request.path} with its cycles"
    return shown(report, title, render_annotation_text, annotation_tables, answer)


@checked
def ports(source: object, **given: Unpack[GridArguments]) -> Shown[PortsReport]:
    """Returns the load of the units by an iteration of each loop, and its critical chain.

    The report of ``ptxwcet annotate ports``: figures of one warp, which are not bounds. ``kernels``
    has a row for each, ``loops`` in it a row for each loop, ``instructions`` in that the cycles at
    each port. Arguments as of ``bound``. Raises PtxwcetError for input that concerns no single
    kernel. Cost: as the bounds.

    Examples:
        >>> import ptxwcet
        >>> found = ptxwcet.ports("samples/saxpy.ptx", block=256, grid=4, params={"n": 10000})
        >>> loop = found.kernels[0].loops[0]
        >>> loop.iterations, loop.ports["issue"], loop.chain_cycles
        (9, 11.0, 204.0)
    """
    # imported here: few need it, and its module has the options of its command
    from ptxwcet.commands.annotate.ports import ports_of_file, render_ports_text

    request = request_of(source, **given)
    answer, report = ports_of_file(request)
    title = f"what iterations of {request.path} take of the units"
    return shown(report, title, render_ports_text, ports_tables, answer)


@checked
def what_if(
    source: object, changes: Mapping[str, int | range | str], **given: Unpack[GridArguments]
) -> Shown[WhatIfReport]:
    """Returns the bounds on machines with other figures, each change by itself.

    ``changes`` are as for ``ptxwcet what-if --set``: ``{"fma.latency": 2, "memory.latency":
    range(100, 401, 100)}``. Other arguments as of ``bound``. Raises PtxwcetError. Cost: a bound for
    each machine.

    Examples:
        >>> import ptxwcet
        >>> launch = {"block": 256, "params": {"n": 1000}}
        >>> found = ptxwcet.what_if("samples/vector_add.ptx", {"memory.latency": 100}, **launch)
        >>> found.kernels[0].variants[0].cycles
        462
    """
    request = request_of(source, **given)
    words = [f"{what}={_figures(what, value)}" for what, value in changes.items()]
    answer = bound_variants(request, words)
    report = build_what_if_report(answer)
    title = f"what-if of {request.path}"
    return shown(report, title, render_what_if_text, what_if_tables, answer)


def _figures(what: str, value: int | range | str) -> str:
    if not isinstance(value, range):
        return str(value)
    if value.step < 1 or not value:
        message = f"{what}: {value} has no number, or counts down"
        raise PtxwcetError.of("PW325", message, help="give range(least, most + 1, step)")
    return f"{value[0]}..{value[-1]}:{value.step}"


@checked
def compare(
    old: object, new: object, *, threshold: float = 0, **given: Unpack[GridArguments]
) -> Shown[DiffReport]:
    """Returns the changes between two versions of a kernel, or between two results.

    The report of ``ptxwcet compare``. Versions are sources as of ``bound``; both are bounded with
    the same launch, which the other arguments state. Results are values of ``bound`` or
    ``analyse``, or paths of JSON that ``ptxwcet FILE`` or ``ptxwcet check`` wrote: they take no
    arguments of a launch, and ``threshold`` is the growth of a bound, in per cent, above which a
    row is ``worse``. A version may be ``"FILE:KERNEL"``. Raises PtxwcetError, and TypeError for a
    result with a version.

    Examples:
        >>> import ptxwcet
        >>> versions = "samples/transpose_naive.ptx", "samples/transpose_tiled.ptx"
        >>> launch = {"block": (32, 8), "params": {"width": 1024, "height": 1024}}
        >>> found = ptxwcet.compare(*versions, **launch)
        >>> found.kernels[0].bounds[0].growth_percent
        83.13
    """
    before, now = map(_result_of, (old, new))
    if before is None and now is None:
        if threshold:
            raise TypeError("compare(): threshold= is of two results: leave it out")
        requests = [_version(one, given) for one in (old, new)]
        (kernels, refused), (others, also) = map(bounded_version, requests)
        paths = requests[0].path, requests[1].path
        found = compare_results(paths, kernels, others, are_versions=True)
        return _compared(found, (*refused, *also))
    if before is None or now is None:
        raise TypeError("compare(): a result is compared with a result, a version with a version")
    if given:
        raise TypeError(f"compare(): {next(iter(given))}= says how to bound, and these are results")
    limit = Fraction(threshold).limit_denominator(10**9)
    return _compared(compare_results((before[0], now[0]), before[1], now[1], limit), ())


def _compared(found: DiffReport, refused: Sequence[Diagnostic]) -> Shown[DiffReport]:
    title = f"{found.old} -> {found.new}"
    return shown(found, title, render_difference, difference_tables, refused)


def _result_of(value: object) -> tuple[str, tuple[Result, ...]] | None:
    """Returns the name and the kernels of a result; None for a version."""
    if isinstance(value, Analysis | Bound):
        answer = value.answer if isinstance(value, Analysis) else value.alone
        return answer.path, tuple(results_of(build_report(answer, explain=True)))
    is_file = isinstance(value, str | os.PathLike) and os.path.isfile(value)
    if is_file and is_result(path := os.fspath(cast("File", value))):
        return path, read_results(path)
    return None


def _version(version: object, given: GridArguments) -> Request:
    """Returns the request of a version, of the kernel named after its path if there is one."""
    path, kernel = split_kernel(version) if isinstance(version, str) else (version, None)
    if kernel is None:
        return request_of(version, **given)
    if given.get("kernel") is not None:
        raise TypeError(f"compare(): kernel= names kernels, and so does {version!r:.80}")
    of_version = given.copy()
    of_version["kernel"] = kernel
    return request_of(path, **of_version)


@checked
def facts(
    source: object, *, output: File | None = None, **given: Unpack[MachineArguments]
) -> Shown[FactsTemplate]:
    """Returns the open questions of a launch in kernels, as a template of a facts file.

    What ``ptxwcet facts`` writes; with ``output`` it is written to a file that does not exist yet.
    ``questions`` is the number of open questions. Arguments as of ``bound``. Raises PtxwcetError
    for input that concerns no single kernel. Cost: a path extraction for each question.

    Examples:
        >>> import ptxwcet
        >>> ptxwcet.facts("samples/mandelbrot.ptx", block=(32, 8)).questions
        1
    """
    request = request_of(source, **given)
    template = facts_template(request)
    if output is not None:
        # imported here: the command protects existing answers
        from ptxwcet.commands.facts.command import write_template

        write_template(Path(output), template.text)
    refused = [diagnostic for row in template.refused for diagnostic in row.diagnostics]
    title = f"facts of {request.path}: {plural(template.questions, 'open question')}"
    return shown(replace(template, refused=()), title, attrgetter("text"), template_tables, refused)


@checked
def report(
    source: object,
    *,
    output: File | None = None,
    simulate: bool = True,
    **given: Unpack[GridArguments],
) -> Page:
    """Returns a page about the bounds of kernels, as ``ptxwcet report`` writes it: one HTML file.

    With ``output`` it is written to that file. ``simulate`` runs the block on the simulated
    machine, for pictures and curves. Other arguments as of ``bound``. Raises PtxwcetError. Cost: a
    dozen bounds and two dozen runs a kernel.
    """
    require_extra("report", "ptxwcet.report")
    if simulate:
        require_extra("sim", "ptxwcet.report() without simulate=False")
    # imported here: parts of the extra
    from ptxwcet.cli.made import page_time
    from ptxwcet.commands.page.render import render_page
    from ptxwcet.commands.page.report import build_page, plain_name
    from ptxwcet.commands.page.study import reasons, study_kernels
    from ptxwcet.opened.opening import files_of
    from ptxwcet.report.page.parts import Made

    request = request_of(source, **given)
    answer = study_kernels(request, draws_runs=simulate)
    call = f"ptxwcet.report({said(request.path, simulate=simulate, **given)})"
    page = build_page(answer, request.source, Made(call, page_time(), files_of(request, answer)))
    html = render_page(page)
    if output is not None:
        write_text(Path(output), html, "PW233")
    refused = [reason for row in answer.answered for reason in reasons(row)]
    refused += [diagnostic for row in answer.refused for diagnostic in row.diagnostics]
    return Page(plain_name(page), html, said_in_python([*refused, *page.failures]))


@checked
def check(plan: File = PLAN, *, workers: int = 1, cache: File | None = None) -> Shown[CheckReport]:
    """Checks all kernels of a plan against their budgets, as ``ptxwcet check`` does.

    The result is the same for any number of ``workers``, which are processes, and without
    ``cache``, a folder of answers. Raises PtxwcetError for a plan with mistakes and for an unusable
    cache (PW825); a refused kernel is a row. Cost: a bound for each row whose answer is not cached.

    Examples:
        >>> import ptxwcet
        >>> report = ptxwcet.check("samples/ptxwcet.toml", workers=2)
        >>> report.passed, report.checks[0].outcome
        (7, 'passed')
    """
    folder = None if cache is None else Path(cache)
    found = run_plan(read_plan(os.fspath(plan), folder), workers, cache=folder)
    return shown(found, f"checks of {found.plan}", render_check_text, check_tables)


@checked
def sweep(
    plan: File = "sweep.toml",
    *,
    output: File | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    resume: bool = False,
    cache: File | None = None,
) -> pandas.DataFrame:
    """Returns the bound of every unit of a plan, as ``ptxwcet sweep`` computes it: a row a unit.

    The columns are those of ``results.parquet`` (docs/results.md). ``output`` is the folder of the
    answers and the tables, which ``resume`` continues; without one nothing is kept. ``workers``
    units are analysed at once (one a core), or as many as the workers of a Dask ``scheduler`` can;
    the rows do not depend on it. ``cache`` is a folder of answers that several plans and checks
    share. Raises PtxwcetError for a plan with mistakes, a cluster that is missing or lost; a unit
    without a bound is a row. Cost: a bound for each row.

    Examples:
        >>> import ptxwcet
        >>> variants = ptxwcet.sweep("samples/sweep.toml")
        >>> of_saxpy = variants[(variants.kernel == "saxpy") & (variants.n == 1_024_000)]
        >>> ranked = of_saxpy.dropna(subset="seconds").sort_values("seconds")
        >>> ranked[["machine", "threads", "cycles"]].head(1).values.tolist()
        [['titan-v', 512, 118082]]
    """
    if workers is not None and scheduler is not None:
        raise TypeError("sweep(): workers= is of this computer: leave it out with scheduler=")
    if resume and output is None:
        raise TypeError("sweep(): resume=True goes on in a folder: say output=, too")
    require_extra("sweep", "ptxwcet.sweep")
    # imported here: parts of the extra
    import pandas

    from ptxwcet.sweeps.engine import chosen_cluster
    from ptxwcet.sweeps.sweep_plan import read_sweep_plan
    from ptxwcet.sweeps.sweep_run import compiled_in, run_sweep
    from ptxwcet.sweeps.tables import PARQUET

    kept = None if cache is None else Path(cache)
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / "sweep" if output is None else Path(output)
        read = read_sweep_plan(os.fspath(plan), kept or compiled_in(folder, os.fspath(plan)))
        run_sweep(
            read,
            folder,
            lambda: chosen_cluster(workers if scheduler is None else scheduler),
            resume=resume,
            cache=kept,
        )
        # integer columns remain integers if values are missing
        return pandas.read_parquet(folder / PARQUET, dtype_backend="numpy_nullable")
