"""Our kernels on a GPU beside their bounds: block cycles, launches, and what they compute.

    python benchmarks/silicon/blocks.py prepare KIT             # here: kernels and launches
    python benchmarks/silicon/blocks_run.py KIT RESULTS       # there, with cuda-bindings alone
    python benchmarks/silicon/blocks.py bound KIT BOUNDS --machine h200            # here: minutes
    python benchmarks/silicon/blocks_compare.py KIT BOUNDS RESULTS      # here: the page, its JSON

Every launch of the samples, the suite, the kernels of the hybrid experiment, voronoi and plain code
whose launch file gives all arguments and that the emulator runs. What is measured of a block is a
copy of the kernel that reads ``%clock`` first and before it ends: its text is otherwise the same,
and the bound beside it is that of this copy, from its PTX and from the machine code that ran.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import math
import multiprocessing
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from blocks_run import built
from compare import GPUS, launch_file

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.run.study import diagnostics_of, execute_launch, read_launch
from ptxwcet.emulator.launch import EmulatorOptions
from ptxwcet.emulator.launch_arrays import ArraySource
from ptxwcet.emulator.launch_model import LaunchFile
from ptxwcet.emulator.layout import argument_bytes
from ptxwcet.ir.kernel import Kernel, Module
from ptxwcet.library.arguments import request_of
from ptxwcet.library.results import Analysis, Refused
from ptxwcet.machine.loader import load_machine
from ptxwcet.methods.instrument.points import KernelPoints, choose_points
from ptxwcet.opened.front_ends import read_program, read_source
from ptxwcet.opened.opening import read_module
from ptxwcet.opened.request import Request
from ptxwcet.ptx.functions import IS_FUNCTION, head_end
from ptxwcet.support.comments import blank_comments
from ptxwcet.support.diagnostics import PtxwcetError

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "benchmarks"))
from kernel_suite import read_answers  # noqa: E402

KERNELS = ROOT / "benchmarks" / "kernels"
ARCH = "sm_90"
MOST_EMULATED = 1_500_000
MOST_TIMED = 1_200_000
"""Threads of a launch whose blocks are timed: each writes 16 bytes."""


@dataclass(frozen=True)
class Launched:
    """A launch: where it is from, its launch file and the PTX file that has its kernel."""

    group: str
    launch: Path
    path: Path
    facts: Path | None = None

    @property
    def name(self) -> str:
        """``group/launch``, which no two have in common."""
        return f"{self.group}/{self.launch.stem}"


SILICON = "silicon"
FOLDERS = (
    ("samples", ROOT / "samples", "launches"),
    ("suite", KERNELS / "suite", "launches"),
    ("hybrid", KERNELS / "hybrid", "launches"),
    ("voronoi", KERNELS / "voronoi", "."),
    ("hybrid small", KERNELS / "hybrid", "small"),
    ("plain", KERNELS / "plain", "launches"),
)
ORDER = ("samples", "suite", "hybrid", "voronoi", SILICON, "hybrid small", "plain")


def launched(kit: Path) -> Iterator[Launched]:
    """All launches, folder by folder, and those of the table of another GPU (``compare.py``).

    The latter have no launch files: these are written into the kit.
    """
    folder = kit / "launches"
    folder.mkdir(parents=True, exist_ok=True)
    for row in GPUS[0].launches():
        path = folder / f"{row['kernel']}_{row['elements'] or row['rows']}.toml"
        lines = launch_file(row).splitlines()
        lines = [line for line in lines if "registers_per" not in line]
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        yield Launched(SILICON, path, HERE / f"{row['kernel']}.ptx")
    for group, folder, launches in FOLDERS:
        homes = {
            kernel.name: path
            for path in sorted(folder.glob("*.ptx"))
            for kernel in _module(path).kernels
        }
        for launch in sorted((folder / launches).glob("*.toml")):
            data = tomllib.loads(launch.read_text(encoding="utf-8"))
            if "kernel" not in data:
                continue
            facts = folder / "facts" / launch.name
            known = facts if facts.exists() else None
            yield Launched(group, launch, homes[data["kernel"]], known)


_MODULES: dict[Path, Module] = {}


def _module(path: Path) -> Module:
    if path not in _MODULES:
        _MODULES[path] = read_program(read_source(str(path)))
    return _MODULES[path]


# --- The timed copy -------------------------------------------------------------------------------

_PREFIX = "pwtime"
_DECLARED = f"""
\t.reg .b32 %{_PREFIX}_start, %{_PREFIX}_end, %{_PREFIX}_sm, %{_PREFIX}_one;
\t.reg .b32 %{_PREFIX}_at, %{_PREFIX}_in, %{_PREFIX}_by, %{_PREFIX}_of;
\t.reg .b64 %{_PREFIX}_to;
\tmov.u32 %{_PREFIX}_start, %clock;
"""
_ENDED = """\
{guard}mov.u32 {p}_end, %clock;
mov.u32 {p}_sm, %smid;
mov.u32 {p}_one, 1;
mov.u32 {p}_at, %ctaid.z;
mov.u32 {p}_by, %nctaid.y;
mov.u32 {p}_of, %ctaid.y;
mad.lo.u32 {p}_at, {p}_at, {p}_by, {p}_of;
mov.u32 {p}_by, %nctaid.x;
mov.u32 {p}_of, %ctaid.x;
mad.lo.u32 {p}_at, {p}_at, {p}_by, {p}_of;
mov.u32 {p}_in, %tid.z;
mov.u32 {p}_by, %ntid.z;
mad.lo.u32 {p}_at, {p}_at, {p}_by, {p}_in;
mov.u32 {p}_by, %ntid.y;
mov.u32 {p}_of, %tid.y;
mad.lo.u32 {p}_at, {p}_at, {p}_by, {p}_of;
mov.u32 {p}_by, %ntid.x;
mov.u32 {p}_of, %tid.x;
mad.lo.u32 {p}_at, {p}_at, {p}_by, {p}_of;
ld.param.u64 {p}_to, [{parameter}];
cvta.to.global.u64 {p}_to, {p}_to;
mad.wide.u32 {p}_to, {p}_at, 16, {p}_to;
{guard}st.global.v4.u32 [{p}_to], {{{p}_start, {p}_end, {p}_sm, {p}_one}};
"""


def timed_text(module: Module, kernels: Sequence[Kernel]) -> str:
    """The text of a module whose ``kernels`` write when each thread begins and ends, and its SM.

    They take one more parameter, the address of 16 bytes a thread; nothing else is changed. Cost:
    linear in the text.
    """
    text = module.source.text
    assert _PREFIX not in text
    insertions: list[tuple[int, str]] = []
    for points in choose_points(kernels, module, ()):
        insertions += _insertions(text, points)
    pieces, done = [], 0
    for offset, new in sorted(insertions, key=lambda one: one[0]):
        pieces += [text[done:offset], new]
        done = offset
    return "".join([*pieces, text[done:]])


def _insertions(text: str, points: KernelPoints) -> Iterator[tuple[int, str]]:
    kernel, start = points.kernel, points.kernel.span.start
    keyword = IS_FUNCTION.match(text, start)
    assert keyword is not None
    head = blank_comments(text[start : head_end(text, keyword.end())])
    parameter = f"{_PREFIX}_buffer"
    if "(" in head:
        before = "," if kernel.parameters else ""
        yield start + head.rindex(")"), f"{before}\n\t.param .u64 {parameter}\n"
    else:
        name = re.search(r"\.entry\s+[\w$%]+", head)
        assert name is not None
        yield start + name.end(), f"(\n\t.param .u64 {parameter}\n)"
    yield start + len(head) + 1, _DECLARED
    for end in points.ends:
        guard = f"@{end.guard} " if end.guard else ""
        code = _ENDED.format(guard=guard, p=f"%{_PREFIX}", parameter=parameter)
        line = text.rfind("\n", 0, end.offset) + 1
        if text[line : end.offset].strip(" \t"):
            yield end.offset, "\n" + code
        else:
            yield line, code


# --- The kit --------------------------------------------------------------------------------------


def job_of(one: Launched) -> dict[str, Any] | str:
    """What a GPU needs to run a launch and what the emulator says of it; or why there is nothing.

    Cost: that of the emulator's run.
    """
    module = _module(one.path)
    try:
        launch = read_launch(str(one.launch), module, Request(str(one.path)))
        arguments = [_argument(launch, number) for number in range(len(launch.arguments))]
        given = launch.variable_bytes()
    except PtxwcetError as error:
        return error.diagnostics[0].message
    begin = time.monotonic()
    expected: dict[int, str] = {}
    threads = math.prod(launch.grid) * math.prod(launch.block)
    findings: list[str] = []
    try:
        if threads > MOST_EMULATED // 10:
            raise PtxwcetError.of("PW411", "more instructions than are emulated here")
        options = EmulatorOptions(max_instructions=MOST_EMULATED)
        execution = execute_launch(module, launch, options)
        findings = [row.code for row in diagnostics_of(execution, launch.block, launch.grid)]
        if not execution.is_complete:
            return f"the emulator does not run it to its end: {', '.join(findings)}"
        for number, array in enumerate(execution.buffers):
            if array is not None:
                expected[number] = hashlib.sha256(array.tobytes()).hexdigest()
    except PtxwcetError as error:
        findings = [row.code for row in error.diagnostics]
        if "instructions" not in error.diagnostics[0].message:
            return f"the emulator refuses: {error.diagnostics[0].message}"
    for number, argument in enumerate(arguments):
        argument["expected"] = expected.get(number)
    variables = [row.name for row in module.variables if row.space in ("const", "global")]
    return {
        "name": one.name,
        "kernel": launch.kernel.name,
        "grid": launch.grid,
        "block": launch.block,
        "is_timed": threads <= MOST_TIMED,
        "dynamic_shared": launch.dynamic_shared_bytes,
        "arguments": arguments,
        "variables": variables,
        "given": {name: base64.b64encode(data).decode() for name, data in given.items()},
        "findings": sorted(set(findings)),
        "seconds": round(time.monotonic() - begin, 2),
    }


def emulated(one: Launched) -> tuple[str, dict[int, Any]]:
    """The PTX of a launch's kernel, and the arrays that the emulator computes."""
    module = _module(one.path)
    launch = read_launch(str(one.launch), module, Request(str(one.path)))
    execution = execute_launch(module, launch, EmulatorOptions(max_instructions=MOST_EMULATED))
    text = module.source.text[launch.kernel.span.start :].partition("\n}")[0]
    return text, dict(enumerate(execution.buffers))


def _argument(launch: LaunchFile, number: int) -> dict[str, Any]:
    """The bytes of a parameter, or how its array is built."""
    argument, value = launch.arguments[number], launch.values()[number]
    if not isinstance(value, np.ndarray):
        data = argument_bytes(launch.kernel, argument.parameter, value)
        return {"name": argument.name, "bytes": base64.b64encode(data).decode()}
    source = argument.value
    assert isinstance(source, ArraySource)
    described: dict[str, Any] = {
        "name": argument.name,
        "dtype": value.dtype.name,
        "shape": list(value.shape),
        "settings": dict(source.settings),
        "initialiser": source.initialiser,
    }
    if source.initialiser in ("", "values", "arange"):
        packed = base64.b64encode(zlib.compress(value.tobytes(), 9)).decode()
        described |= {"initialiser": "raw", "settings": {}, "data": packed}
    assert built(described).tobytes() == value.tobytes(), (launch.file.name, argument.name)
    return described


def prepare(kit: Path) -> None:
    """Writes the kit: ``jobs.json``, machine code of the kernels and of their timed copies."""
    kit.mkdir(parents=True, exist_ok=True)
    chosen = sorted(launched(kit), key=lambda one: ORDER.index(one.group))
    with multiprocessing.Pool() as pool:
        found = pool.map(job_of, chosen, chunksize=1)
    jobs, left = [], {}
    names: dict[Path, set[str]] = {}
    for one, job in zip(chosen, found, strict=True):
        if isinstance(job, str):
            left[one.name] = job
            continue
        names.setdefault(one.path, set()).add(job["kernel"])
        stem = f"{one.group.split()[0]}-{one.path.stem}"
        ptx = str(one.path.relative_to(ROOT))
        code = {kind: f"{stem}.{kind}.cubin" for kind in ("plain", "unfused", "timed")}
        launch = one.launch
        where = str(launch.relative_to(ROOT if launch.is_relative_to(ROOT) else kit))
        files = {"ptx": ptx, "launch": where, "group": one.group}
        facts = None if one.facts is None else str(one.facts.relative_to(ROOT))
        jobs.append({**job, **code, **files, "facts": facts})
    for path, kernels in names.items():
        module = _module(path)
        stem = f"{path.parent.name}-{path.stem}"
        rows = [row for row in module.kernels if row.name in kernels]
        timed = kit / "timed" / f"{stem}.ptx"
        timed.parent.mkdir(exist_ok=True)
        timed.write_text(timed_text(module, rows), encoding="utf-8")
        _assemble(path, kit / f"{stem}.plain.cubin")
        _assemble(path, kit / f"{stem}.unfused.cubin", "--fmad=false")
        _assemble(timed, kit / f"{stem}.timed.cubin")
    _assemble(HERE / "spin.ptx", kit / "spin.cubin")
    shutil.copy(HERE / "blocks_run.py", kit)
    (kit / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
    (kit / "left.json").write_text(json.dumps(left, indent=1), encoding="utf-8")
    print(len(jobs), "launches;", len(left), "left out:", json.dumps(left, indent=1))


def _assemble(ptx: Path, cubin: Path, *options: str) -> None:
    command = ["ptxas", f"-arch={ARCH}", "-O3", *options, str(ptx), "-o", str(cubin)]
    subprocess.run(command, check=True, capture_output=True, text=True)


# --- Bounds ---------------------------------------------------------------------------------------

COLUMNS = ("timed PTX", "timed code", "plain PTX", "plain code")
MOST_SECONDS = 8
"""Of processor time, for a bound."""
L2_CYCLES = 367
"""The longest access that hit the L2 cache of an H200, of 200,000 in chases of one warp."""
Bounded = dict[str, Any]


Task = tuple[dict[str, Any], str, str, str]


def bounds_of(task: Task) -> tuple[str, str, Bounded, Bounded | None]:
    """The bounds of a launch, of one block and of all, in cycles; or why there are none.

    Of the timed copy a second time with memory that answers as fast as the L2 cache. Before them
    stand launch and column.
    """
    job, kit, machine, column = task
    what, kind = column.split()
    stem = job["plain"].removesuffix(".plain.cubin")
    cubin = Path(kit) / job[what]
    ptx = Path(kit) / "timed" / f"{stem}.ptx" if what == "timed" else ROOT / job["ptx"]
    with tempfile.TemporaryDirectory() as folder:
        launch = Path(folder) / "launch.toml"
        launch.write_text(indexed_launch(job, Path(kit), what == "timed"), encoding="utf-8")
        given: dict[str, Any] = {"launch": launch, "machine": machine, "kernel": job["kernel"]}
        if kind == "code":
            source, given["machine_code"] = cubin, True
        else:
            source, given["ptxas_info"] = ptx, cubin
        found = _bounded(source, **given)
        answers = read_answers().get(job["kernel"], ()) if job["group"] == "suite" else ()
        if found.get("refused") == "PW203" and kind == "PTX" and answers:
            given["loop_bounds"] = {answer.loop: answer.bound for answer in answers}
            found = _bounded(source, **given)
        fast = what == "timed" and "refused" not in found
        with_l2 = _bounded(source, **given, memory_latency=L2_CYCLES) if fast else None
        return job["name"], column, found, with_l2


@lru_cache(maxsize=4)
def _read(path: str, is_code: bool) -> Module:
    return read_module(Request(path, is_code=is_code))


class OverError(BaseException):
    """A bound takes too long; no Exception, which a study would turn into a refusal."""


def _bounded(source: Path, **given: Any) -> Bounded:
    def over(*_: object) -> None:
        raise OverError

    signal.signal(signal.SIGPROF, over)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS, 1)  # again, as a callback may swallow it
    try:
        request = request_of(source, **given)
        answer = bound_file(request, _read(request.path, request.is_code))
        (found,) = Analysis(answer).values()
        if isinstance(found, Refused):
            raise PtxwcetError(found.diagnostics)
    except PtxwcetError as error:
        return {"refused": error.diagnostics[0].code, "why": error.diagnostics[0].message}
    except OverError:
        return {"refused": "seconds", "why": f"over {MOST_SECONDS} s"}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return {"block": found.cycles, "launch": found.launch_cycles}


def indexed_launch(job: Mapping[str, Any], kit: Path, is_timed: bool) -> str:
    """The launch file of a job with arguments by their places, as the timed copy has one more."""
    path = kit / job["launch"] if job["group"] == SILICON else ROOT / job["launch"]
    data = tomllib.loads(path.read_text(encoding="utf-8"))
    lines = [f"kernel = {json.dumps(job['kernel'])}"]
    lines += [f"{key} = {job[key]}" for key in ("grid", "block")]
    lines += [f"dynamic_shared_bytes = {job['dynamic_shared']}", "[arguments]"]
    for number, argument in enumerate(job["arguments"]):
        lines.append(f"{number} = {_toml(data['arguments'][argument['name']])}")
    if is_timed:
        threads = math.prod(job["grid"]) * math.prod(job["block"])
        array = {"shape": threads * 4, "dtype": "uint32", "init": "zeros"}
        lines.append(f"{len(job['arguments'])} = {_toml(array)}")
    if "variables" in data:
        lines += [
            "[variables]",
            *(f"{key} = {_toml(one)}" for key, one in data["variables"].items()),
        ]
    return "\n".join(lines) + "\n"


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(one)}" for key, one in value.items()) + " }"
    return json.dumps(value)


def write_bounds(
    kit: Path,
    out: Path,
    machine: str,
    columns: Sequence[str],
    groups: Sequence[str],
    workers: int | None,
) -> None:
    """The bounds of the launches of a kit, written as they come: many minutes.

    What the file has already of the same machine is kept.
    """
    jobs = json.loads((kit / "jobs.json").read_text(encoding="utf-8"))
    described = load_machine(machine)
    data: dict[str, Any] = {"machine": described.name, "mhz": described.clock_mhz}
    rows: dict[str, dict[str, Bounded]] = {job["name"]: {} for job in jobs}
    l2: dict[str, dict[str, Bounded]] = {job["name"]: {} for job in jobs}
    data |= {"rows": rows, "l2": l2}
    if out.exists():
        before = json.loads(out.read_text(encoding="utf-8"))
        for key, there in (("rows", rows), ("l2", l2)):
            there |= before[key]
    ordered = sorted(jobs, key=lambda job: (job["plain"], job["name"]))  # a file is read once
    tasks = [
        (job, str(kit), machine, column)
        for column in columns
        for job in ordered
        if job["group"] in groups and column not in rows[job["name"]]
    ]
    with multiprocessing.Pool(workers) as pool:
        answers = pool.imap_unordered(bounds_of, tasks, chunksize=4)
        for number, (name, column, found, fast) in enumerate(answers, 1):
            rows[name][column] = found
            if fast is not None:
                l2[name][column] = fast
            if number % 16 == 0 or number == len(tasks):
                out.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    """Does what is asked."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    tasks = parser.add_subparsers(dest="task", required=True)
    one = tasks.add_parser("prepare")
    one.add_argument("kit", type=Path)
    one = tasks.add_parser("bound")
    one.add_argument("kit", type=Path)
    one.add_argument("bounds", type=Path)
    one.add_argument("--machine", default="h200")
    one.add_argument("--columns", nargs="+", choices=COLUMNS, default=COLUMNS, metavar="COLUMN")
    one.add_argument("--groups", nargs="+", choices=ORDER, default=ORDER, metavar="GROUP")
    one.add_argument("--workers", type=int, help="processes; without it one a core")
    asked = parser.parse_args()
    if asked.task == "prepare":
        prepare(asked.kit)
    if asked.task == "bound":
        write_bounds(
            asked.kit, asked.bounds, asked.machine, asked.columns, asked.groups, asked.workers
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
