"""Loops that are left from inside of another one to two places or more: the outer loop goes on from
one, and is left, or continues elsewhere, from the other.

Lanes of one warp may leave for different places, in different iterations; warps too, and barriers
may be behind one of the places. Executed on adversarial data: each executed path is one that the
analysis knows, no run takes longer than its bound.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from parsing import parse_file, parse_kernel
from path_attack import Attack, attack, machine
from places import ROOT

from ptxwcet.flow.launch import Launch
from ptxwcet.machine.loader import load_machine
from ptxwcet.opened.request import Request
from ptxwcet.validate.inputs import validate_inputs

KERNEL = """
.version 8.3
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data, .param .u64 out)
{{
.reg .pred %p<9>; .reg .b32 %r<30>; .reg .b64 %rd<9>;
ld.param.u64 %rd1, [data];
ld.param.u64 %rd2, [out];
mov.u32 %r1, %tid.x;
{who}
mov.u32 %r10, 0;
mov.u32 %r11, 0;
mov.u32 %r12, 0;
mov.u32 %r20, 0;
{body}
ret;
}}
"""

LANE = "mov.u32 %r2, %r1;"
ONE_LANE = "mov.u32 %r2, %r1; setp.ne.u32 %p1, %r1, 0; @%p1 ret;"
WARP = "shr.u32 %r2, %r1, 5;"
BLOCK = "mov.u32 %r2, 0;"
WHO = {"lane": LANE, "one lane": ONE_LANE, "warp": WARP, "block": BLOCK}


def load(register: str, offset: int) -> str:
    """A word of the lane, the warp or the block, another one in each iteration."""
    return (
        "mad.lo.u32 %r3, %r2, 7, %r10; mad.lo.u32 %r3, %r11, 3, %r3; "
        f"add.u32 %r3, %r3, %r12; mad.wide.u32 %rd3, %r3, 4, %rd1; "
        f"ld.global.u32 {register}, [%rd3+{offset}]; "
    )


def unless(label: str, offset: int, bit: int = 0) -> str:
    """Goes to a label if a word says so: one in four of those at random."""
    return (
        load("%r4", offset) + f"and.b32 %r4, %r4, {5 << bit}; setp.eq.u32 %p2, %r4, {5 << bit}; "
        f"@%p2 bra {label};"
    )


def again(counter: str, limit: int, label: str) -> str:
    return (
        f"add.u32 {counter}, {counter}, 1; setp.lt.u32 %p3, {counter}, {limit}; @%p3 bra {label};"
    )


STORE = "st.global.u32 [%rd2], %r11;"
MORE = "st.global.u32 [%rd2+4], %r10; st.global.u32 [%rd2+8], %r12; ld.global.u32 %r5, [%rd2];"

BODIES = {
    # for i: for j: { if a: goto NEXT; if b: goto OUT }
    "next and out": f"""
O: mov.u32 %r11, 0; {STORE}
I: {unless("NEXT", 0)} {unless("OUT", 64, 1)} {again("%r11", 5, "I")}
NEXT: {again("%r10", 4, "O")}
OUT: {MORE}""",
    # as before; all iterations done goes elsewhere than a
    "three places": f"""
O: mov.u32 %r11, 0;
I: {unless("A", 0)} {unless("OUT", 64, 1)} {again("%r11", 5, "I")}
{STORE} bra NEXT;
A: {MORE}
NEXT: {again("%r10", 4, "O")}
OUT: {STORE}""",
    # code between the way out and where it meets the others
    "out by work": f"""
O: mov.u32 %r11, 0;
I: {unless("NEXT", 0)} {unless("FOUND", 64, 1)} {again("%r11", 5, "I")}
NEXT: {again("%r10", 4, "O")}
{STORE} bra OUT;
FOUND: {MORE}
OUT: {STORE}""",
    # return
    "return": f"""
O: mov.u32 %r11, 0; {STORE}
I: {unless("NEXT", 0)} {unless("END", 64, 1)} {again("%r11", 5, "I")}
NEXT: {again("%r10", 4, "O")}
{MORE}
END:""",
    "return with work": f"""
O: mov.u32 %r11, 0; {STORE}
I: {unless("NEXT", 0)} {unless("END", 64, 1)} {again("%r11", 5, "I")}
NEXT: {again("%r10", 4, "O")}
{MORE} ret;
END: {STORE}""",
    # the way out is tested before any work
    "out at the top": f"""
O: mov.u32 %r11, 0;
I: setp.ge.u32 %p3, %r11, 5; @%p3 bra NEXT; {unless("OUT", 64, 1)}
add.u32 %r11, %r11, 1; bra I;
NEXT: {STORE} add.u32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, 4; @%p3 bra O;
OUT: {MORE}""",
    # out of three loops
    "three loops": f"""
O: mov.u32 %r11, 0;
M: mov.u32 %r12, 0; {STORE}
I: {unless("NEXT", 0)} {unless("OUT", 64, 1)} {again("%r12", 3, "I")}
NEXT: {again("%r11", 3, "M")}
{again("%r10", 3, "O")}
OUT: {MORE}""",
    # out of three loops and of two
    "three loops, two ways": f"""
O: mov.u32 %r11, 0;
M: mov.u32 %r12, 0; {STORE}
I: {unless("LAST", 0)} {unless("OUT", 64, 1)} {again("%r12", 3, "I")}
{again("%r11", 3, "M")}
LAST: {again("%r10", 3, "O")}
OUT: {MORE}""",
    # inside a loop around
    "in a loop": f"""
O: mov.u32 %r11, 0;
M: mov.u32 %r12, 0; {STORE}
I: {unless("NEXT", 0)} {unless("OUT", 64, 1)} {again("%r12", 3, "I")}
NEXT: {again("%r11", 3, "M")}
OUT: {MORE}
{again("%r10", 3, "O")}""",
    # how far it came decides how often what follows is repeated
    "values behind": f"""
O: mov.u32 %r11, 0;
I: {unless("NEXT", 0)} {unless("OUT", 64, 1)} {again("%r11", 5, "I")}
NEXT: mov.u32 %r21, 0;
K: {STORE} add.u32 %r21, %r21, 1; setp.lt.u32 %p3, %r21, %r11; @%p3 bra K;
{again("%r10", 4, "O")}
OUT: mov.u32 %r21, 0; and.b32 %r11, %r11, 7;
L: {STORE} add.u32 %r21, %r21, 1; setp.lt.u32 %p3, %r21, %r11; @%p3 bra L;""",
    "values of the way out": f"""
O: mov.u32 %r11, 0; mov.u32 %r20, 9;
I: mov.u32 %r20, 2; {unless("NEXT", 0)} mov.u32 %r20, 7; {unless("OUT", 64, 1)} mov.u32 %r20, 1;
{again("%r11", 5, "I")}
NEXT: mov.u32 %r21, 0; and.b32 %r20, %r20, 15;
K: {STORE} add.u32 %r21, %r21, 1; setp.lt.u32 %p3, %r21, %r20; @%p3 bra K;
{again("%r10", 4, "O")} mov.u32 %r20, 3;
OUT: mov.u32 %r21, 0; and.b32 %r20, %r20, 15;
L: {STORE} add.u32 %r21, %r21, 1; setp.lt.u32 %p3, %r21, %r20; @%p3 bra L;""",
    # in a branch that only some take
    "in a branch": f"""
{unless("OUT", 128, 2)}
O: mov.u32 %r11, 0; {unless("NEXT", 32, 2)}
I: {unless("NEXT", 0)} {unless("OUT", 64, 1)} {again("%r11", 5, "I")}
NEXT: {again("%r10", 4, "O")}
OUT: {MORE}""",
    # lanes that part in the loop around, too
    "a break around": f"""
O: mov.u32 %r11, 0; {unless("OUT", 128, 2)}
I: {unless("NEXT", 0)} {unless("OUT", 64, 1)} {again("%r11", 5, "I")}
NEXT: {unless("HERE", 32, 2)} {MORE}
HERE: {again("%r10", 4, "O")}
OUT: {MORE}""",
    # behind the loop, one place leaves the loop around and the other does not
    "the next may leave": f"""
O: mov.u32 %r11, 0;
I: {unless("A", 0)} {unless("B", 64, 1)} {again("%r11", 5, "I")}
bra NEXT;
A: {STORE} {unless("OUT", 32, 2)} bra NEXT;
B: {MORE}
NEXT: {again("%r10", 4, "O")}
OUT: {STORE}""",
    # straight back to the header of the loop around
    "continue": f"""
O: add.u32 %r10, %r10, 1; setp.gt.u32 %p4, %r10, 4; @%p4 bra OUT; mov.u32 %r11, 0;
I: {unless("O", 0)} {unless("OUT", 64, 1)} {again("%r11", 5, "I")}
{MORE} bra O;
OUT: {STORE}""",
    # the loop around has no way out but through the inner one
    "no other way": f"""
O: mov.u32 %r11, 0; add.u32 %r10, %r10, 1; {STORE}
I: setp.gt.u32 %p4, %r10, 4; @%p4 bra OUT; {unless("O", 0)} {again("%r11", 5, "I")}
OUT: {MORE}""",
    # the last iteration alone is left for another place
    "by the counter": f"""
O: mov.u32 %r11, 0;
I: {unless("NEXT", 0)} add.u32 %r11, %r11, 1; setp.ge.u32 %p3, %r11, 5; @%p3 bra OUT;
{unless("I", 64, 1)}
{MORE}
NEXT: {again("%r10", 4, "O")}
OUT: {STORE}""",
    # some lanes end in it
    "ends within": f"""
O: mov.u32 %r11, 0;
I: {load("%r4", 128)} and.b32 %r4, %r4, 4; setp.ne.u32 %p2, %r4, 0; @%p2 ret;
{unless("NEXT", 0)} {unless("OUT", 64, 1)} {again("%r11", 5, "I")}
NEXT: {again("%r10", 4, "O")}
OUT: {MORE}""",
    # a side in the inner loop
    "a side within": f"""
O: mov.u32 %r11, 0;
I: {unless("NEXT", 0)} {unless("S", 128, 2)} {MORE}
S: {unless("OUT", 64, 1)} {again("%r11", 5, "I")}
NEXT: {again("%r10", 4, "O")}
OUT: {MORE}""",
}


def tried(body: str, who: str, *, warps: int = 1, executions: int = 24, seed: int = 1) -> Attack:
    kernel = parse_kernel(KERNEL.format(who=WHO[who], body=body))
    return attack(
        kernel,
        Launch((32 * warps, 1, 1), (1, 1, 1)),
        machine(),
        seed=seed,
        executions=executions,
        steps=20_000,
        times_all=True,
    )


@pytest.mark.parametrize("who", WHO)
@pytest.mark.parametrize("body", BODIES)
def test_bounded_at_or_above_the_truth(body: str, who: str) -> None:
    found = tried(BODIES[body], who, warps=2 if who == "warp" else 1)
    assert not found.violations
    assert found.code is None


def by(who: str, label: str, offset: int, bit: int = 0) -> str:
    """Goes to a label if a word of the block, the warp or the lane says so, whoever the others are
    by.
    """
    number = {"block": "mov.u32 %r2, 0;", "warp": WARP, "lane": LANE}[who]
    return number + unless(label, offset, bit)


BARRIER = "bar.sync 0;"
FEWER = "shr.u32 %r15, %r1, 5; add.u32 %r15, %r15, 3; setp.ge.u32 %p5, %r11, %r15; @%p5 bra NEXT;"
"""The loop has an iteration more in each warp."""


def with_barrier(a: str, b: str, place: str, decided: str = "") -> str:
    """A loop left for the next iteration of the one around by ``a``, for outside of it by ``b``."""
    at = {name: BARRIER if name == place else "" for name in ("in", "next", "work", "out", "rest")}
    return f"""
O: mov.u32 %r11, 0; {at["rest"]}
I: {at["in"]} {by(a, "NEXT", 0)} {by(b, "FOUND", 64, 1)} {decided} {again("%r11", 5, "I")}
NEXT: {at["next"]} {STORE} {again("%r10", 4, "O")}
{MORE} bra OUT;
FOUND: {at["work"]} {STORE}
OUT: {at["out"]} {MORE}"""


PEOPLE = ("block", "warp", "lane")
PLACES = ("in", "next", "work", "rest")


@pytest.mark.every(3)
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("a", PEOPLE)
@pytest.mark.parametrize("b", PEOPLE)
def test_barriers_need_all_warps_to_leave_together(place: str, a: str, b: str) -> None:
    """At one exit, in one iteration: it does not do that they agree on one of the two."""
    found = tried(with_barrier(a, b, place), "block", warps=2, executions=12)
    assert not found.violations
    assert found.code == (None if a == b == "block" else "PW222")


@pytest.mark.parametrize("place", PLACES)
def test_barriers_of_warps_with_other_counts(place: str) -> None:
    found = tried(with_barrier("block", "block", place, FEWER), "block", warps=2)
    assert found.code == "PW222"


OTHER_WAY = f"shr.u32 %r15, %r1, 5; setp.eq.u32 %p5, %r15, 0; @%p5 bra Q; {MORE} Q:"
"""Warp 0 goes another way than the others: the two are walked apart."""


@pytest.mark.parametrize("place", PLACES)
def test_barriers_of_warps_walked_apart(place: str) -> None:
    """That the passes of one are those of the other is not shown."""
    body = with_barrier("block", "block", place)
    assert tried(OTHER_WAY + body, "block", warps=2).code in ("PW222", "PW501")


@pytest.mark.parametrize("a", PEOPLE)
@pytest.mark.parametrize("b", PEOPLE)
@pytest.mark.parametrize("decided", ["", FEWER])
def test_barriers_behind_all(a: str, b: str, decided: str) -> None:
    found = tried(with_barrier(a, b, "out", decided), "block", warps=2, executions=12)
    assert not found.violations
    assert found.code is None


class Nest:
    """A random nest of counted loops, left and continued from inside of each other on data.

    Who goes the same way differs from branch to branch; in some nests a barrier stands somewhere.
    """

    def __init__(self, seed: int) -> None:
        self.chooser = random.Random(seed)
        self.people = self.chooser.choice(
            [("block",), ("warp",), ("lane",), ("block", "warp"), ("block", "block", "lane")]
        )
        self.barriers = 0.25 if self.chooser.random() < 0.4 else 0.0
        self.labels = 0
        self.depth = self.chooser.choice((2, 2, 3))
        self.body = self.loop(0) + f"OUT: {STORE}"

    def some(self, text: str, chance: float) -> str:
        return text if self.chooser.random() < chance else ""

    def leave(self, level: int) -> str:
        """Goes on with an iteration of a loop around, behind one, or to the end."""
        around = range(level + 1)
        labels = [*(f"NEXT{k}" for k in around), *2 * [f"OUT{k}" for k in around], "OUT"]
        offset, bit = 8 * self.chooser.randrange(16), self.chooser.randrange(3)
        return by(self.chooser.choice(self.people), self.chooser.choice(labels), offset, bit)

    def side(self, level: int) -> str:
        self.labels += 1
        label = f"S{self.labels}"
        inside = self.some(self.leave(level), 0.3)
        return by(self.chooser.choice(self.people), label, 16, 1) + f"{MORE} {inside} {label}:"

    def piece(self, level: int) -> str:
        parts = [
            self.some(self.leave(level), 0.5),
            self.some(self.side(level), 0.25),
            self.some(STORE, 0.4),
            self.some(BARRIER, self.barriers),
        ]
        self.chooser.shuffle(parts)
        return "\n".join(parts)

    def loop(self, level: int) -> str:
        counter, limit = f"%r1{level}", self.chooser.randint(2, 3)
        inner = self.loop(level + 1) if level + 1 < self.depth else self.leave(level)
        body = self.piece(level) + inner + self.piece(level)
        top = f"L{level}: "
        test, last = "", again(counter, limit, f"L{level}")
        if self.chooser.random() < 0.5:  # the test comes first
            test = f"setp.ge.u32 %p4, {counter}, {limit}; @%p4 bra DONE{level};"
            last = f"add.u32 {counter}, {counter}, 1; bra L{level};"
        behind = self.some(MORE, 0.5) + self.some(self.leave(level - 1) if level else "", 0.2)
        return (
            f"mov.u32 {counter}, 0;\n{top}{test}\n{body}\nNEXT{level}: {last}\n"
            f"DONE{level}: {behind}\nOUT{level}: {self.some(STORE, 0.5)}\n"
        )


def nested(seed: int, executions: int) -> Attack:
    return tried(Nest(seed).body, "block", warps=seed % 2 + 1, executions=executions, seed=seed)


@pytest.mark.every(3)
@pytest.mark.parametrize("seed", range(24))
def test_random_nests(seed: int) -> None:
    assert not nested(seed, 9).violations


DRAFTS = ROOT / "benchmarks" / "kernels" / "plain" / "models.ptx"


def tree(parents: Sequence[int]) -> tuple[list[int], list[int], int]:
    """Of each node the first child and the next sibling, and the most children of one node."""
    nodes = range(len(parents) + 1)
    children = [[i + 1 for i, parent in enumerate(parents) if parent == node] for node in nodes]
    following = [-1] * len(nodes)
    for row in children:
        for one, other in pairwise(row):
            following[one] = other
    return [row[0] if row else -1 for row in children], following, max(map(len, children))


TREES = {
    "a chain": list(range(7)),
    "a star": [0] * 7,
    "two stars": [0, 0, 0, 3, 3, 3, 3],
    "few": [0, 0, 1, 1, 2, 2, 4],
}


@pytest.mark.every(2)
@pytest.mark.parametrize("agreed", [3, 8])
@pytest.mark.parametrize("kind", TREES)
def test_drafts_verified_on_hard_data(kind: str, agreed: int, tmp_path: Path) -> None:
    """The model agrees with the last sibling each time, up to a node; no sibling more than said."""
    first, following, most = tree(TREES[kind])
    drafts, targets = [1] * 8, [2] * 8
    node = 0
    while first[node] != -1:
        child = first[node]
        while following[child] != -1:
            child = following[child]
        targets[node] = drafts[child] = 10 + node
        node = child
    targets = [target if node < agreed else 99 for node, target in enumerate(targets)]
    values = {"drafts": drafts, "targets": targets, "first_child": first, "next_sibling": following}
    rows = [f'{name} = {{ dtype = "int32", values = {row} }}' for name, row in values.items()]
    launch = tmp_path / "launch.toml"
    launch.write_text(
        'kernel = "verify_drafts"\ngrid = 1\nblock = 64\n[arguments]\nnodes = 8\n'
        'accepted = { shape = 8, dtype = "int32", init = "zeros" }\n'
        'length = { shape = 1, dtype = "int32", init = "zeros" }\n' + "\n".join(rows)
    )
    # a node's last sibling that does not match is no body execution: the loop is left there
    request = Request(str(DRAFTS), launch_file=str(launch), loop_bounds=(f"$L__BB11_5={most - 1}",))
    module = parse_file(DRAFTS)
    (found,) = validate_inputs(request, module, load_machine("orin-ecrts2025-memory"), 1)
    assert found.rows
    assert not found.diagnostics
