"""The page about a bound: it says what the report says, and loads nothing."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from big_kernels import big_kernel
from places import PACKAGE, SAMPLES
from programs import run_program
from sass_listings import listing

from ptxwcet.bounds.analysed import KernelAnalysis
from ptxwcet.commands.bound.report import RooflineRow
from ptxwcet.commands.bound.study import bound_file
from ptxwcet.commands.page.charts import phases_svg
from ptxwcet.commands.page.graph import GraphData, Region, lay_out
from ptxwcet.commands.page.render import render_page
from ptxwcet.commands.page.report import KernelPage, Page, PhaseBar, WarpPhases, build_page
from ptxwcet.commands.page.study import study_kernels
from ptxwcet.opened.opening import files_of
from ptxwcet.opened.request import Request
from ptxwcet.report.listing import CodeLine
from ptxwcet.report.page.parts import Made
from ptxwcet.support.extras import PACKAGES_OF_EXTRAS

HISTOGRAM = Request(
    str(SAMPLES / "histogram.ptx"),
    block="256",
    grid="8",
    parameters=("n=100000",),
    machine="orin-ecrts2025",
)
NEST = Request(str(SAMPLES / "bitonic_sort.ptx"), block="1024")


def page_of(request: Request, *, draws_runs: bool = False) -> Page:
    answer = study_kernels(request, draws_runs=draws_runs)
    made = Made("ptxwcet report", datetime(2026, 1, 2, tzinfo=UTC), files_of(request, answer))
    page = build_page(answer, request.source, made)
    assert page.failures == ()
    return page


def only(page: Page) -> KernelPage:
    (one,) = page.kernels
    return one


def graph_of(one: KernelPage) -> GraphData:
    assert isinstance(one.graph, GraphData)
    return one.graph


@pytest.fixture(scope="module")
def histogram() -> Page:
    return page_of(HISTOGRAM)


@pytest.fixture(scope="module")
def nest() -> Page:
    return page_of(NEST)


def paid(lines: tuple[CodeLine, ...]) -> int:
    return sum(line.cycles or 0 for line in lines)


def test_each_listing_and_the_bars_add_up_to_the_bound(histogram: Page) -> None:
    one = only(histogram)
    assert one.bounded is not None
    assert one.launch_bar is not None
    assert one.bounded.launch is not None
    assert paid(one.listing.code[0].lines) == one.bounded.bound_cycles == 17_151
    assert sum(bar.total for bar in one.bars) == one.bounded.bound_cycles
    assert one.launch_bar.total == one.bounded.launch.cycles
    hottest = max(one.listing.code[0].lines, key=lambda line: line.cycles or 0)
    assert (hottest.heat, hottest.text.split()[0]) == (1.0, "ld.global.u8")


def test_lines_are_linked_to_source_and_blocks(histogram: Page) -> None:
    one = only(histogram)
    source = one.listing.sources[0]
    assert source.name == "histogram.cu"
    (loop,) = (line for line in source.lines if "atomicAdd(&local" in line.text)
    both = set(loop.instructions)
    linked = [line for line in one.listing.code[0].lines if both.intersection(line.instructions)]
    assert "ld.global.u8" in {line.text.split()[0] for line in linked}
    # what the code of headers pays, which are not at hand, is on no line that is shown
    assert [len(file.lines) for file in one.listing.sources[1:]] == [0]
    inside = [b for b in graph_of(one).blocks if both.intersection(range(b.start, b.end))]
    assert [block.lines[0] for block in inside] == ["$L__BB0_2"]


def test_lines_far_from_code_are_left_out(tmp_path: Path) -> None:
    text = big_kernel(50).replace("\tret;", "// far\n" * 200 + "\tret;")
    path = tmp_path / "big.ptx"
    path.write_text(text)
    lines = only(page_of(Request(str(path), block="32"))).listing.code[0].lines
    assert [line.left_out for line in lines if line.left_out] == [4, 194]
    assert len(lines) + sum(line.left_out for line in lines) - 2 >= text.count("\n") - 4


def region(graph: GraphData, loop: int | None) -> Region:
    return next(one for one in graph.regions if one.loop == loop)


def test_each_edge_is_drawn_from_block_to_block_through_the_loops_between(nest: Page) -> None:
    graph = graph_of(only(nest))
    drawn = Counter(item.id for one in graph.regions for item in one.items if item.what == "block")
    assert drawn == Counter({block.id: 1 for block in graph.blocks})
    regions = {one.loop: one for one in graph.regions}
    for number, edge in enumerate(graph.edges):
        parts = [
            (None if w.start is None else r.items[w.start], r.items[w.end], w, r)
            for r in regions.values()
            for w in r.wires
            if w.edge == number
        ]
        starts = [a.id for a, _, _, _ in parts if a is not None and a.what == "block"]
        ends = [b.id for _, b, _, _ in parts if b.what == "block"]
        assert (starts, ends) == ([edge.start], [edge.end])
        for a, b, wire, _ in parts:
            if a is None or wire.is_back:
                continue
            assert a.layer < b.layer
            assert len(wire.bends) == b.layer - a.layer - 1
    assert [len([i for i in one.items if i.what == "loop"]) for one in graph.regions] == [0, 1, 1]


def test_boxes_of_a_layer_do_not_overlap(histogram: Page, nest: Page) -> None:
    for page in (histogram, nest):
        for one in graph_of(only(page)).regions:
            for layer in {item.layer for item in one.items}:
                row = sorted(
                    (item.middle - item.width / 2, item.middle + item.width / 2)
                    for item in one.items
                    if item.layer == layer
                )
                assert row[0][0] >= 0
                assert row[-1][1] <= one.width
                assert all(a[1] <= b[0] for a, b in pairwise(row))


def test_a_layout_keeps_parts_apart_and_bends_long_arcs() -> None:
    layout = lay_out([100, 50, 60, 40], [(0, 1), (1, 2), (0, 2)])
    assert list(layout.layers) == [0, 1, 2, 0]
    assert list(layout.bends) == [(0, 2)]
    assert layout.width >= 140
    assert lay_out([30], []).middles == [15]


def test_the_worst_path_is_that_of_the_walk(histogram: Page) -> None:
    graph = graph_of(only(histogram))
    names = {block.id: block.lines[0] for block in graph.blocks}
    worst = {(names[e.start], names[e.end]): e.is_worst for e in graph.edges}
    assert worst == {
        ("entry", "$L__BB0_3"): False,  # n is so large that all warps enter the loop
        ("entry", "block 1"): True,
        ("block 1", "$L__BB0_2"): True,
        ("$L__BB0_2", "$L__BB0_2"): True,
        ("$L__BB0_2", "$L__BB0_3"): True,
        ("$L__BB0_3", "exit"): True,
    }
    executions = {block.lines[0]: block.executions for block in graph.blocks}
    assert executions["$L__BB0_2"] == 49


def test_curves_meet_the_bound_where_nothing_is_changed() -> None:
    (study,) = study_kernels(HISTOGRAM, draws_runs=True).answered
    assert isinstance(study.analysis, KernelAnalysis)
    warps, latency = study.over_warps, study.over_latency
    own = next(one for one in latency.points if one.at == 200)
    assert (warps.points[-1].at, warps.points[-1].cycles) == (8, own.cycles)
    assert own.cycles["safe"] == study.analysis.worst.bound.cycles
    for curve in (warps, latency):
        for point in curve.points:
            assert max(point.cycles["lrr"], point.cycles["gto"]) <= point.cycles["safe"]
        safe = [point.cycles["safe"] for point in curve.points]
        assert safe == sorted(safe)
        assert set(curve.missing) == {"lower"}  # atomics are charged above the machine's nominal


def test_a_latency_is_bounded_as_the_machine_with_it() -> None:
    path = str(SAMPLES / "transpose_naive.ptx")
    charging = "orin-ecrts2025-memory"
    request = Request(path, block="32x8", parameters=("width=64", "height=50"), machine=charging)
    (study,) = study_kernels(request, draws_runs=False).answered
    assert len(study.over_latency.points) == 5
    for point in study.over_latency.points:
        (row,) = bound_file(replace(request, memory_latency_cycles=point.at)).answered
        assert point.cycles["safe"] == row.worst.bound.cycles


class Checker(HTMLParser):
    """What a page would load, and its text outside of scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.scripts: list[dict[str, str | None]] = []
        self.ids: Counter[str] = Counter()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "script":
            self.scripts.append(given)
        self.ids.update([given["id"]] if given.get("id") else [])
        for key in ("src", "href", "xlink:href", "data", "action", "srcset"):
            target = given.get(key)
            if target is not None and not target.startswith("#"):
                self.loads.append(target)
        assert tag not in ("link", "iframe", "object", "img", "base")
        assert not any(key.startswith("on") for key in given)


def checked(html: str) -> Checker:
    checker = Checker()
    checker.feed(html)
    assert checker.loads == []
    assert "@import" not in html
    assert not re.search(r"url\(\s*['\"]?(?!#)", html)
    return checker


def test_the_page_is_one_file_that_loads_nothing() -> None:
    html = render_page(page_of(HISTOGRAM, draws_runs=True))
    checker = checked(html)
    assert [one.get("type") for one in checker.scripts] == ["application/json", None]
    assert [name for name, times in checker.ids.items() if times > 1] == []
    assert "17,151" in html
    assert "136,829" in html
    assert "alone-on-its-sm" in html


def text_of(html: str) -> str:
    inline = re.sub("</?span[^>]*>", "", html)
    return " ".join(re.sub("<[^>]+>", " ", inline).split())


def test_the_roofline_stands_beside_the_bound_as_an_estimate(histogram: Page) -> None:
    one = only(histogram)
    assert one.bounded is not None
    roofline = RooflineRow(31_234_567, 61_234.5, "estimate", 876_543, 31_234_567, 7_654, "arrays")
    given = replace(one, bounded=replace(one.bounded, roofline=roofline))
    html = render_page(replace(histogram, kernels=(given,)))
    assert '<a href="#k0-roofline">roofline</a>' in html
    card, *others = re.findall(r'<div class="card beside">.*?</div>', html)
    assert others == []
    assert text_of(card) == (
        "no bound: the roofline of the launch 31,234,567 cycles, 61234.5 µs estimate"
    )
    before, rest = html.split('<h2 id="k0-roofline">')
    section, after = rest.split("<h2", 1)
    assert text_of(section).startswith("Beside the bound: the roofline An estimate, no bound: ")
    bars = re.findall(r"<div><span>(.*?)</span>.*?>([\d,]+)<.*?width:([\d.]+)%", section)
    assert bars == [
        ("sub-cores", "876,543", "2.806"),
        ("memory paths", "31,234,567", "100.0"),
        ("memory (each array once)", "7,654", "0.025"),
    ]
    # nowhere else, least of all among what the bound is or is made of
    assert not re.search("31,234,567|61234|876,543|7,654", before.replace(card, "") + after)


def test_the_roofline_of_the_page_is_that_of_the_report(histogram: Page, nest: Page) -> None:
    (row,) = bound_file(HISTOGRAM).answered
    shown = only(histogram).bounded
    assert row.roofline is not None
    assert shown is not None
    assert shown.roofline is not None
    assert shown.launch is not None
    assert shown.roofline.cycles == row.roofline.cycles < shown.launch.cycles
    assert "roofline" not in render_page(nest)  # without a grid


def test_equal_input_gives_equal_bytes(histogram: Page) -> None:
    assert render_page(histogram) == render_page(page_of(HISTOGRAM))


EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def test_what_comes_from_the_ptx_is_escaped(tmp_path: Path) -> None:
    folder = tmp_path / "<b>evil"
    folder.mkdir()
    path = folder / "k<i>.ptx"
    file = EVIL.replace('"', "").rpartition("/")[2] or "x"
    text = big_kernel(60, file=f"{EVIL}<u>.cu").replace("\tret;", f"\t// {EVIL}\n\tret;")
    path.write_text(text)
    (folder / f"{file}<u>.cu").write_text(f"{EVIL}\n" * 9)
    request = Request(str(path), block="32", loop_bounds=("$L0=4",))
    html = render_page(page_of(request))
    checker = checked(html)
    assert len(checker.scripts) == 2
    for bad in ("<script>alert", "<img", "<b>evil", "<i>", "<u>"):
        assert bad not in html
    assert "&lt;script&gt;alert(1)" in html
    (data,) = re.findall(r'<script type="application/json">(.*?)</script>', html, re.DOTALL)
    assert json.loads(data)["blocks"]


def test_a_refusal_is_on_the_page(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = run_program(
        "report", SAMPLES / "loops.ptx", "-k", "loop_nested", "--block", "64", "-o", page
    )
    assert result.code == 1
    assert "error[PW203]" in result.err
    html = page.read_text()
    assert "PW203" in html
    assert "Not bounded." in html
    assert "application/json" in html  # its graph
    assert 'class="pane own ptx"' in html
    checked(html)


def test_certificates_are_on_the_page(tmp_path: Path) -> None:
    path = tmp_path / "bits.ptx"
    path.write_text(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 data)\n{\n"
        ".reg .b32 %r<9>; .reg .b64 %d<4>; .reg .pred %p<9>;\n"
        "ld.param.u64 %d1, [data]; ld.global.u32 %r1, [%d1];\n"
        "L: add.s32 %r2, %r1, -1; and.b32 %r1, %r1, %r2; setp.ne.s32 %p1, %r1, 0; @%p1 bra L;\n"
        "ret;\n}\n"
    )
    page = page_of(Request(str(path), block="32"))
    html = render_page(page)
    assert "<td>certificate</td>" in html
    assert "ones(%r1) is 32 or less at first" in html
    assert "certificate: at most 32" in html
    assert any(one.text.startswith("L:") for one in only(page).listing.code[0].lines)


@pytest.mark.parametrize("end", [1, 7, 950, 12_345, 10_000_000, 1_200_000_000, 3 * 10**14])
def test_numbers_below_a_strip_of_phases_do_not_meet(end: int) -> None:
    drawn = phases_svg(WarpPhases(0, end, "", end, (PhaseBar(0, end, is_busy=True),), True))
    ticks = [(float(x), text) for x, text in re.findall(r'<text x="([\d.]+)"[^>]*>([^<]*)<', drawn)]
    assert ticks[0][1] == "0"
    assert all(x + 6.6 * len(text) < after for (x, text), (after, _) in pairwise(ticks))
    assert end < 2 or len(ticks) > 2


def test_machine_code_stands_beside_the_ptx_and_the_source_that_it_was_made_of() -> None:
    """Each form has the same instructions, and with them the bound; heat is of machine code."""
    request = Request(
        str(SAMPLES / "sgemm_naive.cu"),
        block="16x16",
        parameters=tuple(f"{n}=32" for n in (3, 4, 5)),
        text=listing("sgemm_naive_86"),
        is_code=True,
    )
    page = page_of(request)
    one, (code,) = only(page), only(page).listing.code
    assert one.bounded is not None
    (ptx,) = one.listing.ptx
    assert paid(code.lines) == paid(ptx.lines) == one.bounded.bound_cycles
    assert paid(one.listing.sources[0].lines) == one.bounded.bound_cycles
    loads = [line for line in code.lines if "  LDG.E " in line.text]
    assert loads[0].text == "01d0  LDG.E R19, [R34.64]"
    (made_of,) = (line for line in ptx.lines if loads[0].instructions[0] in line.instructions)
    assert made_of.text.startswith("ld.global.f32 ")
    assert not any(
        "/*" in line.text or line.text.startswith((".", "//"))
        for line in code.lines
        if not line.text.endswith(":")
    )
    html = render_page(page)
    checked(html)
    heads = re.findall(r'class="pane (\w+)"><header><b>([^<]*)</b><span>([^<]*)', html)
    assert [(kind, title) for kind, title, _ in heads] == [
        *(("source", "Source"), ("ptx", "PTX"), ("own", "Machine code"))
    ]
    assert "for reading, not what is charged" in heads[1][2]
    assert "<td>machine code</td>" in html


def test_without_a_block_size_there_is_still_code(tmp_path: Path) -> None:
    page = page_of(Request(str(SAMPLES / "saxpy.ptx")))
    one = only(page)
    assert "PW209" in one.problems
    assert one.listing.code[0].lines
    assert len(graph_of(one).loops) == 1
    assert "PW209" in render_page(page)


def test_the_command_and_the_time_are_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    page = tmp_path / "page.html"
    path = SAMPLES / "vector_add.ptx"
    result = run_program(
        *("report", path, "--no-simulate", "--block", "256", "--param", "n=1000", "-o", page)
    )
    assert (result.code, result.out) == (0, f"{page}: 1 of 1 kernels bounded\n")
    html = page.read_text()
    assert "1970-01-01 00:00 UTC" in html
    assert "--block 256 --param n=1000" in html
    assert "--no-simulate" in html
    assert "Not given: not asked for" in html


def test_missing_libraries_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(PACKAGES_OF_EXTRAS, "report", ("jinja2", "no_such_layout"))
    page = tmp_path / "page.html"
    result = run_program("report", SAMPLES / "scan.ptx", "--block", "64", "-o", page)
    assert result.code == 2
    assert "needs no_such_layout" in result.err
    assert "error[PW235]" in result.err
    assert "ptxwcet[report]" in result.err
    assert not page.exists()


def test_the_page_is_in_the_package() -> None:
    for name in ("page.html", "page.js", "kernel.css"):
        assert (PACKAGE / "commands" / "page" / name).is_file()
    assert (PACKAGE / "report" / "page" / "style.css").is_file()


def test_the_graph_of_a_kernel_without_a_way_out(tmp_path: Path) -> None:
    path = tmp_path / "endless.ptx"
    text = big_kernel(10).replace("\tret;", "$E:\n\tbra $E;")
    path.write_text(text)
    graph = graph_of(only(page_of(Request(str(path), block="32"))))
    assert {block.lines[0] for block in graph.blocks} >= {"$E", "exit"}
    assert region(graph, None).items
