"""Programs with one planted bottleneck each: the profile names that one."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from compilegate.job.names import PROFILE_FOLDER, TRACE_FILE
from compilegate.profile import Analysis, analysis_of, read_profile, text_of

PLANTED = Path(__file__).parent / "planted.py"
STEPS = 30
BOTTLENECKS = {
    "slow_loader": "data",
    "slow_generator": "data",
    "one_matmul": "matrix",
    "many_small": "launches",
    "moves_memory": "elementwise",
    "sync_each_step": "synchronisation",
    "growing_shapes": "shapes",
    "host_bound_update": "update",
    "writes_each_step": "between steps",
    "sleeps": "idle",
    "breaks": "breaks",
    "exchanges_gradients": "communication",
    "exchanges_in_a_job": "communication",
}
Profiled = Callable[[str], Analysis]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All programs, profiled one after the other."""
    where = tmp_path_factory.mktemp("profiles")
    call = [sys.executable, str(PLANTED), str(where), str(STEPS), *BOTTLENECKS, "with_a_job"]
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


@pytest.mark.parametrize("program", list(BOTTLENECKS))
def test_the_parts_add_up_to_the_step(program: str, profiled: Profiled) -> None:
    parts = profiled(program).parts
    whole = [
        parts.loader,
        parts.copies,
        *parts.computing.values(),
        parts.communication,
        parts.between,
        parts.idle,
    ]
    assert sum(each.seconds for each in whole) == pytest.approx(parts.step.seconds)
    for phase, each in parts.computing.items():
        inside = sum(seconds for (of, _), seconds in parts.inside.items() if of == phase)
        assert inside == pytest.approx(each.seconds), phase


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("slow_loader", "slow_loader.py:14"),
        ("slow_generator", "slow_generator.py:10"),
        ("sleeps", "sleeps.py:12"),
        ("sync_each_step", "sync_each_step.py:14"),
        ("writes_each_step", "writes_each_step.py:17"),
        ("breaks", "breaks.py:14"),
    ],
)
def test_the_line_is_named(program: str, line: str, profiled: Profiled) -> None:
    assert any(each.endswith(line) for each in profiled(program).bottleneck.where)


@pytest.mark.parametrize("program", ["slow_loader", "sleeps", "one_matmul"])
def test_no_ceiling_is_high_where_a_compiler_has_nothing_to_take_on(
    program: str, profiled: Profiled
) -> None:
    assert all(each.speedup < 1.2 for each in profiled(program).ceilings)


@pytest.mark.parametrize("program", ["many_small", "moves_memory"])
def test_ceilings_are_high_where_it_has(program: str, profiled: Profiled) -> None:
    assert all(each.speedup > 1.5 for each in profiled(program).ceilings)


def test_a_compiler_that_leaves_the_update_alone_gains_nothing_there(profiled: Profiled) -> None:
    model_alone, with_update, *_ = profiled("host_bound_update").ceilings
    assert model_alone.speedup_high < with_update.speedup / 2


@pytest.mark.parametrize("program", ["exchanges_gradients", "exchanges_in_a_job"])
def test_processes_that_exchange_gradients_leave_a_compiler_little(
    program: str, profiled: Profiled
) -> None:
    found = profiled(program)
    assert found.profile.processes == 2
    assert all(each.speedup < 1.5 for each in found.ceilings)
    captured = found.profile.captured
    assert captured is not None
    assert captured.breaks == ()  # what DistributedDataParallel does is around the graphs


def test_every_print_is_a_break(profiled: Profiled) -> None:
    captured = profiled("breaks").profile.captured
    assert captured is not None
    places = {each.where.rpartition(":")[2] for each in captured.breaks}
    assert places == {"14", "16", "18", "20"}
    assert all("print" in each.reason for each in captured.breaks)


def test_shapes_that_grow_are_captured_again_for_their_size(profiled: Profiled) -> None:
    found = profiled("growing_shapes")
    captured = found.profile.captured
    assert captured is not None
    assert captured.recompilations
    assert "size" in captured.recompilations[0].reason
    assert found.shapes.count > 20
    assert any(each.caveat is not None and "shapes" in each.caveat for each in found.ceilings)


def test_a_job_is_profiled_by_its_own_steps_and_masks_say_what_padding_costs(
    profiled: Profiled,
) -> None:
    found = profiled("with_a_job")
    view = found.lengths
    assert view is not None
    assert view.by == "mask"
    assert view.longest == 60
    assert view.padding > 0.5
    buckets = next(each for each in view.ways if each.name == "2 buckets")
    assert buckets.ends == (16, 60)
    assert view.saved_by(buckets) > 0.5
    assert found.shapes.count == 1


def test_memory_is_told_by_phase(profiled: Profiled) -> None:
    memory = profiled("moves_memory").profile.memory
    assert memory is not None
    assert memory.weights == memory.gradients == 3 * 2 * 1024 * 4
    # Each of three layers keeps what it was given for the backward pass, 2 MB each time.
    assert memory.highest_in["forward"] > 3 * 512 * 1024 * 4


def test_the_trace_opens_and_has_the_phases(folder: Path) -> None:
    with gzip.open(folder / "many_small" / PROFILE_FOLDER / TRACE_FILE, "rt") as file:
        events = json.load(file)["traceEvents"]
    phases = {each["name"] for each in events if each.get("cat") == "phase"}
    assert {"forward", "backward", "update"} <= phases
    operators = [each["ts"] for each in events if each.get("name") == "aten::tanh"]
    forward = [each for each in events if each.get("cat") == "phase" and each["name"] == "forward"]
    assert all(
        any(each["ts"] <= at <= each["ts"] + each["dur"] for each in forward) for at in operators
    )
