"""Conversion of certificates of loop bounds to rows of the report, and back."""

from __future__ import annotations

from dataclasses import fields
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

_ROWS = {Sum: SumRow, Bound: RangeRow, Step: StepRow, Remainders: RemaindersRow}
"""The rows of parts of a certificate, whose fields are the same."""
_PARTS = {row: part for part, row in _ROWS.items()}


def certificate_row(proof: Proof, iterations: int, cfg: ControlFlowGraph) -> CertificateRow:
    """Returns a proof as it is reported, with the bound on iterations that rests on it."""
    certificate = proof.certificate
    return CertificateRow(
        iterations,
        certificate.back_edges,
        _row(certificate.measure),
        certificate.high,
        certificate.low,
        _row(certificate.steps),
        _row(certificate.remainders),
        _row(certificate.invariant),
        _row(proof.facts),
        None if proof.way is None else cfg.name(proof.way),
    )


def proof_from(row: CertificateRow, cfg: ControlFlowGraph) -> Proof:
    """Returns the proof of a row. Raises ValueError if a graph has no such block."""
    certificate = Certificate(
        _part(row.invariant),
        _part(row.measure),
        row.high,
        row.low,
        _part(row.steps),
        row.back_edges,
        _part(row.remainders),
    )
    way = None if row.way is None else block_named(cfg, row.way)
    return Proof(certificate, _part(row.facts), way)


def _row(part: Any) -> Any:
    """Returns the row of a part of a certificate, or of each of several."""
    if isinstance(part, Part):
        return PartRow(part.register, part.coefficient, part.reading.value, part.divisor)
    if isinstance(part, tuple):
        return tuple(map(_row, part))
    kind: Any = _ROWS.get(type(part))
    return (
        part if kind is None else kind(*(_row(getattr(part, each.name)) for each in fields(part)))
    )


def _part(data: Any) -> Any:
    """Returns the part of a certificate of a row, or the parts of several rows."""
    if isinstance(data, PartRow):
        return Part(data.register, data.coefficient, Reading(data.reading), data.divisor)
    if isinstance(data, tuple):
        return tuple(map(_part, data))
    kind: Any = _PARTS.get(type(data))
    return data if kind is None else kind(*(_part(getattr(data, one.name)) for one in fields(data)))


def block_named(cfg: ControlFlowGraph, name: str) -> BlockId:
    """Returns the block that people call so. Raises ValueError if none is."""
    for block in cfg.blocks:
        if cfg.name(block.id) == name:
            return block.id
    raise ValueError(f"no block {name!r}")
