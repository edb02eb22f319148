"""Programs with one planted bottleneck each: the profile names that one."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from compilegate.diagnose.profile import Analysis, analysis_of, read_profile, text_of
from compilegate.job.contract import PROFILE_FOLDER, TRACE_FILE

PLANTED = Path(__file__).parent / "planted.py"
STEPS = 30
BOTTLENECKS = {
    "slow_loader": "data",
    "slow_generator": "between steps",
    "one_matmul": "matrix",
    "many_small": "launches",
    "moves_memory": "elementwise",
    "sync_each_step": "synchronisation",
    "growing_shapes": "shapes",
    "host_bound_update": "update",
    "breaks": "breaks",
    "with_a_job": "data",
    "exchanges_gradients": "communication",
    "exchanges_in_a_job": "communication",
}
Profiled = Callable[[str], Analysis]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All programs, profiled one after the other."""
    where = tmp_path_factory.mktemp("profiles")
    call = [sys.executable, str(PLANTED), str(where), str(STEPS), *BOTTLENECKS]
    root = PLANTED.parents[2]
    ended = subprocess.run(
        call, env={"PYTHONPATH": str(root), "PATH": ""}, capture_output=True, check=False, text=True
    )
    assert ended.returncode == 0, ended.stderr
    return where


@pytest.fixture(scope="module")
def profiled(folder: Path) -> Profiled:
    return lambda program: analysis_of(read_profile(folder / program))


@pytest.mark.long
@pytest.mark.parametrize("program", list(BOTTLENECKS))
def test_the_bottleneck_is_the_planted_one(program: str, profiled: Profiled) -> None:
    found = profiled(program)
    assert found.bottleneck.kind == BOTTLENECKS[program], text_of(found)


@pytest.mark.parametrize(
    ("program", "speedup"),
    [("slow_loader", (1, 1.2)), ("slow_generator", (1, 1.2)), ("many_small", (1.5, 100))],
)
def test_ceilings_are_as_high_as_what_a_compiler_has_to_take_on(
    program: str, speedup: tuple[float, float], profiled: Profiled
) -> None:
    for each in profiled(program).ceilings:
        assert speedup[0] <= each.speedup <= speedup[1]


def test_a_compiler_that_leaves_the_update_alone_gains_nothing_there(profiled: Profiled) -> None:
    model_alone, with_update, *_ = profiled("host_bound_update").ceilings
    assert model_alone.speedup_high < with_update.speedup / 2


def test_lines_that_ask_and_places_that_break_are_named(profiled: Profiled) -> None:
    lines = PLANTED.with_name("programs.py").read_text(encoding="utf-8").splitlines()
    marked = [f"programs.py:{at}" for at, line in enumerate(lines, 1) if line.endswith("# asks")]
    broken = {str(at) for at, line in enumerate(lines, 1) if line.endswith("# breaks")}
    where = profiled("sync_each_step").bottleneck.where
    assert any(each.endswith(marked[0]) for each in where), where
    graphs = profiled("breaks").profile.graphs
    assert graphs is not None
    assert {each.where.rpartition(":")[2] for each in graphs.breaks} == broken
    assert all("print" in each.reason for each in graphs.breaks)


def test_shapes_that_grow_are_counted(profiled: Profiled) -> None:
    found = profiled("growing_shapes")
    assert len(set(found.profile.shapes)) == found.profile.profiled_steps
    assert all("shapes" in (each.caveat or "") for each in found.ceilings)
    assert set(profiled("one_matmul").profile.shapes) == {0}


def test_several_processes_are_counted(profiled: Profiled) -> None:
    assert profiled("exchanges_gradients").profile.processes == 2


def test_the_trace_opens_and_marks_the_wait_for_data(folder: Path) -> None:
    with gzip.open(folder / "slow_loader" / PROFILE_FOLDER / TRACE_FILE, "rt") as file:
        events = json.load(file)["traceEvents"]
    assert "compilegate: wait for data" in {each.get("name") for each in events}
