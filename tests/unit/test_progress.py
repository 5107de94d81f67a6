"""The progress line: nothing for two seconds, then one line that is wiped at the end."""

import logging
import re
import threading
import time

import click
import command_tree
import numpy as np
import pytest
from executions import execute_first
from places import SAMPLES
from programs import run_program

from ptxwcet.cli import output, progress
from ptxwcet.cli.command import Command
from ptxwcet.cli.progress import ProgressLine
from ptxwcet.emulator.launch import EmulatedLaunch

pytestmark = pytest.mark.fast


@pytest.fixture
def clock(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(progress, "FIRST_SECONDS", 2.0)
    monkeypatch.setattr(progress, "_is_terminal", lambda: True)
    return now


def test_a_log_has_a_line_after_two_seconds_and_then_one_each_ten(clock, capsys, monkeypatch):
    monkeypatch.setattr(progress, "_is_terminal", lambda: False)
    with ProgressLine("checks") as line:
        for done in range(26):
            line.show(done, 40)
            clock[0] += 1
    assert capsys.readouterr().err == (
        "2 of 40 checks after 2 s\n12 of 40 checks after 12 s\n22 of 40 checks after 22 s\n"
    )


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


# --- where nobody says how much is done -----------------------------------------------------------


@pytest.fixture
def early(monkeypatch):
    """What takes 10 ms says so, each 10 ms."""
    monkeypatch.setattr(progress, "FIRST_SECONDS", 0.01)
    monkeypatch.setattr(progress, "_LOG_SECONDS", 0.01)


def until(is_so):
    """Waits for what a thread does."""
    for _ in range(3000):
        if is_so():
            return True
        time.sleep(0.01)
    return False


def test_a_command_says_that_it_is_still_at_work_and_at_what(early, capsys):
    shown = []

    def has_said():
        shown.append(capsys.readouterr().err)
        return "kernel k: under way" in shown[-1]

    with progress.StillAtWork("ptxwcet bound"):
        logging.getLogger("ptxwcet.studies").info("kernel k: under way")
        assert until(has_said)
    assert re.match(r"ptxwcet bound: at work for \d+ s, kernel k: under way\n", shown[-1])
    capsys.readouterr()
    time.sleep(0.05)
    assert capsys.readouterr().err == ""
    assert not logging.getLogger("ptxwcet").handlers


def test_who_says_how_much_is_done_is_not_interrupted(early, capsys, monkeypatch):
    monkeypatch.setattr(progress, "_LOG_SECONDS", 60.0)
    with ProgressLine("runs") as line:
        time.sleep(0.02)
        line.show(1, 2)
        with progress.StillAtWork("ptxwcet pwcet"):
            time.sleep(0.1)
    assert re.fullmatch(r"1 of 2 runs after \d+ s\n", capsys.readouterr().err)


def test_every_command_says_that_it_is_at_work_but_those_with_processes(early):
    """A process with threads must not be forked: those say themselves how far they are."""
    seen = {}

    def look():
        seen[context.command.name] = threading.active_count()

    alone = threading.active_count()
    for words, command in command_tree.all_commands():
        assert isinstance(command, Command)
        assert command.forks == (words == ("check",)), words
    for forks in (False, True):
        own = Command(f"forks {forks}", callback=look, example="ptxwcet", forks=forks)
        context = click.Context(own)
        context.params = {"quiet": False, "verbose": False, "color": "auto"}
        own.invoke(context)
    assert seen == {"forks False": alone + 1, "forks True": alone}


def test_a_long_command_tells_a_log_what_it_does(early):
    file, launch = SAMPLES / "sgemm_naive.ptx", ("--block", "32x32", "--param", "K=64")

    def says_so():  # when the thread of it wakes up is not known
        ended = run_program("bound", file, *launch)
        assert ended.code == 0
        stage = "(kernel sgemm_naive: (under way|answered)|.*: read, 1 kernels)"
        return re.search(rf"^ptxwcet bound: at work for \d+ s, {stage}\n", ended.err, re.MULTILINE)

    assert until(says_so)
    assert run_program("bound", file, *launch, "-q").err == ""


def test_what_is_printed_takes_the_place_of_the_line_on_a_terminal(capsys):
    output.show_status("at work\x1b[2J")
    output.echo("the answer")
    shown = capsys.readouterr()
    width = len(shown.err.split("\r")[1])
    assert "\x1b" not in shown.err
    assert shown.err.endswith("\r" + " " * width + "\r")
    assert shown.out == "the answer\n"
    output.wipe_status()
    assert capsys.readouterr().err == ""
