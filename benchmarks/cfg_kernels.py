"""Random small kernels for the comparison of path analysis with enumeration (:mod:`cfg_oracle`).

Structured ones nest ``if``, ``else``, loops, ``break``, ``continue``, early returns, chains of
comparisons and barriers; unstructured ones are rows of blocks with branches forward and counted
branches back, reducible but of no other order. What decides branches: :mod:`cfg_conditions`.
"""

from __future__ import annotations

import random
from dataclasses import replace

from cfg_conditions import KNOWN, OF_BLOCK, OF_WARP, Conditions, Context, DataLoop, RandomKernel

DATA_ROWS = (
    "fma.rn.f32 {f}, {g}, {g}, {g};",
    "add.f32 {f}, {g}, {g};",
    "mul.f32 {f}, {g}, {g};",
    "add.s32 {x}, {y}, {y};",
    "xor.b32 {x}, {y}, {y};",
    "mad.lo.s32 {x}, {y}, {y}, {y};",
    "rcp.approx.f32 {f}, {g};",
    "ld.global.f32 {f}, [%a1+{o}];",
    "st.global.f32 [%a1+{o}], {g};",
    "ld.shared.f32 {f}, [buffer+{o}];",
)
TOUCH = (
    "fma.rn.f32 %f0, %f0, %f0, %f0;",
    "xor.b32 %x0, %x0, %x0;",
    "rcp.approx.f32 %f1, %f1;",
    "ld.global.f32 %f2, [%a1];",
    "ld.shared.f32 %f3, [buffer];",
)
"""One instruction on each unit that a kernel may use."""


def random_kernel(seed: int) -> RandomKernel:
    """The kernel of a seed. Cost: constant."""
    return _Writer(random.Random(seed)).kernel()


class _Writer(Conditions):
    """Writes the statements of a kernel."""

    # --- the kernel -------------------------------------------------------------------------------

    def kernel(self) -> RandomKernel:
        chance = self.random.random
        mode = self.random.choices(("known", "uniform", "any"), (1, 4, 5))[0]
        self.classes = self.random.choice((1, 1, 2, 2, 4))
        self.lanes = self.classes if self.classes > 1 else self.random.randint(1, 3)
        self.known = self.random.randint(0, 3)
        warps = self.random.randint(2, 4)
        kinds = ["const", "lane", "lane", "warpid"]
        if mode != "known":
            some = self.random.sample([*OF_BLOCK, *OF_WARP], self.random.randint(1, 3))
            kinds += [*some, *some, *some]
        if mode == "any":
            kinds += ["data"] * 5
        if self.classes == 1:
            kinds = [kind for kind in kinds if kind != "lane"]
        if chance() < 0.6:
            kinds = [kind for kind in kinds if kind != "const"]
        if chance() < 0.5:
            kinds = [kind for kind in kinds if kind != "warpid"]
        self.kinds = tuple(kinds) or ("const",)
        same_units = chance() < 0.4
        self.features.add("same units" if same_units else "any units")
        structured = chance() < 0.7
        self.features.add("structured" if structured else "unstructured")
        self.mark_touch()
        if structured:
            self.body(Context(), 4)
            if chance() < 0.8:
                self.data(1)
                self.features.add("tail")
        else:
            self.graph()
        return self.finish(warps, TOUCH if same_units else ())

    def finish(self, warps: int, touch: tuple[str, ...]) -> RandomKernel:
        prologue = [
            "ld.param.u64 %a0, [data];",
            "mov.u32 %kt, %tid.x;",
            "mul.wide.u32 %a1, %kt, 4;",
            "add.s64 %a1, %a0, %a1;",
            "mov.u32 %kf, 0;",
            f"and.b32 %kc, %kt, {self.classes - 1};",
            "shr.b32 %kw, %kt, 5;",
            "ld.param.u32 %km, [m];",
            "ld.param.u32 %kn0, [n0];",
            "ld.param.u32 %kn1, [n1];",
        ]
        used = " ".join(self.lines)
        prologue = [line for line in prologue if _needed(line, used)]
        lines: list[str] = []
        for line in (*prologue, *self.lines):
            lines += touch if line == "TOUCH" else (line,)
        declared = "\n".join(
            f".reg .{kind} %{name}<{self.numbers.get(name, 0) + 1}>;"
            for name, kind in (("k", "b32"), ("v", "b32"), ("p", "pred"), ("q", "pred"))
        )
        body = "\n".join(lines)
        text = (
            ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 data, "
            ".param .u32 m, .param .u32 n0, .param .u32 n1)\n{\n"
            f"{declared}\n.reg .b32 %kt, %kf, %kc, %kw, %km, %kn<2>, %x<4>;\n"
            ".reg .f32 %f<6>;\n.reg .b64 %a<2>;\n.shared .align 4 .b8 buffer[64];\n"
            f"{body}\nret;\n}}\n"
        )
        domains = {key: tuple(sorted(values)) for key, values in self.domains.items()}
        return RandomKernel(
            text,
            self.lanes,
            warps,
            {"m": self.known},
            {"param m": (self.known,), **domains},
            self.loop_bounds,
            self.data_loops,
            frozenset(self.features),
        )

    # --- statements -------------------------------------------------------------------------------

    def data(self, most: int = 4) -> None:
        """Some instructions on data, at least one."""
        for _ in range(self.random.randint(1, most)):
            names = {
                "f": f"%f{self.random.randint(0, 5)}",
                "x": f"%x{self.random.randint(0, 3)}",
                "o": str(4 * self.random.randint(0, 9)),
            }
            line = self.random.choice(DATA_ROWS).format(**names, g="{g}", y="{y}")
            while "{" in line:
                line = line.replace("{g}", f"%f{self.random.randint(0, 5)}", 1)
                line = line.replace("{y}", f"%x{self.random.randint(0, 3)}", 1)
            self.lines.append(line)

    def body(self, context: Context, most: int = 2) -> None:
        self.data()
        for _ in range(self.random.randint(1, most)):
            self.statement(context)
        if self.random.random() < 0.5:
            self.data(2)

    def statement(self, context: Context) -> None:
        self.statements -= 1
        kinds, weights = ["data"], [2.0]
        if self.statements > 0 and context.depth < 3:
            kinds += ["branch", "loop", "chain", "leave", "flag", "guarded"]
            weights += [5.0, 2.5 if context.times < 4 else 0.0, 0.7, 0.6, 0.5, 0.5]
            kinds += ["data_loop", "barrier"]
            weights += [0.5 if context.times == 1 and self.bits > 3 else 0.0]
            weights += [1.5 if context.whole_block else 0.0]
        if context.breaks is not None:
            kinds.append("jump")
            weights.append(1.5)
        getattr(self, f"_write_{self.random.choices(kinds, weights)[0]}")(context)

    def _write_data(self, context: Context) -> None:
        self.data()

    def _write_barrier(self, context: Context) -> None:
        self.features |= {"barrier"} | ({"chosen barrier"} if context.is_open else set())
        self.lines.append("bar.sync 0;")
        self.mark_touch()

    def _write_flag(self, context: Context) -> None:
        self.flag_is_open |= context.is_open
        self.features |= {"toggled"} if context.times > 1 else set()
        self.lines.append(self.random.choice(("mov.u32 %kf, 1;", "xor.b32 %kf, %kf, 1;")))

    def _write_guarded(self, context: Context) -> None:
        kind = self.kind(context, KNOWN[:1] + ("lane",) * (self.classes > 1))
        guard = self.condition(kind, context)
        self.lines.append(f"@{guard} add.s32 %x0, %x1, %x2;")

    def _write_branch(self, context: Context) -> None:
        kind = self.kind(context)
        guard = self.condition(kind, context)
        inside = context.under(kind)
        other, out = self.new("L"), self.new("L")
        self.lines.append(f"@{guard} bra {other};")
        self.body(inside, 1)
        if self.random.random() < 0.6:
            self.lines += [f"bra {out};", f"{other}:"]
            self.body(inside, 1)
            self.lines.append(f"{out}:")
        else:
            self.lines.append(f"{other}:")

    def _write_chain(self, context: Context) -> None:
        """A switch: comparisons of one value, a body for each case."""
        value = "%kc" if self.classes > 1 else "%kf"
        kind = "lane" if self.classes > 1 else "const"
        self.features.add("chain")
        if kind == "const" and self.flag_is_open:
            self.features.add("correlated")
        out = self.new("L")
        for case in range(self.random.randint(2, 3)):
            after, predicate = self.new("L"), self.new("p")
            self.lines += [
                f"setp.ne.s32 {predicate}, {value}, {case};",
                f"@{predicate} bra {after};",
            ]
            self.data(3)
            self.lines += [f"bra {out};", f"{after}:"]
        self.data(2)
        self.lines.append(f"{out}:")

    def _write_leave(self, context: Context) -> None:
        """An early return, guarded or in a branch of its own."""
        kind = self.kind(context)
        self.features.add("return")
        guard = self.condition(kind, context)
        if self.random.random() < 0.6:
            self.lines.append(f"@{guard} ret;")
            return
        on = self.new("L")
        self.lines.append(f"@{guard} bra {on};")
        self.data()
        self.lines += ["ret;", f"{on}:"]

    def _write_jump(self, context: Context) -> None:
        """A break or continue."""
        assert context.breaks is not None
        kind = self.kind(context, context.break_kinds)
        name = self.random.choice(("break", "break", "continue"))
        self.features.add(name)
        target = context.breaks[name == "continue"]
        self.lines.append(f"@{self.condition(kind, context)} bra {target};")

    def _write_loop(self, context: Context) -> None:
        limits = [str(self.random.randint(1, 3))] * 3 + ["%km"]
        if self.classes > 1:
            limits.append("%kc")
        limit = self.random.choice(limits)
        may_break = self.random.random() < 0.4
        whole_block = context.whole_block and not may_break and limit != "%kc"
        inside = replace(context.under("lane" if limit == "%kc" else "const"), breaks=None)
        counter, head, on, out = self.new("k"), self.new("L"), self.new("L"), self.new("L")
        inside = replace(
            inside,
            whole_block=whole_block,
            times=context.times * 3,
            counters=(*context.counters, counter),
            breaks=(out, on) if may_break else None,
            break_kinds=(*self.kinds, "counter"),
        )
        tests_first = limit.startswith("%") or self.random.random() < 0.5
        predicate = self.new("p")
        self.features.add("loop")
        self.lines += [f"mov.u32 {counter}, 0;", f"{head}:"]
        if tests_first:
            self.lines += [
                f"setp.ge.s32 {predicate}, {counter}, {limit};",
                f"@{predicate} bra {out};",
            ]
        self.body(inside, 2)
        self.lines += [f"{on}:", f"add.s32 {counter}, {counter}, 1;"]
        if tests_first:
            self.lines.append(f"bra {head};")
        else:
            self.lines += [
                f"setp.lt.s32 {predicate}, {counter}, {limit};",
                f"@{predicate} bra {head};",
            ]
        self.lines.append(f"{out}:")

    def _write_data_loop(self, context: Context) -> None:
        """A loop that only data ends, with a bound."""
        kinds = tuple(kind for kind in self.kinds if kind in (*OF_WARP, "data"))
        most = self.random.randint(1, 3)
        kind = self.kind(replace(context, times=most), kinds) if kinds else "const"
        if kind in KNOWN:
            self.data()
            return
        self.features.add("data loop")
        inside = replace(context.under(kind), times=3 * most, breaks=None, whole_block=False)
        counter, head, out = self.new("k"), self.new("L"), self.new("L")
        self.loop_bounds[head] = most
        tests_first = self.random.random() < 0.5
        self.lines += [f"mov.u32 {counter}, 0;", f"{head}:"]
        if tests_first:
            self.features.add(kind)
            predicate = self.new("p")
            getattr(self, f"_{kind}")(predicate, context)
            self.lines.append(f"@{predicate} bra {out};")
            self.data_loops[predicate] = DataLoop(counter, most, leaves_when_taken=True)
        self.body(inside, 1)
        self.lines.append(f"add.s32 {counter}, {counter}, 1;")
        if tests_first:
            self.lines.append(f"bra {head};")
        else:
            self.features.add(kind)
            predicate = self.new("p")
            getattr(self, f"_{kind}")(predicate, context)
            self.lines.append(f"@{predicate} bra {head};")
            self.data_loops[predicate] = DataLoop(counter, most, leaves_when_taken=False)
        self.lines.append(f"{out}:")

    # --- unstructured -----------------------------------------------------------------------------

    def graph(self) -> None:
        """A row of blocks with branches forward, over one loop or two, and counted ones back."""
        count = self.random.randint(4, 8)
        loops = self.intervals(count)
        for block in range(count):
            around = [(a, b) for a, b in loops if a <= block <= b]
            head = next(((a, b) for a, b in loops if a == block), None)
            counters = tuple(f"%k{100 + a}" for a, _ in around)
            if head is not None:
                self.features.add("loop")
                self.lines += [f"E{block}:", f"mov.u32 %k{100 + block}, 0;"]
            self.lines.append(f"B{block}:")
            self.data(3)
            context = Context(1, 3 ** len(around), False, False, True, counters)
            if head is None and block < count - 2 and self.random.random() < 0.75:
                self.jump(block, count, loops, context)
            if (last := next((a for a, b in loops if b == block), None)) is not None:
                counter, predicate = f"%k{100 + last}", self.new("p")
                self.lines += [
                    f"add.s32 {counter}, {counter}, 1;",
                    f"setp.lt.s32 {predicate}, {counter}, {self.random.randint(1, 3)};",
                    f"@{predicate} bra B{last};",
                ]
        self.lines.append(f"B{count}:")
        self.data(2)
        self.numbers["k"] = 100 + count

    def intervals(self, count: int) -> list[tuple[int, int]]:
        """Loops as pairs of their first and last block: none, one, two apart or two nested."""
        loops: list[tuple[int, int]] = []
        for _ in range(self.random.choice((0, 1, 1, 2))):
            first = self.random.randint(0, count - 2)
            last = self.random.randint(first + 1, count - 1)
            if all(
                last < a or b < first or a < first <= last < b or first < a <= b < last
                for a, b in loops
            ):
                loops.append((first, last))
        return loops

    def jump(self, block: int, count: int, loops: list[tuple[int, int]], context: Context) -> None:
        """A branch to a later block, never into a loop but at its entry."""
        target = self.random.randint(block + 2, count)
        for first, last in sorted(loops):
            if first <= target <= last and not first <= block <= last:
                target = first
                break
        if target <= block + 1:
            return
        kind = self.kind(context)
        guard = self.condition(kind, context)
        entry = any(target == first for first, _ in loops)
        self.lines.append(f"@{guard} bra {'E' if entry else 'B'}{target};")


def _needed(line: str, used: str) -> bool:
    """Whether the rest of the kernel uses what a line of the prologue computes."""
    name = line.split()[1].rstrip(",")
    return name in ("%a0", "%a1", "%kt") or name in used
