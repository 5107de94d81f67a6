"""``ptxwcet hybrid``: the row of Table II, its report, and what is refused."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from click.testing import CliRunner, Result
from flow_graphs import loops_in
from parsing import parse_file
from places import ROOT
from refusals import refusal_of, refusals_of

from ptxwcet.bounds.wishes import GridWishes
from ptxwcet.cli.output import json_text
from ptxwcet.commands.explain.schema import schema_of
from ptxwcet.commands.trace.study import TraceOptions, trace_kernel
from ptxwcet.flow.graph.cfg import build_cfg
from ptxwcet.methods.hybrid.command import hybrid
from ptxwcet.methods.hybrid.estimate import Contradiction, claim_estimates, estimate_kernel
from ptxwcet.methods.hybrid.picture import draw_ipg
from ptxwcet.methods.hybrid.report import build_hybrid_report
from ptxwcet.methods.hybrid.study import HybridRequest, plan_waves, study_trace
from ptxwcet.methods.hybrid.text import render_hybrid_text
from ptxwcet.opened.opening import file_digest
from ptxwcet.opened.request import Request
from ptxwcet.support.diagnostics import PtxwcetError
from ptxwcet.trace.events import END, TimedTrace, TraceOrigin
from ptxwcet.trace.files import read_trace, write_trace

pytestmark = pytest.mark.fast

SCHEMA = schema_of("hybrid")
PTX = str(ROOT / "samples/block_reduce.ptx")
LAUNCH = str(ROOT / "samples/launches/block_reduce_tree.toml")
OPTIONS = TraceOptions("lrr", GridWishes(1))


@pytest.fixture(scope="module")
def trace() -> TimedTrace:
    return trace_kernel(Request(PTX, launch_file=LAUNCH), OPTIONS)


@pytest.fixture(scope="module")
def trace_file(trace: TimedTrace, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("traces") / "t.csv"
    write_trace(trace, path)
    return str(path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(hybrid, arguments)


def refused(trace_file: str, ptx: str = PTX, **settings: object) -> tuple[str, str]:
    request = HybridRequest(Request(ptx), trace_file, **settings)  # type: ignore[arg-type]
    (diagnostic,) = refusals_of(study_trace, request)
    return diagnostic.code, diagnostic.render()


def test_the_row_of_table_2(trace_file: str) -> None:
    result = run(PTX, "--trace", trace_file, "--launch", LAUNCH, "--sms", "1")
    assert result.exit_code == 0, result.output
    rows = result.output.splitlines()
    head = next(n for n, row in enumerate(rows) if row.startswith("kernel "))
    assert rows[head].split()[1:] == [
        *("Z_HWM", "Z_warp", "Z_dynamic", "difference", "Z_hybrid", "difference")
    ]
    name, seen, warp, dynamic, percent, *_ = rows[head + 1].split()
    figures = [int(one.replace(",", "")) for one in (seen, warp, dynamic)]
    assert name == "block_reduce_tree"
    assert figures[0] <= figures[2]
    assert figures[1] <= figures[2]
    assert float(percent) == pytest.approx(100 * (figures[2] / figures[0] - 1), abs=0.06)
    for words in (
        "Z_dynamic and Z_hybrid are estimates: expected to hold, not proved",
        "Z_warp is of one warp alone",
        "from launch and occupancy",
        "1 round of blocks that wait up to 0",
        "and by the tree",
        "SAFE       ",
        "safe-bound",
        "transitions that pass a barrier",
        "15 of 19 transitions seen, 3 excluded by the static analysis; 0 of 2 that only",
        "if transitions were independent",
        "[doubtful]",
    ):
        assert words in result.output


def test_json_follows_the_schema(trace_file: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    for arguments in ((), ("--launch", LAUNCH, "--sms", "1")):
        result = run(PTX, "--trace", trace_file, *arguments, "--format", "json")
        assert result.exit_code == 0, result.output
        data = json.loads(result.output)
        jsonschema.Draft202012Validator(SCHEMA).validate(data)
        assert data["warp"]["guarantee"] == "estimate"
        assert (data["planned_waves"] is None) == (not arguments)
        assert (data["static"]["cycles"] is None) == (not arguments)
        keys = {row["key"] for row in data["assumptions"]}
        assert ("block-delays-seen" in keys) == bool(arguments)
        assert {"worst-times-seen", "paths-seen", "independent-transitions"} <= keys
    shares = sum(row["share_percent"] for row in data["transitions"])
    assert shares == pytest.approx(100, abs=0.1)
    taken = sum(row["on_worst_path"] * row["worst"] for row in data["transitions"])
    assert taken == data["warp"]["cycles"]
    levels = [row["cycles"] for row in data["quantiles"]]
    assert levels == sorted(levels)
    assert levels[0] < taken
    del data["warp"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.Draft202012Validator(SCHEMA).validate(data)


def test_traced_here_and_from_its_file_are_the_same(tmp_path: Path) -> None:
    saved = str(tmp_path / "t.npz")
    how = ("--launch", LAUNCH, "--sms", "1", "--format", "json")
    made = run(PTX, *how, "--policy", "lrr", "--save", saved)
    assert made.exit_code == 0, made.output
    again = json.loads(run(PTX, "--trace", saved, *how).output)
    first = json.loads(made.output)
    assert first["trace"].pop("file") == ""
    assert again["trace"].pop("file") == saved
    assert first.pop("digest") != again.pop("digest")
    assert first == again


def test_equal_input_gives_equal_bytes(trace_file: str) -> None:
    request = HybridRequest(Request(PTX), trace_file)
    one, two = (build_hybrid_report(study_trace(request)) for _ in range(2))
    assert json_text(one) == json_text(two)
    assert render_hybrid_text(one) == render_hybrid_text(two)


def test_picture(trace_file: str, tmp_path: Path) -> None:
    dot = tmp_path / "ipg.dot"
    result = run(PTX, "--trace", trace_file, "--picture", str(dot))
    assert result.exit_code == 0, result.output
    text = dot.read_text()
    answer = study_trace(HybridRequest(Request(PTX), trace_file))
    assert text == draw_ipg(answer)
    counts = answer.estimate.path.counts
    edges = re.findall(r"i\d+ -> i\d+ \[label=\" (\d+) x ", text)
    assert sorted(map(int, edges)) == sorted(counts.values())
    assert text.count("style=dotted") == 4
    assert run(PTX, "--trace", trace_file, "--picture", "x.gif").exit_code == 2


def test_coarse_instrumentation(trace: TimedTrace, tmp_path: Path) -> None:
    """Entry and end alone: the longest warp is the estimate."""
    kept = np.isin(trace.ipoint, [0, len(trace.ipoints) - 1])
    coarse = replace(
        trace,
        ipoints=(trace.ipoints[0], END),
        ipoint=np.where(trace.ipoint[kept] == 0, 0, 1).astype(np.int32),
        sm=trace.sm[kept],
        warp=trace.warp[kept],
        cycle=trace.cycle[kept],
    )
    path = str(tmp_path / "coarse.csv")
    write_trace(coarse, path)
    estimate = study_trace(HybridRequest(Request(PTX), path)).estimate
    whole = study_trace(HybridRequest(Request(PTX), _written(trace, tmp_path))).estimate
    assert estimate.warp_wcet == estimate.observations.longest_warp
    assert estimate.observations.longest_warp == whole.observations.longest_warp
    assert whole.warp_wcet > estimate.warp_wcet
    assert len(estimate.ipg.hidden_loops) == 2


def _written(trace: TimedTrace, folder: Path) -> str:
    path = str(folder / "written.csv")
    write_trace(trace, path)
    return path


def test_a_trace_of_something_else(trace: TimedTrace, trace_file: str, tmp_path: Path) -> None:
    assert refused(trace_file, str(ROOT / "samples/saxpy.ptx"))[0] == "PW607"
    request = Request(PTX, kernels=("block_reduce_shuffle",))
    assert refusal_of(study_trace, HybridRequest(request, trace_file)).code == "PW607"
    other = replace(trace, origin=replace(trace.origin, sha256="0" * 64))
    code, text = refused(_written(other, tmp_path))
    assert code == "PW607"
    assert "SHA-256 000000000000..." in text
    unknown = replace(trace, origin=TraceOrigin(trace.origin.kernel, "", "by hand"))
    assert study_trace(HybridRequest(Request(PTX), _written(unknown, tmp_path)))
    moved = (trace.ipoints[0], replace(trace.ipoints[1], line=1), *trace.ipoints[2:])
    code, text = refused(_written(replace(trace, ipoints=moved), tmp_path))
    assert code == "PW607"
    assert "at line 1, is no basic block" in text
    twice = (*trace.ipoints[:-1], trace.ipoints[1], END)
    assert refused(_written(replace(trace, ipoints=twice), tmp_path))[0] == "PW612"
    for gone in (0, len(trace.ipoints) - 1):
        points = tuple(p for n, p in enumerate(trace.ipoints) if n != gone)
        first = replace(
            trace,
            ipoints=points,
            ipoint=np.minimum(trace.ipoint, len(points) - 1).astype(np.int32),
        )
        assert refused(_written(first, tmp_path))[0] == "PW612"


def test_a_lost_event_is_missed_unless_the_rest_is_a_path(trace_file: str, tmp_path: Path) -> None:
    """One diagnostic with its line; an iteration of a loop of one block can be lost unseen."""
    lines = Path(trace_file).read_text().splitlines()
    path = tmp_path / "cut.csv"
    codes: dict[str, int] = {}
    first = lines.index("# run 0") + 1
    module = parse_file(PTX)
    kernel = next(one for one in module.kernels if one.name == "block_reduce_tree")
    cfg = build_cfg(kernel)
    forest = loops_in(cfg)
    for place in range(first, len(lines) - 1):
        kept = [*lines[:place], *lines[place + 1 : -1], f"# events {len(lines) - 2 - first}"]
        path.write_text("\n".join(kept) + "\n")
        try:
            estimate_kernel(kernel, cfg, forest, read_trace(path), str(path), file_digest(PTX))
        except PtxwcetError as error:
            (diagnostic,) = error.diagnostics
            codes[diagnostic.code] = codes.get(diagnostic.code, 0) + 1
            assert re.match(r".*cut\.csv:\d+:1: error", diagnostic.render())
    # not: 4 warps times 8 executions of that block, 9 executions of a then without an else
    assert codes == {"PW606": 8, "PW608": len(lines) - 1 - first - 8 - 32 - 9}


def test_usage(trace_file: str) -> None:
    for arguments in (
        (),
        ("--launch", LAUNCH),
        ("--trace", trace_file, "--policy", "lrr"),
        ("--trace", trace_file, "--runs", "2"),
        ("--trace", trace_file, "--sms", "2"),
        ("--trace", trace_file, "--probability", "many"),
    ):
        result = run(PTX, *arguments)
        assert result.exit_code == 2, result.output
    assert refused(trace_file, exceedances=(1e-12,))[0] == "PW615"
    assert refused(trace_file, exceedances=(1.0,))[0] == "PW615"
    assert refusal_of(study_trace, HybridRequest(Request(PTX))).code == "PW614"


def test_iterations_that_the_static_analysis_allows(trace_file: str) -> None:
    """Both loops test at their end: seven times back are eight executions of the body."""
    request = Request(PTX, launch_file=LAUNCH)
    answer = study_trace(HybridRequest(request, trace_file, grid=GridWishes(1)))
    assert sorted(answer.static.iterations.values()) == [7, 8]
    report = build_hybrid_report(answer)
    assert [row.unseen_static for row in report.loops] == [None, None]
    allowed = {loop: most + 3 for loop, most in answer.static.iterations.items()}
    more = replace(answer, static=replace(answer.static, iterations=allowed))
    report = build_hybrid_report(more)
    assert [row.unseen_static for row in report.loops] == [3, 3]
    assert "3 executions of its body that the static analysis allows" in render_hybrid_text(report)


def test_waves_of_another_gpu(trace_file: str) -> None:
    """Rounds are those of the GPU that was traced; waves can be planned for any."""
    request = Request(PTX, launch_file=LAUNCH)
    answer = study_trace(HybridRequest(request, trace_file, grid=GridWishes(1)))
    assert answer.planned is not None
    assert answer.planned.rounds is not None
    assert answer.planned.rounds.cycles >= answer.estimate.concurrency.high_water_mark
    own = answer.planned.schedule
    assert plan_waves(answer.estimate, own) == answer.planned
    larger = plan_waves(answer.estimate, replace(own, blocks=9 * own.resident_blocks, sms=2))
    assert larger.rounds is None
    assert larger.schedule.waves == 5
    assert larger.cycles > answer.planned.cycles


def test_coverage_without_launch_facts(trace_file: str) -> None:
    """Nothing is known then of what the launch excludes."""
    row = build_hybrid_report(study_trace(HybridRequest(Request(PTX), trace_file))).coverage
    assert [(one.source, one.target) for one in row.unseen] == [
        ("entry", "block 1"),
        ("$L__BB0_4", "$L__BB0_8"),
    ]
    assert row.excluded == 0
    assert len(row.unreached) == 2


def test_several_waves() -> None:
    """One block at a time: the start gap is that of the first block."""
    toml = str(ROOT / "benchmarks/kernels/hybrid/small/matrix_transpose_4.toml")
    ptx = str(ROOT / "benchmarks/kernels/hybrid/matrix_transpose.ptx")
    options = TraceOptions("gto", GridWishes(1, 2))
    answer = study_trace(HybridRequest(Request(ptx, launch_file=toml), None, options))
    assert answer.planned is not None
    assert answer.planned.schedule.waves == 3
    seen = answer.estimate.concurrency
    assert seen.first_gap < seen.waves.start_gap
    assert answer.planned.start_gap == seen.first_gap
    warp = answer.estimate.warp_wcet
    assert answer.planned.cycles == 3 * (warp + 15 * seen.first_gap)
    assert answer.planned.rounds is not None
    assert seen.high_water_mark <= answer.planned.rounds.cycles


SAXPY = str(ROOT / "samples/saxpy.ptx")
SAXPY_LAUNCH = str(ROOT / "samples/launches/saxpy.toml")


def staggered(gap: int) -> TimedTrace:
    """Four blocks on four multiprocessors, each ``gap`` cycles after the one before."""
    trace = trace_kernel(
        Request(SAXPY, launch_file=SAXPY_LAUNCH), TraceOptions("lrr", GridWishes(4, 1))
    )
    cycle = trace.cycle + gap * trace.sm
    order = np.argsort(cycle, kind="stable")
    return replace(
        trace,
        ipoint=trace.ipoint[order],
        sm=trace.sm[order],
        warp=trace.warp[order],
        cycle=cycle[order],
    )


def test_a_figure_below_the_high_water_mark_claims_nothing(tmp_path: Path) -> None:
    """One wave on each multiprocessor: Z_hybrid knows nothing of the later starts of the others."""
    path = tmp_path / "late.csv"
    write_trace(staggered(885), path)
    arguments = (SAXPY, "--trace", str(path), "--launch", SAXPY_LAUNCH, "--sms", "4")
    result = run(*arguments, "--resident-blocks", "1")
    assert result.exit_code == 0, result.output
    data = json.loads(run(*arguments, "--resident-blocks", "1", "--format", "json").output)
    jsonschema.Draft202012Validator(SCHEMA).validate(data)
    mark = data["high_water_mark"]
    for name in ("dynamic", "hybrid", "planned_waves", "planned_rounds"):
        row = data[name]
        below = row["cycles"] < mark
        assert row["is_below_observed"] == below, name
        assert row["guarantee"] == (None if below else "estimate"), name
    assert data["hybrid"]["is_below_observed"]
    assert data["planned_waves"]["is_below_observed"]
    assert not data["dynamic"]["is_below_observed"]
    assert not data["warp"]["is_below_observed"]
    assert f"Z_hybrid is BELOW the {mark:,} observed in the same traces" in result.output
    assert "Z_dynamic is an estimate: expected to hold, not proved" in result.output
    assert result.output.count("BELOW Z_HWM: it does not hold") == 1
    assert "waves-seen" not in {row["key"] for row in data["assumptions"]}
    answer = study_trace(HybridRequest(Request(SAXPY), str(path)))
    assert isinstance(answer.claims["hybrid"], Contradiction)
    assert answer.claims["hybrid"].observed == mark


def test_a_figure_that_is_reached_holds(tmp_path: Path) -> None:
    path = tmp_path / "together.csv"
    write_trace(staggered(0), path)
    result = run(SAXPY, "--trace", str(path))
    assert "BELOW" not in result.output.split("profile")[0]
    assert "Z_dynamic and Z_hybrid are estimates: expected to hold" in result.output


def test_a_bound_of_a_warp_below_a_warp_observed_claims_nothing(trace_file: str) -> None:
    answer = study_trace(HybridRequest(Request(PTX), trace_file))
    longest = answer.estimate.observations.longest_warp
    for cycles in (longest, longest - 1):
        path = replace(answer.estimate.path, cycles=cycles)
        claim = claim_estimates(replace(answer.estimate, path=path))["warp"]
        assert isinstance(claim, Contradiction) == (cycles < longest)


def test_profiles_below_the_longest_warp_are_flagged(trace_file: str) -> None:
    report = build_hybrid_report(study_trace(HybridRequest(Request(PTX), trace_file)))
    for row in report.quantiles:
        assert row.is_below_observed == (row.cycles < report.longest_warp)
    flagged = replace(report, quantiles=(replace(report.quantiles[0], is_below_observed=True),))
    assert "BELOW the longest warp observed" in render_hybrid_text(flagged)
