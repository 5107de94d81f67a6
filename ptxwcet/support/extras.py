"""Names the packages that only some commands need, by the extra of ptxwcet that installs them.

A package is listed by its import name. Nothing is imported for the check.
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
"""The packages of each extra (pyproject.toml)."""


def require_extra(extra: str, what: str) -> None:
    """Raises PtxwcetError (PW235) if a package of an extra is not installed.

    ``what`` needs them: a command, an option. The error states the installation command. Cost: some
    file look-ups.
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
