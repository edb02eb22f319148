"""What a person sees on a terminal, and what a log gets: the command on a pseudo-terminal."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.screen import on_terminal
from tests.command import compilegate
from tests.local.conftest import Workbench

pytestmark = pytest.mark.slow

HERE = ["--image", "*=here", "--home", "home"]
COMPILES = """
    import os
    print("compilegate: the first step compiles", flush=True)
    open(os.path.join({folder!r}, "go")).read()
    print("compilegate: the first step has ended", flush=True)
    print("step=3/4 loss=0.1", flush=True)
    open(os.path.join({folder!r}, "on")).read()
"""


@pytest.fixture
def bench(tmp_path: Path) -> Workbench:
    return Workbench(tmp_path / "home")


def write(bench: Workbench, *steps: dict[str, Any]) -> Path:
    """Write a definition beside the home; returns the folder to run it in."""
    folder = bench.home.parent
    (folder / "small.json").write_text(bench.definition(*steps))
    return folder


def waiting(bench: Workbench) -> Path:
    """Prepare, then a job that waits twice until a pipe is written to, then Gate."""
    folder = bench.home.parent
    for pipe in ("go", "on"):
        os.mkfifo(folder / pipe)
    return write(
        bench,
        bench.processing("Prepare"),
        bench.training(
            "Train-compiled-1", COMPILES.format(folder=str(folder)), DependsOn=["Prepare"]
        ),
        bench.processing("Gate", DependsOn=["Train-compiled-1"]),
    )


def let(pipe: Path) -> None:
    """Let the job that reads this pipe go on."""
    pipe.write_text("go")


def shows(name: str, *words: str) -> Any:
    """Whether the row of a step has these words."""

    def seen(lines: list[str]) -> bool:
        rows = [line for line in lines if line.startswith(name)]
        return bool(rows) and all(word in rows[-1] for word in words)

    return seen


@pytest.mark.parametrize(("columns", "bar"), [(100, True), (50, False), (36, False)])
def test_a_table_shows_each_job_as_it_goes(bench: Workbench, columns: int, bar: bool) -> None:
    folder = waiting(bench)
    with on_terminal("pipeline", "run", "small.json", *HERE, cwd=folder, columns=columns) as at:
        lines = at.wait_for(shows("Trai", "running", "compiling, 0:"))
        assert shows("Prepare", "done")(lines)
        assert shows("Gate", "waiting")(lines)
        assert lines[-1].startswith("1 of 3 done")
        assert all(len(line) <= columns for line in lines)
        let(folder / "go")
        lines = at.wait_for(shows("Trai", "75%"))
        assert any("━" in line for line in lines) == bar
        let(folder / "on")
        assert at.end() == 0
        lines = at.lines
    table = [line for line in lines if re.match(r"Prep|Trai|Gate", line)]
    assert [line.split()[1] for line in table] == ["done", "done", "done"]
    assert "3 of 3 done, succeeded" in lines
    assert lines[0].startswith("checking small.json")


def test_a_low_terminal_shows_what_runs_and_how_much_more_there_is(bench: Workbench) -> None:
    folder = waiting(bench)
    with on_terminal("pipeline", "run", "small.json", *HERE, cwd=folder, rows=6) as at:
        lines = at.wait_for(shows("Trai", "running", "compiling"))
        assert "and 2 more" in lines
        let(folder / "go")
        let(folder / "on")
        assert at.end() == 0
        whole = [line for line in at.history if re.match(r"Prep|Trai|Gate", line)]
    assert [line.split()[:2] for line in whole[-3:]] == [
        ["Prepare", "done"],
        ["Train-compiled-1", "done"],
        ["Gate", "done"],
    ]


def test_ctrl_c_leaves_the_whole_command_that_goes_on(bench: Workbench) -> None:
    folder = waiting(bench)
    with on_terminal("pipeline", "run", "small.json", *HERE, cwd=folder, columns=150) as at:
        at.wait_for(shows("Trai", "running", "compiling"))
        at.interrupt()
        assert at.end() == 130
        assert shows("Trai", "stopped")(at.lines)
        (resume,) = [line for line in at.lines if line.startswith("resume:")]
    words = shlex.split(resume.removeprefix("resume:"))
    assert words[:4] == ["compilegate", "pipeline", "run", "--resume"]
    assert words[5:] == ["--home", "home"]
    (folder / "go").unlink()
    (folder / "go").write_text("")
    (folder / "on").unlink()
    (folder / "on").write_text("")
    done = run(folder, *words[1:])
    assert done.returncode == 0, done.stderr
    assert "Prepare  started" not in done.stdout
    assert "Gate              succeeded" in done.stdout


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command without a terminal."""
    return compilegate(*arguments, cwd=folder)


def test_a_log_gets_a_line_for_each_start_and_end_and_no_control_sequence(
    bench: Workbench,
) -> None:
    folder = write(bench, bench.processing("Prepare"), bench.processing("Gate"))
    done = run(folder, "pipeline", "run", "small.json", *HERE)
    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert re.search(r"^ +0:\d\d  Prepare  succeeded in ", done.stdout, re.MULTILINE)
    assert "checking" not in done.stdout


@pytest.mark.parametrize("name", ["dumb", ""])
def test_a_terminal_that_cannot_move_its_cursor_gets_lines(bench: Workbench, name: str) -> None:
    folder = write(bench, bench.processing("Prepare"))
    with on_terminal(
        "pipeline", "run", "small.json", *HERE, cwd=folder, given={"TERM": name}
    ) as at:
        assert at.end() == 0
        assert any(re.match(r" +0:\d\d  Prepare  succeeded", line) for line in at.lines)
        assert b"\x1b[?25l" not in at.written


def test_a_step_that_fails_stands_in_the_table_and_can_be_resumed(bench: Workbench) -> None:
    folder = write(bench, bench.training("Train-a-1", "raise SystemExit('no such column: price')"))
    with on_terminal("pipeline", "run", "small.json", *HERE, cwd=folder, columns=150) as at:
        assert at.end() == 3
        assert shows("Train-a-1", "failed", "exit code 1")(at.lines[:5])
        assert any("no such column: price" in line for line in at.lines)
        assert at.lines[-1].startswith("resume:  compilegate pipeline run --resume ")


def test_the_report_is_opened_in_the_browser_that_the_environment_names(bench: Workbench) -> None:
    folder = write(bench, bench.processing("Prepare"))
    browser = folder / "browser"
    browser.write_text(f"#!/bin/sh\nprintf %s \"$1\" > '{folder}/opened'\n")
    browser.chmod(0o755)
    given = {"BROWSER": f"{browser} %s"}
    arguments = ["pipeline", "run", "small.json", "--open", *HERE]
    with on_terminal(*arguments, cwd=folder, given=given, columns=150) as at:
        assert at.end() == 0
        page = at.lines[-1].removeprefix("report:").strip()
    assert (folder / "opened").read_text() == Path(page).resolve().as_uri()
