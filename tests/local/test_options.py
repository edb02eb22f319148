"""A resumed execution runs with the options that it was started with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from compilegate.execution.status import ExecutionStatus
from compilegate.local import ExecutionError, ImageSources, LocalExecutor, Selection
from tests.local.conftest import Workbench

pytestmark = pytest.mark.slow

SEED = "import os; print('seed', os.environ.get('SEED'), os.environ.get('SECRET'))"


def interrupted(bench: Workbench, **options: Any) -> str:
    """An execution whose second step fails until the file `ready` is there."""
    result = bench.run(*steps(bench), **options)
    assert result.status is ExecutionStatus.FAILED
    (bench.home.parent / "ready").touch()
    return result.execution_id


def steps(bench: Workbench) -> list[dict[str, Any]]:
    ready = str(bench.home.parent / "ready")
    wait = f"import sys; sys.exit(0 if os.path.exists({ready!r}) else 1)"
    return [
        bench.processing("first", SEED),
        bench.processing("second", f"{SEED}; {wait}", DependsOn=["first"]),
    ]


def test_what_is_left_out_is_taken_from_the_execution(bench: Workbench) -> None:
    options = {"variables": {"SEED": "7"}, "max_parallel_steps": 1, "cores_per_job": 1}
    identifier = interrupted(bench, **options, use_cache=False, commands={})
    executor = LocalExecutor(home=bench.home)  # not even an image
    result = executor.follow(executor.resume(identifier, {}))
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    said = [result.steps[name].log.read_text() for name in ("first", "second")]  # type: ignore[union-attr]
    assert said == ["seed 7 None\n", "seed 7 None\n"]


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ({"variables": {"SEED": "8"}}, "--env SEED"),
        ({"variables": {"OTHER": "1"}}, "--env OTHER"),
        ({"commands": {"first": "true"}}, "--command first"),
        ({"images": ImageSources(patterns=(("*:1", "here"),))}, "--image *:1"),
        ({"cores_per_job": 2}, "--cores-per-job 2"),
        ({"use_cache": False}, "--no-cache"),
        ({"shared": (Path("elsewhere"),)}, "--share"),
        ({"gpus": ("0",)}, "gpus"),
        ({"selection": Selection(skip=("second",))}, "--skip second"),
        ({"given_models": {"m": {"ModelName": "m"}}}, "--model m"),
    ],
)
def test_another_option_is_refused_by_name(
    bench: Workbench, option: dict[str, Any], named: str
) -> None:
    identifier = interrupted(bench, variables={"SEED": "7"})
    executor = LocalExecutor(home=bench.home, **option)
    for act in (lambda: executor.resume(identifier, {}), lambda: executor.follow(identifier)):
        with pytest.raises(ExecutionError) as refused:
            act()
        (problem,) = refused.value.problems
        assert problem.startswith(named)
        assert identifier in problem


def test_a_variable_of_the_shell_is_not_written_down_and_must_be_the_same(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hunter2-and-more")
    identifier = interrupted(bench, variables={"SECRET": "hunter2-and-more"})
    folder = bench.home / "executions" / identifier
    kept = (folder / "options.json").read_text()
    assert "hunter2" not in kept
    executor = LocalExecutor(home=bench.home)
    monkeypatch.setenv("SECRET", "another")
    with pytest.raises(ExecutionError, match="the shell's variable SECRET"):
        executor.resume(identifier, {})
    monkeypatch.setenv("SECRET", "hunter2-and-more")
    result = executor.follow(executor.resume(identifier, {}))
    assert result.status is ExecutionStatus.SUCCEEDED
    (folder / "options.json").write_text(json.dumps([1]))
    with pytest.raises(ExecutionError, match=r"options\.json cannot be read"):
        executor.resume(identifier, {})


def test_a_project_that_was_moved_goes_on_with_its_images_there(bench: Workbench) -> None:
    before, after = bench.home.parent / "before", bench.home.parent / "after"
    before.mkdir()
    sources = [ImageSources(root=folder, patterns=(("*", "here"),)) for folder in (before, after)]
    identifier = interrupted(bench, images=sources[0])
    with pytest.raises(ExecutionError, match="the folder of images"):
        LocalExecutor(home=bench.home, images=sources[1]).resume(identifier, {})
    before.rename(after)
    executor = LocalExecutor(home=bench.home, images=sources[1])
    assert executor.follow(executor.resume(identifier, {})).status is ExecutionStatus.SUCCEEDED
