"""Random kernels against executions on adversarial data: no answer may be false.

    python benchmarks/random_kernels.py --kernels 50000 --seed 1 --workers 2

Each kernel (:mod:`random_programs`, :mod:`cuda_idioms`) is bounded, if it is, and executed on data
chosen to go round loops and to part lanes, by an interpreter written from the PTX ISA alone
(``tests/oracle/isa_interpreter.py``). A run that leaves the analysed paths, that takes longer than
the bound, or whose own paths have a larger bound is a violation, and so is an internal error. It
is saved with all instructions deleted that it does not need. A kernel follows from kind and seed:

    python benchmarks/random_kernels.py --kinds loops --only 4711

Where paths allow a block more than once, a compiled interpreter runs the kernel too, for up to
``--long-blocks`` blocks, on data that a search makes go round the loops (``long_runs.py``).

Writes a summary as JSON and prints it as Markdown. Exit code 1 if there are violations.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))

from cuda_idioms import IDIOMS, compiled_kernels
from long_runs import LongRuns, long_runs
from path_attack import Attack, attack, machine
from random_apart import KIND as APART
from random_machines import other_machine
from random_programs import KINDS, RandomKernel, random_kernel

from ptxwcet import pipeline
from ptxwcet.flow import flow_graph
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.paths import advice
from ptxwcet.flow.walk import state as walk_state
from ptxwcet.ir.kernel import Kernel
from ptxwcet.ptx.parser import parse_module
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.support.source import SourceFile
from ptxwcet.sweeps.cell import Ending, Limits, Unit
from ptxwcet.sweeps.engine import embedded_cluster, run_campaign
from ptxwcet.validate.witness import shrink_text

MOST_VISITS = 1_500
"""Blocks that the analysis may visit for a kernel here, far fewer than in the product: its effort
is bounded in steps, so that answers do not depend on the machine."""
WALK_STEPS, SEARCH_STEPS = 15_000, 20_000
"""Budgets of a kernel here: one kernel in 200 is refused for them that the product follows."""
EXECUTIONS = 6
LONG_BLOCKS = 300_000
"""Blocks that a warp may execute in the longest run of a kernel with loops."""
TRIALS = 4
"""Bounds under fewer facts, and what would settle a refusal, are looked for in one kernel of so
many: they double the effort."""
MOST_SECONDS = 60
"""Effort is bounded in steps: a kernel that takes longer, in seconds of its process, is a violation
of that. The first of a process is none that counts: code is compiled then."""
SHARES, ALLOWED = (1.0, 0.99, 0.9, 0.5, 0.1), (2, 10, 100, 1_000, 10_000)
"""Which shares of what is allowed long runs reach is counted, for so many times allowed."""
TASK = 40
"""Kernels of a unit."""
REPORT_EVERY = 1_000
"""Kernels after which the summary is written: a run that is cut off leaves one."""


@dataclass(frozen=True)
class Task:
    """Kernels to be made and attacked one after another."""

    kind: str
    seeds: range
    executions: int = EXECUTIONS
    long_blocks: int = LONG_BLOCKS


@dataclass(frozen=True)
class Outcome:
    """What came of one kernel; ``shrunk`` is the PTX of a violation without what it needs not."""

    kind: str
    seed: int
    code: str | None
    executions: int
    visits: int
    seconds: float
    violation: str = ""
    text: str = ""
    given: str = ""
    launch: str = ""
    shrunk: str = ""
    long: dict[str, Any] | None = None


@dataclass
class Tally:
    """What came of the kernels of one kind."""

    kernels: int = 0
    bounded: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    executions: int = 0
    visits: int = 0
    seconds: float = 0.0
    long: list[dict[str, Any]] = field(default_factory=list)


def parse(text: str) -> Kernel:
    module = parse_module(SourceFile("k.ptx", text))
    return inline_calls(module.kernels[0], module)


def attacked(
    one: RandomKernel, task: Task, text: str | None = None
) -> tuple[Attack, LongRuns | None]:
    """The attack on a random kernel, or on another text in its place, and its long runs."""
    kernel = parse(one.text if text is None else text)
    is_apart = one.kind == APART
    found = attack(
        kernel,
        one.launch,
        other_machine(machine(), one.seed) if is_apart else machine(),
        seed=one.seed,
        executions=task.executions,
        steps=one.steps,
        times_all=is_apart or one.kind == "leavers",
    )
    if found.checker is None or found.violations or not task.long_blocks:
        return found, None
    long = long_runs(
        *(kernel, one.launch, found.checker),
        seed=one.seed,
        most=task.long_blocks,
    )
    if long is not None and long.violation is not None:
        found.violations.append(long.violation)
    return found, long


def run_task(task: Task) -> list[Outcome]:
    """Makes and attacks the kernels of a task; of what is violated alike the first is shrunk."""
    _compile()
    rows: list[Outcome] = []
    for one in made(task):
        rows.append(outcome(one, task, {row.text for row in rows}))
    return rows


@cache
def _compile() -> None:
    """What is compiled once a process, or once ever, is no effort of a kernel."""
    attacked(random_kernel(0, "barriers"), Task("barriers", range(1)))
    attacked(random_kernel(116, "plain"), Task("plain", range(1)))  # one with long runs


def run_unit(payload: Mapping[str, Any], _: Mapping[str, bytes]) -> list[dict[str, Any]]:
    """A task as a unit of the engine."""
    seeds = range(*payload["seeds"])
    rows = run_task(Task(payload["kind"], seeds, payload["executions"], payload["long_blocks"]))
    return [asdict(row) for row in rows]


@contextmanager
def small_budgets(*, is_full: bool) -> Iterator[None]:
    """What the analysis may spend on a kernel meanwhile; what is attacked next has all again."""
    chosen: list[tuple[Any, str, Any]] = [
        (walk_state, "_MOST_VISITS", MOST_VISITS),
        (flow_graph, "MOST_WALK_STEPS", WALK_STEPS),
        (flow_graph, "MOST_SEARCH_STEPS", SEARCH_STEPS),
    ]
    if not is_full:
        chosen += [(pipeline, "_MOST_TRIAL_VISITS", 0), (advice, "advised", _unadvised)]
    before = [(module, name, getattr(module, name)) for module, name, _ in chosen]
    for module, name, value in chosen:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, value in before:
            setattr(module, name, value)


def made(task: Task) -> Iterator[RandomKernel]:
    """The kernels of a task: those of CUDA text are compiled together."""
    if task.kind in IDIOMS:
        return compiled_kernels(task.kind, len(task.seeds), task.seeds.start)
    return (random_kernel(seed, task.kind) for seed in task.seeds)


def outcome(one: RandomKernel, task: Task, seen: Collection[str] = ()) -> Outcome:
    """Attacks one kernel; a violation is shrunk, but internal errors of texts that were seen."""
    with small_budgets(is_full=one.seed % TRIALS == 0):
        return _outcome(one, task, seen)


def _outcome(one: RandomKernel, task: Task, seen: Collection[str]) -> Outcome:
    begin = time.process_time()
    signal.signal(signal.SIGVTALRM, _too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
    try:
        found, long = attacked(one, task)
    except TooLong:
        text = f"analysis and executions take more than {MOST_SECONDS} s"
        return Outcome(
            one.kind, one.seed, None, 0, 0, MOST_SECONDS, "effort", text, shrunk=one.text
        )
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    row = Outcome(
        one.kind,
        one.seed,
        found.code,
        found.executions,
        found.visits,
        time.process_time() - begin,
        long=None if long is None else {**asdict(replace(long, violation=None))},
    )
    if not found.violations:
        return row
    violation = found.violations[0]

    def remains(text: str) -> bool:
        signal.setitimer(signal.ITIMER_VIRTUAL, MOST_SECONDS)
        try:
            other = attacked(one, task, text)[0].violations
        except (Exception, TooLong):  # a text that is no kernel any more, or goes round for long
            return False
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        return bool(other) and other[0].kind == violation.kind

    is_new = violation.kind != "internal error" or violation.text not in seen
    return Outcome(
        **{
            **asdict(row),
            "violation": violation.kind,
            "text": violation.text,
            "given": str(violation.given),
            "launch": str(one.launch),
            "shrunk": shrink_text(one.text, remains) if is_new else one.text,
        }
    )


def _unadvised(error: PtxwcetError, *_: object) -> PtxwcetError:
    return error


class TooLong(BaseException):
    """A kernel is stopped; no handler of errors is to take it for an error of the analysis."""


def _too_long(number: int, frame: object) -> None:
    raise TooLong


def tasks(options: argparse.Namespace) -> Iterator[Task]:
    """The kernels of a run in equal shares, kind after kind in turn; seeds count from its seed."""
    kinds, kernels, seed = options.kinds, options.kernels, options.seed
    share = -(-kernels // len(kinds))
    for first in range(0, share, TASK):
        for place, kind in enumerate(kinds):
            begin = seed + place * share
            last = min(first + TASK, share, kernels - place * share)
            if last > first:
                seeds = range(begin + first, begin + last)
                yield Task(kind, seeds, options.executions, options.long_blocks)


def main() -> int:
    """Runs the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernels", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", default=[*KINDS, *IDIOMS])
    parser.add_argument("--executions", type=int, default=EXECUTIONS, help="of each kernel")
    parser.add_argument("--long-blocks", type=int, default=LONG_BLOCKS, help="0: no long runs")
    parser.add_argument("--only", type=int, help="the kernel of this seed, printed in full")
    parser.add_argument("--out", type=Path, default=Path("docs/experiments/random-kernels.json"))
    parser.add_argument("--save", type=Path, help="folder for the violations")
    options = parser.parse_args()
    if options.only is not None:
        return show(options.kinds[0], options.only)
    tallies = {kind: Tally() for kind in options.kinds}
    violations: list[Outcome] = []
    begin = time.monotonic()
    for row in rows_of(tasks(options), options.workers):
        note(tallies[row.kind], row)
        if not sum(tally.kernels for tally in tallies.values()) % REPORT_EVERY:
            report(options, tallies, violations, time.monotonic() - begin)
        if row.violation:
            violations.append(row)
            print(f"{row.kind} {row.seed}: {row.violation}: {row.text}", flush=True)
            if options.save is not None:
                save(options.save, row)
    report(options, tallies, violations, time.monotonic() - begin)
    return int(bool(violations))


def rows_of(tasks: Iterator[Task], workers: int) -> Iterator[Outcome]:
    """What comes of the kernels of all tasks, as they end; a task that dies is a violation."""
    under_way: dict[int, Task] = {}

    def units() -> Iterator[Unit]:
        for number, task in enumerate(tasks):
            under_way[number] = task
            seeds = (task.seeds.start, task.seeds.stop)
            what = {"kind": task.kind, "seeds": seeds, "executions": task.executions}
            yield Unit(number, {**what, "long_blocks": task.long_blocks}, {})

    with embedded_cluster(workers) as cluster:
        for result in run_campaign("random_kernels:run_unit", units(), cluster, Limits()):
            if result is None:
                continue
            task = under_way.pop(result.number)
            if result.ending is Ending.DONE:
                yield from (Outcome(**row) for row in result.value)
                continue
            text = f"a kernel of the seeds {task.seeds}: {result.ending.value}: {result.why}"
            yield Outcome(task.kind, task.seeds.start, None, 0, 0, 0.0, "unit", text)


def note(tally: Tally, row: Outcome) -> None:
    tally.kernels += 1
    tally.executions += row.executions
    tally.visits += row.visits
    tally.seconds += row.seconds
    if row.long is not None:
        tally.long.append(row.long)
    if row.code is not None:
        tally.refused[row.code] += 1
    elif row.violation != "internal error":
        tally.bounded += 1


def show(kind: str, seed: int) -> int:
    """Prints one kernel and what the attack finds."""
    task = Task(kind, range(seed, seed + 1))
    (row,), (one,) = run_task(task), made(task)
    print(one.text, one.launch, row.code or "bounded", row.violation, row.text, sep="\n")
    if row.violation:
        print(row.given, row.shrunk, sep="\n")
    return int(bool(row.violation))


def save(folder: Path, row: Outcome) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{row.violation.replace(' ', '-')}-{row.kind}-{row.seed}"
    (folder / f"{name}.ptx").write_text(row.shrunk)
    lines = (row.violation, row.text, row.launch, row.given)
    (folder / f"{name}.txt").write_text("\n".join(lines) + "\n")


def report(
    options: argparse.Namespace,
    tallies: dict[str, Tally],
    violations: list[Outcome],
    seconds: float,
) -> None:
    """Writes the summary as JSON, and as a page beside it."""
    data = {
        "kernels": sum(tally.kernels for tally in tallies.values()),
        "asked": options.kernels,
        "seed": options.seed,
        "executions": sum(tally.executions for tally in tallies.values()),
        "blocks_executed": sum(tally.visits for tally in tallies.values()),
        "kinds": {
            kind: {
                "kernels": tally.kernels,
                "bounded": tally.bounded,
                "refused": dict(sorted(tally.refused.items())),
                "executions": tally.executions,
            }
            for kind, tally in tallies.items()
        },
        "long": summary_of_long(
            [row for tally in tallies.values() for row in tally.long], options.long_blocks
        ),
        "violations": [
            {"kind": row.kind, "seed": row.seed, "violation": row.violation, "text": row.text}
            for row in sorted(violations, key=lambda row: (row.kind, row.seed))
        ],
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(data, indent=1) + "\n")
    print(page(data))
    processor = sum(tally.seconds for tally in tallies.values())
    print(
        f"{data['kernels']} kernels, {len(violations)} violations, {seconds:.0f} s, "
        f"{data['kernels'] / max(processor, 1e-9):.1f} kernels a second of processor time",
        flush=True,
    )


def summary_of_long(rows: list[dict[str, Any]], most: int) -> dict[str, Any]:
    """Long runs: how many, what was left out and why, how near they came to what is allowed."""
    run = [row for row in rows if not row["left_out"]]
    reach = [row for row in run if row["allowed"] <= most]
    return {
        "most_blocks": most,
        "left_out": dict(Counter(row["left_out"] for row in rows if row["left_out"])),
        "runs": sum(row["runs"] for row in run),
        "blocks": sum(row["blocks"] for row in run),
        "allowed": [
            {
                "from": least,
                "kernels": len(some),
                "tight": sum(row["is_tight"] for row in some),
                "shares": [
                    sum(row["executed"] >= share * row["allowed"] for row in some)
                    for share in SHARES
                ],
            }
            for least, below in pairwise((*ALLOWED, most + 1))
            if (some := [row for row in reach if least <= row["allowed"] < below])
        ],
        "beyond": len(run) - len(reach),
    }


def page_of_long(long: dict[str, Any]) -> list[str]:
    """The summary of long runs as Markdown."""
    left_out = ", ".join(f"{many} ({why})" for why, many in sorted(long["left_out"].items()))
    lines = [
        "",
        "## Long runs",
        "",
        f"{long['runs']:,} runs of {long['blocks']:,} blocks by a compiled interpreter, written "
        "from the ISA apart from the other, of the kernels in which some block is allowed more "
        "than once. A search chooses data that come near to what is allowed of the block that is "
        "allowed most often; the table counts kernels by how often that is, and how many came to "
        "which share of it. `less`: a run would be too long if each loop were allowed one "
        "iteration less.",
        f"Allowed more than {long['most_blocks']:,} times, and run so far without a violation: "
        f"{long['beyond']:,} kernels. Left out: {left_out or 'none'}.",
        "",
        "| allowed from | kernels | " + " | ".join(f"{one:.0%}" for one in SHARES) + " | less |",
        "|---" * (3 + len(SHARES)) + "|",
    ]
    for row in long["allowed"]:
        shares = " | ".join(f"{many:,}" for many in row["shares"])
        lines.append(f"| {row['from']:,} | {row['kernels']:,} | {shares} | {row['tight']:,} |")
    return lines


def page(data: dict[str, object]) -> str:
    """The summary as Markdown."""
    kinds = data["kinds"]
    violations = data["violations"]
    assert isinstance(kinds, dict)
    assert isinstance(violations, list)
    codes = sorted({code for row in kinds.values() for code in row["refused"]})
    lines = [
        "# Random kernels",
        "",
        "Written by `python benchmarks/random_kernels.py "
        f"--kernels {data['asked']} --seed {data['seed']}`.",
        "",
        f"{data['kernels']:,} random kernels were bounded or refused by then, and the bounded ones "
        f"executed {data['executions']:,} times on adversarial data "
        f"({data['blocks_executed']:,} basic blocks) by an interpreter written from the PTX ISA "
        "alone.",
        "Violations (a run outside the analysed paths or above the bound, an internal error, more "
        f"than {MOST_SECONDS} s): {len(violations)}.",
        "",
        "A kernel follows from its kind and seed; each kind has an equal share of the seeds, which "
        "count from that of the command. `--kinds KIND --only SEED` shows one. The analysis may "
        f"visit {MOST_VISITS:,} blocks for each, fewer than in the product (PW206); "
        "bounds under fewer facts, and what would settle a refusal, are looked for in one of "
        f"{TRIALS} kernels.",
        "",
        "| kind | kernels | bounded | executions | " + " | ".join(codes) + " |",
        "|---" * (4 + len(codes)) + "|",
    ]
    for kind, row in kinds.items():
        share = 100 * row["bounded"] / max(row["kernels"], 1)
        refused = " | ".join(str(row["refused"].get(code, 0)) for code in codes)
        lines.append(
            f"| {kind} | {row['kernels']:,} | {row['bounded']:,} ({share:.0f} %) | "
            f"{row['executions']:,} | {refused} |"
        )
    long = data["long"]
    assert isinstance(long, dict)
    lines += page_of_long(long) if long["runs"] else []
    if violations:
        lines += ["", "| kind | seed | violation | |", "|---|---|---|---|"]
        lines += [
            f"| {row['kind']} | {row['seed']} | {row['violation']} | {row['text']} |"
            for row in violations
        ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
