"""What a picture of a control-flow graph says, and the command that draws it."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from parsing import parse_kernel

from ptxwcet.commands.cfg.command import cfg as command
from ptxwcet.flow.graph.cfg import BlockId
from ptxwcet.flow.graph.divergence import DivergentSet, EdgeStanding
from ptxwcet.flow.paths.dot import draw_cfg
from ptxwcet.ir.kernel import Kernel
from ptxwcet.support.diagnostics import PtxwcetError

pytestmark = pytest.mark.fast

HEADER = '.version 8.0\n.target sm_80\n.address_size 64\n.file 1 "/src/k.cu"\n'
REGISTERS = ".reg .pred %p<9>;\n.reg .b32 %r<9>;\n"

# a loop (B) around an if-then-else (C, D, joined at E) and a barrier, in a loop (A)
NEST = """.visible .entry nest()
{
.loc 1 3 0
A:
mov.u32 %r1, 1;
B:
.loc 1 5 0
@%p1 bra D;
.loc 1 6 0
mov.u32 %r2, 1;
.loc 1 9 0
bra E;
D:
mov.u32 %r2, 2;
E:
bar.sync   0 ;
@%p2 bra B;
@%p3 bra A;
ret;
}
"""


def kernel(text: str) -> Kernel:
    text = HEADER + text.replace("{\n", "{\n" + REGISTERS, 1)
    return parse_kernel(text)


# a loop that is left from two places: the smallest in which the published set misses edges
BREAK = """.visible .entry leave()
{
A:
@%p1 bra OUT;
@%p2 bra A;
bra END;
OUT:
mov.u32 %r1, 1;
END:
ret;
}
"""


def nest_text(shown: DivergentSet = DivergentSet.COMPLETE) -> str:
    return draw_cfg(kernel(NEST), shown, {BlockId(1): 17}).text


def node(text: str, block: int) -> list[str]:
    """The rows of a block's label."""
    line = next(one for one in text.splitlines() if one.strip().startswith(f"b{block} [label=<"))
    return [re.sub("<[^>]*>", "", row) for row in re.findall(r"<TD.*?</TD>", line)]


def edges(text: str) -> dict[tuple[int, int], str]:
    found = re.findall(r"^  b(\d+) -> b(\d+)(?: \[(.*)\])?;$", text, re.MULTILINE)
    assert len(found) == text.count("->")
    return {(int(u), int(v)): attributes for u, v, attributes in found}


def test_labels_name_size_cost_lines_and_barriers() -> None:
    text = nest_text()
    assert node(text, 0) == ["A", "1 instruction", "k.cu 3", "ptx 11"]
    assert node(text, 1) == ["B", "1 instruction, 17 cycles", "k.cu 5", "ptx 14"]
    assert node(text, 2) == ["block 2", "2 instructions", "k.cu 6, 9", "ptx 16-18"]
    assert node(text, 4) == ["E", "2 instructions", "k.cu 9", "ptx 22-23", "bar.sync 0"]


def test_edges_say_which_way_the_branch_goes() -> None:
    found = edges(nest_text())
    ways = {edge: a.split('"')[1].strip() for edge, a in found.items() if "label" in a}
    assert ways == {
        (1, 3): "T",
        (1, 2): "F",
        (4, 1): "T",
        (4, 5): "F",
        (5, 0): "T",
        (5, 6): "F",
    }


def test_divergent_edges_are_dashed_and_the_others_are_not() -> None:
    dashed = {edge for edge, a in edges(nest_text()).items() if "style=dashed" in a}
    assert dashed == {(2, 3), (3, 2)}
    without = edges(nest_text(DivergentSet.NONE))
    assert set(without) == set(edges(nest_text())) - dashed


def styles(text: str) -> dict[str, set[tuple[int, int]]]:
    found: dict[str, set[tuple[int, int]]] = {}
    for edge, attributes in edges(text).items():
        for style in re.findall('style=(\\w+).*color="(#\\w+)"', attributes):
            found.setdefault(" ".join(style), set()).add(edge)
    return found


def test_edges_of_the_two_sets_are_told_apart() -> None:
    """Blocks 0 (A) -> 1, 3 (OUT); 1 -> 0, 2; 2 and 3 -> 4 (END): both branches meet at 4.

    Side 1 of branch 0 ends in 2 or 3, side 3 in 3; side 0 of branch 1 ends in 2 or 3, side 2 in 2.
    """
    complete = styles(draw_cfg(kernel(BREAK), DivergentSet.COMPLETE).text)
    assert complete == {"dotted #c23b22": {(2, 3), (3, 3), (3, 1), (2, 2), (3, 2), (2, 0)}}
    published = styles(draw_cfg(kernel(BREAK), DivergentSet.PUBLISHED).text)
    assert published == {}


def test_published_edges_that_no_warp_takes_are_grey() -> None:
    text = ".entry k()\n{\n@%p1 bra C;\n@%p2 bra D;\nmov.u32 %r1, 1;\nbra D;\nC:\n"
    text += "mov.u32 %r1, 2;\nD:\nret;\n}\n"
    published = styles(draw_cfg(kernel(text), DivergentSet.PUBLISHED).text)
    complete = styles(draw_cfg(kernel(text), DivergentSet.COMPLETE).text)
    assert published["dashed #909090"] == {(3, 2)}
    assert published["dashed #c23b22"] == complete["dashed #c23b22"]
    assert complete.keys() == {"dashed #c23b22"}


def legend(text: str) -> list[str]:
    (line,) = (one for one in text.splitlines() if one.strip().startswith("legend "))
    rows = re.findall("<TD.*?</TD>", line)
    return [re.sub("<FONT.*?</FONT>|<[^>]*>", "", row).strip() for row in rows]


@pytest.mark.parametrize("shown", DivergentSet)
@pytest.mark.parametrize("text", [NEST, BREAK])
def test_the_legend_has_every_line_that_is_drawn_and_no_other(
    text: str, shown: DivergentSet
) -> None:
    drawing = draw_cfg(kernel(text), shown).text
    looks = set(styles(drawing))
    meanings = {
        "dashed #c23b22": EdgeStanding.PUBLISHED,
        "dotted #c23b22": EdgeStanding.UNPUBLISHED,
        "dashed #909090": EdgeStanding.IMPOSSIBLE,
    }
    said = [meanings[look].value for look in meanings if look in looks]
    ordinary = ["next block (T: branch taken, F: not)", "back edge of a loop"]
    assert legend(drawing) == [*ordinary, *said]


def test_loops_are_nested_clusters() -> None:
    inside: list[str] = []
    blocks: dict[int, list[str]] = {}
    for line in nest_text().splitlines():
        opened = re.search(r"subgraph cluster_(\w+)", line)
        declared = re.match(r" *b(\d+) \[label", line)
        if opened:
            inside.append(opened.group(1))
        elif line.strip() == "}" and inside:
            inside.pop()
        elif declared:
            blocks[int(declared.group(1))] = list(inside)
    outer, both = ["loop0"], ["loop0", "loop1"]
    assert blocks == {0: outer, 1: both, 2: both, 3: both, 4: both, 5: outer, 6: [], 7: []}
    assert 'label="loop B, depth 2"' in nest_text()


def test_cases_of_brx_are_numbered_and_unreachable_blocks_marked() -> None:
    text = draw_cfg(
        kernel(
            ".entry k()\n{\nT: .branchtargets X, Y, X;\nbrx.idx %r1, T;\nmov.u32 %r1, 1;\n"
            "X:\nmov.u32 %r1, 2;\nY:\nret;\n}\n"
        ),
        DivergentSet.NONE,
    ).text
    assert 'label=" 0,2 "' in edges(text)[0, 2]
    assert 'label=" 1 "' in edges(text)[0, 3]
    assert node(text, 1)[0] == "block 1 (unreachable)"


def test_many_scattered_lines_become_one_range() -> None:
    body = "".join(f".loc 1 {line} 0\nmov.u32 %r1, 1;\n" for line in (2, 4, 7, 11, 20, 21))
    text = draw_cfg(kernel(f".entry k()\n{{\n{body}ret;\n}}\n"), DivergentSet.NONE).text
    assert node(text, 0)[2] == "k.cu 2-21"


def test_irreducible_and_endless_kernels_are_drawn_with_a_warning() -> None:
    loop = "@%p1 bra B;\nA:\nmov.u32 %r1, 1;\nB:\n@%p2 bra A;\n"
    drawing = draw_cfg(kernel(f".entry k()\n{{\n{loop}ret;\n}}\n"), DivergentSet.PUBLISHED)
    assert [one.code for one in drawing.warnings] == ["PW201"]
    assert "not shown" in drawing.warnings[0].notes[-1]
    assert node(drawing.text, 1)[0] == "A (irreducible)"
    endless = draw_cfg(kernel(".entry k()\n{\nA:\nbra A;\n}\n"), DivergentSet.COMPLETE)
    assert [one.code for one in endless.warnings] == ["PW230"]


# ---- the command -----------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    one = NEST.replace("{\n", "{\n" + REGISTERS, 1)
    (tmp_path / "one.ptx").write_text(HEADER + one)
    (tmp_path / "two.ptx").write_text(HEADER + one + one.replace("nest", "other"))
    return tmp_path


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments), catch_exceptions=True)


def refusal(*arguments: str) -> str:
    error = run(*arguments).exception
    assert isinstance(error, PtxwcetError)
    return error.diagnostics[0].render()


@pytest.mark.usefixtures("folder")
def test_dot_text_goes_to_standard_output() -> None:
    result = run("one.ptx")
    assert result.exit_code == 0
    assert ", 5 cycles" in result.output  # a block that is one branch: issue, 1 + 4 on INT

    def without_costs(text: str) -> str:
        return re.sub(r", \d+ cycles", "", text)

    assert without_costs(result.output) == without_costs(nest_text())
    assert "dashed" not in run("one.ptx", "--divergent", "none").output


@pytest.mark.usefixtures("folder")
def test_the_complete_set_is_drawn_unless_the_other_is_asked_for(folder: Path) -> None:
    text = BREAK.replace("{\n", "{\n" + REGISTERS, 1)
    (folder / "leave.ptx").write_text(HEADER + text)
    assert len(styles(run("leave.ptx").output)["dotted #c23b22"]) == 6
    assert not styles(run("leave.ptx", "--divergent", "published").output)


@pytest.mark.usefixtures("folder")
def test_divergent_edges_are_a_table_too(folder: Path) -> None:
    text = BREAK.replace("{\n", "{\n" + REGISTERS, 1)
    (folder / "leave.ptx").write_text(HEADER + text)
    tables = ("--block", "32", "--loop-bound", "A=3", "--format", "text")
    found = run("leave.ptx", *tables).output
    rows = found.partition("divergent edges (from, to, which kind)\n")[2].splitlines()
    missing = EdgeStanding.UNPUBLISHED.value
    assert [row.split("  ")[1] for row in rows] == ["block 2"] * 3 + ["OUT"] * 3
    assert all(row.endswith(missing) for row in rows)
    assert "no divergent edges" in run("leave.ptx", *tables, "--divergent", "published").output
    assert "divergent edges" not in run("leave.ptx", *tables, "--divergent", "none").output


@pytest.mark.usefixtures("folder")
def test_several_kernels_are_drawn_one_after_the_other() -> None:
    assert re.findall('^digraph "(.*)"', run("two.ptx").output, re.MULTILINE) == ["nest", "other"]
    assert run("two.ptx", "-k", "other").output.startswith('digraph "other"')
    assert "nest, other" in run("two.ptx", "-o", "x.svg").output
    assert "it contains nest, other" in refusal("two.ptx", "-k", "none")


def test_dot_file(folder: Path) -> None:
    assert run("one.ptx", "-o", "x.dot").exit_code == 0
    assert (folder / "x.dot").read_text() == run("one.ptx").output


@pytest.mark.usefixtures("folder")
def test_an_unknown_format_is_a_usage_error() -> None:
    result = run("one.ptx", "-o", "x.jpg")
    assert result.exit_code == 2
    assert ".png or .svg" in result.output


def test_without_graphviz_the_diagnostic_names_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    assert "Graphviz's 'dot' is not on the PATH" in refusal("one.ptx", "-o", "x.svg")
    assert not (folder / "x.svg").exists()


def test_a_failing_graphviz_is_reported(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = folder / "dot"
    fake.write_text("#!/bin/sh\necho 'out of paint' >&2\nexit 3\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    assert "out of paint" in refusal("one.ptx", "-o", "x.svg")


def test_graphviz_draws_what_the_name_says(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = folder / "dot"
    fake.write_text('#!/bin/sh\necho "$1" > "$3"\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    for suffix in ("pdf", "svg", "png"):
        assert run("one.ptx", "-o", f"x.{suffix}").exit_code == 0
        assert (folder / f"x.{suffix}").read_text() == f"-T{suffix}\n"


@pytest.mark.skipif(shutil.which("dot") is None, reason="needs Graphviz")
@pytest.mark.parametrize(("suffix", "start"), [("svg", b"<?xml"), ("png", b"\x89PNG")])
def test_graphviz_draws_it(folder: Path, suffix: str, start: bytes) -> None:
    assert run("one.ptx", "-o", f"x.{suffix}").exit_code == 0
    assert (folder / f"x.{suffix}").read_bytes().startswith(start)
