"""Machine code that is kept: only in a folder that is the user's own; made again if damaged."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.fast

pytest.importorskip("numba")

MODULE = """
import os
OWNER
from ptxwcet.support.jit import compiled

@compiled
def double(x):
    return 2 * x

print(double(3), double.__name__)
"""


class Planted:
    """What touches a file when it is read."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch '{self._path}'",)


def run(folder: Path, owner: str = "") -> str:
    """Calls the function in a new process, whose code is kept below the folder."""
    module = folder / "kept_code.py"
    if not module.exists():
        module.write_text(MODULE.replace("OWNER", "exec(os.environ.get('OWNER', ''))"))
    variables = {"PTXWCET_CACHE_DIR": str(folder / "cache"), "OWNER": owner}
    variables["PYTHONDONTWRITEBYTECODE"] = "1"  # files change within a second
    environment = {**os.environ, **variables}
    environment.pop("NUMBA_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", "import kept_code"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kept_code(tmp_path: Path) -> None:
    assert run(tmp_path) == "6 double\n"
    folder = tmp_path / "cache" / "compiled"
    kept = [*folder.rglob("*.nbi"), *folder.rglob("*.nbc")]
    assert len(kept) == 2
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    whole = [one.read_bytes() for one in kept]
    for path, damage in zip(kept, (b"garbage", whole[1][: len(whole[1]) // 2]), strict=True):
        path.write_bytes(damage)
        assert run(tmp_path) == "6 double\n"
    assert kept[0].read_bytes() == whole[0], "it was made again"

    for path in kept:
        path.write_bytes(pickle.dumps(Planted(tmp_path / "pwned")))
    another = (
        "from pathlib import Path; lstat = Path.lstat\n"
        "def of_another(path):\n"
        "    return os.stat_result([*lstat(path)[:4], 12345, *lstat(path)[5:]])\n"
        "Path.lstat = of_another"
    )
    assert run(tmp_path, another) == "6 double\n"
    assert not (tmp_path / "pwned").exists()
    run(tmp_path)
    assert (tmp_path / "pwned").exists(), "else this shows nothing"


def test_a_link_or_an_open_folder(tmp_path: Path) -> None:
    from ptxwcet.support.first_use import is_private

    assert is_private(tmp_path / "new")
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    (tmp_path / "new" / "link").symlink_to(tmp_path)
    assert not is_private(tmp_path / "new")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    assert not is_private(tmp_path / "open")


def test_a_change_in_any_file_of_the_group(tmp_path: Path) -> None:
    (tmp_path / "factors.py").write_text("FACTOR = 2\n")
    (tmp_path / "shared.py").write_text(
        "from factors import FACTOR\n"
        "from ptxwcet.support.jit import compiled, one_of, unsigned\n"
        "@compiled\ndef scaled(x):\n    return FACTOR * x\n"
        "@compiled\ndef negated(x):\n    return -x\n"
        "chosen = one_of((scaled, negated))\n"
        "@compiled\ndef halved(x):\n    return int(unsigned(x) >> unsigned(1))\n"
    )
    (tmp_path / "kept_code.py").write_text(
        "from shared import chosen, halved, scaled, compiled\n"
        "@compiled\ndef entry(x):\n    return scaled(x) + 1000 * chosen(1, x) + halved(-2)\n"
        "print(entry(3))\n"
        "try:\n    chosen(2, 3)\nexcept ValueError:\n    print('loud')\n"
    )
    half = (1 << 63) - 1
    assert run(tmp_path) == f"{half - 2994}\nloud\n"
    (entry,) = (tmp_path / "cache").rglob("kept_code.entry*.nbi")
    first = entry.stat().st_mtime_ns
    assert run(tmp_path) == f"{half - 2994}\nloud\n"
    assert entry.stat().st_mtime_ns == first, "it was kept"

    (tmp_path / "factors.py").write_text("FACTOR = 5\n")
    assert run(tmp_path) == f"{half - 2985}\nloud\n", "a number of a file without compiled code"
    shared = (tmp_path / "shared.py").read_text()
    (tmp_path / "shared.py").write_text(shared.replace("FACTOR * x", "FACTOR + x"))
    assert run(tmp_path) == f"{half - 2992}\nloud\n", "a compiled function of another file"
