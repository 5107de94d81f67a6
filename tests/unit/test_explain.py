import re

import pytest
from click.testing import CliRunner
from places import PACKAGE

from ptxwcet.commands.explain.command import explain
from ptxwcet.support.explanations import explanations

pytestmark = pytest.mark.fast


def codes_in_use() -> set[str]:
    return {
        code
        for path in PACKAGE.rglob("*.py")
        for code in re.findall(r'"(PW\d{3})"', path.read_text())
    }


def test_every_code_has_an_explanation_and_none_is_orphaned() -> None:
    missing, orphaned = codes_in_use() - set(explanations()), set(explanations()) - codes_in_use()
    assert not missing, "add a table to ptxwcet/support/explanations.toml"
    assert not orphaned, "no diagnostic has this code: remove its row"


def test_explains_a_code_in_any_case() -> None:
    result = CliRunner().invoke(explain, ["pw203"])
    assert result.exit_code == 0
    assert "PW203: loop without a bound" in result.output
    assert "--loop-bound" in result.output


def test_lists_all_codes() -> None:
    lines = CliRunner().invoke(explain).output.splitlines()
    assert [line[:5] for line in lines] == sorted(explanations())


def test_unknown_code_is_a_usage_error() -> None:
    assert CliRunner().invoke(explain, ["PW999"]).exit_code == 2


def test_the_table_has_every_code_and_the_page_of_the_site_a_place_for_it() -> None:
    table = CliRunner().invoke(explain, ["--format", "markdown"]).output
    assert re.findall(r"^\| (PW\d{3}) \|", table, re.MULTILINE) == sorted(explanations())
    assert (PACKAGE.parent / "docs/diagnostics.md").read_text().endswith("\n<!-- codes -->\n")
