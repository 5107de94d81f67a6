"""Mistakes that ``benchmarks/source_mutations.py`` puts into Python source."""

from __future__ import annotations

from collections import Counter

import pytest
from mutate_rooms import with_probes
from source_mutations import Mutation, is_other_program, mutations_of

pytestmark = pytest.mark.fast

SOURCE = b'''\
@decorated(flag=True)
class Row:
    name: Literal[7]


def most(rows: list[int], top: int = 0) -> int:
    """The most, not above 9."""
    found = top
    for row in rows:
        if row is None:
            continue
        if not row < 3 and row in LARGE:
            found = max(found, row + 1)
            log(row)
    return found


def run(rows: list[int]) -> None:
    """Nothing."""
    rows.sort()
    print(rows)
'''
CHANGES = """\
def most(rows: list[int], top: int = 0) -> int: → def most(rows: list[int], top: int = (-1)) -> int:
def most(rows: list[int], top: int = 0) -> int: → def most(rows: list[int], top: int = 1) -> int:
if row is None: → if False:
if row is None: → if row is not None:
if not row < 3 and row in LARGE: → if (row < 3) and row in LARGE:
if not row < 3 and row in LARGE: → if not row <= 3 and row in LARGE:
if not row < 3 and row in LARGE: → if not row < 2 and row in LARGE:
if not row < 3 and row in LARGE: → if not row < 4 and row in LARGE:
if not row < 3 and row in LARGE: → if not row < 3 or row in LARGE:
if not row < 3 and row in LARGE: → if not row < 3 and row not in LARGE:
found = max(found, row + 1) → found = min(found, row + 1)
found = max(found, row + 1) → found = max(found, row - 1)
found = max(found, row + 1) → found = max(found, row + 0)
found = max(found, row + 1) → found = max(found, row + 2)
log(row) → pass
log(row) → log(row) break
rows.sort() → pass
print(rows) → pass
print(rows) → return print(rows)
"""


def test_all_mistakes_of_a_text() -> None:
    found = mutations_of(SOURCE)
    assert Counter(one.describe(SOURCE) for one in found) == Counter(CHANGES.splitlines())
    assert all(is_other_program(SOURCE, one) for one in found)


def test_the_line_of_a_mistake() -> None:
    lines = SOURCE.decode().splitlines()
    for one in mutations_of(SOURCE):
        assert one.describe(SOURCE).startswith(lines[one.line - 1].strip())


def test_what_is_no_program_or_the_same_one() -> None:
    source = b"while a: b()\n"
    (broken,) = (one for one in mutations_of(source) if one.kind == "one iteration")
    assert not is_other_program(source, broken)
    assert not is_other_program(source, Mutation("call", 1, 9, 12, "(b)()"))
    assert is_other_program(source, Mutation("call", 1, 9, 12, "c()"))


def test_probes_are_put_before_the_statements_of_mistakes() -> None:
    lines = SOURCE.decode().splitlines()
    numbers = {at: line for at, line in enumerate(lines, 1) if line.strip() and '"""' not in line}
    text = with_probes(b"from __future__ import annotations\n" + SOURCE, {1: 3})
    assert text.count("note_line(1)") == 2  # outside of functions: at the begin of each
    for at, line in numbers.items():
        probed = with_probes(b"from __future__ import annotations\n" + SOURCE, {at: at + 1})
        compile(probed, "probed", "exec")
        after = probed.partition(f"note_line({at})\n")[2].splitlines()
        if at > 7 and not line.startswith("def"):
            assert line.split()[0] in after[0], line
