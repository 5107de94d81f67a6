"""An internal error costs its own kernel only, in every command that answers kernels by themselves.

The error is put into one kernel: the graph of its control flow cannot be built.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import ptxwcet.report.build as report_build
from ptxwcet.cli.main import main
from ptxwcet.flow.graph import cfg as flow_cfg
from ptxwcet.flow.graph.cfg import _block_starts
from ptxwcet.ir.kernel import Kernel

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


@pytest.fixture(autouse=True)
def broken(monkeypatch: pytest.MonkeyPatch) -> None:
    def starts(kernel: Kernel, control: list[int]) -> list[int]:
        if kernel.name == "broken":
            raise KeyError("injected")
        return _block_starts(kernel, control)

    monkeypatch.setattr(flow_cfg, "_block_starts", starts)


def call(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    return int(stopped.value.code or 0), shown.out, shown.err


LAUNCH = ("--block", "32", "--param", "n=3")
COMMANDS = [
    ((), LAUNCH, "kernel     {}\n"),
    ((), (*LAUNCH, "--explain"), "kernel     {}\n"),
    ((), (*LAUNCH, "--policy", "gto"), "kernel     {}\n"),
    ((), ("--block", "32", "--symbolic", "n=1..9"), "kernel     {}\n"),
    (("phases",), LAUNCH, "kernel {}, warp 0"),
    (("simulate",), (*LAUNCH, "--policy", "lrr"), "kernel     {}\n"),
    (("validate",), (*LAUNCH, "--seeds", "1"), "kernel {}, 1 warps"),
    (("makespan",), (*LAUNCH, "--load-store", "1", "--cores", "1"), "kernel {}, units"),
    (("facts",), ("--block", "32"), "[parameters.{}]"),
    (("cfg",), (), "{}"),
    (("cfg",), LAUNCH, "{}"),
    (("cfg",), (*LAUNCH, "--format", "text"), "kernel     {}\n"),
]


@pytest.mark.parametrize(("words", "options", "shown"), COMMANDS)
def test_the_others_are_answered(
    words: tuple[str, ...],
    options: tuple[str, ...],
    shown: str,
    file: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, err = call(capsys, *words, file, *options)
    assert code == 1
    assert err.count("error[PW901]: kernel broken: internal error at ") == 1
    assert err.count("error[") == 1
    assert "KeyError: 'injected'" in err
    assert "please report it with the input" in err
    for name in ("first", "last"):
        assert shown.format(name) in out


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("simulate", "--policy", "lrr"),
        ("makespan", "--load-store", "1", "--cores", "1"),
    ],
)
def test_json_has_the_error(
    words: tuple[str, ...], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = call(capsys, *words[:1], file, *words[1:], *LAUNCH, "--format", "json")
    data = json.loads(out)
    rows = data if isinstance(data, list) else data["kernels"]
    assert code == 1
    assert [row["kernel"] for row in rows] == list(NAMES)
    assert "PW901" in json.dumps(rows[1])
    assert "PW901" not in json.dumps([rows[0], rows[2]])


def test_an_error_of_the_report_costs_its_row(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = report_build._bounded

    def bounded(row, sources):  # type: ignore[no-untyped-def]
        if row.kernel.name == "last":
            raise ValueError("injected into the report")
        return whole(row, sources)

    monkeypatch.setattr(report_build, "_bounded", bounded)
    code, out, err = call(capsys, file, *LAUNCH)
    assert code == 1
    assert "kernel     first\n" in out
    assert "kernel     last\nREFUSED    [PW901]" in out
    assert "kernel last: internal error at" in err


def test_an_error_that_is_no_kernels_is_reported_too(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ptxwcet.api.parse_module", lambda text: 1 / 0)
    code, out, err = call(capsys, file, *LAUNCH)
    assert (code, out) == (1, "")
    assert "error[PW901]: internal error at" in err


def test_the_traceback_is_there_on_demand(
    file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PTXWCET_TRACEBACK", "1")
    with pytest.raises(SystemExit):
        main([file, *LAUNCH])
    assert "Traceback" in capsys.readouterr().err
