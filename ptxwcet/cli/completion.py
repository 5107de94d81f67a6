"""What a shell may offer behind an option: machines, policies, and the kernels of the FILE given.

A completion never fails: where nothing can be offered, nothing is.
"""

from __future__ import annotations

import re

import click
from click.shell_completion import CompletionItem

from ptxwcet.bounds.methods import names_to_report
from ptxwcet.machine.loader import machine_names
from ptxwcet.simulator.policies import Policy
from ptxwcet.support.input_files import MOST_TEXT_BYTES, read_text

_ENTRY = re.compile(r"\.entry\s+([\w$%]+)")


def machines(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The machines that come with the tool, and files."""
    known = [CompletionItem(name) for name in machine_names() if name.startswith(incomplete)]
    return known or [CompletionItem(incomplete, type="file")]


def policies(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The warp schedulers."""
    return [CompletionItem(one.value) for one in Policy if one.value.startswith(incomplete)]


def methods(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The bound methods that may be reported."""
    return [CompletionItem(name) for name in names_to_report() if name.startswith(incomplete)]


def kernels(context: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The kernels of the FILE or FILES that stand before, by their names in the PTX."""
    given = context.params.get("file") or context.params.get("files")
    found: list[str] = []
    # an option without its value leaves the words before it unread
    for path in (given,) if isinstance(given, str) else given or context.args:
        try:
            found += _ENTRY.findall(read_text(path, MOST_TEXT_BYTES, "replace"))
        except (OSError, ValueError):
            continue
    return [CompletionItem(name) for name in found if name.startswith(incomplete)]
