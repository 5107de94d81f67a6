"""Ctrl-C stops compiled simulations, from Python and from the command line."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from loopback import PATIENCE
from places import ROOT

import ptxwcet
from ptxwcet.simulator import engine

pytest.importorskip("numba")

CALL = """
import ptxwcet
launch = dict(block=(32, 32), params=dict(M=4096, N=4096, K=K))
for K in (1, 4_000_000):
    launch["params"]["K"] = K
    try:
        if K > 1:
            print("compiled", flush=True)
        ptxwcet.simulate("samples/sgemm_naive.ptx", policy="random", seed=3, jitter=20, **launch)
    except KeyboardInterrupt:
        print("stopped", flush=True)
""".replace("K=K", "K=1")
WORDS = ("--block", "32x32", "--param", "M=4096", "--param", "N=4096", "--param", "K=4000000")


def interrupted(command: Sequence[str], marker: str) -> tuple[int, str]:
    """How a program ends that is interrupted after a line with a marker."""
    process = subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert process.stdout is not None
    said = ""
    for line in process.stdout:
        said += line
        if marker in line:
            break
    process.send_signal(signal.SIGINT)
    try:
        rest, _ = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    return process.returncode, said + rest


def test_a_simulation_in_python_is_stopped() -> None:
    """It went on for hours, in one call of compiled code; or ended the process."""
    code, said = interrupted(["-c", CALL], "compiled")
    assert (code, said.splitlines()[-1]) == (0, "stopped")


def test_a_simulation_of_the_command_line_is_stopped() -> None:
    ptxwcet.simulate(ROOT / "samples/saxpy.ptx", block=256, grid=1, params={"n": 9})  # compiles
    command = ["-m", "ptxwcet", "simulate", "samples/sgemm_naive.ptx", *WORDS, "--policy", "random"]
    code, said = interrupted([*command, "--jitter", "20"], "at work")
    assert code == 130, said


@pytest.mark.parametrize("policy", ["gto", "random"])
@pytest.mark.parametrize("machine", ["orin-ecrts2025", "titan-v"])
def test_a_run_in_pieces_is_the_run(
    policy: str, machine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece ends with all that the next needs, on machines with servers, too."""
    given: dict[str, Any] = {"policy": policy, "jitter": 20, "machine": machine}
    given |= {"block": (32, 8), "params": {"M": 64, "N": 64, "K": 64}, "seed": 3}
    source, calls, whole = ROOT / "samples/sgemm_naive.ptx", [], engine.run
    at_once = ptxwcet.simulate(source, **given)

    def run(*arguments: Any) -> Any:
        calls.append(arguments)
        return whole(*arguments)

    monkeypatch.setattr(engine, "run", run)
    monkeypatch.setattr(engine, "PIECE", 7)
    in_pieces = ptxwcet.simulate(source, **given)
    assert in_pieces == at_once
    assert in_pieces.simulation.run == at_once.simulation.run
    assert len(calls) > 100
