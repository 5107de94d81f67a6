"""``ptxwcet validate certificates``: reports confirmed, changed, and for another file."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from ptxwcet.commands.bound.command import bound
from ptxwcet.commands.bound.report import READINGS
from ptxwcet.commands.certificates.command import validate_certificates
from ptxwcet.flow.certificates.certificate import Reading

pytestmark = pytest.mark.fast

KERNEL = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 data)
{
.reg .b32 %r<9>; .reg .b64 %d<4>; .reg .pred %p<9>;
ld.param.u64 %d1, [data]; ld.global.u32 %r1, [%d1];
L: add.s32 %r2, %r1, -1; and.b32 %r1, %r1, %r2; setp.ne.s32 %p1, %r1, 0; @%p1 bra L;
ret;
}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "k.ptx"
    path.write_text(KERNEL)
    return path


@pytest.fixture
def data(file: Path) -> dict[str, Any]:
    found = CliRunner().invoke(bound, [str(file), "--block", "32", "--format", "json"])
    report: dict[str, Any] = json.loads(found.stdout)
    return report


def checked(data: object, file: Path) -> Result:
    if isinstance(data, dict):  # as of a version without digests, which would refuse all changes
        data = {key: one for key, one in data.items() if key != "digest"}
    report = file.with_name("report.json")
    report.write_text(data if isinstance(data, str) else json.dumps(data))
    arguments = [str(report), str(file)]
    return CliRunner().invoke(validate_certificates, arguments, standalone_mode=False)


def test_a_report_says_how_the_bound_was_obtained(file: Path, data: dict[str, Any]) -> None:
    (row,) = data["kernels"][0]["loops"]
    assert row["origin"] == "certificate"
    (certificate,) = row["certificates"]
    assert certificate["iterations"] == row["iterations"]
    assert certificate["measure"]["parts"][0]["reading"] == "ones"
    text = CliRunner().invoke(bound, [str(file), "--block", "32"]).stdout
    assert "certificate: ones(%r1) is 32 or less at first" in text


def test_a_report_is_confirmed(file: Path, data: dict[str, Any]) -> None:
    found = checked(data, file)
    assert found.return_value == 0
    assert "k L: confirmed" in found.stdout


def test_a_report_that_was_changed_is_refused(file: Path, data: dict[str, Any]) -> None:
    loop = data["kernels"][0]["loops"][0]
    loop["iterations"] += 1
    found = checked(json.dumps(data), file)
    assert "not what was written" in str(found.exception)


def test_what_was_changed_is_not(file: Path, data: dict[str, Any]) -> None:
    loop = data["kernels"][0]["loops"][0]
    (certificate,) = loop["certificates"]
    certificate["iterations"] += 1
    assert checked(data, file).return_value is None  # the loop's bound is not that of a certificate
    certificate["iterations"] -= 2
    loop["iterations"] -= 1
    assert checked(data, file).return_value == 1  # a bound that does not follow
    certificate["high"] -= 1
    certificate["back_edges"] -= 1
    assert checked(data, file).return_value == 1  # 32 bits may be set


def test_another_loop_is_not_confirmed(file: Path, data: dict[str, Any]) -> None:
    file.write_text(KERNEL.replace("and.b32", "or.b32"))
    found = checked(data, file)
    assert found.return_value == 1
    assert "1 not confirmed" in found.stdout


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"kernels": 3}',
        '{"kernels": [{"kernel": "q", "loops": [{"certificates": [{}]}]}]}',
        '{"kernels": [{"kernel": "k", "loops": [{"certificates": [{}]}]}]}',
        '{"kernels": [{"kernel": "k", "loops": [{"certificates": {}}]}]}',
    ],
)
def test_what_is_no_report_is_refused(text: str, file: Path) -> None:
    found = checked(text, file)
    assert found.return_value is None
    assert type(found.exception).__name__ == "BadParameter"


def test_numbers_and_readings_that_are_none(file: Path, data: dict[str, Any]) -> None:
    certificate = data["kernels"][0]["loops"][0]["certificates"][0]
    for key, value in (("high", "32"), ("high", 3.5), ("way", "nowhere"), ("steps", None)):
        old, certificate[key] = certificate[key], value
        assert checked(data, file).return_value is None, key
        certificate[key] = old
    certificate["high"] += 1 << 400
    assert checked(data, file).return_value in (None, 1)
    certificate["high"] -= 1 << 400
    part = certificate["measure"]["parts"][0]
    part["register"] = "%p1x"
    assert checked(data, file).return_value == 1


def leaves(data: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    if not isinstance(data, dict | list) or not data:
        return [path]
    items = data.items() if isinstance(data, dict) else enumerate(data)
    return [leaf for key, one in items for leaf in leaves(one, (*path, key))]


STRANGE = (5, -1, 10**25, 1e308, "x", None, True, [], {}, [[]], {"status": 1})


def test_reports_of_another_shape_are_refused_or_checked(file: Path, data: dict[str, Any]) -> None:
    """Each number and text of a report in turn replaced: it ends, and says nothing false."""
    rng = Random(1)
    for path in leaves(data):
        is_of_loops = "certificates" in path
        for strange in STRANGE if is_of_loops else rng.sample(STRANGE, 2):
            other = json.loads(json.dumps(data))
            place = other
            for key in path[:-1]:
                place = place[key]
            place[path[-1]] = strange
            found = checked(other, file)
            assert found.return_value in (0, 1) or isinstance(found.exception, click.UsageError)
            if found.return_value == 0 and is_of_loops:
                assert other["kernels"][0]["loops"][0]["iterations"] >= 32


def test_a_report_knows_all_readings() -> None:
    assert tuple(one.value for one in Reading) == READINGS
