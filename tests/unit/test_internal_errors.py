"""An internal error costs its own kernel only, in every command that answers kernels by themselves.

The error is put into one kernel: the graph of its control flow cannot be built, its text cannot be
read, what is stated of it cannot be read, its makespan cannot be printed or drawn.
"""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest
from parsing import parse_file
from programs import run_program
from ptx_printer import print_module

import ptxwcet.commands.bound.build as report_build
import ptxwcet.commands.bound.text as report_text
import ptxwcet.methods.makespan.command as makespan_command
from ptxwcet.commands.cfg import text as flow_text
from ptxwcet.flow.facts import asm_comments
from ptxwcet.flow.facts import files as facts_files
from ptxwcet.flow.graph import cfg as flow_cfg
from ptxwcet.flow.graph.cfg import _block_starts
from ptxwcet.ir.kernel import Kernel
from ptxwcet.opened.opening import file_digest
from ptxwcet.ptx import parser as ptx_parser
from ptxwcet.ptx.blocks import Blocks
from ptxwcet.ptx.body import BodyReader
from ptxwcet.ptx.functions import lower_head
from ptxwcet.support.diagnostics import PtxwcetError

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
KERNEL = """.visible .entry {name}(.param .u32 n)
{{
.reg .b32 %r<4>;
.reg .pred %p<2>;
ld.param.u32 %r1, [n];
mov.u32 %r2, 0;
L_{name}:
add.s32 %r2, %r2, 1;
setp.lt.s32 %p1, %r2, %r1;
@%p1 bra L_{name};
ret;
}}
"""
NAMES = ("first", "broken", "last")


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "three.ptx"
    path.write_text(HEADER + "".join(KERNEL.format(name=name) for name in NAMES))
    return str(path)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def starts(kernel: Kernel, control: list[int]) -> list[int]:
        if kernel.name == "broken":
            raise KeyError("injected")
        return _block_starts(kernel, control)

    monkeypatch.setattr(flow_cfg, "_block_starts", starts)


LAUNCH = ("--block", "32", "--param", "n=3")
COMMANDS = [
    ((), LAUNCH, "kernel     {}\n"),
    ((), (*LAUNCH, "--explain"), "kernel     {}\n"),
    ((), (*LAUNCH, "--policy", "gto"), "kernel     {}\n"),
    ((), ("--block", "32", "--symbolic", "n=1..9"), "kernel     {}\n"),
    (
        (
            "annotate",
            "phases",
        ),
        LAUNCH,
        "kernel {}, warp 0",
    ),
    (("simulate",), (*LAUNCH, "--policy", "lrr"), "kernel     {}\n"),
    (("validate",), (*LAUNCH, "--runs", "1"), "kernel {}, 1 warps"),
    (("makespan",), (*LAUNCH, "--load-store", "1", "--cores", "1"), "kernel {}, units"),
    (("facts",), ("--block", "32"), "[parameters.{}]"),
    (("cfg",), (), "{}"),
    (("cfg",), LAUNCH, "{}"),
    (("cfg",), (*LAUNCH, "--format", "text"), "kernel     {}\n"),
]


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(("words", "options", "shown"), COMMANDS)
def test_the_others_are_answered(
    words: tuple[str, ...],
    options: tuple[str, ...],
    shown: str,
    file: str,
) -> None:
    code, out, err = run_program(*words, file, *options)
    assert code == 1
    assert err.count("error[PW901]: kernel broken: internal error at ") == 1
    assert err.count("error[") == 1
    assert "KeyError: 'injected'" in err
    assert "please report it with the input" in err
    for name in ("first", "last"):
        assert shown.format(name) in out


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    "words",
    [
        (),
        ("simulate", "--policy", "lrr"),
        ("makespan", "--load-store", "1", "--cores", "1"),
    ],
)
def test_json_has_the_error(words: tuple[str, ...], file: str) -> None:
    code, out, _ = run_program(*words[:1], file, *words[1:], *LAUNCH, "--format", "json")
    data = json.loads(out)
    rows = data if isinstance(data, list) else data["kernels"]
    assert code == 1
    assert [row["kernel"] for row in rows] == list(NAMES)
    assert "PW901" in json.dumps(rows[1])
    assert "PW901" not in json.dumps([rows[0], rows[2]])


@pytest.mark.usefixtures("broken")
@pytest.mark.parametrize(
    ("part", "name"), [(report_build, "bounded_row"), (report_text, "_bounded")]
)
def test_an_error_of_the_report_costs_its_row(
    part: ModuleType,
    name: str,
    file: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As data or as text."""
    whole = getattr(part, name)

    def bounded(*arguments, **named):  # type: ignore[no-untyped-def]
        (kernel,) = (one.kernel for one in arguments if hasattr(one, "kernel"))
        if "last" in (kernel, getattr(kernel, "name", "")):
            raise ValueError("injected into the report")
        return whole(*arguments, **named)

    monkeypatch.setattr(part, name, bounded)
    code, out, err = run_program(file, *LAUNCH)
    assert code == 1
    assert "kernel     first\nlaunch " in out
    assert "kernel     last\nREFUSED    [PW901]" in out
    assert "kernel last: internal error at" in err


def test_an_error_that_is_no_kernels_is_reported_too(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptxwcet.opened.opening.read_program", lambda *files: 1 / 0)
    code, out, err = run_program(file, *LAUNCH)
    assert (code, out) == (1, "")
    assert "error[PW901]: internal error at" in err


@pytest.mark.usefixtures("broken")
def test_the_traceback_is_there_on_demand(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PTXWCET_TRACEBACK", "1")
    assert "Traceback" in run_program(file, *LAUNCH).err


# --- the text of a kernel cannot be read ----------------------------------------------------------

_RETURN = """.func helper(.param .b32 x)
{
.reg .b32 %r<2>;
ld.param.u32 %r1, [x];
ret;
}
"""
_CALLER = """.visible .entry caller(.param .u32 n)
{
.param .b32 x;
st.param.b32 [x], 1;
call.uni helper, (x);
ret;
}
"""

FAILURES = ("head", "label", "instruction")


@pytest.fixture(params=FAILURES)
def unreadable(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Reading the head of kernel ``broken``, its label or its function's instruction fails."""
    where: str = request.param

    def head(tree, text):  # type: ignore[no-untyped-def]
        if "broken" in text:
            raise KeyError("injected")
        return lower_head(tree, text)

    def label(self, name, start):  # type: ignore[no-untyped-def]
        if name.startswith("L_broken"):
            raise KeyError("injected")
        return whole_label(self, name, start)

    def shaped(self, shape, spelled, start, end):  # type: ignore[no-untyped-def]
        if "broken" in self.text[:start].rpartition(".entry")[2]:
            raise KeyError("injected")
        return whole_shaped(self, shape, spelled, start, end)

    whole_label, whole_shaped = Blocks.label, BodyReader._shaped
    if where == "head":
        monkeypatch.setattr(ptx_parser, "lower_head", head)
    elif where == "label":
        monkeypatch.setattr(Blocks, "label", label)
    else:
        monkeypatch.setattr(BodyReader, "_shaped", shaped)
    return where


@pytest.mark.parametrize(("words", "options", "shown"), COMMANDS)
def test_a_kernel_that_cannot_be_read_costs_itself(
    words: tuple[str, ...],
    options: tuple[str, ...],
    shown: str,
    file: str,
    unreadable: str,
) -> None:
    code, out, err = run_program(*words, file, *options)
    assert code == 1
    assert err.count("error[PW901]: kernel broken: internal error at ") == 1
    assert err.count("error[") == 1
    for name in ("first", "last"):
        assert shown.format(name) in out


def test_the_unread_kernel_has_a_row(file: str, unreadable: str) -> None:
    code, out, _ = run_program(file, *LAUNCH, "--format", "json")
    rows = json.loads(out)["kernels"]
    assert code == 1
    assert [row["kernel"] for row in rows] == list(NAMES)
    assert "PW901" in json.dumps(rows[1])
    code, out, err = run_program(file, *LAUNCH, "-k", "broken")
    assert (code, out) == (1, "")
    assert "kernel broken: internal error at" in err
    assert run_program(file, *LAUNCH, "-k", "last")[0] == 0


def test_nothing_of_an_unread_kernel_is_taken_for_empty(file: str, unreadable: str) -> None:
    module = parse_file(file)
    unread = module.kernels[1]
    assert unread.name == "broken"
    for name in ("instructions", "labels", "parameters", "variables", "performance", "body"):
        with pytest.raises(PtxwcetError, match="internal error") as caught:
            getattr(unread, name)
        assert caught.value.diagnostics[0].code == "PW901"
    with pytest.raises(PtxwcetError):
        print_module(module)


@pytest.mark.parametrize("function_first", [True, False])
def test_an_unread_function_costs_those_that_call_it(
    *,
    function_first: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def head(tree, text):  # type: ignore[no-untyped-def]
        if "helper" in text and "{" not in text and "entry" not in text:
            raise KeyError("injected")
        return lower_head(tree, text)

    monkeypatch.setattr(ptx_parser, "lower_head", head)
    prototype = "" if function_first else ".func helper(.param .b32 x);\n"
    order = (_RETURN, _CALLER) if function_first else (_CALLER, _RETURN)
    path = tmp_path / "call.ptx"
    path.write_text(HEADER + prototype + "".join(order) + KERNEL.format(name="other"))
    code, out, err = run_program(str(path), *LAUNCH)
    assert code == 1
    assert "kernel     caller\nREFUSED    [PW901] function helper: internal error at" in out
    assert "kernel     other\nlaunch" in out
    assert err.count("error[") == 1


def test_errors_of_the_text_are_told_as_before(file: str, unreadable: str) -> None:
    path = Path(file)
    path.write_text(path.read_text().replace("L_last:", "L_last: nonsense").replace("sm_80", "q"))
    code, out, err = run_program(file, *LAUNCH)
    assert (code, out) == (1, "")
    assert "PW901" not in err


# --- what is stated of a kernel cannot be read ----------------------------------------------------

COMMENT = "// ptxwcet: loop_bound 64\n"


@pytest.fixture
def commented(file: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each kernel has a comment; reading that of ``broken`` fails."""
    whole = asm_comments._mark

    def mark(span, *rest):  # type: ignore[no-untyped-def]
        if "L_broken" in span.source.line_text(span.line - 1):
            raise KeyError("injected")
        return whole(span, *rest)

    path = Path(file)
    text = path.read_text()
    for name in NAMES:
        text = text.replace(f"L_{name}:\n", f"L_{name}:\n{COMMENT}")
    path.write_text(text)
    monkeypatch.setattr(asm_comments, "_mark", mark)
    return file


@pytest.mark.parametrize(("words", "options", "shown"), [row for row in COMMANDS if row[1]])
def test_a_comment_that_cannot_be_read_costs_its_kernel(
    words: tuple[str, ...],
    options: tuple[str, ...],
    shown: str,
    commented: str,
) -> None:
    code, out, err = run_program(*words, commented, *options)
    assert code == 1
    assert err.count("error[PW901]: kernel broken: internal error at ") == 1
    assert err.count("error[") == 1
    shown = "kernel     {}" if words == ("facts",) else shown
    for name in ("first", "last"):
        assert words == ("facts",) or shown.format(name) in out


def test_a_comment_in_an_unread_kernel_costs_no_other(file: str, unreadable: str) -> None:
    path = Path(file)
    path.write_text(path.read_text().replace("L_broken:\n", f"L_broken:\n{COMMENT}"))
    code, out, err = run_program(file, *LAUNCH)
    assert code == 1
    assert out.count("BOUND ") == 2
    assert err.count("error[") == 1


def test_a_comment_of_a_function_costs_those_that_execute_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def mark(*rest):  # type: ignore[no-untyped-def]
        raise KeyError("injected")

    monkeypatch.setattr(asm_comments, "_mark", mark)
    helper = _RETURN.replace("ret;", f"{COMMENT}ret;")
    path = tmp_path / "call.ptx"
    path.write_text(HEADER + helper + _CALLER + KERNEL.format(name="other"))
    code, out, _ = run_program(str(path), *LAUNCH)
    assert code == 1
    assert "kernel     caller\nREFUSED    [PW901] function helper: internal error at" in out
    assert "kernel     other\nlaunch" in out


@pytest.mark.parametrize(
    ("kind", "table"),
    [
        ("loop", '[[loop]]\nkernel = "{0}"\nat = "L_{0}"\nbound = 9\n'),
        ("branch", '[[branch]]\nkernel = "{0}"\nat = "L_{0}"\nuniform = "warp"\n'),
        ("parameter", "[parameters.{0}]\nn = 3\n"),
    ],
)
def test_a_fact_that_cannot_be_read_costs_its_kernel(
    kind: str,
    table: str,
    file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = getattr(facts_files._Entry, kind)

    def fact(self, *rest):  # type: ignore[no-untyped-def]
        if self.data.get("kernel", rest[-1] if rest else "") == "broken":
            raise KeyError("injected")
        return whole(self, *rest)

    monkeypatch.setattr(facts_files._Entry, kind, fact)
    facts = tmp_path / "facts.toml"
    rows = "".join(table.format(name) for name in NAMES)
    facts.write_text(f'ptx = "sha256:{file_digest(file)}"\n{rows}')
    launch = LAUNCH if kind != "parameter" else LAUNCH[:2]
    code, out, err = run_program(file, *launch, "--facts", str(facts))
    assert code == 1
    assert err.count("error[") == 1
    assert "kernel broken: internal error at" in err
    assert out.count("BOUND ") == 2


def test_a_fact_of_nobody_costs_all(
    file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fact(self):  # type: ignore[no-untyped-def]
        raise KeyError("injected")

    monkeypatch.setattr(facts_files._Entry, "loop", fact)
    facts = tmp_path / "facts.toml"
    facts.write_text(f'ptx = "sha256:{file_digest(file)}"\n[[loop]]\nat = "L_first"\nbound = 9\n')
    code, out, err = run_program(file, *LAUNCH, "--facts", str(facts))
    assert code == 1
    assert "BOUND " not in out
    assert err.count("error[PW901]: internal error at") == 3


# --- a makespan, a table of branches --------------------------------------------------------------

UNITS = ("--load-store", "1", "--cores", "1")


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_makespan_that_cannot_be_printed_costs_its_kernel(
    form: str, file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, calls = makespan_command.makespan_data, []

    def data(found):  # type: ignore[no-untyped-def]
        calls.append(found)
        if len(calls) == 2:
            raise KeyError("injected")
        return whole(found)

    monkeypatch.setattr(makespan_command, "makespan_data", data)
    code, out, err = run_program("makespan", file, *LAUNCH, *UNITS, "--format", form)
    assert code == 1
    assert err.count("error[PW901]: kernel broken: internal error at ") == 1
    if form == "json":
        rows = json.loads(out)
        assert [row["kernel"] for row in rows] == list(NAMES)
        assert ["refused" in row for row in rows] == [False, True, False]
    else:
        assert "kernel first" in out
        assert "kernel last" in out


def test_a_makespan_that_cannot_be_drawn_is_printed(
    file: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(makespan_command, "draw_schedule", lambda section, path: 1 / 0)
    picture = str(tmp_path / "a.svg")
    call_of = ("makespan", file, "-k", "first", *LAUNCH, *UNITS, "--picture", picture)
    code, out, err = run_program(*call_of)
    assert code == 1
    assert "kernel first" in out
    assert "error[PW901]: kernel first: internal error at" in err


def test_a_table_of_branches_that_cannot_be_made_costs_its_kernel(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = flow_text.branch_rows

    def rows(described):  # type: ignore[no-untyped-def]
        if described.kernel.name == "broken":
            raise KeyError("injected")
        return whole(described)

    monkeypatch.setattr(flow_text, "branch_rows", rows)
    code, out, err = run_program("cfg", file, *LAUNCH, "--format", "text")
    assert code == 1
    assert "kernel     first\n" in out
    assert "kernel     last\n" in out
    assert "kernel broken: internal error at" in err
