"""What is shown of a sweep: rankings, refusals, the map; its texts, data, pictures and page."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
from programs import Ended, run_program
from sweeps import Row, sgemm_sweep, write_parquet

from ptxwcet.commands.explain.schema import schema_of
from ptxwcet.sweeps.results.pictures import draw_best, draw_map
from ptxwcet.sweeps.results.results_table import read_results
from ptxwcet.sweeps.results.sweep_build import build_sweep_report
from ptxwcet.sweeps.results.sweep_model import SweepReport
from ptxwcet.sweeps.results.sweep_text import digits, seconds_text, times_text

ROWS = sgemm_sweep((16, 32, 64, 128), (8, 16), (2, 4, 8))
NOTHING = dict.fromkeys(("of", "cycles", "seconds", "guarantee", "assumptions"))


def written(rows: Sequence[Row], folder: Path) -> Path:
    path = folder / "results.parquet"
    write_parquet(rows, path)
    return path


def report_of(rows: Sequence[Row], folder: Path, **options: Any) -> SweepReport:
    return build_sweep_report(read_results(str(written(rows, folder))), **options)


def shown(path: Path, *options: str) -> Ended:
    ended = run_program("sweep", "report", path, *options)
    assert "PW901" not in ended.err
    return ended


def bounded(machine: str, rows: Sequence[Row] = ROWS) -> list[Row]:
    return [row for row in rows if row["machine"] == machine and row["outcome"] == "bounded"]


def test_the_best_are_those_with_the_least_cycles_first_units_first(tmp_path: Path) -> None:
    report = report_of(ROWS, tmp_path, best=7)
    assert [one.machine for one in report.machines] == ["orin-ecrts2025", "titan-v"]
    for machine in report.machines:
        rows = sorted(bounded(machine.machine), key=lambda row: (row["cycles"], row["unit"]))
        (ranking,) = machine.rankings
        assert ranking.variants == len(rows)
        assert [one.unit for one in ranking.best] == [row["unit"] for row in rows[:7]]
        for one, row in zip(ranking.best, rows[:7], strict=True):
            assert one.rank == 1 + sum(other["cycles"] < row["cycles"] for other in rows)
            assert one.times_the_least == round(row["cycles"] / rows[0]["cycles"], 6)
            assert (one.seconds, one.guarantee) == (row["seconds"], row["guarantee"])
            assert {name: row[name] for name in one.variant} == one.variant


def test_columns_that_vary_follow_and_are_the_same(tmp_path: Path) -> None:
    report = report_of(ROWS, tmp_path)
    assert report.varying == ("tm", "tn", "tk", "rm", "rn")
    assert report.following == ("file", "block", "grid")
    assert report.fixed == {"param.K": 1024, "kernel": "sgemm", "method": "safe"}
    # each machine has a latency of its own: no variant differs in it
    latencies = [one.memory_latency_cycles for one in report.machines]
    assert latencies == [200, 375]
    assert [one.clock_mhz for one in report.machines] == [930, 1455]


def test_a_latency_that_is_varied_tells_variants_apart(tmp_path: Path) -> None:
    rows = [row | {"machine": "titan-v", "machine_sha256": "1"} for row in ROWS]
    assert "memory_latency" in report_of(rows, tmp_path).varying


def test_bounds_of_another_guarantee_or_scope_are_ranked_apart(tmp_path: Path) -> None:
    rows = [dict(row) for row in bounded("titan-v")]
    for row in rows[::3]:
        row["guarantee"] = "safe-bound"
    for row in rows[::5]:
        row |= {"of": "block", "cycles": 1, "seconds": 1e-9, "code": "PW800", "message": "open"}
    report = report_of(rows, tmp_path)
    (machine,) = report.machines
    kinds = [(one.of, one.guarantee) for one in machine.rankings]
    assert kinds == [
        *(("launch", "safe-bound"), ("launch", "estimate")),
        *(("block", "safe-bound"), ("block", "estimate")),
    ]
    for ranking, (of, guarantee) in zip(machine.rankings, kinds, strict=True):
        mine = [row for row in rows if (row["of"], row["guarantee"]) == (of, guarantee)]
        assert ranking.variants == len(mine)
        assert ranking.best[0].cycles == min(row["cycles"] for row in mine)
        assert {one.guarantee for one in ranking.best} == {guarantee}
    (refusal,) = report.refusals
    assert (refusal.code, refusal.outcome) == ("PW800", "bounded")
    assert report.bounded == report.units
    text = shown(written(rows, tmp_path)).out
    assert "are not ranked together" in text
    assert text.index("safe bounds of the whole launch") < text.index("estimates of the whole")


def test_bounds_for_one_policy_stand_apart(tmp_path: Path) -> None:
    safe = bounded("titan-v")
    rows = [*safe]
    for number, policy in enumerate(("gto", "lrr"), 1):
        less = {"method": "scheduled", "policy": policy, "seconds": 1e-9, "cycles": number}
        rows += [row | less | {"unit": row["unit"] + number * 10_000} for row in safe]
    report = report_of(rows, tmp_path)
    (machine,) = report.machines
    assert [one.policy for one in machine.rankings] == [None, "gto", "lrr"]
    assert [one.variants for one in machine.rankings] == [len(safe)] * 3
    assert machine.rankings[0].best[0].cycles == min(row["cycles"] for row in safe)
    for ranking in machine.rankings:
        assert {one.variant["policy"] for one in ranking.best} == {ranking.policy}
    assert report.map is not None
    assert [panel.policy for panel in report.map.panels] == [None]
    least = min(s for line in report.map.panels[0].seconds for s in line if s is not None)
    assert least == min(row["seconds"] for row in safe)
    text = shown(written(rows, tmp_path)).out
    assert "of the whole launch, for the policy lrr alone" in text
    assert "are not ranked together" in text


def test_machines_of_other_policies_are_not_compared(tmp_path: Path) -> None:
    rows = [
        row | ({"method": "scheduled", "policy": "gto"} if row["machine"] == "titan-v" else {})
        for row in ROWS
    ]
    (comparison,) = report_of(rows, tmp_path).comparisons
    assert comparison.policies == (None, "gto")
    assert comparison.of is None
    assert "for the policy gto alone" in comparison.reason


def test_a_variant_that_is_planned_twice_counts_once(tmp_path: Path) -> None:
    rows = bounded("titan-v")
    again = [row | {"unit": row["unit"] + 10_000} for row in rows]
    (machine,) = report_of([*again, *rows], tmp_path).machines
    assert machine.rankings[0].variants == len(rows)
    assert all(one.unit < 10_000 for one in machine.rankings[0].best)


def test_the_best_are_those_of_one_problem(tmp_path: Path) -> None:
    """A product of twice the size takes eight times as long, and the best tile is another one."""
    rows = []
    for size in (2048, 1024):
        for row in ROWS:
            more = {"unit": len(rows), "param.K": size}
            if row["cycles"] is not None and size == 2048:
                factor = 8 if row["tm"] < 64 else 9
                more |= {"cycles": factor * row["cycles"], "seconds": factor * row["seconds"]}
            rows.append(row | more)
    report = report_of(rows, tmp_path)
    assert report.problem == ("param.K",)
    assert report.varying == ("tm", "tn", "tk", "rm", "rn", "param.K")
    for machine in report.machines:
        assert [one.problem for one in machine.rankings] == [{"param.K": 2048}, {"param.K": 1024}]
        for one in machine.rankings:
            mine = [
                row
                for row in bounded(machine.machine, rows)
                if row["param.K"] == one.problem["param.K"]
            ]
            mine.sort(key=lambda row: (row["cycles"], row["unit"]))
            assert one.variants == len(mine)
            assert [each.unit for each in one.best] == [row["unit"] for row in mine[:10]]
            assert one.best[0].times_the_least == 1
            assert one.varying == ("tm", "tn", "tk", "rm", "rn")
    assert [one.problem["param.K"] for one in report.comparisons] == [2048, 1024]
    for one in report.comparisons:
        (alone,) = report_of(
            [r for r in rows if r["param.K"] == one.problem["param.K"]], tmp_path
        ).comparisons
        assert (one.variants, one.rank_correlation) == (alone.variants, alone.rank_correlation)
    drawn = report.map
    assert drawn is not None
    assert drawn.problem == {"param.K": 2048}  # as many bounds as the other, and the first
    cells = [cell for panel in drawn.panels for line in panel.units for cell in line]
    assert sum(cells) == len(rows) // 2
    by_size = report_of(rows, tmp_path, x="param.K", y="tm").map
    assert by_size is not None
    assert by_size.problem == {}
    text = shown(written(rows, tmp_path)).out
    assert "problems   ranked one by one: param.K\n" in text
    assert "BEST       on titan-v: estimates of the whole launch for K 1024" in text
    assert text.count("  assumed  ") == 2  # of rankings one below the other once
    together = report_of(rows, tmp_path, per=())
    assert [len(one.rankings) for one in together.machines] == [1, 1]
    least = min(row["cycles"] for row in bounded("titan-v", rows))
    assert together.machines[1].rankings[0].best[0].cycles == least
    ended = shown(written(rows, tmp_path), "--per", "tm,param.K", "--format", "json")
    assert json.loads(ended.out)["problem"] == ["tm", "param.K"]


def test_refusals_by_code_and_by_value(tmp_path: Path) -> None:
    report = report_of(ROWS, tmp_path)
    missing = [row for row in ROWS if row["outcome"] != "bounded"]
    assert report.refused + report.failed == len(missing)
    assert sum(row.units for row in report.refusals) == len(missing)
    for refusal in report.refusals:
        mine = [row for row in missing if row["code"] == refusal.code]
        assert refusal.units == len(mine)
        assert (refusal.first_unit, refusal.message) == (mine[0]["unit"], mine[0]["message"])
    assert [one.column for one in report.shares] == ["machine", *report.varying]
    for column in report.shares:
        for one in column.values:
            mine = [row for row in ROWS if row[column.column] == one.value]
            assert one.units == len(mine)
            codes = [row["code"] for row in mine if row["outcome"] != "bounded"]
            assert one.unbounded == {code: codes.count(code) for code in set(codes)}


def test_the_map_has_the_least_of_each_cell(tmp_path: Path) -> None:
    rows = [row for row in ROWS if (row["tm"], row["tn"]) != (16, 32)]
    drawn = report_of(rows, tmp_path).map
    assert drawn is not None
    assert (drawn.x, drawn.y) == ("tm", "tn")
    for panel in drawn.panels:
        for j, tn in enumerate(drawn.y_values):
            for i, tm in enumerate(drawn.x_values):
                here = [row for row in rows if (row["tm"], row["tn"]) == (tm, tn)]
                mine = [row for row in here if row["machine"] == panel.machine]
                assert panel.units[j][i] == len(mine)
                times = [row["seconds"] for row in mine if row["outcome"] == "bounded"]
                assert panel.seconds[j][i] == (min(times) if times else None)


def test_axes_of_the_map(tmp_path: Path) -> None:
    def axes(x: str | None, y: str | None) -> tuple[str, str]:
        drawn = report_of(ROWS, tmp_path, x=x, y=y).map
        assert drawn is not None
        return drawn.x, drawn.y

    assert axes("rm", None)[0] == "rm"
    assert axes(None, "rm")[1] == "rm"
    assert axes("tk", "tm") == ("tk", "tm")
    assert axes("block", "grid") == ("block", "grid")
    # a size that is another name of tm makes no map with it
    rows = [row | {"param.K": row["tm"]} for row in ROWS]
    drawn = report_of(rows, tmp_path).map
    assert drawn is not None
    assert (drawn.x, drawn.y) == ("tm", "tn")


def by_definition(one: Sequence[int], other: Sequence[int]) -> float:
    """Spearman's correlation of mean ranks, written down as in a textbook."""

    def ranks(values: Sequence[int]) -> list[float]:
        return [
            sum(each < value for each in values) + (values.count(value) + 1) / 2 for value in values
        ]

    return float(np.corrcoef(ranks(one), ranks(other))[0, 1])


def test_machines_are_compared_by_the_variants_that_both_bound(tmp_path: Path) -> None:
    (comparison,) = report_of(ROWS, tmp_path).comparisons

    def cycles(machine: str) -> dict[str, int]:
        return {row["file"]: row["cycles"] for row in bounded(machine)}

    one, other = (cycles(name) for name in comparison.machines)
    both = sorted(one.keys() & other.keys())
    expected = by_definition([one[name] for name in both], [other[name] for name in both])
    assert comparison.variants == len(both) < len(other)
    assert comparison.rank_correlation == pytest.approx(expected, abs=6e-5)
    assert comparison.guarantees == ("safe-bound", "estimate")
    for best, here, there in zip(comparison.best, (one, other), (other, one), strict=True):
        name = min(here, key=here.__getitem__)
        if best.rank is not None:
            assert best.rank == 1 + sum(value < there[name] for value in there.values())
            assert best.times_the_least == round(there[name] / min(there.values()), 6)


def with_column(name: str, value: Callable[[Row], str | None]) -> list[Row]:
    """The rows with one more column of the plan, the last of them."""
    rows = []
    for row in ROWS:
        columns = {}
        for key, cell in row.items():
            if key == "file":
                columns[name] = value(row)
            columns[key] = cell
        rows.append(columns)
    return rows


@pytest.mark.parametrize("name", ["set.ptxas_info", "set.registers", "set.sms"])
@pytest.mark.parametrize("others", [True, False])
def test_what_each_machine_has_of_its_own_tells_no_variants_apart(
    name: str, others: bool, tmp_path: Path
) -> None:
    plain = report_of(ROWS, tmp_path)

    def own(row: Row) -> str | None:
        if row["machine"] == "titan-v":
            return f"{row['tm']}.sm_75" if others else "75"
        return f"{row['tm']}.sm_87" if others else None

    report = report_of(with_column(name, own), tmp_path)
    assert report.comparisons == plain.comparisons
    assert plain.comparisons[0].variants > 100
    assert report.varying == plain.varying
    assert report.following == (name, *plain.following)
    assert report.map == plain.map
    for machine, same in zip(report.machines, plain.machines, strict=True):
        assert [one.unit for one in machine.rankings[0].best] == [
            one.unit for one in same.rankings[0].best
        ]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("set.facts", lambda row: row["machine"]),  # other facts are another variant
        ("param.n", lambda row: row["machine"]),
        ("set.facts", lambda row: f"facts of {row['file']}"),
    ],
)
def test_what_else_the_plan_names_tells_variants_apart(
    name: str, value: Callable[[Row], str], tmp_path: Path
) -> None:
    assert name in report_of(with_column(name, value), tmp_path).varying


def test_two_numbers_of_registers_on_a_machine_are_two_variants(tmp_path: Path) -> None:
    rows = with_column("set.registers", lambda row: "24" if row["machine"] == "titan-v" else "32")
    again = [
        row | {"unit": row["unit"] + 10_000, "set.registers": "48"}
        for row in rows
        if row["machine"] == "titan-v"
    ]
    report = report_of([*rows, *again], tmp_path)
    assert "set.registers" in report.varying
    assert report.comparisons[0].variants == 0


def test_machines_with_bounds_of_other_scopes_are_not_compared(tmp_path: Path) -> None:
    rows = [
        row | ({"of": "block"} if row["of"] and row["machine"] == "titan-v" else {}) for row in ROWS
    ]
    (comparison,) = report_of(rows, tmp_path).comparisons
    assert comparison.rank_correlation is None
    assert "of a block" in comparison.reason
    assert "not compared" in shown(written(rows, tmp_path)).out


def test_only_some_units(tmp_path: Path) -> None:
    path = written(ROWS, tmp_path)
    options = ("--only", "tm=64", "--only", "machine=titan-v", "--only", "tm=32")
    data = json.loads(shown(path, *options, "--format", "json").out)
    mine = [row for row in ROWS if row["tm"] in (32, 64) and row["machine"] == "titan-v"]
    assert (data["units"], len(data["machines"])) == (len(mine), 1)
    assert data["only"] == ["tm=64", "machine=titan-v", "tm=32"]


def test_json_follows_its_schema(tmp_path: Path) -> None:
    schema = schema_of("sweep")
    refused = [row | NOTHING | {"outcome": "refused", "code": "PW203"} for row in ROWS]
    for rows in (ROWS, ROWS[:1], refused):
        ended = shown(written(rows, tmp_path), "--format", "json")
        assert ended.code == 0
        jsonschema.Draft202012Validator(schema).validate(json.loads(ended.out))


def test_text(tmp_path: Path) -> None:
    path = written(ROWS, tmp_path)
    text = shown(path, "--best", "3").out
    assert "BEST       on orin-ecrts2025: safe bounds of the whole launch" in text
    assert "orin-ecrts2025: 930 MHz, memory latency 200 cycles" in text
    assert "  assumed  no-other-kernel, one-memory, port-model\n" in text
    assert "compared by rank and by time, not by cycles" in text
    assert "REFUSED" in text
    assert "failed; unit" in text
    lines = shown(path, "-q").out.splitlines()
    assert [line.split()[0] for line in lines] == ["orin-ecrts2025", "titan-v"]
    assert lines[1].endswith(" estimate launch")


def test_nothing_is_bounded(tmp_path: Path) -> None:
    rows = [row | NOTHING | {"outcome": "refused", "code": "PW203"} for row in ROWS]
    page, plots = tmp_path / "page.html", tmp_path / "plots"
    drawn = ("--format", "html", "-o", str(page), "--picture", str(plots / "p.png"))
    assert shown(written(rows, tmp_path), *drawn).code == 0
    ended = shown(written(rows, tmp_path))
    assert ended.code == 0
    assert "BEST       on titan-v: nothing is bounded" in ended.out
    assert "(100.0 %)" in ended.out
    assert "Nothing is bounded on this machine." in page.read_text()
    assert {path.stem for path in plots.iterdir()} >= {"p-refused", "p-refused-tm"}


def test_times_and_numbers() -> None:
    assert [seconds_text(one) for one in (1.5, 4.3254e-3, 655.2e-6, 3.2e-9, 0.0)] == [
        *("1.500 s", "4.326 ms", "655.2 us", "3.200 ns", "0.000 ns")
    ]
    assert [times_text(one) for one in (1, 1.042, 2.414, 120.0)] == [
        *("least", "+4.2 %", "2.41 x", "120 x")
    ]
    assert digits(12345.6, 3) == "12,346"


def without(name: str) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [{key: row[key] for key in row if key != name} for row in rows]


def with_value(**changed: object) -> Callable[[list[Row]], list[Row]]:
    return lambda rows: [rows[0] | changed, *rows[1:]]


BROKEN: dict[str, tuple[Callable[[list[Row]], list[Row]], str]] = {
    "no cycles": (without("cycles"), "no column cycles"),
    "no key": (without("key"), "no column key"),
    "an outcome": (with_value(outcome="perhaps"), "'perhaps' in the column outcome"),
    "a guarantee": (with_value(guarantee="sure"), "'sure' in the column guarantee"),
    "no guarantee": (with_value(guarantee=None), "nothing in the column guarantee"),
    "no machine": (with_value(machine=None), "nothing in the column machine"),
    "no seconds": (with_value(seconds=None), "cycles but no seconds"),
    "endless": (with_value(seconds=float("inf")), "cycles but no seconds"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_results_that_make_no_sense(what: str, tmp_path: Path) -> None:
    change, said = BROKEN[what]
    rows = bounded("titan-v")
    ended = shown(written(change(rows), tmp_path))
    assert (ended.code, ended.out) == (2, "")
    assert "error[PW824]" in ended.err
    assert said in ended.err


FILES = {
    "empty": b"",
    "text": b"unit,key\n1,2\n",
    "bytes": bytes(range(256)),
    "nearly Parquet": b"PAR1 and then nothing",
}


@pytest.mark.parametrize("what", FILES)
def test_files_that_are_no_results(what: str, tmp_path: Path) -> None:
    path = tmp_path / "results.parquet"
    path.write_bytes(FILES[what])
    ended = shown(path)
    assert (ended.code, ended.out) == (2, "")
    assert "error[PW824]" in ended.err
    assert ended.err.count("\n") == 2


USAGE = {
    "no such column": (("--map", "tmm"), "did you mean tm?"),
    "one value": (("--map", "param.K"), "the same value in all units"),
    "twice": (("--map", "tm,tm"), "a map has two columns"),
    "the machine": (("--map", "machine"), "no column 'machine'"),
    "many values": (("--map", ",file"), "values; a map shows up to 60"),
    "only nothing": (("--only", "tm"), "is not NAME=VALUE"),
    "only an unknown value": (("--only", "tm=7"), "there are 16, 32, 64, 128"),
    "only an unknown column": (("--only", "tmm=16"), "did you mean tm?"),
    "only a contradiction": (
        ("--only", "tm=16", "--only", "file=sgemm_64x64x8_4x4.ptx"),
        "no unit has tm=16 and file=",
    ),
    "a problem that is none": (("--per", "param.L"), "no column 'param.L'; did you mean param.K?"),
    "a map that is not drawn": (("--map", "tm"), "--map is drawn: give --picture"),
    "a form that is none": (("--picture", "p.pdf"), "should end in .png or .svg"),
}


@pytest.mark.parametrize("what", USAGE)
def test_options_that_make_no_sense(what: str, tmp_path: Path) -> None:
    options, said = USAGE[what]
    ended = shown(written(ROWS, tmp_path), *options)
    assert (ended.code, ended.out) == (2, "")
    assert said in ended.err


def test_no_such_file(tmp_path: Path) -> None:
    assert shown(tmp_path / "none.parquet").code == 2
    assert shown(tmp_path).code == 2


def test_output_replaces_no_input(tmp_path: Path) -> None:
    path = written(ROWS, tmp_path)
    assert shown(path, "--format", "html", "-o", str(path)).code == 2


class Tags(HTMLParser):
    """What a page has: its tags balanced, what it refers to, its texts."""

    EMPTY = frozenset(("meta", "br", "link", "img"))

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.count: dict[str, int] = {}
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.count[tag] = self.count.get(tag, 0) + 1
        named = dict(attrs)
        if "id" in named:
            self.ids.append(named["id"] or "")
        for name in ("href", "src", "xlink:href"):
            if name in named:
                self.links.append(named[name] or "")
        if tag not in self.EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.EMPTY:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with page and pictures of results with names that mean something to HTML."""
    pytest.importorskip("matplotlib")
    folder = tmp_path_factory.mktemp("drawn")
    rows = [dict(row) for row in ROWS]
    for row in rows:
        row["param.K"] = f"<b>{row['tk']}</b> $x$ \u202e"
        if (row["tm"], row["tn"]) == (16, 16):
            row |= NOTHING | {"outcome": "refused", "code": "PW203", "message": "<script>"}
        if row["tm"] == 64 and row["machine"] == "titan-v" and row["of"]:
            row["guarantee"] = "safe-bound"
    path = written(rows, folder)
    ended = shown(
        path,
        "--format",
        "html",
        "-o",
        str(folder / "page.html"),
        "--picture",
        str(folder / "plots/p.png"),
    )
    assert ended.code == 0
    assert "PW" not in ended.err
    return folder


def test_the_page_is_whole_and_loads_nothing(drawn: Path) -> None:
    page = (drawn / "page.html").read_text()
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert len(set(tags.ids)) == len(tags.ids)
    assert all(link[1:] in tags.ids for link in tags.links)
    assert all(link.startswith("#") for link in tags.links)
    assert tags.count["svg"] == 2 + 2 + 1 + 6
    assert "script" not in tags.count
    assert "image" not in tags.count
    assert "&lt;script&gt;" in page
    assert "<b>16" not in page
    assert "\u202e" not in page
    assert re.search(r">\+\d\.\d %<", page)
    for text in ("safe bounds of the whole launch", "estimates of the whole launch"):
        assert text in page
    assert "another kind of bound only" in page


def test_the_pictures(drawn: Path) -> None:
    names = {path.name for path in (drawn / "plots").iterdir()}
    assert names == {
        *(
            f"p-{kind}-{one}.png"
            for kind in ("map", "best")
            for one in ("titan-v", "orin-ecrts2025")
        ),
        *(f"p-refused-{one}.png" for one in ("machine", "tm", "tn", "tk", "rm", "rn")),
        "p-refused.png",
    }
    for name in names:
        assert (drawn / "plots" / name).read_bytes().startswith(b"\x89PNG")


def test_equal_results_give_equal_bytes(
    drawn: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    results = drawn / "results.parquet"
    kinds = (
        *("--format", "html", "-o", str(tmp_path / "page.html")),
        *("--picture", str(tmp_path / "plots/p.svg")),
    )
    twice = []
    for _ in range(2):
        printed = shown(results, *kinds).out
        files = [tmp_path / "page.html", *sorted((tmp_path / "plots").iterdir())]
        twice.append((printed, [path.read_bytes() for path in files]))
    assert twice[0] == twice[1]


def test_one_column_makes_no_map(tmp_path: Path) -> None:
    rows = [row for row in bounded("titan-v") if row["file"].endswith("x16x8_4x4.ptx")]
    assert len({row["tm"] for row in rows}) == len(rows) > 1
    page = tmp_path / "page.html"
    ended = shown(written(rows, tmp_path), "--format", "html", "-o", str(page))
    assert ended.code == 0
    assert "No map: a map needs two columns" in page.read_text()
    assert report_of(rows, tmp_path).varying == ("tm",)
    ended = shown(written(rows, tmp_path), "--map", "tm", "--format", "json")
    assert (ended.code, "tm: no other column" in ended.err) == (2, True)


def test_titles_of_pictures_are_whole(tmp_path: Path) -> None:
    """A number of which a digit is cut off is another number."""
    rows = with_column(
        "a_long_name_of_an_axis", lambda row: f"a value as long as this, {row['tm']}"
    )
    report = report_of(rows, tmp_path)
    figures = [draw_best(machine) for machine in report.machines]
    assert report.map is not None
    figures += [draw_map(report.map, panel) for panel in report.map.panels if panel.of]
    assert len(figures) > 2
    for figure in figures:
        figure.draw_without_rendering()
        for axes in figure.axes:
            drawn = axes.title.get_window_extent()
            assert drawn.x0 >= 0
            assert drawn.x1 <= figure.bbox.x1
            assert drawn.y1 <= figure.bbox.y1
