"""A home that may not be written to, is full, or has grown: nothing that is finished gets lost."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from compilegate.execution.events import StepOutput
from compilegate.execution.status import ExecutionStatus
from compilegate.local import ExecutionError, list_executions, prune, set_approval
from tests.local.conftest import PIPELINE, Workbench

pytestmark = pytest.mark.slow

PROJECT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-c", "from compilegate.cli import main; main()"]
CACHED = {"Enabled": True, "ExpireAfter": "P30D"}
BIG = "import os; open('/opt/ml/model/weights', 'wb').write(os.urandom(3 << 20))"
MODEL = {"Get": "Steps.train.ModelArtifacts.S3ModelArtifacts"}
MEGABYTE = 1 << 20


def as_a_user() -> None:
    """In a new process: root may write where permissions say no, other users may not."""
    drop_from_bounding_set, override, read_search = 24, 1, 2
    if os.geteuid() == 0:
        for capability in (override, read_search):
            ctypes.CDLL(None).prctl(drop_from_bounding_set, capability, 0, 0, 0)


def started(bench: Workbench, *steps: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    """`compilegate run` in a process that permissions hold for."""
    definition = bench.home.parent / "d.json"
    definition.write_text(bench.definition(*steps))
    command = [*COMMAND, "pipeline", "run", str(definition), "--image", "*=here"]
    return subprocess.run(
        [*command, "--home", str(bench.home)],
        capture_output=True,
        text=True,
        check=False,
        cwd=bench.home.parent,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        preexec_fn=as_a_user,
    )


@pytest.mark.parametrize("name", ["", "cache", "registry", "registry/g", "s3", "executions"])
def test_without_permission_nothing_starts_and_the_folder_is_named(
    bench: Workbench, name: str
) -> None:
    folder = bench.home / name
    folder.mkdir(parents=True)
    folder.chmod(0o555)
    done = started(bench, bench.processing("one"))
    assert done.returncode == 2, done.stderr
    assert f"error: {folder.resolve()} cannot be written to" in done.stderr
    assert "Traceback" not in done.stderr
    assert list_executions(bench.home) == []


def test_a_home_that_may_not_be_read_is_not_called_empty(bench: Workbench) -> None:
    (bench.home / "executions").mkdir(parents=True)
    (bench.home / "executions").chmod(0)
    listed = subprocess.run(
        [*COMMAND, "executions", "--home", str(bench.home)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        preexec_fn=as_a_user,
    )
    assert listed.returncode == 2
    assert str(bench.home / "executions") in listed.stderr


def test_a_training_whose_result_cannot_be_cached_is_not_lost(bench: Workbench) -> None:
    folder = bench.home / "cache" / PIPELINE
    folder.mkdir(parents=True)
    (folder / "train").write_text("a file where a folder must be")
    result = bench.run(bench.training("train", CacheConfig=CACHED))
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    told = [event.line for event in bench.events if isinstance(event, StepOutput)]
    assert any("step cache" in line and str(folder / "train") in line for line in told)
    assert list_executions(bench.home) == [result]


@pytest.mark.parametrize(
    "changed",
    [
        None,
        [],
        "text",
        {"outputs": []},
        {"outputs": {"no-uri": []}},
        {"outputs": {"s3://bucket/x": 1}},
        {"properties": "text"},
        {"job_name": 1},
        {"finished": "yesterday"},
        {"finished": None},
    ],
)
def test_a_cache_entry_of_another_shape_is_none(bench: Workbench, changed: Any) -> None:
    step = bench.processing("one", CacheConfig=CACHED)
    first = bench.run(step)
    (path,) = (bench.home / "cache").rglob("*.json")
    whole = json.loads(path.read_bytes())
    path.write_text(json.dumps(whole | changed if isinstance(changed, dict) else changed))
    again = bench.run(step)
    assert again.status is ExecutionStatus.SUCCEEDED
    assert again.steps["one"].cached_from is None
    assert bench.run(step).steps["one"].cached_from == again.execution_id != first.execution_id


FULL = """
mount -t tmpfs -o size=8m tmpfs home || exit 77
"$@"
echo "status $?"
: > home/s3/bucket/fill/out/full
words=$(sed -n 's/.*continue with compilegate //p' errors)
"$1" "$2" "$3" $words
"""


def test_on_a_full_disk_the_path_the_space_and_the_line_to_go_on_are_told(
    bench: Workbench,
) -> None:
    """A job fills the disk and ends well; then its model cannot be registered."""
    unshare = ["unshare", "--user", "--map-root-user", "--mount"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*unshare, "true"], check=False).returncode
    ):
        pytest.skip("mounts of one's own are not allowed here")
    folder = bench.home.parent
    bench.home.mkdir()
    fill = """
        try:
            with open("/opt/ml/processing/out/full", "wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
        except OSError:
            pass
    """
    register = bench.register("keep", "g", "s3://bucket/fill/out/full", DependsOn=["fill"])
    register["Arguments"]["ModelPackageDescription"] = "x" * 2_000_000
    definition = folder / "d.json"
    definition.write_text(
        bench.definition(bench.processing("fill", fill, outputs=["out"]), register)
    )
    command = [*COMMAND, "pipeline", "run", str(definition), "--image", "*=here"]
    done = subprocess.run(
        [*unshare, "sh", "-c", f"{{ {FULL}\n}} 2> errors", "sh", *command, "--home", "home"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(PROJECT),
            "COMPILEGATE_OWN_ROOT": "0",
        },
    )
    if done.returncode == 77:
        pytest.skip("a tmpfs cannot be mounted here")
    told = (folder / "errors").read_text()
    assert "status 3" in done.stdout, told
    assert f"{bench.home}/registry/g/1.json" in told
    assert re.search(r"2,0\d\d,\d\d\d bytes needed", told)
    assert done.returncode == 0, done.stdout + told
    assert done.stdout.count("fill  started") == 1
    assert "Traceback" not in told


def size_of(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def test_what_jobs_unpacked_goes_when_the_execution_ends(bench: Workbench) -> None:
    read = "import shutil; shutil.unpack_archive('/opt/ml/processing/in/model.tar.gz', '/opt/ml/x')"
    policy = {"ExceptionType": ["SageMaker.JOB_INTERNAL_ERROR"], "IntervalSeconds": 1}
    flag = bench.home.parent / "flag"
    crash = f"""
        import os, pathlib, signal
        open('/opt/ml/model/weights', 'wb').write(os.urandom(3 << 20))
        first = not pathlib.Path({str(flag)!r}).exists()
        pathlib.Path({str(flag)!r}).touch()
        first and os.kill(os.getpid(), signal.SIGKILL)
    """
    result = bench.run(
        bench.training("train", crash, RetryPolicies=[policy | {"MaxAttempts": 2}]),
        bench.processing("read", f"{read}; print('read')", inputs={"in": MODEL}),
        bench.processing("bad", f"{read}; raise SystemExit(1)", inputs={"in": MODEL}),
    )
    assert result.steps["train"].attempts == 2
    assert result.steps["bad"].failure is not None
    assert len(list(result.folder.glob("jobs/*/log.txt"))) == 4
    assert size_of(result.folder) < MEGABYTE
    assert bench.store.path(result.steps["train"].properties["ModelArtifacts"]["S3ModelArtifacts"])
    assert (result.steps["read"].log or Path()).read_text() == "read\n"
    assert size_of(bench.store.root) > 3 * MEGABYTE


def test_pruning_leaves_what_is_registered_cached_or_used(bench: Workbench) -> None:
    def models() -> list[str]:
        return sorted(path.parts[-3] for path in bench.store.root.rglob("model.tar.gz"))

    plain = bench.run(bench.training("train", BIG))
    cached = bench.run(bench.training("train", BIG, CacheConfig=CACHED))
    registered = bench.run(
        bench.training("train", f"{BIG}; print(1)"), bench.register("keep", "g", MODEL)
    )
    small = bench.run(bench.processing("one"))
    user = bench.run(bench.training("train", BIG, CacheConfig=CACHED))
    assert user.steps["train"].cached_from == cached.execution_id
    jobs = {it.execution_id: it.steps["train"].job_name for it in (plain, cached, registered)}

    with pytest.raises(ExecutionError):
        prune(bench.home)
    assert prune(bench.home, older_than=3600) == []
    large = prune(bench.home, larger_than=MEGABYTE, dry_run=True)
    assert [it.result.execution_id for it in large] == [*reversed(jobs)]
    assert [it.size > 3 * MEGABYTE for it in large] == [False, False, True]
    assert len(list_executions(bench.home)) == 5

    assert prune(bench.home, older_than=0, larger_than=MEGABYTE) == large
    left = [it.execution_id for it in list_executions(bench.home)]
    assert left == [user.execution_id, small.execution_id]
    assert models() == sorted(
        filter(None, (jobs[cached.execution_id], jobs[registered.execution_id]))
    )
    set_approval(bench.home, "g/1", "Approved")
    again = bench.run(bench.training("train", BIG, CacheConfig=CACHED))
    assert again.steps["train"].cached_from == cached.execution_id

    everything = prune(bench.home, older_than=0)
    assert len(everything) == 3
    assert list_executions(bench.home) == []
    assert len(models()) == 2
