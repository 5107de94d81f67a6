"""Packages that only some commands need: which extra of ptxwcet brings them.

A package is named here by what it is imported as. Nothing is imported to find out.
"""

from __future__ import annotations

from importlib.util import find_spec

from ptxwcet.support.diagnostics import Diagnostic, PtxwcetError

PACKAGES_OF_EXTRAS = {
    "sim": ("numba",),
    "ilp": ("scipy",),
    "pwcet": ("scipy", "statsmodels", "matplotlib", "jinja2"),
    "report": ("matplotlib", "jinja2", "grandalf"),
    "sweep": ("distributed", "pandas", "pyarrow"),
}
"""What each extra brings (pyproject.toml)."""


def require_extra(extra: str, what: str) -> None:
    """Does nothing if the packages of an extra are installed.

    ``what`` needs them: a command, an option. Raises PtxwcetError (PW235), which says what to
    install. Cost: some file look-ups.
    """
    missing = [name for name in PACKAGES_OF_EXTRAS[extra] if not _is_there(name)]
    if missing:
        raise PtxwcetError(
            Diagnostic(
                "PW235",
                f"{what} needs {' and '.join(missing)}, not installed here: "
                f"pip install 'ptxwcet[{extra}]'",
            )
        )


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ImportError, ValueError):  # a finder that refuses it; a module without a spec
        return False
