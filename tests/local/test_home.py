"""What stays in a home: results for the step cache, registered models; and a home in need."""

from __future__ import annotations

import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from compilegate.document.model import CachePolicy
from compilegate.document.step_types import STEP_TYPES
from compilegate.execution.events import StepOutput
from compilegate.execution.result import ExecutionResult
from compilegate.local import (
    ExecutionError,
    ObjectStore,
    RegistryError,
    describe_package,
    list_executions,
    list_groups,
    list_packages,
    prune,
    set_approval,
)
from compilegate.local.cache import CachedResult, CacheSlot, cache_slot
from compilegate.local.home.registry import (
    ModelPackage,
    create_package,
    read_package_request,
)
from tests.local.conftest import (
    CACHED,
    COMMAND,
    MODEL,
    PIPELINE,
    PROJECT,
    Json,
    Workbench,
    changed,
    failure_of,
    log_of,
)

pytestmark = pytest.mark.slow

BIG = "import os; open('/opt/ml/model/weights', 'wb').write(os.urandom(3 << 20))"
MEGABYTE = 1 << 20
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PROJECT)}


def as_a_user() -> None:
    """In a new process: root may write where permissions say no, other users may not."""
    drop_from_bounding_set, override, read_search = 24, 1, 2
    if os.geteuid() == 0:
        for capability in (override, read_search):
            ctypes.CDLL(None).prctl(drop_from_bounding_set, capability, 0, 0, 0)


def refusal(bench: Workbench, *command: str) -> str:
    """What `compilegate` says, with status 2, in a process that permissions hold for."""
    done = subprocess.run(
        [*COMMAND, *command, "--home", str(bench.home)],
        capture_output=True,
        text=True,
        check=False,
        cwd=bench.folder,
        env=ENVIRONMENT,
        preexec_fn=as_a_user,
    )
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr


def test_without_permission_nothing_starts_and_the_folders_are_named(bench: Workbench) -> None:
    run = ("pipeline", "run", str(bench.written(bench.processing("one"))), "--image", "*=here")
    folders = [
        bench.home / name for name in ("cache", "registry", "registry/g", "s3", "executions")
    ]
    for folder in folders:
        folder.mkdir(parents=True)
    for folder in folders:
        folder.chmod(0o555)
    message = refusal(bench, *run)
    for folder in folders:
        assert f"{folder.resolve()} cannot be written to" in message
    assert list_executions(bench.home) == []
    bench.home.chmod(0o555)
    assert f"error: {bench.home.resolve()} cannot be written to" in refusal(bench, *run)
    (bench.home / "executions").chmod(0)
    assert str(bench.home / "executions") in refusal(bench, "executions")  # and not "none"


def test_a_training_whose_result_cannot_be_cached_is_not_lost(bench: Workbench) -> None:
    folder = bench.home / "cache" / PIPELINE
    folder.mkdir(parents=True)
    (folder / "train").write_text("a file where a folder must be")
    result = bench.succeed(bench.training("train", CacheConfig=CACHED))
    lines = [event.line for event in bench.events if isinstance(event, StepOutput)]
    assert any("step cache" in line and str(folder / "train") in line for line in lines)
    assert list_executions(bench.home) == [result]


FULL = """
mount -t tmpfs -o size=8m tmpfs home || exit 77
"$@"
echo "status $?"
: > home/s3/bucket/fill/out/full
words=$(sed -n 's/.*continue with compilegate //p' errors)
"$1" "$2" "$3" $words
"""


@pytest.fixture
def unshare() -> list[str]:
    """What starts a program that may mount."""
    command = ["unshare", "--user", "--map-root-user", "--mount"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*command, "true"], check=False).returncode
    ):
        pytest.skip("mounts of one's own are not allowed here")
    return command


def test_on_a_full_disk_the_path_the_space_and_the_line_to_go_on_are_told(
    bench: Workbench, unshare: list[str]
) -> None:
    """A job fills the disk and ends well; then its model cannot be registered."""
    folder = bench.folder
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
    definition = bench.written(bench.processing("fill", fill, outputs=["out"]), register)
    command = [*COMMAND, "pipeline", "run", str(definition), "--image", "*=here"]
    done = subprocess.run(
        [*unshare, "sh", "-c", f"{{ {FULL}\n}} 2> errors", "sh", *command, "--home", "home"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
        env=ENVIRONMENT | {"COMPILEGATE_OWN_ROOT": "0"},
    )
    if done.returncode == 77:
        pytest.skip("a tmpfs cannot be mounted here")
    errors = (folder / "errors").read_text()
    assert "status 3" in done.stdout, errors
    assert f"{bench.home}/registry/g/1.json" in errors
    assert re.search(r"2,0\d\d,\d\d\d bytes needed", errors)
    assert done.returncode == 0, done.stdout + errors
    assert done.stdout.count("fill  started") == 1
    assert "Traceback" not in errors


def test_what_jobs_unpacked_goes_when_the_execution_ends(bench: Workbench) -> None:
    read = "import shutil; shutil.unpack_archive('/opt/ml/processing/in/model.tar.gz', '/opt/ml/x')"
    result = bench.run(
        bench.training("train", BIG),
        bench.processing("read", f"{read}; print('read')", inputs={"in": MODEL}),
        bench.processing("bad", f"{read}; raise SystemExit(1)", inputs={"in": MODEL}),
    )
    assert result.steps["bad"].failure is not None
    assert len(list(result.folder.glob("jobs/*/log.txt"))) == 3
    files = [path for path in result.folder.rglob("*") if path.is_file()]
    assert sum(path.lstat().st_size for path in files) < MEGABYTE
    assert log_of(result, "read") == "read\n"


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


def prepare(bench: Workbench, config: Any = CACHED) -> Json:
    write = "open('/opt/ml/processing/out/x', 'w').write('x')"
    return bench.processing("prepare", write, outputs=["out"], CacheConfig=config)


def cached(result: ExecutionResult) -> set[str]:
    return {name for name, step in result.steps.items() if step.cached}


def test_a_result_is_used_again_until_its_arguments_or_its_outputs_change(bench: Workbench) -> None:
    """A failed one is never used."""
    uri = {"Get": "Steps.prepare.ProcessingOutputConfig.Outputs['out'].S3Output.S3Uri"}

    def run(rate: str = "0.1") -> ExecutionResult:
        own = {"hyperparameters": {"rate": rate}, "channels": {"train": uri}}
        train = bench.training("train", CacheConfig=CACHED, **own)
        bad = bench.processing("bad", "raise SystemExit(1)", CacheConfig=CACHED)
        return bench.run_each(prepare(bench), train, bad)

    first, second = run(), run()
    assert cached(first) == set()
    assert cached(second) == {"prepare", "train"}
    for name in ("prepare", "train"):
        assert second.steps[name].job_name == first.steps[name].job_name
        assert second.steps[name].properties == first.steps[name].properties
    assert cached(run(rate="0.2")) == {"prepare"}
    bench.put("s3://bucket/prepare/out/y", "somebody else's")
    assert cached(run()) == {"train"}
    shutil.rmtree(bench.home / "s3" / "bucket" / "training")
    # The other run of prepare has overwritten the very same bytes, so it is a hit no more either.
    assert cached(run()) == {"prepare"}


def test_what_ran_in_other_circumstances_is_a_miss(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_hit(config: Any = CACHED, **options: Any) -> bool:
        return bool(cached(bench.succeed(prepare(bench, config), **options)))

    assert not is_hit()
    assert is_hit()
    assert not is_hit(pipeline_name="other")
    assert not is_hit(use_cache=False)
    assert not is_hit({**CACHED, "Enabled": False})
    assert not is_hit(variables={"MINE": "1"})
    assert is_hit(variables={"MINE": "1"})
    monkeypatch.setenv("COMPILEGATE_MACHINE", '{"accelerator": "V100"}')
    assert not is_hit()
    assert is_hit()


def slot(
    bench: Workbench, kind: str = "Processing", identity: str = "e", **request: Any
) -> CacheSlot:
    return cache_slot(bench.home / "cache", bench.store, kind, request, identity)


@pytest.mark.parametrize(
    "changes",
    [
        b"",
        None,
        {"outputs": []},
        {"outputs": {"no-uri": []}},
        {"finished": "yesterday"},
        {"finished": time.time() - 31 * 86400},
    ],
)
def test_an_entry_of_another_shape_or_too_old_is_none(bench: Workbench, changes: Any) -> None:
    made = slot(bench)
    result = CachedResult("job", "execution", {"a": 1})
    bench.put("s3://bucket/x", "x")
    made.record(result, ["s3://bucket/x"])
    policy = CachePolicy(timedelta(days=30))
    assert made.find(policy) == result
    whole = json.loads(made.path.read_bytes())
    written = whole | changes if isinstance(changes, dict) else changes
    made.path.write_bytes(written if isinstance(written, bytes) else json.dumps(written).encode())
    assert made.find(policy) is None


def test_the_key_holds_the_documented_attributes_and_the_environment(bench: Workbench) -> None:
    for kind, known in STEP_TYPES.items():
        for member in known.cache_key:
            one = slot(bench, kind, **{member: {"a": 1, "b": 2}})
            assert one == slot(bench, kind, **{member: {"b": 2, "a": 1}})
            assert one != slot(bench, kind, **{member: {"a": 1, "b": 3}})
    one = slot(bench, "Training", OutputDataConfig={"S3OutputPath": "s3://a"})
    assert one == slot(bench, "Training", OutputDataConfig={"S3OutputPath": "s3://b"})
    assert one != slot(bench, "Training", identity="torch upgraded")


def register(home: Path, step: str = "s") -> ModelPackage:
    request = read_package_request({"ModelPackageGroupName": "g"})
    return create_package(home, request, ObjectStore(home / "s3"), execution_id="e", step=step)


def test_a_registered_model_is_the_groups_next_version(bench: Workbench) -> None:
    package = bench.register("register", "reuters", MODEL)
    members = {
        "ModelApprovalStatus": "PendingManualApproval",
        "CustomerMetadataProperties": {"arm": "inductor"},
    }
    arn = {"Get": "Steps.register.ModelPackageArn"}
    arns = [f"arn:aws:sagemaker:local:000000000000:model-package/reuters/{it}" for it in (1, 2)]
    for expected in arns:
        result = bench.succeed(
            bench.training("train"),
            changed(package, members),
            bench.condition(
                "is-it", bench.equals(arn, expected), otherwise=[bench.fail("no", arn)]
            ),
        )
    assert list_groups(bench.home) == ["reuters"]
    packages = list_packages(bench.home, "reuters")
    assert [package.version for package in packages] == [1, 2]
    assert describe_package(bench.home, arns[0]) == packages[0]
    described = describe_package(bench.home, "reuters/2").description
    job = result.steps["train"].job_name
    assert described["InferenceSpecification"]["Containers"][0]["ModelDataUrl"] == (
        f"s3://bucket/training/{job}/output/model.tar.gz"
    )
    assert described["CustomerMetadataProperties"] == {"arm": "inductor"}
    origin = described["Origin"]
    assert (origin["ExecutionId"], origin["Step"]) == (result.execution_id, "register")


def test_a_model_that_nobody_made_is_not_registered(bench: Workbench) -> None:
    """Its place was declared as one that a program fills, and none did."""
    result = bench.run(
        bench.register("register", "g", "s3://bucket/training/none.tar.gz"),
        later=["s3://bucket/training/"],
    )
    assert "none.tar.gz is not in the local store" in failure_of(result, "register")
    assert list_packages(bench.home, "g") == []


def test_approval_can_be_given_and_taken_back_with_a_reason(tmp_path: Path) -> None:
    register(tmp_path)
    assert describe_package(tmp_path, "g/1").approval_status == "PendingManualApproval"
    set_approval(tmp_path, "g/1", "Approved", "looked at by two")
    approved = describe_package(tmp_path, "g/1")
    assert approved.approval_status == "Approved"
    assert approved.description["ApprovalDescription"] == "looked at by two"
    set_approval(tmp_path, approved.arn, "Rejected")
    assert describe_package(tmp_path, "g/1").approval_status == "Rejected"
    with pytest.raises(RegistryError, match="there is no model package g/2; g/1"):
        describe_package(tmp_path, "g/2")
    with pytest.raises(RegistryError, match="is neither GROUP/VERSION nor"):
        describe_package(tmp_path, "../g/1")
    with pytest.raises(RegistryError, match="'Fine', expected Approved"):
        set_approval(tmp_path, "g/1", "Fine")


def test_writers_at_once_get_different_versions_and_a_step_registers_once(tmp_path: Path) -> None:
    first = register(tmp_path, "first")
    assert register(tmp_path, "first") == first
    program = """
import sys
from pathlib import Path
from tests.local.test_home import register
for index in range(10):
    register(Path(sys.argv[1]), f"{sys.argv[2]}-{index}")
"""
    commands = [[sys.executable, "-c", program, str(tmp_path), name] for name in ("one", "two")]
    writers = [subprocess.Popen(command, env=ENVIRONMENT) for command in commands]
    assert [writer.wait(timeout=60) for writer in writers] == [0, 0]
    packages = list_packages(tmp_path, "g")
    assert [package.version for package in packages] == list(range(1, 22))
    assert len({package.description["Origin"]["Step"] for package in packages}) == 21
