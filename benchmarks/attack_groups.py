"""The attack on where lanes of machine code go on together (docs/methods/machine-code.md).

    python benchmarks/attack_groups.py --count 40 --seed 1 --out groups.json

Random CUDA of shapes in which regions are not nested, compiled by nvcc at levels of optimisation
for architectures, executed by ``tests/oracle/simt_groups.py`` with groups of lanes in many orders.
No instruction may be issued more often than it is charged, and where groups go on until they wait
or end, no run may take longer than SAFE. The summary depends on the sources, the seed, the count
and the compiler alone. Exit code 1 if a run exceeds what is charged.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "oracle"))

from cubin_tables import tables_of
from simt_groups import ANY, KEEPING, Case, DeadlockError, exceeded

from ptxwcet.flow.facts.stated import FactSource, LoopFact, Place, StatedFacts
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.ir.kernel import Kernel
from ptxwcet.sass.reading import read_source
from ptxwcet.support.diagnostics import PtxwcetError

LEVELS = ("-Xptxas -O3", "-Xptxas -O3", "-Xptxas -O2", "-Xptxas -O1", "-Xptxas -O0", "-G")
ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_90")
_MOST_ROUNDS = 14
"""What is stated of loops whose bound the analysis does not find; no loop here makes as many."""

_HEAD = """typedef unsigned u32;
#define U1 _Pragma("unroll 1")
"""
_FUNCTION = """__device__ __noinline__ u32 f{number}(u32 s, u32 c, int n, int m, const u32* b) {{
  u32 t = threadIdx.x; int st = 0; u32 x = 0;
{body}{label}
  return s;
}}
"""
_KERNEL = """extern "C" __global__ void {name}(int n, int m, u32* a, const u32* b) {{
  u32 t = threadIdx.x, s = b[t] ^ t, c = b[t + 64], x = 0; int st = c & 3;
{body}{label}
  a[t] = s;
}}
"""


class Source:
    """A random kernel: statements of all shapes, with labels that gotos lead forward to."""

    def __init__(self, draw: random.Random, name: str) -> None:
        self.draw, self.name = draw, name
        self.labels, self.used = 0, set[str]()
        self.functions = 0
        self.counter = 0
        self.shapes: Counter[str] = Counter()
        texts = []
        self.callable = 0
        for number in range(draw.choice((0, 0, 1, 2))):
            body = self.body("  ", draw.randrange(2, 4), 0, is_kernel=False, end="E")
            label = "\nE:;" if "E" in self.used else ""
            self.used.discard("E")
            text = _FUNCTION.format(number=f"_{name}_{number}", body=body, label=label)
            texts.append(text)
            self.callable = number + 1
        body = self.body("  ", draw.randrange(3, 6), 0, is_kernel=True, end="E")
        label = "\nE:;" if "E" in self.used else ""
        texts.append(_KERNEL.format(name=name, body=body, label=label))
        self.text = "".join(texts)

    def body(self, pad: str, size: int, loops: int, *, is_kernel: bool, end: str) -> str:
        self.is_kernel = is_kernel
        return "".join(self.sequence(pad, size, loops, 0, (end,), ()))

    def condition(self) -> str:
        draw = self.draw
        k = draw.randrange(8)
        plain = (
            f"((c >> {k}) & 1)",
            f"(s & {1 << k % 4})",
            f"(b[(s + {k}) & 127] & 1)",
            f"(t & {1 << k % 3})",
            "((int)t < n)",
            f"(s % {k + 2} == 0)",
            "(n > m)",
        )
        own = draw.choices(plain, (5, 5, 2, 2, 1, 1, 1))[0]
        if draw.random() < 0.25:
            other = draw.choices(plain, (5, 5, 2, 2, 1, 1, 1))[0]
            own = f"({own} {draw.choice(('&&', '||'))} {other})"
        return f"!{own}" if draw.random() < 0.2 else own

    def sequence(
        self,
        pad: str,
        size: int,
        loops: int,
        depth: int,
        labels: tuple[str, ...],
        inside: tuple[str, ...],
    ) -> list[str]:
        """Statements; some lead to a label behind some of them."""
        out: list[str] = []
        for _ in range(size):
            label = f"L{self.labels}"
            self.labels += 1
            out += self.statement(pad, loops, depth, (*labels, label), inside)
            if label in self.used:
                out.append(f"{label}:;\n")
        return out

    def statement(
        self, pad: str, loops: int, depth: int, labels: tuple[str, ...], inside: tuple[str, ...]
    ) -> list[str]:
        draw, deeper = self.draw, f"{pad}  "
        kinds = {
            "work": 3,
            "goto": 3,
            "lane": 2.5 if loops < 2 else 0,
            "count": 2 if loops < 2 else 0,
        }
        if depth < 3:
            kinds |= {
                "if": 4,
                "else": 3,
                "switch": 3,
                "once": 1.5,
                "rounds": 2 if loops < 1 else 0,
                "while": 1 if loops < 2 else 0,
                "states": 1 if loops < 1 else 0,
            }
        if inside:
            kinds |= {"break": 3, "continue": 1 if "loop" in inside else 0}
        if self.callable:
            kinds["call"] = 2
        kinds |= {"return": 0.7, "warp": 0.7}
        kind = draw.choices(list(kinds), list(kinds.values()))[0]
        self.shapes[kind] += 1
        k, self.counter = draw.randrange(1, 8), self.counter + 1
        var = f"i{self.counter}"

        def rest(size: int, more: int = loops, into: tuple[str, ...] = inside) -> list[str]:
            return self.sequence(deeper, size, more, depth + 1, labels, into)

        match kind:
            case "work":
                return [
                    pad
                    + draw.choice(
                        (
                            f"s = s * {k} + b[(s ^ {k}) & 127];",
                            f"s ^= c >> {k};",
                            f"x += s * {k}; s ^= x;",
                            f"c = c * 5 + b[(s + {k}) & 127];",
                        )
                    )
                    + "\n"
                ]
            case "goto":
                label = draw.choice(labels)
                self.used.add(label)
                return [f"{pad}if ({self.condition()}) goto {label};\n"]
            case "lane" | "count":
                most = "(int)t % 8 + 1" if kind == "lane" else draw.choice(("n + m", "n"))
                inner = f"s = s * 3 + b[(s ^ {var}) & 127];"
                if draw.random() < 0.3:
                    inner += f" if ({self.condition()}) break;"
                head = f"{pad}U1 for (int {var} = 0; {var} < {most}; {var}++)"
                return [f"{head} {{ {inner} s ^= {var}; }}\n"]
            case "while":
                return [
                    f"{pad}U1 for (u32 {var} = (s ^ {k}) & 15; {var}; {var} >>= 1) {{\n",
                    *rest(draw.randrange(1, 3), loops + 1, ("loop",)),
                    f"{pad}}}\n",
                ]
            case "if":
                return [
                    f"{pad}if ({self.condition()}) {{\n",
                    *rest(draw.randrange(1, 4)),
                    f"{pad}}}\n",
                ]
            case "else":
                return [
                    f"{pad}if ({self.condition()}) {{\n",
                    *rest(draw.randrange(1, 3)),
                    f"{pad}}} else {{\n",
                    *rest(draw.randrange(1, 3)),
                    f"{pad}}}\n",
                ]
            case "switch":
                out = [f"{pad}switch ((c >> {k}) & {draw.choice((3, 3, 7))}) {{\n"]
                for case in range(draw.randrange(2, 6)):
                    out += [
                        f"{pad}  case {case}: {{\n",
                        *rest(draw.randrange(1, 3), loops, (*inside, "switch")),
                        f"{pad}  }}\n",
                    ]
                    if draw.random() < 0.4:
                        out.append(f"{pad}  break;\n")
                return [*out, f"{pad}}}\n"]
            case "once":
                return [
                    f"{pad}do {{\n",
                    *rest(draw.randrange(2, 4), loops, ("once",)),
                    f"{pad}}} while (0);\n",
                ]
            case "rounds":
                return [
                    f"{pad}U1 for (int {var} = 0; {var} < m + 1; {var}++) {{\n",
                    *rest(draw.randrange(2, 4), loops + 1, ("loop",)),
                    f"{pad}}}\n",
                ]
            case "states":
                out = [
                    f"{pad}st = (c >> {k}) & 3;\n",
                    f"{pad}U1 for (int {var} = 0; {var} < m + 1; {var}++) switch (st) {{\n",
                ]
                for case in range(3):
                    out += [f"{pad}  case {case}: {{\n", *rest(1, loops + 1, ("loop", "switch"))]
                    following = draw.choice(("s & 3", str((case + 1) % 4), "(c >> 2) & 3"))
                    out.append(f"{pad}  st = {following}; }}")
                    out.append(draw.choice((" break;\n", "\n")))
                return [*out, f"{pad}  default: {var} = m + 1;\n{pad}}}\n"]
            case "break" | "continue":
                return [f"{pad}if ({self.condition()}) {kind};\n"]
            case "call":
                function = f"f_{self.name}_{draw.randrange(self.callable)}"
                return [f"{pad}s = {function}(s ^ {k}, c, n, m, b);\n"]
            case "return":
                way = "{ a[t] = s; return; }" if self.is_kernel else "return s;"
                return [f"{pad}if ({self.condition()}) {way}\n"]
            case _:
                return [
                    pad
                    + draw.choice(
                        (
                            "__syncwarp();",
                            "s += __popc(__ballot_sync(__activemask(), s & 1));",
                            "s += __shfl_xor_sync(__activemask(), s, 1);",
                            "__syncwarp(__activemask());",
                            "s ^= __shfl_xor_sync(0xffffffffu, s, 2);",
                        )
                    )
                    + "\n",
                    *(
                        [f"{pad}__syncthreads();\n"]
                        if self.is_kernel and not depth and draw.random() < 0.5
                        else []
                    ),
                ]


def listing(source: str, level: str, architecture: str) -> tuple[str, dict[str, bytes]]:
    """What nvcc makes of CUDA, and bank 2. No stall is 0, which nothing is known of."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "k.cu"
        path.write_text(source)
        cubin = path.with_suffix(".cubin")
        command = [
            "nvcc",
            f"-arch={architecture}",
            *level.split(),
            "-cubin",
            "-w",
            "-o",
            cubin,
            path,
        ]
        subprocess.run(command, check=True, capture_output=True)
        text = re.sub(r"/\* ([0-9a-f]{32}) \*/", _stalled, read_source(cubin).text)
        return text, tables_of(cubin.read_bytes())


def _stalled(word: re.Match[str]) -> str:
    bits = int(word[1], 16)
    return f"/* {bits if bits >> 105 & 15 else bits | 2 << 105:032x} */"


def stated(kernel: Kernel) -> StatedFacts:
    """What is true of all loops here."""
    flow = ControlFlow.of(kernel)
    own = FactSource("attack")
    places = {flow.label(number) for number in range(len(flow.forest.loops))}
    return StatedFacts(
        loops=tuple(LoopFact(Place(label), own, _MOST_ROUNDS) for label in sorted(places))
    )


def attacked(case: Case, draw: random.Random, runs: int) -> dict[str, Any]:
    """A row: why it is refused, or the ratio of bound and longest run, and what exceeds."""
    row: dict[str, Any] = {
        "refused": "",
        "ratio": 0.0,
        "wrong": [],
        "stated": False,
        "deadlocks": 0,
    }
    try:
        try:
            charged = case.charged()
        except PtxwcetError as error:
            row["first"] = error.diagnostics[0].code
            row["stated"] = True
            charged = case.charged(stated)
    except PtxwcetError as error:
        row["refused"], row["why"] = error.diagnostics[0].code, error.diagnostics[0].message
        return row
    worst = 0
    for _ in range(runs):
        data = drawn_data(draw)
        for order in (draw.choice(KEEPING), draw.choice(KEEPING + ANY)):
            try:
                issues = case.run(data, order, asks_for_ended=draw.random() < 0.3)
            except DeadlockError:
                row["deadlocks"] += 1
                break
            except TimeoutError:
                break
            wrong = exceeded(charged, issues, draw)
            if wrong:
                row["wrong"].append(
                    f"issued, charged: { {hex(at): pair for at, pair in wrong.items()} }"[:400]
                )
            if order in KEEPING:
                time = case.time(issues)
                worst = max(worst, time)
                if time > charged.bound:
                    row["wrong"].append(f"{time} cycles, bound {charged.bound}")
            if row["wrong"]:
                row["data"] = data.tolist()
                return row
    row["ratio"] = charged.bound / worst if worst else 0.0
    return row


def drawn_data(draw: random.Random) -> np.ndarray:
    """Numbers that lanes differ in, much or little."""
    rng = np.random.default_rng(draw.randrange(1 << 30))
    kind = draw.randrange(4)
    if kind == 0:
        return rng.integers(0, 1 << 32, 256, dtype=np.uint32)
    if kind == 1:
        return rng.integers(0, 16, 256, dtype=np.uint32)
    if kind == 2:
        masks = rng.integers(0, 1 << 32, 2, dtype=np.uint32)
        return rng.integers(0, 1 << 32, 256, dtype=np.uint32) & masks[0] | masks[1] & 0x55
    return (np.arange(256, dtype=np.uint32) * np.uint32(draw.randrange(1, 1 << 16))) ^ np.uint32(
        draw.randrange(256)
    )


def main() -> int:
    """Attacks so many sources, each of some kernels, at a level for an architecture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=40, help="sources of four kernels")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--runs", type=int, default=6, help="data of each kernel")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--keep", type=Path, help="a folder for what exceeds")
    options = parser.parse_args()
    rows, codes, shapes = [], Counter[str](), Counter[str]()
    for number in range(options.count):
        seed = options.seed * 100_000 + number
        draw = random.Random(seed)
        sources = [Source(draw, f"k{seed}_{place}") for place in range(4)]
        level, architecture = draw.choice(LEVELS), draw.choice(ARCHITECTURES)
        text = _HEAD + "".join(one.text for one in sources)
        try:
            code, tables = listing(text, level, architecture)
        except (PtxwcetError, subprocess.CalledProcessError) as error:
            why = (
                error.stderr.decode()[:600]
                if isinstance(error, subprocess.CalledProcessError)
                else error
            )
            print(seed, "not compiled", why, flush=True)
            continue
        for one in sources:
            threads = draw.choice((5, 8, 12, 32))
            numbers = draw.randrange(1, 5), draw.randrange(1, 4)
            try:
                case = Case(code, one.name, threads, numbers, tables.get(one.name, b""))
                row = attacked(case, draw, options.runs)
            except Exception as error:
                row = {
                    "refused": type(error).__name__,
                    "why": str(error)[:200],
                    "wrong": [],
                    "ratio": 0.0,
                    "stated": False,
                    "deadlocks": 0,
                }
            shapes += one.shapes
            row |= {"name": one.name, "level": level, "sm": architecture, "threads": threads}
            rows.append(row)
            print({key: value for key, value in row.items() if key != "data"}, flush=True)
            if row["wrong"] and options.keep:
                options.keep.mkdir(exist_ok=True, parents=True)
                (options.keep / f"{one.name}.cu").write_text(_HEAD + one.text)
                (options.keep / f"{one.name}.json").write_text(
                    json.dumps({**row, "numbers": numbers})
                )
    codes = Counter(row["refused"] for row in rows if row["refused"])
    ratios = [row["ratio"] for row in rows if row["ratio"]]
    summary = {
        "command": f"--count {options.count} --seed {options.seed} --runs {options.runs}",
        "kernels": len(rows),
        "bounded": len(ratios),
        "with stated rounds": sum(row["stated"] and not row["refused"] for row in rows),
        "refused": dict(codes.most_common()),
        "exceeded": sum(bool(row["wrong"]) for row in rows),
        "deadlocks": sum(row["deadlocks"] for row in rows),
        "ratio": [round(median(ratios), 2), round(max(ratios), 2)] if ratios else [],
        "shapes": dict(shapes.most_common()),
    }
    text = json.dumps(summary, indent=1) + "\n"
    print(text)
    if options.out is not None:
        options.out.write_text(text)
    return 1 if summary["exceeded"] else 0


if __name__ == "__main__":
    sys.exit(main())
