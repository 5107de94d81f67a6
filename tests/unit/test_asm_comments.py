"""Loop bounds in comments of the PTX, as nvcc carries them there from ``asm volatile``."""

from __future__ import annotations

from pathlib import Path

import pytest
from answers import only_answer, only_refusal
from parsing import parse_text
from places import FLOW
from refusals import refusal_of

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.flow.facts.asm_comments import find_marks, marked_bounds
from ptxwcet.flow.facts.cuda_loops import CudaSource
from ptxwcet.flow.graph.control_flow import ControlFlow
from ptxwcet.flow.graph.inlining import inline_calls
from ptxwcet.flow.launch import BoundOrigin
from ptxwcet.flow.walk.path import loop_entries
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

pytestmark = pytest.mark.fast

MARKED = FLOW / "marked.ptx"


def analysis(kernel: str, *parameters: str) -> KernelAnalysis:
    request = Request(str(MARKED), (kernel,), block="64", parameters=parameters)
    return only_answer(request)


def user_bounds(row: KernelAnalysis) -> list[tuple[int, str]]:
    entries = [e for path in row.worst.paths.warps for e in loop_entries(path.nodes)]
    user = {e.loop: e.iterations.base for e in entries if e.origin is BoundOrigin.USER}
    return [(user[loop], row.facts.loop_sources[loop]) for loop in sorted(user)]


def keys(row: KernelAnalysis) -> list[str]:
    """What a bound rests on beside what every block bound does, and beside its pointers."""
    first, *others = [one.key for one in row.worst.bound.claim.assumptions]
    assert first == "alone-on-its-sm"
    return [key for key in others if key != "aligned-pointers"]


def test_a_comment_bounds_the_loop_around_it() -> None:
    row = analysis("csr")
    assert user_bounds(row) == [(64, "asm comment marked.cu:7")]
    assert keys(row) == ["user-loop-bounds", "asm-comment-loops"]
    (stated,) = (one for one in row.worst.bound.claim.assumptions if one.key == "user-loop-bounds")
    assert stated.source == "asm comment marked.cu:7"


def test_copies_of_an_unrolled_loop_share_the_passings() -> None:
    """Four copies an iteration: 66 passings are 16 whole iterations; the rest is a loop too.

    Of the rest the analysis knows more: it has less than four iterations.
    """
    row = analysis("unrolled")
    assert user_bounds(row) == [(16, "asm comment marked.cu:18 (66 passings, 4 an iteration)")]
    assert list(row.facts.loop_bounds.values()) == [16, 66]
    entries = [e for path in row.worst.paths.warps for e in loop_entries(path.nodes)]
    assert {e.iterations.base for e in entries} == {16, 3}


def test_a_total_holds_whatever_loop_it_was_in() -> None:
    row = analysis("total", "n=10")
    assert user_bounds(row) == [(500, "asm comment marked.cu:29")]
    assert keys(row) == ["user-loop-bounds"]


def test_each_call_of_a_function_has_its_own_loop() -> None:
    assert [bound for bound, _ in user_bounds(analysis("called"))] == [9, 9]


REFUSED = [
    ("inner_gone", "PW249", "unrolled completely inside of this one"),
    ("both", "PW249", "unrolled completely inside of this one"),
    ("slack", "PW249", "unrolled completely inside of this one"),
    ("all_gone", "PW249", "in no loop"),
    ("sometimes", "PW249", "does not pass it"),
    ("counted", "PW217", "asm comment marked.cu:99 says 30 iterations, but the loop runs 40"),
]


@pytest.mark.parametrize(("kernel", "code", "message"), REFUSED)
def test_comments_that_bound_nothing(kernel: str, code: str, message: str) -> None:
    row = only_refusal(Request(str(MARKED), (kernel,), block="64"))
    (problem,) = row.diagnostics
    assert problem.code == code
    assert message in problem.message
    assert problem.span is not None


def test_without_the_source_a_comment_may_be_in_the_wrong_loop(tmp_path: Path) -> None:
    """PTX does not show which loop it was in: two comments are compared, one is an assumption."""
    path = tmp_path / "marked.ptx"
    path.write_text(MARKED.read_text())
    both = only_refusal(Request(str(path), ("both",), block="64"))
    assert both.diagnostics[0].code == "PW215"
    assert "marked.cu:52 says 100, asm comment marked.cu:54" in both.diagnostics[0].message
    slack = only_answer(Request(str(path), ("slack",), block="64"))
    assert "asm-comment-loops" in keys(slack)
    other = Request(str(path), ("slack",), block="64", source=str(MARKED.with_suffix(".cu")))
    assert not bound_file(other).answered


# --- shapes of loops, by hand ---------------------------------------------------------------------

HEAD = """.version 8.0
.target sm_80
.address_size 64
.file 1 "x.cu"
.func f() { .reg .pred %q; ret; }
.visible .entry k()
{
.reg .b32 %r<9>; .reg .pred %p<9>;
mov.u32 %r1, %tid.x;
"""


def bounds(body: str) -> list[tuple[int, bool]]:
    module = parse_text(f"{HEAD}{body}\nret;\n}}\n")
    (kernel,) = module.kernels
    found = marked_bounds(ControlFlow.of(kernel), find_marks(module)[0])
    return [(found[loop].most, found[loop].is_total) for loop in sorted(found)]


def problem(body: str) -> Diagnostic:
    return refusal_of(bounds, body)


def mark(number: int, line: int = 7, kind: str = "loop_bound") -> str:
    return f".loc 1 {line} 3\n// ptxwcet: {kind} {number}\n"


STEP = "add.s32 %r1, %r1, 1; setp.ne.s32 %p1, %r1, 9;\n"


@pytest.mark.parametrize(
    "text",
    [
        "// ptxwcet: loop_bound 9",
        "/* ptxwcet: loop_bound 9 */",
        "//ptxwcet:loop_bound 9",
        "/*\n ptxwcet: loop_bound\n 9 */",
    ],
)
def test_ways_to_write_it(text: str) -> None:
    assert bounds(f"L:\n{text}\n{STEP}@%p1 bra L;") == [(9, False)]


@pytest.mark.parametrize(
    "text",
    ["// ptxwcet: loop_bound", "// ptxwcet: loop_bound -1", "// ptxwcet: bound 9",
     "/* ptxwcet: loop_bound 9 10 */", "// ptxwcet: loop_bound 9;", "// ptxwcet:"],
)  # fmt: skip
def test_malformed_comments(text: str) -> None:
    found = problem(f"L:\n{text}\n{STEP}@%p1 bra L;")
    assert found.code == "PW248"
    assert found.span is not None
    assert found.span.text == text


def test_a_comment_inside_of_a_string_is_none() -> None:
    assert bounds(f'.pragma "// ptxwcet: nonsense";\nL:\n{STEP}@%p1 bra L;') == []


def test_a_comment_outside_of_a_body() -> None:
    text = f"// ptxwcet: loop_bound 9\n{HEAD}ret;\n}}\n"
    assert refusal_of(find_marks, parse_text(text)).code == "PW249"


def test_at_the_end_of_a_block_before_a_label() -> None:
    body = (
        f"L: {STEP}@%p1 bra M;\nmov.u32 %r2, 1;\n{mark(9)}M: setp.ne.s32 %p2, %r1, 7; @%p2 bra L;"
    )
    assert problem(body).code == "PW249"  # only one of two ways through the loop passes it
    both = body.replace("@%p1 bra M;", mark(9) + "@%p1 bra M;")
    assert bounds(both) == [(9, False)]


def test_the_way_with_the_fewest_copies_counts() -> None:
    one = mark(12)
    two = one + "mov.u32 %r3, 1;\n" + one
    body = f"L: {STEP}@%p1 bra M;\n{two}mov.u32 %r2, 1;\nbra N;\nM:\n{one}mov.u32 %r2, 2;\nN: "
    assert bounds(body + "setp.ne.s32 %p2, %r1, 7; @%p2 bra L;") == [(12, False)]
    assert bounds(body.replace(one, two) + "setp.ne.s32 %p2, %r1, 7; @%p2 bra L;") == [(6, False)]


def test_comments_without_a_known_line_are_not_taken_for_copies() -> None:
    """Two comments are passed twice an iteration together, but each only once."""
    plain = "// ptxwcet: loop_bound 8\n"
    body = f"mov.u32 %r2, 1;\n{{}}{STEP}@%p1 bra L;"
    assert bounds(f"L:\n{plain}" + body.format(plain)) == [(8, False)]
    assert bounds(f"L:\n{mark(8)}" + body.format(mark(8))) == [(4, False)]
    assert bounds(f"L:\n{mark(8)}" + body.format(mark(8, 9))) == [(8, False)]
    assert bounds(f"L:\n{mark(8, 0)}" + body.format(mark(8, 0))) == [(8, False)]
    assert bounds(f"L:\n{mark(8)}{plain}" + body.format("")) == [(8, False)]


def test_a_comment_in_an_inner_loop_says_nothing_of_the_outer_one() -> None:
    inner = f"mov.u32 %r2, 1;\nM:\n{mark(5)}{STEP}@%p1 bra M;\n"
    assert bounds(f"L: {inner}setp.ne.s32 %p2, %r1, 7; @%p2 bra L;") == [(5, False)]


def test_two_loops_with_one_header() -> None:
    """do { do { mark } while (a); } while (b): one loop in the graph, with two ways back."""
    body = f"L:\n{mark(5)}{STEP}@%p1 bra L;\nsetp.ne.s32 %p2, %r1, 7; @%p2 bra L;"
    assert "two loops in one" in problem(body).message
    assert bounds(body.replace("loop_bound", "loop_total")) == [(5, True)]


def test_a_second_comment_in_a_loop() -> None:
    body = f"L:\n{mark(5)}mov.u32 %r2, 1;\n{mark(5, 8)}{STEP}@%p1 bra L;"
    assert bounds(body) == [(5, False)]
    assert problem(body.replace("loop_bound 5", "loop_bound 6", 1)).code == "PW215"
    total = body.replace("loop_bound 5", "loop_total 4", 1)
    assert bounds(total) == [(4, True)]


def test_an_iteration_that_would_be_the_only_one() -> None:
    copies = mark(4) + "mov.u32 %r2, 1;\n" + mark(4)
    assert bounds(f"L:\n{copies}{STEP}@%p1 bra L;") == [(2, False)]
    assert problem(f"L:\n{copies.replace('4', '3')}{STEP}@%p1 bra L;").code == "PW249"
    assert bounds(f"L:\n{mark(1)}{STEP}@%p1 bra L;") == [(1, False)]


def test_copies_outside_of_the_loop_are_fine() -> None:
    """A first iteration that the compiler has taken out of the loop."""
    assert bounds(f"{mark(5)}mov.u32 %r2, 1;\nL:\n{mark(5)}{STEP}@%p1 bra L;") == [(5, False)]


def test_beside_a_call() -> None:
    """Instructions before a call stay in their block; several others take the place of the call."""
    before = f"L:\nmov.u32 %r2, 1;\n{mark(5)}call f;\n{STEP}@%p1 bra L;"
    assert inlined(before) == [5]
    assert inlined(f"L:\ncall f;\n{mark(5)}{STEP}@%p1 bra L;") == [5]
    assert refusal_of(inlined, f"L:\n{mark(5)}call f;\n{STEP}@%p1 bra L;").code == "PW249"


@pytest.mark.parametrize("after", ["call f;", "N: mov.u32 %r3, 1;"])
def test_at_the_header_of_an_inner_loop(after: str) -> None:
    """What stands before the header is in the outer loop, the comment is not."""
    inner = f"M:\n{mark(5)}{after}\n{STEP}@%p1 bra M;"
    assert (
        refusal_of(
            inlined, f"L:\nmov.u32 %r2, 1;\n{inner}\nsetp.ne.s32 %p2, %r1, 7; @%p2 bra L;"
        ).code
        == "PW249"
    )


def test_copies_of_a_function_are_no_copies_of_a_comment() -> None:
    """A function called twice in a loop of its caller, with a comment outside of its own loops."""
    body = f"L:\ncall g;\ncall g;\n{STEP}@%p1 bra L;"
    assert inlined(body) == [8]


def inlined(body: str) -> list[int]:
    g = f".func g() {{ .reg .b32 %q<3>; mov.u32 %q1, 1;\n{mark(8)}mov.u32 %q2, 1; ret; }}\n"
    text = HEAD.replace(".visible", g + ".visible") + f"{body}\nret;\n}}\n"
    module = parse_text(text)
    kernel = inline_calls(module.kernels[0], module)
    return [
        one.most for one in marked_bounds(ControlFlow.of(kernel), find_marks(module)[0]).values()
    ]


# --- with the CUDA source -------------------------------------------------------------------------

NESTED = "void f() {\nwhile (a) {\nfor (;;) {\nasm();\nif (b) break;\n}\n}\n}\nwhile (c) f();\n"
ONE_LINE = "void f() {\nwhile (a) for (;;) {\nx();\nasm(); } }\n"


def placed(
    line: int, jump: str, source: str = NESTED, name: str = "x.cu", kind: str = "loop_bound"
) -> list[int]:
    """The bound of a loop with a comment from line 4 whose branch stands at ``.loc`` ``jump``."""
    body = f"L:\n{mark(8, line, kind)}{STEP}.loc {jump}\n@%p1 bra L;"
    module = parse_text(f"{HEAD}.loc 1 3 1\n{body}\nret;\n}}\n")
    (kernel,) = module.kernels
    marks, _ = find_marks(module, CudaSource(name, source))
    return [one.most for one in marked_bounds(ControlFlow.of(kernel), marks).values()]


INLINED = "1 9 1, function_name $L__info_string0, inlined_at 1 3 1"


@pytest.mark.parametrize("jump", ["1 3 5", "1 5 5", "1 0 0", INLINED])
def test_the_branch_is_that_of_the_loop_in_the_source(jump: str) -> None:
    assert placed(4, jump) == [8]


@pytest.mark.parametrize("jump", ["1 2 5", "1 9 5", "1 7 1"])
def test_the_branch_is_that_of_another_loop(jump: str) -> None:
    assert refusal_of(placed, 4, jump).code == "PW249"
    assert placed(4, jump, kind="loop_total") == [8]
    assert placed(4, jump, name="y.cu") == [8]


def test_a_break_inside_does_not_hide_that_the_loop_is_another() -> None:
    body = f".loc 1 5 1\nsetp.ne.s32 %p2, %r1, 7;\n@%p2 bra M;\n{STEP}.loc 1 2 1\n@%p1 bra L;\nM:"
    module = parse_text(f"{HEAD}L:\n{mark(8, 4)}{body}\nret;\n}}\n")
    (kernel,) = module.kernels
    with pytest.raises(PtxwcetError):
        marked_bounds(ControlFlow.of(kernel), find_marks(module, CudaSource("x.cu", NESTED))[0])


def test_two_loops_on_one_line_are_not_told_apart() -> None:
    assert placed(4, "1 2 5", ONE_LINE) == [8]
    assert placed(4, "1 3 5", ONE_LINE) == [8]
