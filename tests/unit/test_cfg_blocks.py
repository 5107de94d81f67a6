"""Blocks and edges of small kernels, by hand."""

from __future__ import annotations

import pytest
from flow_graphs import loops_in
from parsing import parse_kernel

from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph, build_cfg
from ptxwcet.flow.graph.control_flow import (
    ControlFlow,
    endless_diagnostics,
    irreducible_diagnostics,
)
from ptxwcet.ir.kernel import Kernel

pytestmark = pytest.mark.fast

HEADER = """.version 8.0
.target sm_80
.address_size 64
.visible .entry k()
{
.reg .pred %p<9>;
.reg .b32 %r<9>;
"""


def kernel(body: str) -> Kernel:
    return parse_kernel(f"{HEADER}{body}\n}}\n")


def cfg(body: str) -> ControlFlowGraph:
    return build_cfg(kernel(body))


def ranges(graph: ControlFlowGraph) -> list[tuple[int, int]]:
    return [(block.start, block.end) for block in graph.blocks]


def test_straight_line_is_one_block_and_the_exit() -> None:
    graph = cfg("mov.u32 %r1, 1;\nbar.sync 0;\nmov.u32 %r2, 2;\nret;")
    assert ranges(graph) == [(0, 4), (4, 4)]
    assert graph.successors == ((1,), ())
    assert graph.predecessors == ((), (0,))
    assert graph.barriers == (1,)
    assert (graph.entry, graph.exit) == (0, 1)


def test_an_empty_kernel_has_an_empty_entry() -> None:
    graph = cfg("")
    assert ranges(graph) == [(0, 0), (0, 0)]
    assert graph.successors == ((1,), ())


def test_a_guarded_branch_has_its_taken_successor_first() -> None:
    graph = cfg("mov.u32 %r1, 1;\n@%p1 bra L;\nmov.u32 %r2, 2;\nL:\nret;")
    assert ranges(graph) == [(0, 2), (2, 3), (3, 4), (4, 4)]
    assert graph.successors == ((2, 1), (2,), (3,), ())
    assert graph.taken[0] == 2
    assert graph.fallthrough[0] == 1
    assert graph.taken[1] is None
    assert graph.fallthrough[1] == 2
    assert [graph.name(block.id) for block in graph.blocks] == ["entry", "block 1", "L", "exit"]


def test_an_unguarded_branch_has_no_fallthrough() -> None:
    graph = cfg("bra.uni L;\nmov.u32 %r2, 2;\nL:\nret;")
    assert graph.successors == ((2,), (), (3,), ())
    assert graph.taken[0] == 2
    assert graph.fallthrough[0] is None


def test_unreachable_blocks_are_listed_and_have_no_edges() -> None:
    graph = cfg("bra L;\nM:\n@%p1 bra M;\nbra L;\nL:\nret;")
    assert graph.unreachable == (1, 2)
    assert graph.successors == ((3,), (), (), (4,), ())
    assert graph.predecessors[3] == (0,)
    assert 1 not in graph.reverse_postorder
    assert not loops_in(graph).loops


def test_a_branch_to_the_next_instruction_is_one_edge() -> None:
    graph = cfg("@%p1 bra L;\nL:\nret;")
    assert graph.successors == ((1,), (2,), ())
    assert graph.predecessors[1] == (0,)
    assert graph.taken[0] == graph.fallthrough[0] == 1


@pytest.mark.parametrize("ending", ["ret", "exit", "trap", "ret.uni"])
def test_guarded_endings_lead_to_the_exit_and_on(ending: str) -> None:
    graph = cfg(f"@!%p1 {ending};\nmov.u32 %r1, 1;\n{ending};")
    assert ranges(graph) == [(0, 1), (1, 3), (3, 3)]
    assert graph.successors == ((2, 1), (2,), ())
    assert graph.taken[0] == 2
    assert graph.fallthrough[0] == 1


def test_falling_off_the_end_is_an_edge_to_the_exit() -> None:
    graph = cfg("@%p1 bra L;\nmov.u32 %r1, 1;\nL:\nmov.u32 %r1, 1;")
    assert graph.successors == ((2, 1), (2,), (3,), ())


def test_a_label_at_the_end_is_the_exit() -> None:
    graph = cfg("@%p1 bra END;\nmov.u32 %r1, 1;\nret;\nEND:")
    assert graph.successors == ((2, 1), (2,), ())
    assert graph.name(graph.exit) == "exit"


def test_labels_without_a_branch_start_no_block() -> None:
    graph = cfg("mov.u32 %r1, 1;\nA:\nB:\nmov.u32 %r1, 1;\nret;")
    assert len(graph.blocks) == 2


def test_the_first_of_two_labels_names_the_block() -> None:
    graph = cfg("A:\nB:\nmov.u32 %r1, 1;\n@%p1 bra B;\nret;")
    assert graph.name(BlockId(0)) == "A"
    assert graph.successors[0] == (0, 1)


def test_brx_leads_to_every_target_once() -> None:
    body = "T: .branchtargets A, B, A;\nbrx.idx %r1, T;\nA:\nmov.u32 %r1, 1;\nB:\nret;"
    graph = cfg(body)
    assert graph.successors == ((1, 2), (2,), (3,), ())
    assert graph.taken[0] is None
    guarded = cfg(body.replace("brx", "@%p1 brx").replace("T;\nA", "T;\nret;\nA"))
    assert guarded.successors[0] == (2, 3, 1)
    assert guarded.fallthrough[0] == 1


def test_reverse_postorder_starts_at_the_entry_and_follows_the_edges() -> None:
    graph = cfg("@%p1 bra L;\nmov.u32 %r2, 2;\nbra M;\nL:\nmov.u32 %r2, 2;\nM:\nret;")
    order = {block: position for position, block in enumerate(graph.reverse_postorder)}
    assert order[graph.entry] == 0
    assert all(order[u] < order[v] for u, v in graph.edges())


IRREDUCIBLE = "@%p1 bra B;\nA:\nmov.u32 %r1, 1;\nB:\nmov.u32 %r2, 2;\n@%p2 bra A;\nret;"


def test_an_irreducible_loop_is_named_with_its_entries() -> None:
    one = kernel(IRREDUCIBLE)
    (diagnostic,) = irreducible_diagnostics(ControlFlow.of(one))
    assert diagnostic.code == "PW201"
    assert "entered at A and B" in diagnostic.message
    assert diagnostic.span is not None
    assert diagnostic.span.line == 10
    assert diagnostic.notes[0] == "entry A (line 10) is reached from entry (line 8)"
    assert diagnostic.notes[2] == "the loop's blocks: A (line 10), B (line 12)"
    assert diagnostic.help is not None


def test_a_kernel_that_never_ends_is_named() -> None:
    one = kernel("@%p1 bra L;\nret;\nL:\nmov.u32 %r1, 1;\nbra L;")
    flow = ControlFlow.of(one)
    assert flow.meeting(2) is None
    assert flow.meeting(0) == 1
    (diagnostic,) = endless_diagnostics(flow)
    assert diagnostic.code == "PW230"
    assert "L cannot reach its end" in diagnostic.message
    assert diagnostic.span is not None
    assert diagnostic.span.line == 12


def test_a_kernel_that_ends_gives_no_diagnostic() -> None:
    flow = ControlFlow.of(kernel("L:\n@%p1 bra L;\nret;"))
    assert endless_diagnostics(flow) == ()
    assert irreducible_diagnostics(flow) == ()
