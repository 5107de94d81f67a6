"""No facts file and no comment in the PTX crashes: it is taken, or refused with diagnostics."""

import hashlib
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from places import ROOT
from thoroughness import drawn

from ptxwcet.commands.bound.study import bound_file
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

PTX = ROOT / "samples/mandelbrot.ptx"
MARKED = (ROOT / "tests/data/flow/marked.ptx").read_text()
DIGEST = hashlib.sha256(PTX.read_bytes()).hexdigest()

NUMBERS = st.sampled_from(["0", "1", "64", "-1", "1e3", "1.5", "nan", str(10**30), "9" * 5000])
TEXTS = st.sampled_from(
    ['"$L__BB0_2"', '"$L__BB0_3"', '"entry"', '"block 1"', '"mandelbrot"', '"taken"', '"?"', '""',
     '"fallthrough"', '"warp"', '"block"', '"1..9"', '"9..1"', '".."', "true", "1979-05-27", "{}"]
)  # fmt: skip
PLAIN = NUMBERS | TEXTS
LISTS = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3).map(lambda rows: f"[{', '.join(rows)}]"),
    max_leaves=6,
)
KEYS = st.sampled_from(
    ["kernel", "at", "line", "bound", "total", "never", "uniform", "branches", "n", "most", "'5'"]
)
HEADERS = st.sampled_from(
    ["[[loop]]", "[[branch]]", "[[exclusive]]", "[parameters]", "[parameters.mandelbrot]", "[loop]",
     "[[parameters]]", "[x]", "[[loop.at]]", ""]
)  # fmt: skip
USUAL = {
    "[[loop]]": ('at = "$L__BB0_2"', "bound = 50"),
    "[[branch]]": ('at = "$L__BB0_2"', 'never = "taken"'),
    "[[exclusive]]": ('branches = [["$L__BB0_2", "taken"], ["entry", "taken"]]',),
    "[parameters]": ("most = 50",),
}


@st.composite
def facts_files(draw: st.DrawFn) -> str:
    lines = [f'ptx = "sha256:{DIGEST}"'] if draw(st.integers(0, 9)) else []
    for _ in range(draw(st.integers(0, 4))):
        header = draw(HEADERS)
        lines.append(header)
        lines += [row for row in USUAL.get(header, ()) if draw(st.integers(0, 3))]
        lines += [f"{draw(KEYS)} = {draw(LISTS)}" for _ in range(draw(st.integers(0, 1)))]
    text = "\n".join(lines)
    if draw(st.integers(0, 5)) == 0:
        cut = draw(st.integers(0, len(text)))
        text = text[:cut] + draw(st.text(max_size=3)) + text[cut:]
    return text


def attempt(request: Request) -> list[Diagnostic]:
    """Everything that refuses a bound; any other exception is a bug."""
    try:
        answer = bound_file(request)
    except PtxwcetError as error:
        return list(error.diagnostics)
    return [one for row in answer.refused for one in row.diagnostics]


@settings(max_examples=drawn(60), deadline=None)
@given(facts_files())
def test_facts_files(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "facts.toml"
        path.write_text(text, encoding="utf-8", errors="replace", newline="")
        refusals = attempt(Request(str(PTX), block="32", facts_file=str(path)))
    assert all(one.render() for one in refusals)


LINES = MARKED.split("\n")
INSERTED = st.sampled_from(
    ["// ptxwcet: loop_bound 64", "// ptxwcet: loop_total 9", "/* ptxwcet: loop_bound 3 */",
     "// ptxwcet: loop_bound 0", "// ptxwcet:", "L_new:", ".loc 1 8 5", "{ }"]
)  # fmt: skip


@settings(max_examples=drawn(30), deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(LINES)), INSERTED), min_size=1, max_size=4))
def test_comments(changes: list[tuple[int, str]]) -> None:
    lines = list(LINES)
    for number, text in changes:
        lines.insert(number, text)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "k.ptx"
        path.write_text("\n".join(lines))
        refusals = attempt(Request(str(path), block="32"))
    assert all(one.render() for one in refusals)
