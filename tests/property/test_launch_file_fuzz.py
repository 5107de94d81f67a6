"""No launch file crashes its reader: it is read, or refused with diagnostics."""

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from parsing import parse_text
from thoroughness import drawn

from ptxwcet.emulator.launch_arrays import DTYPES
from ptxwcet.emulator.launch_files import read_launch_file
from ptxwcet.support.diagnostics import PtxwcetError

MODULE = parse_text(
    ".version 8.0\n.target sm_86\n.address_size 64\n.const .align 4 .b8 t[8];\n"
    ".visible .entry k(.param .u64 k_0, .param .f32 k_1, .param .b8 k_2[4]) { ret; }\n"
)

NUMBERS = st.sampled_from(
    ["0", "1", "2", "-1", "4294967296", "18446744073709551616", "1.5", "nan", "inf", "-inf", "1e40"]
)
TEXTS = st.sampled_from(['"k"', '""', '"32x8"', '"x"', '"a.npy"', "1979-05-27", "true", "'\\'"])
LISTS = st.lists(NUMBERS | TEXTS, max_size=3).map(lambda items: f"[{', '.join(items)}]")
KEYS = ("shape", "dtype", "init", "low", "high", "seed", "start", "step", "value", "values", "file")
INITS = st.sampled_from(["zeros", "ones", "value", "arange", "uniform", "integers", "?"])
VALUES = {
    "shape": st.sampled_from(["1", "4", "[2, 2]"]) | NUMBERS | LISTS,
    "dtype": st.sampled_from([f'"{name}"' for name in DTYPES]) | TEXTS,
    "init": INITS.map(lambda name: f'"{name}"') | NUMBERS,
}
PLAIN = NUMBERS | TEXTS | LISTS


@st.composite
def tables(draw: st.DrawFn) -> str:
    keys = draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=6))
    keys += [key for key in ("shape", "dtype", "init") if key not in keys and draw(st.booleans())]
    entries = [f"{key} = {draw(VALUES.get(key, PLAIN))}" for key in keys]
    return f"{{ {', '.join(entries)} }}"


@st.composite
def launch_files(draw: st.DrawFn) -> str:
    lines = [
        f"{key} = {draw(PLAIN | st.just(usual))}"
        for key, usual in (("kernel", '"k"'), ("grid", "2"), ("block", '"8x4"'), ("what", "1"))
        if draw(st.integers(0, 9)) > (8 if key == "what" else 1)
    ]
    for table, names in (
        ("arguments", ("0", "k_1", "2", "k_9")),
        ("variables", ("t", "k_0")),
        ("expected", ("0", "k_1")),
    ):
        lines.append(f"[{table}]")
        for name in names:
            if draw(st.integers(0, 3)):
                lines.append(f"{name} = {draw(PLAIN | tables())}")
    return "\n".join(lines)


@settings(max_examples=drawn(400), deadline=None)
@given(text=launch_files())
def test_read_or_refused(text: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        read(Path(folder) / "l.toml", text)


def read(path: Path, text: str) -> None:
    path.write_text(text)
    try:
        launch = read_launch_file(str(path), MODULE, lambda kernel: None)
        values = launch.values()
        launch.variable_bytes()
    except PtxwcetError as refused:
        for row in refused.diagnostics:
            assert row.code.startswith("PW4") or row.code in ("PW208", "PW215")
            assert str(path) in row.render() or "cannot read" in row.message
        return
    assert len(values) == 3
