"""What the pages of the methods say that their proofs use is what the code claims, both ways.

A page has a line ``**Uses** `key`, ...`` with what every number of the method rests on, and
``**Uses where they are stated or found** ...`` with what only some rest on.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import ptxwcet
from ptxwcet.claims import AssumptionState
from ptxwcet.machine.assumptions import ASSUMPTIONS, CLAIMS
from ptxwcet.machine.loader import load_machine
from ptxwcet.simulator.engine import ScheduledClaim, claim_schedule
from ptxwcet.simulator.policies import Policy
from ptxwcet.warp.program import BlockWorkload, TimedInstruction, WarpClass, WarpProgram

pytestmark = pytest.mark.fast

ROOT = Path(__file__).parents[2]
FAULT = ROOT / "tests" / "data" / "faults" / "unprinted"
GUB = ROOT / "docs" / "refutations" / "gub.md"
PAGES = sorted(
    [*(ROOT / "docs" / "methods").glob("*.md"), GUB, ROOT / "docs" / "guide" / "deadline.md"]
)
ALWAYS = re.compile(r"^\*\*Uses\*\* (.+)\.$", re.MULTILINE)
KEY = re.compile(r"[a-z]+(-[a-z]+)+")
SOMETIMES = re.compile(r"^\*\*Uses where they are stated or found\*\* (.+)\.$", re.MULTILINE)
ALL_ASSUMED = "".join(f"{key} = {{ state = 'assumed', source = 'z' }}\n" for key in ASSUMPTIONS)
_SERVED = "server_cycles_per_1024_sectors = { value = "
SERVERS = (FAULT / "a3.toml").read_text().replace(f"{_SERVED}0", f"{_SERVED}9")


def used(page: str, line: re.Pattern[str] = ALWAYS, section: str = "") -> set[str]:
    """Returns the keys of the first such line of a page, or of one of its sections."""
    text = (ROOT / "docs" / page).read_text()
    if section:
        text = text.partition(f"\n## {section}\n")[2]
    keys = line.search(text)
    return set() if keys is None else set(re.findall(r"`([\w-]+)`", keys[1]))


def machine(folder: Path, *, servers: bool) -> str:
    """A machine of which every assumption is printed: nothing is true by definition."""
    base = SERVERS if servers else SERVERS.partition("[memory]")[0] + "[sources]\nz = 'z'\n"
    path = folder / "m.toml"
    cores = "\nschedulers_per_sm = 4\n[units]\nSP = 4\nINT = 4\nSFU = 4\nDP = 4\nTENSOR = 4\n"
    cores += "MEM = 4\nGMEM = 4\n[occupancy]"
    path.write_text(base.replace("[occupancy]", cores, 1) + "[satisfies]\n" + ALL_ASSUMED)
    return str(path)


def claimed(folder: Path, *, servers: bool) -> dict[str, set[str]]:
    """The keys of each claim about a launch of the kernel, by method."""
    bound = ptxwcet.bound(
        str(FAULT / "k.ptx"), block=32, grid=20, machine=machine(folder, servers=servers)
    )
    outcomes = bound.analysis.worst.outcomes
    claims = {
        name: {one.key for one in outcome.claim.assumptions}
        for name, outcome in outcomes.items()
        if hasattr(outcome, "claim")
    }
    return {**claims, "grid": set(bound.launch_assumptions)}


def test_blocks_claim_what_their_proofs_use(tmp_path: Path) -> None:
    without, served = claimed(tmp_path, servers=False), claimed(tmp_path, servers=True)
    assert without["safe"] == used("methods/safe.md")
    assert without["gub"] == used("refutations/gub.md")
    assert without["lower"] == used("methods/lower-bound.md")
    at_servers = used("methods/memory-servers.md") | used("methods/transactions.md")
    charged = {"no-bank-conflicts"}
    found = used("methods/transactions.md", SOMETIMES)
    wanted = (used("methods/safe.md") - charged) | at_servers - {"stores-hold-slots"}
    assert served["safe"] - found == wanted


def test_launches_claim_what_their_proofs_use(tmp_path: Path) -> None:
    without, served = claimed(tmp_path, servers=False), claimed(tmp_path, servers=True)
    found = used("methods/grid.md", SOMETIMES) | used("methods/transactions.md", SOMETIMES)
    assert without["grid"] - found == used("methods/grid.md")
    at_servers = used("methods/memory-servers.md") | used("methods/transactions.md")
    assert served["grid"] - found == (used("methods/grid.md") - {"no-bank-conflicts"}) | at_servers


def test_a_known_schedule_claims_what_its_proof_uses(tmp_path: Path) -> None:
    described = load_machine(machine(tmp_path, servers=False))
    fma = TimedInstruction("SP", 1, 7, ("a",), ("a",))
    block = BlockWorkload((WarpClass(WarpProgram((fma,)), (0, 1)),), described.scoreboard)
    found = claim_schedule(block, described, Policy.LRR)
    assert isinstance(found, ScheduledClaim)
    keys = {one.key for one in found.claim.assumptions}
    page, section = "methods/safe.md", "Known schedules"
    assert keys - used(page, SOMETIMES, section) == used(page, ALWAYS, section)


def keys_in(tree: ast.AST) -> Iterator[str]:
    """The keys of assumptions that a module makes: one by one, or from tables of their texts."""
    tables: set[str] = set()
    has_table = False
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            keys = {key.value for key in node.keys if isinstance(key, ast.Constant)}
            tables |= {key for key in keys if isinstance(key, str) and KEY.fullmatch(key)}
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        if node.func.id.lstrip("_") in ("Assumption", "assumed", "doubtful") and node.args:
            key = node.args[0]
            if isinstance(key, ast.Constant):
                yield str(key.value)
            else:
                has_table = True
    if has_table:
        yield from tables


def made_by_code() -> set[str]:
    sources: Iterable[Path] = (ROOT / "ptxwcet").rglob("*.py")
    found = (keys_in(ast.parse(path.read_text())) for path in sources)
    return {key for keys in found for key in keys}


def test_every_assumption_is_on_a_page_and_every_one_on_a_page_is_made() -> None:
    on_pages: set[str] = set()
    for page in PAGES:
        for line in (ALWAYS, SOMETIMES):
            for keys in line.findall(page.read_text()):
                on_pages |= set(re.findall(r"`([\w-]+)`", keys))
    assert on_pages == made_by_code() | set(ASSUMPTIONS) | set(CLAIMS)


@pytest.mark.parametrize("name", ["titan-v", "jetson-agx-orin"])
def test_slots_of_stores_are_doubted_of_real_hardware(name: str) -> None:
    state = load_machine(name).assumption("stores-hold-slots").state
    assert state is AssumptionState.DOUBTFUL


def test_a_memory_path_prints_that_stores_hold_slots() -> None:
    def rests_on(machine: str) -> tuple[str, ...]:
        return ptxwcet.bound(
            str(FAULT / "k.ptx"), block=32, grid=20, machine=machine
        ).launch_assumptions

    assert "stores-hold-slots" in rests_on(str(FAULT / "a3.toml"))
    assert "stores-hold-slots" not in rests_on("orin-ecrts2025-16sm")
