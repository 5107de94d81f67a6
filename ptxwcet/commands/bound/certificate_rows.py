"""Certificates of loop bounds in the report, and read back from its JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ptxwcet.commands.bound.report import (
    CertificateRow,
    PartRow,
    RangeRow,
    RemaindersRow,
    StepRow,
    SumRow,
)
from ptxwcet.flow.certificates.certificate import (
    Bound,
    Certificate,
    Part,
    Reading,
    Remainders,
    Step,
    Sum,
)
from ptxwcet.flow.certificates.proof import Proof
from ptxwcet.flow.graph.cfg import BlockId, ControlFlowGraph


def certificate_row(proof: Proof, iterations: int, cfg: ControlFlowGraph) -> CertificateRow:
    """A proof as it is reported, with the bound on body executions that rests on it."""
    certificate = proof.certificate
    pair = certificate.remainders
    return CertificateRow(
        iterations,
        certificate.back_edges,
        _sum_row(certificate.measure),
        certificate.high,
        certificate.low,
        tuple(StepRow(step.factor, step.constant, step.divisor) for step in certificate.steps),
        None if pair is None else RemaindersRow(pair.dividend, pair.divisor, pair.signed),
        tuple(map(_range_row, certificate.invariant)),
        tuple(map(_range_row, proof.facts)),
        None if proof.way is None else cfg.name(proof.way),
    )


def _sum_row(one: Sum) -> SumRow:
    parts = tuple(PartRow(name, c, reading.value, by) for name, c, reading, by in one.parts)
    return SumRow(parts, one.constant)


def _range_row(one: Bound) -> RangeRow:
    return RangeRow(_sum_row(one.sum), one.low, one.high, one.divisor)


def proof_from(data: Mapping[str, Any], cfg: ControlFlowGraph) -> Proof:
    """A proof from the JSON of its row.

    Raises ValueError, KeyError or TypeError for what is no certificate of a graph with such blocks.
    """
    pair = data["remainders"]
    certificate = Certificate(
        tuple(map(_range_from, data["invariant"])),
        _sum_from(data["measure"]),
        _integer(data["high"]),
        _integer(data["low"]),
        tuple(
            Step(*(_integer(step[key]) for key in ("factor", "constant", "divisor")))
            for step in data["steps"]
        ),
        _integer(data["back_edges"]),
        None
        if pair is None
        else Remainders(str(pair["dividend"]), str(pair["divisor"]), bool(pair["signed"])),
    )
    facts = tuple(map(_range_from, data["facts"]))
    way = None if data["way"] is None else block_named(cfg, data["way"])
    return Proof(certificate, facts, way)


def block_named(cfg: ControlFlowGraph, name: str) -> BlockId:
    """The block that people call so. Raises ValueError if none is."""
    for block in cfg.blocks:
        if cfg.name(block.id) == name:
            return block.id
    raise ValueError(f"no block {name!r}")


def _integer(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"not an integer: {value!r}")
    return value


def _sum_from(row: Mapping[str, Any]) -> Sum:
    parts = tuple(
        Part(
            str(part["register"]),
            _integer(part["coefficient"]),
            Reading(part["reading"]),
            part["divisor"],
        )
        for part in row["parts"]
    )
    return Sum(parts, _integer(row["constant"]))


def _range_from(row: Mapping[str, Any]) -> Bound:
    low, high, divisor = (_integer(row[key]) for key in ("low", "high", "divisor"))
    return Bound(_sum_from(row["sum"]), low, high, divisor)
