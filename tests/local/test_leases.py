"""A Training job shares its cores, and a job its GPUs, with nobody, across executions."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compilegate.document.graph import build_graph, most_in_parallel
from compilegate.document.model import Definition, Dependency, Step
from compilegate.execution.events import StepStarted, StepWaiting
from compilegate.local import ExecutionError, RefusedDefinitionError, list_executions
from compilegate.local.jobs.leases import (
    CorePool,
    GpuPool,
    available_cpus,
    gpus_here,
    gpus_wanted,
    physical_cores,
)
from tests.local.conftest import Json, Workbench

RUNNER = """
import sys
from pathlib import Path
from compilegate.local import ImageSources, LocalExecutor
executor = LocalExecutor(
    definition=Path(sys.argv[1]).read_bytes(), home=Path(sys.argv[2]),
    images=ImageSources(patterns=(("*", "here"),)), shared=[Path(sys.argv[2]).parent],
    cores_per_job=None if sys.argv[4:] else 1,
)
result = executor.follow(executor.start(sys.argv[3], {}))
print(result.status)
"""

RECORD = """
import json, os, sys, time
started = time.monotonic()
while time.process_time() < 0.1:
    pass
kind = "training" if "SM_MODEL_DIR" in os.environ else "processing"
job = os.environ.get("TRAINING_JOB_NAME") or os.environ["PROCESSING_JOB_NAME"]
record = {"kind": kind, "cpus": sorted(os.sched_getaffinity(0))}
with open(os.path.join(FOLDER, job), "w") as file:
    json.dump({**record, "from": started, "to": time.monotonic()}, file)
"""


def pool(folder: Path, *cores: tuple[int, ...]) -> CorePool:
    return CorePool(cores, folder)


def test_exclusive_leases_never_share_a_core(tmp_path: Path) -> None:
    cores = pool(tmp_path, (100,), (101,), (102,))
    first, second = cores.acquire_exclusive(2), cores.acquire_exclusive(1)
    assert first is not None
    assert second is not None
    assert (first.cpus, second.cpus) == ((100, 101), (102,))
    assert cores.acquire_exclusive(1) is None
    assert cores.acquire_shared(1) is None
    first.release()
    assert cores.acquire_exclusive(3) is None
    third = cores.acquire_shared(3)
    assert third is not None
    assert third.cpus == (100, 101)


def test_shared_leases_share_among_themselves_only(tmp_path: Path) -> None:
    cores = pool(tmp_path, (100,), (101,))
    first, second = cores.acquire_shared(2), cores.acquire_shared(2)
    assert first is not None
    assert second is not None
    assert first.cpus == second.cpus == (100, 101)
    first.release()
    assert cores.acquire_exclusive(1) is None


def test_cpus_are_grouped_by_physical_core(tmp_path: Path) -> None:
    for cpu, siblings in {0: "0,4", 4: "0,4", 1: "1,5", 5: "1,5", 2: "2-3", 3: "2-3"}.items():
        topology = tmp_path / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(siblings + "\n")
    assert physical_cores({0, 1, 2, 3, 4, 5, 9}, tmp_path) == ((0, 4), (1, 5), (2, 3), (9,))
    assert physical_cores({4, 5, 3}, tmp_path) == ((3,), (4,), (5,))


@st.composite
def layered_graphs(draw: st.DrawFn) -> tuple[Definition, list[str]]:
    count = draw(st.integers(1, 7))
    steps = []
    for index in range(count):
        earlier = draw(st.sets(st.integers(0, index - 1), max_size=3)) if index else set()
        steps.append(
            Step(f"s{index}", "Training", {}, tuple(Dependency(f"s{i}") for i in sorted(earlier)))
        )
    return Definition((), tuple(steps)), [step.name for step in steps]


@pytest.mark.slow
@given(layered_graphs())
def test_the_most_steps_in_parallel_is_the_largest_set_without_an_order(
    made: tuple[Definition, list[str]],
) -> None:
    definition, names = made
    graph = build_graph(definition)
    ancestors: dict[str, set[str]] = {}
    for name in names:
        parents = graph.parents(name)
        ancestors[name] = set(parents).union(*(ancestors[parent] for parent in parents))
    largest = max(
        bin(chosen).count("1")
        for chosen in range(1 << len(names))
        if not any(
            b in ancestors[a]
            for i, a in enumerate(names)
            for j, b in enumerate(names)
            if chosen >> i & 1 and chosen >> j & 1
        )
    )
    assert most_in_parallel(graph, names) == largest


@pytest.mark.slow
def test_training_steps_in_parallel_divide_the_cores_evenly(bench: Any) -> None:
    code = "import os; print(len(os.sched_getaffinity(0)))"
    result = bench.run(bench.training("one", code), bench.training("two", code))
    cores = physical_cores(available_cpus())
    expected = f"{len(cores[0]) * max(1, len(cores) // 2)}\n"
    assert {step.log.read_text() for step in result.steps.values()} == {expected}


def test_more_cores_for_a_job_than_there_are_is_refused(bench: Any) -> None:
    with pytest.raises(ExecutionError, match="1000 cores for each job"):
        bench.run(bench.training("train"), cores_per_job=1000)


@pytest.mark.slow
def test_a_second_run_says_for_which_execution_it_waits(bench: Any, tmp_path: Path) -> None:
    """The first run's job ends when the second has said so."""
    for name in ("started", "told"):
        os.mkfifo(tmp_path / name)
    code = f"""
        open({str(tmp_path / "started")!r}, "w").write("x")
        open({str(tmp_path / "told")!r}).read()
    """
    path = tmp_path / "first.json"
    path.write_text(bench.definition(bench.training("train", code)))
    command = [sys.executable, "-c", RUNNER, str(path), str(bench.home), "first", "all"]
    runner = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    (tmp_path / "started").read_text()
    (first,) = list_executions(bench.home)

    def listener(event: object) -> None:
        if isinstance(event, StepWaiting) and not any(map(is_wait, bench.events)):
            (tmp_path / "told").write_text("x")
        bench.events.append(event)

    def is_wait(event: object) -> bool:
        return isinstance(event, StepWaiting)

    second = bench.run(
        bench.training("one"), bench.processing("other"), cores_per_job=1, listener=listener
    )
    assert (second.status, runner.communicate(timeout=60)[0]) == ("Succeeded", "Succeeded\n")
    waited = list(filter(is_wait, bench.events))
    assert waited[0].holders == (first.execution_id,)
    assert waited[0].what == "cores"
    assert len({each.step for each in waited}) == len(waited)


@pytest.mark.slow
def test_two_executions_at_once_keep_training_jobs_apart(bench: Any, tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    code = f"FOLDER = {str(folder)!r}\n{RECORD}"
    runners = []
    for name in ("left", "right"):
        steps = [bench.training(f"train-{index}", code) for index in range(3)]
        steps.append(bench.processing("process", code))
        path = tmp_path / f"{name}.json"
        path.write_text(bench.definition(*steps))
        command = [sys.executable, "-c", RUNNER, str(path), str(bench.home), name]
        runners.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    assert [runner.communicate(timeout=60)[0] for runner in runners] == ["Succeeded\n"] * 2

    records = [json.loads(path.read_text()) for path in folder.iterdir()]
    assert len(records) == 8
    for index, one in enumerate(records):
        for other in records[index + 1 :]:
            overlap = one["from"] < other["to"] and other["from"] < one["to"]
            if overlap and "training" in {one["kind"], other["kind"]}:
                assert not set(one["cpus"]) & set(other["cpus"]), (one, other)


GPU_RECORD = """
import json, os, time
started = time.monotonic()
while time.process_time() < 0.1:
    pass
seen = os.environ.get("CUDA_VISIBLE_DEVICES")
record = {"gpus": seen, "number": os.environ.get("SM_NUM_GPUS"), "from": started}
with open(os.path.join(FOLDER, STEP), "w") as file:
    json.dump({**record, "to": time.monotonic()}, file)
"""


def on_instance(bench: Workbench, folder: Path, name: str, instance: str, **more: Any) -> Json:
    resources = {"InstanceType": instance, "InstanceCount": 1, "VolumeSizeInGB": 30}
    code = GPU_RECORD.replace("FOLDER", repr(str(folder))).replace("STEP", repr(name))
    return bench.training(name, code, request={"ResourceConfig": resources, **more})


def records(folder: Path) -> dict[str, Json]:
    return {each.name: json.loads(each.read_text()) for each in folder.iterdir()}


def test_jobs_on_gpus_share_none_and_other_jobs_see_none(bench: Workbench, tmp_path: Path) -> None:
    folder = tmp_path / "records"
    folder.mkdir()
    instances = {"a": "ml.g5.xlarge", "b": "ml.p3.2xlarge", "c": "ml.g5.xlarge", "d": "ml.c5.large"}
    steps = [on_instance(bench, folder, name, each) for name, each in instances.items()]
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
    waiting = on_instance(bench, folder, "waiting", "ml.g5.xlarge")
    # Lets the GPU go when the job that needs none has run, which is later in the definition.
    steps = [waiting, on_instance(bench, folder, "other", "ml.m5.large")]

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
    one = on_instance(bench, folder, "own", "ml.g5.12xlarge", Environment=told)
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
    result = bench.run(on_instance(bench, folder, "one", "ml.g5.xlarge"), gpus=())
    assert result.status == "Succeeded"
    assert (records(folder)["one"]["gpus"], records(folder)["one"]["number"]) == (None, "0")


def test_a_gpu_is_leased_once_among_all_processes_of_the_home(tmp_path: Path) -> None:
    pool = GpuPool(("0", "GPU-5d4c/1"), tmp_path)
    lease = pool.acquire(1)
    assert lease is not None
    assert lease.variables == {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    program = (
        "import sys; from pathlib import Path\n"
        "from compilegate.local.jobs.leases import GpuPool\n"
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
