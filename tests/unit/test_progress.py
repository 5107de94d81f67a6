"""The progress line: nothing for two seconds, then one line that is wiped at the end."""

import numpy as np
import pytest
from executions import execute_first

from ptxwcet.cli import progress
from ptxwcet.cli.progress import ProgressLine
from ptxwcet.emulator.launch import EmulatedLaunch


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "_is_terminal", lambda: True)
    return now


def test_a_log_shows_nothing(clock, capsys, monkeypatch):
    monkeypatch.setattr(progress, "_is_terminal", lambda: False)
    with ProgressLine() as line:
        clock[0] += 60
        line.show(15, 30, 1_234_567)
    assert capsys.readouterr().err == ""


def test_a_log_shows_a_line_now_and_then_where_that_is_asked_for(clock, capsys, monkeypatch):
    monkeypatch.setattr(progress, "_is_terminal", lambda: False)
    with ProgressLine("checks", log_seconds=10) as line:
        for done in range(26):
            line.show(done, 40)
            clock[0] += 1
    assert capsys.readouterr().err == "10 of 40 checks after 10 s\n20 of 40 checks after 20 s\n"


def test_short_runs_show_nothing(clock, capsys):
    with ProgressLine() as line:
        clock[0] += 1.9
        line.show(1, 2, 10)
    assert capsys.readouterr().err == ""


def test_long_runs_show_blocks_and_instructions_and_leave_nothing(clock, capsys):
    with ProgressLine() as line:
        clock[0] += 2.1
        line.show(15, 30, 1_234_567)
        clock[0] += 0.1
        line.show(16, 30, 2_000_000)  # too soon after the last one
        shown = capsys.readouterr().err
    assert shown == "\r[" + "#" * 15 + "." * 15 + "] 15 of 30 blocks, 1,234,567 warp-instructions"
    assert capsys.readouterr().err == "\r" + " " * (len(shown) - 1) + "\r"


KERNEL = """.version 9.0
.target sm_90
.address_size 64
.entry slow(.param .u32 n)
{
  .reg .b32 %r<3>; .reg .pred %p;
  ld.param.u32 %r1, [n];
L: add.u32 %r2, %r2, 1;
  setp.lt.u32 %p, %r2, %r1;
  @%p bra L;
  ret;
}
"""


def test_a_long_block_reports_while_it_runs():
    seen = []
    launch = EmulatedLaunch((32, 1, 1), (2, 1, 1), (3000,))
    done = execute_first(KERNEL, launch, progress=lambda *numbers: seen.append(numbers))
    assert len(seen) > 4
    assert [row[:2] for row in seen if row[2] == done.warp_instructions] == [(2, 2)]
    assert np.all(np.diff([row[2] for row in seen]) > 0)
