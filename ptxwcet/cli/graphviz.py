"""Graphs in the DOT language: as text, or as pictures that Graphviz lays out."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from ptxwcet.cli.paths import PICTURES, OutputFile
from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError
from ptxwcet.support.printable import printable_picture
from ptxwcet.support.whole_files import write_text

_TEXTS = (".dot", ".gv")
GRAPH_PICTURES = (*PICTURES, ".pdf")
"""How files end that Graphviz draws."""
GRAPH_FILE = OutputFile(*_TEXTS, *GRAPH_PICTURES)
_LAYOUT_SECONDS = 120
"""Graphviz takes seconds for the largest kernels that a person can still look at."""


def write_graph(text: str, output: Path, advice: str) -> None:
    """Writes a graph: its text, or its picture. Raises PtxwcetError (PW233), with ``advice``."""
    text = printable_picture(text)
    if output.suffix in _TEXTS:
        write_text(output, text, "PW233")
    else:
        _render(text, output, advice)


def _render(text: str, output: Path, advice: str) -> None:
    """Runs Graphviz. Raises PtxwcetError (PW233) if it is missing or fails."""
    dot = shutil.which("dot")
    if dot is None:
        raise PtxwcetError(
            Diagnostic(
                "PW233",
                f"cannot render '{output}': Graphviz's 'dot' is not on the PATH",
                help="install Graphviz, or write the text to a FILE.dot",
            )
        )
    try:
        subprocess.run(
            [dot, f"-T{output.suffix[1:]}", "-o", str(output)],
            input=text,
            encoding="utf-8",
            capture_output=True,
            check=True,
            timeout=_LAYOUT_SECONDS,
        )
    except subprocess.TimeoutExpired:
        reason = f"no layout within {_LAYOUT_SECONDS} s: the graph is too large to look at"
    except subprocess.CalledProcessError as error:
        reason = (error.stderr or "").strip().split("\n")[0] or f"exit code {error.returncode}"
    else:
        return
    raise PtxwcetError(
        Diagnostic(
            "PW233",
            f"Graphviz could not render '{output}': {reason}",
            help=advice,
        )
    )
