"""``ptxwcet explain schema``: prints JSON schemas (draft 2020-12) of reports from their data
models.

A dataclass is an object with exactly its fields; its docstring describes it. A report has also a
digest of its content (:mod:`ptxwcet.support.seals`). The reports have the names of :data:`REPORTS`.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import types
from collections.abc import Mapping
from enum import Enum, EnumMeta
from importlib import import_module
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import click

from ptxwcet.cli.command import Command
from ptxwcet.cli.output import echo
from ptxwcet.support.seals import DIGEST

REPORTS: Mapping[str, tuple[str, str]] = {
    "report": ("ptxwcet.commands.bound.report", "Report"),
    "check": ("ptxwcet.commands.check.report", "CheckReport"),
    "diff": ("ptxwcet.commands.compare.report", "DiffReport"),
    "symbolic": ("ptxwcet.commands.bound.symbolic", "SymbolicReport"),
    "annotation": ("ptxwcet.commands.annotate.report", "AnnotationReport"),
    "ports": ("ptxwcet.commands.annotate.ports", "PortsReport"),
    "memory": ("ptxwcet.commands.memory.report", "MemoryReport"),
    "hybrid": ("ptxwcet.methods.hybrid.report", "HybridReport"),
    "pwcet": ("ptxwcet.methods.pwcet.report", "PwcetReport"),
    "sequence": ("ptxwcet.commands.sequence.report", "SequenceReport"),
    "selftest": ("ptxwcet.validate.selftest", "SelfTestReport"),
    "dossier": ("ptxwcet.dossier.report", "DossierReport"),
    "what-if": ("ptxwcet.commands.what_if.report", "WhatIfReport"),
    "sweep": ("ptxwcet.sweeps.results.sweep_model", "SweepReport"),
    "simulation": ("ptxwcet.commands.simulate.report", "RunReport"),
    "attack": ("ptxwcet.sweeps.attack_report", "AttackReport"),
}
"""The names of reports, and the places of their data models, which are imported on demand."""

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null"}


@click.command("schema", cls=Command, example="ptxwcet explain schema report")
@click.argument("report", type=click.Choice(list(REPORTS)), default="report", metavar="[REPORT]")
def explain_schema(report: str) -> None:
    """Print the JSON schema of a REPORT: what --format json of a command writes.

    REPORT is report (of bounds), if it is left out; another word lists all.
    """
    echo(json.dumps(schema_of(report), indent=2))


def schema_of(name: str) -> dict[str, Any]:
    """Returns the schema of a report of :data:`REPORTS`. Cost: linear in its types."""
    module, model = REPORTS[name]
    root = getattr(import_module(module), model)
    definitions: dict[str, Any] = {}
    _reference(root, definitions)
    definitions[model]["properties"][DIGEST] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
    version = {"title": f"ptxwcet: {model}, schema 1"}
    return {"$schema": _DRAFT, **version, "$ref": f"#/$defs/{model}", "$defs": definitions}


def _reference(model: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Returns a reference to the definition of a dataclass, which is added if it is new."""
    name = model.__name__
    if name not in definitions:
        definitions[name] = {}  # the type may refer to itself
        hints = get_type_hints(model, include_extras=True)
        names = [field.name for field in dataclasses.fields(model)]
        definitions[name] = {
            "type": "object",
            "description": " ".join((inspect.getdoc(model) or "").split()),
            "properties": {name: _schema(hints[name], definitions) for name in names},
            "required": names,
            "additionalProperties": False,
        }
    return {"$ref": f"#/$defs/{name}"}


def _schema(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Returns the schema of a type. Raises TypeError for one that JSON has no form of here."""
    arguments = get_args(kind)
    match get_origin(kind):
        case None if dataclasses.is_dataclass(kind):
            return _reference(kind, definitions)
        case None if kind in _PLAIN:
            return {"type": _PLAIN[kind]}
        case found if found in (types.UnionType, Union):
            return {"anyOf": [_schema(argument, definitions) for argument in arguments]}
        case found if found is Literal:
            return {"enum": list(arguments)}
        case found if found is Annotated:  # a string, and its permitted values
            _, names = arguments
            if isinstance(names, EnumMeta):
                members: Mapping[str, Enum] = names.__members__
                names = [member.value for member in members.values()]
            return {"enum": list(names)}
        case found if found is tuple and arguments[-1:] == (Ellipsis,):
            return {"type": "array", "items": _schema(arguments[0], definitions)}
        case found if found is tuple:
            size = len(arguments)
            items = [_schema(argument, definitions) for argument in arguments]
            return {"type": "array", "prefixItems": items, "minItems": size, "maxItems": size}
        case found if found is not None and issubclass(found, Mapping):
            return {"type": "object", "additionalProperties": _schema(arguments[1], definitions)}
    raise TypeError(f"no JSON form of {kind!r}")
