"""Random PTX through ptxas, executed on both sides: the memory must be the same.

    python benchmarks/translation_campaign.py --state FILE [--plan small] [--out SUMMARY.json]
    python benchmarks/translation_campaign.py --break ROW
    python benchmarks/translation_campaign.py --corpora [--out SUMMARY.json]

Programs are those of :mod:`translation_programs`, 100 a module; ptxas makes machine code of each
module at -O1 and -O3 for sm_80 and sm_90, nvdisasm lists it, and the terms of
``ptxwcet/sass/meanings.py`` execute it (tests/oracle/sass_execution.py) on the data that the
emulator executed the PTX on. Words must be equal, those of approximations (a buffer of their own)
up to 1e-5. ``--state`` keeps a line for each module: a run goes on behind what is there.
``--claims``: one program in so many is held to what the analyses claim of its code, too (visits of
blocks, states, branches, accesses: tests/oracle/machine_code_containment.py).

``--break`` makes the mistake of a row of tests/data/sass/breaks.tsv, and must see it. ``--corpora``
executes the samples, the suite and the hybrid kernels. ptxas and nvdisasm must be on the PATH.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import kernel_suite
import numpy as np
import random_launches
import translation_programs
from experiments import hybrid_kernels
from numpy.typing import NDArray
from translation_programs import KINDS

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))

import sass_execution
from cubin_tables import tables_of
from machine_code_containment import held
from sass_execution import Program, UncoveredError, constants_of, run_machine_code

from ptxwcet.commands.run.study import emulated, read_launch
from ptxwcet.emulator.execute import execute
from ptxwcet.emulator.launch import EmulatedLaunch, EmulatorOptions
from ptxwcet.ir.kernel import Instruction, Kernel, Module, UnreadKernel
from ptxwcet.ir.op_classes import ControlEffect
from ptxwcet.ir.semantics import meaning_of
from ptxwcet.ir.terms import Meaning
from ptxwcet.opened.request import Request
from ptxwcet.ptx.parser import parse_module
from ptxwcet.ptx.reading import read_source
from ptxwcet.sass import disassembler, lowering, meanings
from ptxwcet.sass.lowering import read_program
from ptxwcet.sass.opcodes import ROWS
from ptxwcet.sass.reading import listed
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile

ROOT = Path(__file__).parents[1]
BREAKS = ROOT / "tests" / "data" / "sass" / "breaks.tsv"
BUILDS = tuple((architecture, level) for architecture in (80, 90) for level in (1, 3))
MODULE = 100
TOLERANCE = 1e-5
TOLERANCES = {
    "lu_block": 1e-3,
    "cholesky_block": 1e-4,
    "forward_substitution": 1e-2,
    "solve_many": 1e-2,
}
"""Of kernels whose values grow, as in tests/oracle/suite_runs.py."""
ROUNDING = 2e-5
"""Of all others that people wrote."""
MOST_WARP_INSTRUCTIONS = 4_000
MOST_STEPS = 40_000
PLANS = {
    "whole": {"integers": 8_000, "exchanges": 3_000, "floats": 3_000},
    "small": {"integers": 100, "exchanges": 100, "floats": 100},
}
"""How many programs of a kind; of those that are not named 1,500 and 100."""
OTHERS = {"whole": 1_500, "small": 100}
MADE_OTHERWISE = {
    **dict.fromkeys(("integers 2516", "integers 3712", "exchanges 1297"), "cnot"),
    **dict.fromkeys(("integers 3020", "integers 3376", "integers 3609"), "cvt.u16.s8"),
    **dict.fromkeys(("integers 5320", "integers 6496", "integers 7069"), "cvt.u16.s8"),
    **dict.fromkeys(("nested 521", "leavers 533", "switches 1301"), "count"),
    "integers 2690": "mad.hi",
    "integers 3516": "sub.sat",
}
"""Programs of the plan that ptxas makes something else of than PTX says, and the row of
docs/experiments/machine-code-translation.md that has why; found by hand, one by one.
"""
Buffers = Sequence[NDArray[Any] | None]


@dataclass
class Tally:
    """What came of a module of programs.

    ``ended``: programs that the emulator executed to their end; ``not_ended`` the others, by why.
    By build (``sm_80 -O1``): ``equal``, ``refused`` by reason, ``words`` that were compared.
    """

    kind: str
    first: int
    programs: int
    ended: int = 0
    not_ended: Counter[str] = field(default_factory=Counter)
    equal: Counter[str] = field(default_factory=Counter)
    words: Counter[str] = field(default_factory=Counter)
    instructions: Counter[str] = field(default_factory=Counter)
    refused: dict[str, Counter[str]] = field(default_factory=dict)
    different: list[str] = field(default_factory=list)
    claims: Counter[str] = field(default_factory=Counter)
    departed: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def refuse(self, build: str, why: str) -> None:
        self.refused.setdefault(build, Counter())[why] += 1


@dataclass
class Built:
    """A module of machine code, with the tables of each kernel."""

    name: str
    source: SourceFile
    tables: Mapping[str, bytes]


def built(text: str, folder: Path, builds: Sequence[tuple[int, int]] = BUILDS) -> list[Built]:
    """A module of PTX by ptxas, and listed."""
    found = []
    (folder / "k.ptx").write_text(text, encoding="utf-8")
    for architecture, level in builds:
        cubin = folder / "k.cubin"
        options = [f"-arch=sm_{architecture}", f"-O{level}"]
        subprocess.run(["ptxas", *options, str(folder / "k.ptx"), "-o", str(cubin)], check=True)
        data = cubin.read_bytes()
        name = f"sm_{architecture} -O{level}"
        found.append(Built(name, listed("k.cubin", data), tables_of(data)))
    return found


def modules(tasks: Sequence[tuple[str, range]]) -> Iterator[tuple[str, range, Any, list[Built]]]:
    """The modules of tasks with their machine code; the next is made while one is executed.

    One that ptxas does not compile comes in halves, and at last without machine code.
    """
    with TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:

        def make(task: tuple[str, range]) -> list[tuple[str, range, Any, list[Built]]]:
            kind, seeds = task
            made = translation_programs.made(kind, seeds)
            try:
                return [(kind, seeds, made, built(made.text, Path(folder)))]
            except subprocess.CalledProcessError:  # ptxas itself ends by a signal
                if len(seeds) == 1:
                    return [(kind, seeds, made, [])]
                middle = len(seeds) // 2
                return make((kind, seeds[:middle])) + make((kind, seeds[middle:]))

        under_way = pool.submit(make, tasks[0]) if tasks else None
        for number in range(len(tasks)):
            assert under_way is not None
            done = under_way.result()
            if number + 1 < len(tasks):
                under_way = pool.submit(make, tasks[number + 1])
            yield from done


def alike(found: Buffers, expected: Buffers, room: float) -> bool:
    """Whether words and doubles are equal, and numbers of single precision, which are those that
    were approximated, up to ``room``.
    """
    for one, other in zip(found, expected, strict=True):
        if one is None or other is None:
            continue
        is_near, other = one.dtype == np.float32, other.reshape(one.shape)
        if is_near and not np.allclose(one, other, room, room, equal_nan=True):
            return False
        if not is_near and not np.array_equal(one, other, equal_nan=one.dtype.kind == "f"):
            return False
    return True


def written(before: EmulatedLaunch, after: Buffers) -> int:
    """How many words of memory a program has changed."""
    count = 0
    for one, other in zip(before.arguments, after, strict=True):
        if isinstance(one, np.ndarray) and other is not None:
            a, b = (np.ascontiguousarray(each).reshape(-1).view(np.uint8) for each in (one, other))
            differ = np.flatnonzero(a != b)
            count += len(np.unique(differ // 4))
    return count


def outcome(
    kernel: Kernel,
    module: Module,
    tables: bytes,
    launch: EmulatedLaunch,
    expected: Buffers,
    room: float = TOLERANCE,
) -> str:
    """What comes of a kernel of machine code: ``equal``, ``different``, or why it is not run."""
    constants = constants_of(kernel, module, launch)
    try:
        program = Program(kernel, module, tables)
        found = run_machine_code(program, launch, constants)
        if alike(found, expected, room):
            return "equal"
        if program.has_open_bits and not alike(
            found, run_machine_code(program, launch, constants), room
        ):
            return "bits that are left open"
    except UncoveredError as error:
        return str(error)
    except PtxwcetError as error:  # a function that it calls is not read
        return error.diagnostics[0].message.split(": ", 1)[-1].split(" `(")[0]
    except (AssertionError, KeyError) as error:  # it does not end, leaves memory or the code
        return f"different: {type(error).__name__} {error}"
    return "different"


def tried(
    kind: str, seeds: range, made: translation_programs.Made, code: list[Built], claims: int
) -> Tally:
    """Executes a module on both sides."""
    begin = time.process_time()
    tally = Tally(kind, seeds.start, len(seeds))
    module = parse_module(SourceFile("k.ptx", made.text))
    expected: dict[str, Buffers] = {}
    for kernel in module.kernels:
        options = EmulatorOptions(max_instructions=MOST_WARP_INSTRUCTIONS)
        try:
            found = execute(kernel, module, made.launches[kernel.name], options=options)
        except PtxwcetError as error:
            tally.not_ended[error.diagnostics[0].code] += 1
            continue
        if found.findings:
            tally.not_ended[found.findings[0].code] += 1
            continue
        expected[kernel.name] = found.buffers
    tally.ended = len(expected)
    if expected and not code:
        for architecture, level in BUILDS:
            tally.refuse(f"sm_{architecture} -O{level}", "ptxas ends by a signal")
    for one in code:
        machine_code = read_program(one.source)
        for kernel in machine_code.kernels:
            if kernel.name not in expected or not kernel.is_entry:
                continue
            if isinstance(kernel, UnreadKernel):
                tally.refuse(one.name, kernel.failure.message)
                continue
            launch, tables = made.launches[kernel.name], one.tables.get(kernel.name, b"")
            result = outcome(kernel, machine_code, tables, launch, expected[kernel.name])
            if result == "equal":
                tally.equal[one.name] += 1
                tally.words[one.name] += written(launch, expected[kernel.name])
                tally.instructions[one.name] += len(kernel.instructions)
                if claims and int(kernel.name[1:]) % claims == 0:
                    claimed(tally, kernel, machine_code, launch, tables)
            elif result.startswith("different"):
                tally.different.append(f"{kind} {kernel.name[1:]} {one.name}: {result}")
            else:
                tally.refuse(one.name, result)
    tally.seconds = time.process_time() - begin
    return tally


def claimed(
    tally: Tally, kernel: Kernel, module: Module, launch: EmulatedLaunch, tables: bytes
) -> None:
    """Holds an execution to what the analyses claim of the code."""
    if any(one.control is ControlEffect.CALL for one in kernel.instructions):
        tally.claims["not executed: calls"] += 1
        return
    try:
        found = held(kernel, module, launch, tables=tables)
    except UncoveredError as error:
        tally.claims[f"not executed: {error}"] += 1
        return
    except PtxwcetError as error:
        tally.claims[f"refused {error.diagnostics[0].code}"] += 1
        return
    tally.claims["kernels"] += 1
    tally.claims[f"refused {found.refused}" if found.refused else "with paths"] += 1
    for name in ("visits", "states", "merged", "accesses", "branches", "uniform", "footprints"):
        tally.claims[name] += getattr(found, name)
    tally.departed += [f"{tally.kind} {kernel.name}: {one}" for one in found.wrong]


# --- the control ----------------------------------------------------------------------------------


def install(row: int) -> str:
    """Makes a mistake in a builder of terms; what was changed."""
    text, other = BREAKS.read_text(encoding="utf-8").splitlines()[row].split("\t")
    text, other = (one.replace("\\n", "\n") for one in (text, other))
    broken = ModuleType("broken")
    source = Path(meanings.__file__).read_text(encoding="utf-8")
    assert text in source, text
    exec(compile(source.replace(text, other, 1), "broken", "exec"), broken.__dict__)
    rows = {name: broken.meaning_of_opcode(name) for name in ROWS}

    def altered(instruction: Instruction, registers: Mapping[str, str]) -> Meaning | None:
        right = meaning_of(instruction, registers)
        row = rows[instruction.opcode.name] if instruction.opcode else None
        if right is None or row is None:
            return right
        found = row(instruction.modifiers, instruction.operands)
        return found if found and len(found.results) == len(right.results) else None

    vars(sass_execution)["meaning_of"] = altered
    return f"{text} -> {other}"


# --- kernels that people wrote --------------------------------------------------------------------


def launches() -> Iterator[tuple[str, Path, str, EmulatedLaunch]]:
    """Corpus, file of PTX, kernel and launch of samples, suite and hybrid kernels."""
    for kind in random_launches.KINDS:
        if kind.file.startswith("samples"):
            _, _, launch, _ = random_launches.random_launch(kind, 1)
            yield "samples", ROOT / kind.file, kind.kernel, launch
    files = [("suite", entry.path, entry.launch) for entry in kernel_suite.entries()]
    for one in hybrid_kernels.hybrid_kernels():
        files.append(("hybrid", one.path, one.small))
    for corpus, path, file in files:
        module = parse_module(read_source(str(path)))
        launch = read_launch(str(file), module, Request(str(path)))
        yield corpus, path, launch.kernel.name, emulated(launch)


class TooLongError(Exception):
    """A kernel that takes more than its seconds of the processor."""


def _too_long(_number: int, _frame: object) -> None:
    raise TooLongError


def corpora(
    builds: Sequence[tuple[int, int]], seconds: int, state: Path | None
) -> dict[str, dict[str, Any]]:
    """How many of the kernels of each corpus are executed on both sides, and what of the rest.

    Those that a state has as equal are not executed again.
    """
    signal.signal(signal.SIGVTALRM, _too_long)
    known = {(row["corpus"], row["kernel"]): row["results"] for row in kept(state)}
    code: dict[Path, list[Built]] = {}
    found: dict[str, dict[str, Any]] = {}
    for corpus, path, kernel, launch in launches():
        results = known.get((corpus, kernel), {"": ""})
        if set(results.values()) != {"equal"}:
            results = tried_on_builds(path, kernel, launch, builds, seconds, code)
            print(corpus, kernel, results, flush=True)
            if state is not None:
                row = {"corpus": corpus, "kernel": kernel, "results": results}
                with state.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(row) + "\n")
        rows = found.setdefault(corpus, {"kernels": 0})
        rows["kernels"] += 1
        for build, result in results.items():
            row = rows.setdefault(build, {"equal": 0, "others": {}})
            if result == "equal":
                row["equal"] += 1
            else:
                row["others"].setdefault(result, []).append(kernel)
    return found


def tried_on_builds(
    path: Path,
    kernel: str,
    launch: EmulatedLaunch,
    builds: Sequence[tuple[int, int]],
    seconds: int,
    code: dict[Path, list[Built]],
) -> dict[str, str]:
    """What comes of a kernel on each build; ``code`` keeps what was made of its file."""
    text = path.read_text(encoding="utf-8").replace(".target sm_86", ".target sm_80")
    module = parse_module(SourceFile(path.name, text))
    entry = next(one for one in module.kernels if one.name == kernel)
    results = dict.fromkeys([f"sm_{one} -O{level}" for one, level in builds], "")
    try:
        if path not in code:
            with TemporaryDirectory() as folder:
                code[path] = built(text, Path(folder), builds)
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
        expected = execute(entry, module, launch, options=EmulatorOptions()).buffers
        for one in code[path]:
            signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
            results[one.name] = of_corpus(one, kernel, launch, expected)
    except TooLongError:
        waiting = [one for one, result in results.items() if not result]
        results |= dict.fromkeys(waiting, f"more than {seconds} s of the processor")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return results


def of_corpus(one: Built, kernel: str, launch: EmulatedLaunch, expected: Buffers) -> str:
    """What comes of a kernel that somebody wrote."""
    machine_code = read_program(one.source)
    machine = next(each for each in machine_code.kernels if each.name == kernel)
    if isinstance(machine, UnreadKernel):
        return machine.failure.message.split(": ", 1)[-1]
    tables = one.tables.get(kernel, b"")
    return outcome(
        machine, machine_code, tables, launch, expected, TOLERANCES.get(kernel, ROUNDING)
    )


# --- the command ----------------------------------------------------------------------------------


def tasks(plan: str, kinds: Sequence[str], seed: int) -> list[tuple[str, range]]:
    """The modules of a plan, kinds in turn."""
    queues = []
    for kind in kinds:
        count = PLANS[plan].get(kind, OTHERS[plan])
        last = seed + count
        firsts = range(seed, last, MODULE)
        queues.append([(kind, range(one, min(one + MODULE, last))) for one in firsts])
    longest = max(map(len, queues))
    ordered = []
    for number in range(longest):  # each at its own pace, so that all end together
        for queue in queues:
            share = range(number * len(queue) // longest, (number + 1) * len(queue) // longest)
            ordered += [queue[place] for place in share]
    return ordered


def kept(state: Path | None) -> list[dict[str, Any]]:
    """The lines of a state."""
    if state is None or not state.exists():
        return []
    return [json.loads(line) for line in state.read_text(encoding="utf-8").splitlines()]


def _is_made_otherwise(text: str) -> bool:
    """Whether a difference is of a program that ptxas makes something else of."""
    return " ".join(text.split()[:2]) in MADE_OTHERWISE


def summary(rows: Sequence[Mapping[str, Any]], command: str) -> dict[str, Any]:
    """What all modules came to."""
    names = [f"sm_{architecture} -O{level}" for architecture, level in BUILDS]

    def added(some: Sequence[Mapping[str, Any]], key: str) -> Counter[str]:
        total: Counter[str] = Counter()
        for row in some:
            total.update(row[key])
        return total

    def refused(some: Sequence[Mapping[str, Any]], name: str) -> dict[str, int]:
        total: Counter[str] = Counter()
        for row in some:
            for why, count in row["refused"].get(name, {}).items():
                why = re.sub(r"machine code that is not known at \w+: ", "", why)
                total[re.sub(r" !?U?P\d+, R\d+$", " under a guard", why)] += count
        return dict(total.most_common())

    differing = [text for row in rows for text in row["different"]]
    return {
        "command": command,
        "programs": sum(row["programs"] for row in rows),
        "ended": sum(row["ended"] for row in rows),
        "not_ended": dict(sorted(added(rows, "not_ended").items())),
        "builds": {
            name: {
                "equal": added(rows, "equal")[name],
                "words": added(rows, "words")[name],
                "instructions": added(rows, "instructions")[name],
                "refused": refused(rows, name),
            }
            for name in names
        },
        "kinds": {
            kind: {
                "programs": sum(row["programs"] for row in some),
                "ended": sum(row["ended"] for row in some),
                "equal": sum(added(some, "equal").values()),
                "refused": sum(sum(refused(some, name).values()) for name in names),
            }
            for kind in KINDS
            if (some := [row for row in rows if row["kind"] == kind])
        },
        "tolerance_of_approximations": TOLERANCE,
        "made_otherwise": [text for text in differing if _is_made_otherwise(text)],
        "different": [text for text in differing if not _is_made_otherwise(text)],
        "claims": dict(sorted(added(rows, "claims").items())),
        "departed": [text for row in rows for text in row["departed"]],
        "seconds": round(sum(row["seconds"] for row in rows)),
    }


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--plan", choices=PLANS, default="small")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--state", type=Path, help="a file of lines, by which a run goes on")
    parser.add_argument("--most", type=int, default=10**9, help="modules of this run")
    parser.add_argument("--claims", type=int, default=0, help="one program in so many")
    parser.add_argument("--break", dest="row", type=int, help="a row of breaks.tsv")
    parser.add_argument("--corpora", action="store_true", help="kernels that people wrote")
    parser.add_argument("--levels", type=int, nargs="+", default=(1, 3), help="of --corpora")
    parser.add_argument("--seconds", type=int, default=60, help="of each of these, of processor")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sass_execution.MOST_STEPS = MOST_STEPS
    vars(lowering)["hazards_of"] = lambda *_: []  # which are for people, and take their time
    disassembler.MOST_SECONDS = 3_600  # where others have the machine
    if options.corpora:
        sass_execution.MOST_STEPS = 10**7
        builds = [one for one in BUILDS if one[1] in options.levels]
        whole = corpora(builds, options.seconds, options.state)
        print(json.dumps(whole, indent=1))
        if options.out is not None:
            options.out.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
        wrong = [
            why
            for one in whole.values()
            for build in one.values()
            if isinstance(build, dict)
            for why in build["others"]
            if why.startswith("different")
        ]
        return int(bool(wrong))
    if options.row is not None:
        print(install(options.row))
    rows = kept(options.state)
    there = {(row["kind"], row["first"]) for row in rows}
    todo = [
        one
        for one in tasks(options.plan, options.kinds, options.seed)
        if (one[0], one[1].start) not in there
    ][: options.most]
    for kind, seeds, made, code in modules(todo):
        row = vars(tried(kind, seeds, made, code, options.claims))
        rows.append(row)
        if options.state is not None:
            with options.state.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        for text in (*row["different"], *row["departed"]):
            print(text, flush=True)
        if options.row is not None and row["different"]:
            break
    command = f"--plan {options.plan} --seed {options.seed} --claims {options.claims}"
    data = summary(rows, command)
    print(json.dumps(data, indent=1))
    if options.out is not None:
        options.out.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    is_wrong = bool(data["different"] or data["departed"])
    return int(is_wrong if options.row is None else not is_wrong)


if __name__ == "__main__":
    sys.exit(main())
