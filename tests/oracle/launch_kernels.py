"""Random launches: kernels whose blocks take different paths, and all that can be said of them.

A kernel follows from a seed. Branches, loop counts and early exits depend on the index of the
block in each axis, on parameters, lanes and data; barriers are met by all warps of a block or by
none. Loads are within the array, and no two threads write the same place.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np

from ptxwcet.emulator.launch import Argument, EmulatedLaunch
from ptxwcet.flow.launch import Dim3

WORDS = 1024
MOST_BLOCKS = 48

_HEAD = ".version 8.3\n.target sm_80\n.address_size 64\n"
_FRAME = """{outside}.visible .entry k(.param .u64 data, .param .u32 n, .param .u32 m){directives}
{{
{inside}.reg .pred %p<100>;
.reg .b32 %r<200>;
.reg .f32 %f<8>;
.reg .b64 %d<6>;
ld.param.u64 %d1, [data];
ld.param.u32 %r1, [n];
ld.param.u32 %r2, [m];
mov.u32 %r3, %tid.x;
mov.u32 %r4, %ctaid.x;
mov.u32 %r5, %ctaid.y;
mov.u32 %r6, %ctaid.z;
mov.u32 %r7, %ntid.x;
mad.lo.u32 %r8, %r4, %r7, %r3;
mov.u32 %r9, %nctaid.x;
and.b32 %r10, %r8, 1023;
mul.wide.u32 %d2, %r10, 4;
add.u64 %d2, %d1, %d2;
ld.global.u32 %r11, [%d2];
and.b32 %r12, %r11, 7;
ld.global.u32 %r13, [%d1+64];
and.b32 %r13, %r13, 7;
mov.u32 %r21, 0;
mov.u32 %r20, 0;
mov.f32 %f1, 0f3F800000;
mov.f32 %f2, 0f3F000000;
{body}
END:
ret;
}}
"""
_N, _M, _TID, _X, _Y, _Z, _GID, _NX, _DATA, _WARP_DATA = 1, 2, 3, 4, 5, 6, 8, 9, 12, 13


@dataclass(frozen=True)
class RandomLaunch:
    """A kernel, a launch of it, and what is said of the launch.

    ``parameters`` are those that are said, as the command line has them; ``values`` the values of
    n and m in each execution, all of them within what is said.
    """

    seed: int
    text: str
    block: Dim3
    grid: Dim3
    parameters: tuple[str, ...]
    values: tuple[tuple[int, int], ...]
    loop_bounds: tuple[str, ...] = ()
    facts: str = ""
    dynamic_shared: int | None = None
    registers: int | None = None
    features: frozenset[str] = field(default_factory=frozenset)

    def executions(self) -> list[EmulatedLaunch]:
        """The launches that are executed."""
        return [
            EmulatedLaunch(
                self.block, self.grid, self._arguments(n, m), (), self.dynamic_shared or 0
            )
            for n, m in self.values
        ]

    def _arguments(self, n: int, m: int) -> tuple[Argument, ...]:
        data = np.random.default_rng(self.seed).integers(0, 2**31, WORDS).astype(np.uint32)
        return data, n, m

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]


def random_launch(seed: int) -> RandomLaunch:
    """The launch of a seed."""
    return _Writer(random.Random(f"launch {seed}"), seed).launch()


class _Writer:
    def __init__(self, rng: random.Random, seed: int) -> None:
        self.rng = rng
        self.seed = seed
        self.features: set[str] = set()
        self.lines: list[str] = []
        self.bounds: list[str] = []
        self.stated: list[str] = []
        self.label = 0
        self.register = 24
        self.predicate = 0
        self.axes = rng.choice(("x", "x", "y", "z", "xy", "xz", "xyz", "xyz", ""))
        self.shared = rng.choice((0, 0, 0, 512, 3_000, 20_000))
        self.dynamic = rng.choice((None, None, None, 0, 4_096, 16_001))
        self.uses_dynamic = rng.random() < 0.3
        self.unnamed = rng.choice((0, 0, 0, 0, 9_000))

    def launch(self) -> RandomLaunch:
        rng = self.rng
        block = rng.choice(
            ((32, 1, 1), (64, 1, 1), (96, 1, 1), (100, 1, 1), (33, 1, 1), (16, 4, 1))
        )
        grid = self.grid()
        threads = block[0] * grid[0]
        n = rng.choice((threads, threads - rng.randrange(threads), rng.randrange(12)))
        m = rng.randrange(10)
        for _ in range(rng.randint(1, 4)):
            self.statement(0)
        said, values = self.parameters(n, m)
        registers = rng.choice((None, None, 16, 40, 64, 128))
        most = rng.choice((None, None, None, 32, 64, 255))
        if registers is not None and most is not None and registers > most:
            registers = most
        outside = ".extern .shared .align 16 .b8 dyn[];\n" if self.uses_dynamic else ""
        inside = f".shared .align 4 .b8 buf[{self.shared}];\n" if self.shared else ""
        inside += f".shared .align 4 .b8 rest[{self.unnamed}];\n" if self.unnamed else ""
        body = self.touch() + self.lines
        text = _HEAD + _FRAME.format(
            outside=outside,
            inside=inside,
            directives="" if most is None else f" .maxnreg {most}",
            body="\n".join(body),
        )
        return RandomLaunch(
            self.seed,
            text,
            block,
            grid,
            said,
            values,
            tuple(self.bounds),
            "\n".join(self.stated),
            self.dynamic,
            registers,
            frozenset(self.features),
        )

    def grid(self) -> Dim3:
        """Up to three axes; at most MOST_BLOCKS blocks."""
        rng = self.rng
        while True:
            sizes = [rng.choice((1, 1, 2, 3, 4, 5, 7, 16)) for _ in range(3)]
            if rng.random() < 0.3:
                sizes = [rng.randint(1, 40), 1, 1]
            rng.shuffle(sizes)
            if sizes[0] * sizes[1] * sizes[2] <= MOST_BLOCKS:
                return sizes[0], sizes[1], sizes[2]

    def parameters(self, n: int, m: int) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...]]:
        """What is said of n and m, and values to execute."""
        if self.rng.random() < 0.25:
            self.features.add("range")
            low, high = max(0, n - self.rng.randrange(70)), n + self.rng.randrange(70)
            values = sorted({low, n, high, self.rng.randint(low, high)})
            if self.rng.random() < 0.3:
                self.features.add("unsaid")
                return (f"n={low}..{high}",), tuple((v, self.rng.randrange(12)) for v in values)
            return (f"n={low}..{high}", f"m={m}"), tuple((v, m) for v in values)
        if self.rng.random() < 0.15:
            self.features.add("unsaid")
            return (f"n={n}",), tuple((n, other) for other in (m, 0, 1, 5, 99))
        return (f"n={n}", f"m={m}"), ((n, m),)

    # --- statements -------------------------------------------------------------------------------

    def touch(self) -> list[str]:
        """The shared memory that the kernel names."""
        names = ["buf"] * (self.shared > 0) + ["dyn"] * self.uses_dynamic
        return [f"mov.u32 %r{190 + k}, {name};" for k, name in enumerate(names)]

    def statement(self, depth: int, *, whole: bool = True) -> None:
        """A statement; ``whole``: all threads of a block come here together."""
        kinds = ["work", "branch", "branch", "loop", "loop", "exit", "ragged"]
        if whole:
            kinds += ["barrier", "guarded"]
        if depth == 0:
            kinds += ["data", "lanes", "never", "exclusive", "total", "twice"]
        kind = self.rng.choice(kinds)
        if depth > 1:
            kind = "work"
        getattr(self, kind)(depth, whole)

    def work(self, depth: int = 0, whole: bool = True) -> None:
        for _ in range(self.rng.randint(1, 4)):
            self.lines.append(
                self.rng.choice(
                    (
                        "add.u32 %r20, %r20, 3;",
                        "mul.lo.u32 %r20, %r20, 5;",
                        "fma.rn.f32 %f1, %f1, %f2, %f1;",
                        "sqrt.approx.f32 %f2, %f1;",
                        "ld.global.u32 %r21, [%d2];",
                        "add.u32 %r20, %r20, %r21;",
                        "div.rn.f32 %f3, %f1, %f2;",
                    )
                )
            )

    def inner(self, depth: int, whole: bool) -> None:
        """What is guarded or repeated."""
        if self.rng.random() < 0.3:
            self.statement(depth + 1, whole=whole)
        else:
            self.work()

    def branch(self, depth: int, whole: bool) -> None:
        """Around something, or one side or the other."""
        label, predicate = self.fresh(), self.compare(self.of_block())
        sign = self.rng.choice(("", "!"))
        self.lines.append(f"@{sign}{predicate} bra A{label};")
        self.inner(depth, whole)
        if self.rng.random() < 0.5:
            self.lines += [f"bra B{label};", f"A{label}:"]
            self.inner(depth, whole)
            self.lines.append(f"B{label}:")
        else:
            self.lines.append(f"A{label}:")

    def twice(self, depth: int, whole: bool) -> None:
        """A stretch in the middle of an axis differs: the ranges around it execute the same."""
        self.features.add("apart")
        label, index = self.fresh(), self.of_block()
        low = self.rng.randrange(6)
        first = self.compare(index, f"lt.u32 {low}")
        second = self.compare(index, f"gt.u32 {low + self.rng.randrange(4)}")
        self.lines += [f"@{first} bra A{label};", f"@{second} bra A{label};"]
        self.inner(depth, whole)
        self.lines.append(f"A{label}:")

    def loop(self, depth: int, whole: bool) -> None:
        """As often as the index of the block, a parameter or both say."""
        label, count, number = self.fresh(), self.new(), self.new()
        source = self.of_block()
        step = self.rng.choice(("and.b32 {}, {}, 7;", "min.u32 {}, {}, 9;", "shr.u32 {}, {}, 2;"))
        self.lines.append(step.format(count, source))
        if step.startswith("shr"):
            self.lines.append(f"min.u32 {count}, {count}, 30;")
        predicate, other = self.test(), self.test()
        self.lines += [
            f"mov.u32 {number}, 0;",
            f"setp.ge.u32 {predicate}, {number}, {count};",
            f"@{predicate} bra D{label};",
            f"L{label}:",
        ]
        self.inner(depth, whole)
        self.lines += [
            f"add.u32 {number}, {number}, 1;",
            f"setp.lt.u32 {other}, {number}, {count};",
            f"@{other} bra L{label};",
            f"D{label}:",
        ]

    def data(self, depth: int, whole: bool) -> None:
        """A loop that data bound, and what is said of it."""
        self.features.add("stated loop")
        label, number, predicate = self.fresh(), self.new(), self.test()
        self.lines += [f"mov.u32 {number}, 0;", f"L{label}:"]
        self.work()
        self.lines += [
            f"add.u32 {number}, {number}, 1;",
            f"setp.lt.u32 {predicate}, {number}, %r{_DATA};",
            f"@{predicate} bra L{label};",
        ]
        self.bounds.append(f"L{label}=8")

    def total(self, depth: int, whole: bool) -> None:
        """A loop on data in a loop of at most 7: each time less is left, 28 iterations in all."""
        self.features.add("total")
        label, count, outer, inner, left = self.fresh(), *(self.new() for _ in range(4))
        source = self.of_block()
        first, again, back = self.test(), self.test(), self.test()
        self.lines += [
            f"and.b32 {count}, {source}, 7;",
            f"mov.u32 {outer}, 0;",
            f"setp.ge.u32 {first}, {outer}, {count};",
            f"@{first} bra D{label};",
            f"L{label}:",
            f"sub.s32 {left}, %r{_WARP_DATA}, {outer};",
            f"mov.u32 {inner}, 0;",
            f"I{label}:",
        ]
        self.work()
        self.lines += [
            f"add.u32 {inner}, {inner}, 1;",
            f"setp.lt.s32 {again}, {inner}, {left};",
            f"@{again} bra I{label};",
            f"add.u32 {outer}, {outer}, 1;",
            f"setp.lt.u32 {back}, {outer}, {count};",
            f"@{back} bra L{label};",
            f"D{label}:",
        ]
        self.stated.append(f'[[loop]]\nat = "I{label}"\nbound = 7\ntotal = 28\n')

    def lanes(self, depth: int, whole: bool) -> None:
        """A branch or loop that differs between the lanes or warps of a block."""
        self.features.add("lanes")
        label = self.fresh()
        number = self.rng.choice((7, 31, 40, 64))
        predicate = self.compare(f"%r{_TID}", f"lt.u32 {number}")
        self.lines.append(f"@{predicate} bra A{label};")
        self.inner(1, whole=False)
        self.lines.append(f"A{label}:")

    def never(self, depth: int, whole: bool) -> None:
        """A branch on data that is never taken, which a facts file says."""
        self.features.add("facts")
        label, predicate = self.fresh(), self.compare(f"%r{_DATA}", "gt.u32 99")
        self.lines += [f"bra C{label};", f"C{label}:", f"@{predicate} bra A{label};"]
        self.work()
        self.lines.append(f"bra B{label};\nA{label}:")
        for _ in range(8):
            self.work()
        self.lines.append(f"B{label}:")
        self.stated.append(f'[[branch]]\nat = "C{label}"\nnever = "taken"\n')

    def exclusive(self, depth: int, whole: bool) -> None:
        """Two branches on the same data, of which a warp takes one, as a facts file says."""
        self.features.add("facts")
        label, predicate = self.fresh(), self.compare(f"%r{_WARP_DATA}", "gt.u32 3")
        for sign, name in (("", "F"), ("!", "G")):
            self.lines += [f"bra {name}{label};", f"{name}{label}:"]
            self.lines.append(f"@{sign}{predicate} bra {name}A{label};")
            self.work()
            self.lines.append(f"{name}A{label}:")
        pairs = f'[["F{label}", "taken"], ["G{label}", "taken"]]'
        self.stated.append(f"[[exclusive]]\nbranches = {pairs}\n")

    def exit(self, depth: int, whole: bool) -> None:
        """Some blocks are done here."""
        self.features.add("exit")
        self.lines.append(f"@{self.compare(self.of_block())} bra END;")

    def ragged(self, depth: int, whole: bool) -> None:
        """Threads beyond n are done here."""
        self.features.add("ragged")
        predicate = self.test()
        self.lines += [f"setp.ge.u32 {predicate}, %r{_GID}, %r{_N};", f"@{predicate} bra END;"]

    def barrier(self, depth: int, whole: bool) -> None:
        self.features.add("barrier")
        self.lines.append("bar.sync 0;")

    def guarded(self, depth: int, whole: bool) -> None:
        """A barrier that whole blocks pass by."""
        self.features.add("barrier")
        label = self.fresh()
        self.lines += [f"@{self.compare(self.of_block())} bra A{label};", "bar.sync 0;"]
        self.work()
        self.lines.append(f"A{label}:")

    # --- expressions ------------------------------------------------------------------------------

    def of_block(self) -> str:
        """A register that is the same for all threads of a block."""
        rng = self.rng
        axes = [{"x": _X, "y": _Y, "z": _Z}[axis] for axis in self.axes]
        leaves = [*axes, *axes, _N, _M] if axes else [_N, _M]
        first, second = f"%r{rng.choice(leaves)}", f"%r{rng.choice([*leaves, _NX])}"
        kind = rng.randrange(8)
        if kind < 3:
            return first
        out = self.new()
        self.lines.append(
            {
                3: f"add.u32 {out}, {first}, {second};",
                4: f"mad.lo.u32 {out}, {first}, {rng.randint(2, 5)}, {second};",
                5: f"sub.u32 {out}, {first}, {second};",
                6: f"and.b32 {out}, {first}, {rng.choice((1, 2, 3))};",
                7: f"shr.u32 {out}, {first}, 1;",
            }[kind]
        )
        return out

    def compare(self, source: str, how: str = "") -> str:
        """A predicate on a register."""
        predicate = self.test()
        if not how:
            name = self.rng.choice(("lt", "le", "gt", "ge", "eq", "ne"))
            how = f"{name}.{self.rng.choice('us')}32 {self.rng.randrange(9)}"
        operation, number = how.split()
        self.lines.append(f"setp.{operation} {predicate}, {source}, {number};")
        return predicate

    def fresh(self) -> int:
        self.label += 1
        return self.label

    def new(self) -> str:
        self.register += 1
        return f"%r{self.register}"

    def test(self) -> str:
        self.predicate += 1
        return f"%p{self.predicate}"


def facts_file(digest: str, stated: str) -> str:
    """A facts file for a PTX file with this hash."""
    return f'ptx = "sha256:{digest}"\n\n{stated}'
