"""One job a GPU: a job sees its own and no other, and none that its instance would not have."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.execution.events import StepStarted
from compilegate.local import RefusedDefinitionError
from compilegate.local.jobs.leases.gpus import GpuPool, gpus_here, gpus_wanted
from tests.local.conftest import Json, Workbench

pytestmark = pytest.mark.slow

RECORD = """
import json, os, time
started = time.monotonic()
while time.process_time() < 0.1:
    pass
seen = os.environ.get("CUDA_VISIBLE_DEVICES")
record = {"gpus": seen, "number": os.environ.get("SM_NUM_GPUS"), "from": started}
with open(os.path.join(FOLDER, STEP), "w") as file:
    json.dump({**record, "to": time.monotonic()}, file)
"""


def step(bench: Workbench, folder: Path, name: str, instance: str, **more: Any) -> Json:
    resources = {"InstanceType": instance, "InstanceCount": 1, "VolumeSizeInGB": 30}
    code = RECORD.replace("FOLDER", repr(str(folder))).replace("STEP", repr(name))
    return bench.training(name, code, request={"ResourceConfig": resources, **more})


def records(folder: Path) -> dict[str, Json]:
    return {each.name: json.loads(each.read_text()) for each in folder.iterdir()}


def test_jobs_on_gpus_share_none_and_other_jobs_see_none(bench: Workbench, tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    instances = {"a": "ml.g5.xlarge", "b": "ml.p3.2xlarge", "c": "ml.g5.xlarge", "d": "ml.c5.large"}
    steps = [step(bench, folder, name, each) for name, each in instances.items()]
    result = bench.run(*steps, gpus=("3", "5"), cores_per_job=1)
    assert result.status == "Succeeded"
    found = records(folder)
    assert {name: each["number"] for name, each in found.items()} == dict(
        zip("abcd", ["1", "1", "1", "0"], strict=True)
    )
    assert found["d"]["gpus"] == ""
    takers = [found[name] for name in "abc"]
    assert {each["gpus"] for each in takers} <= {"3", "5"}
    together = [
        (one, other)
        for one in takers
        for other in takers
        if one is not other and one["gpus"] == other["gpus"]
    ]
    assert all(one["to"] <= other["from"] or other["to"] <= one["from"] for one, other in together)
    told = {each.step: each.gpus for each in bench.events if isinstance(each, StepStarted)}
    assert told == {
        name: tuple(filter(None, [each["gpus"]])) for name, each in sorted(found.items())
    }


def test_a_job_that_waits_for_a_gpu_holds_up_no_job_that_needs_none(
    bench: Workbench, tmp_path: Path
) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    locks = bench.home / "locks" / "gpus"
    other = GpuPool(("0",), locks).acquire(1)
    assert other is not None
    waiting = step(bench, folder, "waiting", "ml.g5.xlarge")
    # Lets the GPU go when the job that needs none has run, which is later in the definition.
    steps = [waiting, step(bench, folder, "other", "ml.m5.large")]

    def listener(event: object) -> None:
        bench.events.append(event)  # type: ignore[arg-type]
        if (folder / "other").exists():
            other.release()

    assert bench.run(*steps, gpus=("0",), listener=listener).status == "Succeeded"
    started = [each.step for each in bench.events if isinstance(each, StepStarted)]
    assert started == ["other", "waiting"]


def test_a_job_has_a_gpu_for_each_process(bench: Workbench, tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    told = {"COMPILEGATE_PROCESSES": "2", "CUDA_VISIBLE_DEVICES": "7"}
    one = step(bench, folder, "own", "ml.g5.12xlarge", Environment=told)
    assert bench.run(one, gpus=("0", "1", "2")).status == "Succeeded"
    assert records(folder)["own"]["gpus"] == "0,1"

    built_in = bench.training(
        "built-in",
        hyperparameters={"distribution": "torchrun", "processes": "4"},
        request={"ResourceConfig": one["Arguments"]["ResourceConfig"]},
    )
    with pytest.raises(RefusedDefinitionError) as refused:
        bench.run(built_in, gpus=("0", "1", "2"))
    assert "built-in: its job starts 4 processes, each with a GPU of its own, and there are 3" in (
        str(refused.value)
    )


def test_nothing_changes_on_a_machine_without_gpus(
    bench: Workbench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    result = bench.run(step(bench, folder, "one", "ml.g5.xlarge"), gpus=())
    assert result.status == "Succeeded"
    assert (records(folder)["one"]["gpus"], records(folder)["one"]["number"]) == (None, "0")


def test_a_gpu_is_leased_once_among_all_processes_of_the_home(tmp_path: Path) -> None:
    pool = GpuPool(("0", "GPU-5d4c/1"), tmp_path)
    lease = pool.acquire(1)
    assert lease is not None
    assert lease.variables == {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    program = (
        "import sys; from pathlib import Path\n"
        "from compilegate.local.jobs.leases.gpus import GpuPool\n"
        "pool = GpuPool(('0', 'GPU-5d4c/1'), Path(sys.argv[1]))\n"
        "print(pool.acquire(2), pool.acquire(1).names)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert found == "None ('GPU-5d4c/1',)\n"
    lease.release()
    both = pool.acquire(2)
    assert both is not None
    assert both.variables["CUDA_VISIBLE_DEVICES"] == "0,GPU-5d4c/1"


@pytest.mark.parametrize(
    ("named", "found"),
    [
        (None, ("0", "1", "2")),
        ("2,0", ("2", "0")),
        ("", ()),
        ("-1", ()),
        ("1,7,0", ("1",)),
        ("1,1", ("1",)),
        (" 1 , 2 ", ("1", "2")),
        ("GPU-8932f937-d72c,MIG-2b", ("GPU-8932f937-d72c", "MIG-2b")),
    ],
)
def test_the_gpus_are_those_that_cuda_would_see(named: str | None, found: tuple[str, ...]) -> None:
    variables = {} if named is None else {"CUDA_VISIBLE_DEVICES": named}
    assert gpus_here(variables, 3) == found
    assert gpus_here(variables, 0) == ()


@given(st.sampled_from(["ml.g4dn.xlarge", "ml.p4d.24xlarge", "ml.gr6.4xlarge", "local"]))
def test_instances_with_gpus_and_this_machine_want_one_for_each_process(kind: str) -> None:
    assert gpus_wanted(kind, 3) == 3


@given(st.sampled_from(["ml.m5.large", "ml.c6g.large", "ml.r5.large", "ml.trn1.2xlarge"]))
def test_other_instances_want_none(kind: str) -> None:
    assert gpus_wanted(kind, 3) == 0
