"""Loops around a line of CUDA source."""

from __future__ import annotations

import pytest

from ptxwcet.flow.facts.cuda_loops import loops_around

pytestmark = pytest.mark.fast

FORMS = {
    "for": ("for (;;) {\nasm();\n}", [{1}]),
    "without braces": ("for (int i = 0;\n i < f(2);\n ++i)\nasm();", [{1, 2, 3}]),
    "while": ("while (a)\n{\nasm();\n}\nb();", [{1}]),
    "do": ("do {\nx();\nasm();\n} while (\na);", [{1, 4, 5}]),
    "nested": ("for (;;) {\n while (x) y();\n  for (;;)\n{ asm(); }\n}", [{3}, {1}]),
    "beside": ("for (;;) { x(); }\nasm();\nfor (;;) { x(); }", []),
    "after a loop in a loop": ("for (;;) {\nfor (;;) x();\nasm();\n}", [{1}]),
    "in a branch": ("while (a)\n if (b) x(); else if (c) { y();\nasm(); }", [{1}]),
    "before else": ("if (a) { for (;;) x(); }\nelse {\nasm(); }", []),
    "else of a loop": ("for (;;) if (a) x(); else y();\nasm();", []),
    "switch": ("while (a) switch (b) {\ncase 1:\nasm();\n}", [{1}]),
    "if constexpr": ("while (a) if constexpr (b) {\nasm();\n}", [{1}]),
    "function": ("void f(int a) {\nfor (;;) x();\n}\nvoid g() {\nasm();\n}", []),
    "macro before": ("KEEP for (;;) {\nasm();\n}", [{1}]),
    "lambda": ("while (a) {\nf([&](int i) { for (;;) {\nasm();\n} });\n}", [{2}, {1}]),
    "initialiser": ("for (;;) { int a[] = {1, 2};\nasm();\n}", [{1}]),
    "struct": ("struct s { int a; void f() { for (;;) {\nasm(); } } };", [{1}]),
    "comment": ("// for (;;) {\n/* while (a) { */\nasm(); // }", []),
    "string": ('x("for (;;) {");\nasm();', []),
    "directive": ("#define F for (;;) { \\\n {\nasm();", []),
    "twice": ("for (;;) { asm(); asm(); }", []),
    "brace too many": ("}\nfor (;;) {\nasm();\n}", [{2}]),
    "unclosed": ("for (;;) {\nasm(", [{1}]),
    "no parentheses": ("for\nasm();", [{1}]),
}


@pytest.mark.parametrize(("text", "control"), FORMS.values(), ids=FORMS)
def test_forms(text: str, control: list[set[int]]) -> None:
    line = next(n for n, row in enumerate(text.split("\n"), 1) if "asm(" in row)
    assert [set(loop.control) for loop in loops_around(text, line)] == control


def test_a_line_with_a_macro_in_the_place_of_asm() -> None:
    text = "for (;;) {\nBOUND(64);\n}"
    assert [set(loop.control) for loop in loops_around(text, 2)] == [{1}]
    assert loops_around(text, 9) == ()


def test_lines_of_a_loop() -> None:
    (loop,) = loops_around("x();\nfor (;;) {\nasm();\n\n}\ny();", 3)
    assert loop.lines == range(2, 6)
    (loop,) = loops_around("do\nasm();\nwhile (a\n);\ny();", 2)
    assert loop.lines == range(1, 5)


def test_no_depth_is_too_much() -> None:
    assert loops_around("{" * 100_000 + "\nasm();", 2) == ()
