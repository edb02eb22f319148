"""A Training job shares its cores, and a job its GPUs and its port, with nobody."""

from __future__ import annotations

import json
import os
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from compilegate.document.graph import build_graph, most_in_parallel
from compilegate.document.model import Definition, Dependency, Step
from compilegate.execution.events import StepStarted, StepWaiting
from compilegate.local import ExecutionError, list_executions
from compilegate.local.jobs.leases import (
    available_cpus,
    core_pool,
    gpu_pool,
    gpus_here,
    gpus_wanted,
    lease_port,
    physical_cores,
)
from tests.local.conftest import Json, Workbench, changed, log_of

RECORD = """
import json, os, time
started = time.monotonic()
while time.process_time() < 0.1:
    pass
record = {
    "kind": "training" if "SM_MODEL_DIR" in os.environ else "processing",
    "cpus": sorted(os.sched_getaffinity(0)),
    "gpus": os.environ.get("CUDA_VISIBLE_DEVICES"),
    "number": os.environ.get("SM_NUM_GPUS"),
    "order": os.environ.get("CUDA_DEVICE_ORDER"),
}
job = os.environ.get("TRAINING_JOB_NAME") or os.environ["PROCESSING_JOB_NAME"]
with open(os.path.join(FOLDER, job), "w") as file:
    json.dump({**record, "from": started, "to": time.monotonic()}, file)
"""


def recording(folder: Path) -> str:
    """A program that leaves in this folder when it ran and with what."""
    folder.mkdir(exist_ok=True)
    return f"FOLDER = {str(folder)!r}\n{RECORD}"


def assert_apart(records: list[Json], what: str) -> None:
    """No two records of jobs at the same moment share CPUs or GPUs, if one is a training job's."""
    for one, other in combinations(records, 2):
        at_once = one["from"] < other["to"] and other["from"] < one["to"]
        if at_once and "training" in {one["kind"], other["kind"]}:
            assert not {*one[what]} & {*other[what]}, (one, other)


def test_leases_of_cores_are_exclusive_or_shared_with_other_shared_ones(tmp_path: Path) -> None:
    cores = core_pool(((100,), (101,), (102,)), tmp_path)
    first, second = cores.acquire(2), cores.acquire(1)
    assert first is not None
    assert second is not None
    assert (first.things, second.things) == (((100,), (101,)), ((102,),))
    assert cores.acquire(1) is None
    assert cores.acquire(1, shared=True) is None
    first.release()
    assert cores.acquire(3) is None
    shared = [cores.acquire(3, shared=True) for _ in range(2)]
    assert [each.things for each in shared if each] == [((100,), (101,))] * 2
    second.release()
    assert cores.acquire(2) is None


def test_cpus_are_grouped_by_physical_core(tmp_path: Path) -> None:
    for cpu, siblings in {0: "0,4", 4: "0,4", 1: "1,5", 5: "1,5", 2: "2-3", 3: "2-3"}.items():
        topology = tmp_path / f"cpu{cpu}" / "topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(siblings + "\n")
    assert physical_cores({0, 1, 2, 3, 4, 5, 9}, tmp_path) == ((0, 4), (1, 5), (2, 3), (9,))
    assert physical_cores({4, 5, 3}, tmp_path) == ((3,), (4,), (5,))


@pytest.mark.parametrize(
    ("parents", "most"),
    [
        ([[], [0], [1]], 1),  # a chain
        ([[], [], [0, 1], [2], [2]], 2),  # two, one, two
        ([[], [0], [0], [0], [1, 2, 3]], 3),
        ([[], [], [0], [0, 1], [1]], 3),  # 2, 3 and 4, though levels have 2 and 3
        ([[], [0], [], [2], [3], []], 3),
    ],
)
def test_most_in_parallel_is_the_largest_set_without_an_order(
    parents: list[list[int]], most: int
) -> None:
    steps = [
        Step(f"s{index}", "Training", {}, tuple(Dependency(f"s{it}") for it in each))
        for index, each in enumerate(parents)
    ]
    graph = build_graph(Definition((), tuple(steps)))
    assert most_in_parallel(graph, [step.name for step in steps]) == most


@pytest.mark.slow
def test_training_steps_in_parallel_divide_the_cores_evenly(bench: Workbench) -> None:
    code = "import os; print(len(os.sched_getaffinity(0)))"
    result = bench.succeed(bench.training("one", code), bench.training("two", code))
    cores = physical_cores(available_cpus())
    expected = f"{len(cores[0]) * max(1, len(cores) // 2)}\n"
    assert {log_of(result, name) for name in result.steps} == {expected}


def test_more_cores_or_gpus_for_a_job_than_there_are_is_refused(bench: Workbench) -> None:
    with pytest.raises(ExecutionError, match="1000 cores for each job"):
        bench.run(bench.training("train"), cores_per_job=1000)
    own = {"distribution": "torchrun", "processes": "4"}
    step = changed(
        bench.training("train", hyperparameters=own),
        {"ResourceConfig.InstanceType": "ml.g5.12xlarge"},
    )
    (found,) = bench.refused(step, gpus=("0", "1", "2"))
    assert "train: its job starts 4 processes with a GPU each, and this machine has 3" in found


@pytest.mark.slow
def test_a_second_run_says_for_which_execution_it_waits(bench: Workbench, tmp_path: Path) -> None:
    """The first run's job ends when the second has reported it."""
    for name in ("started", "reported"):
        os.mkfifo(tmp_path / name)
    code = f"""
        open({str(tmp_path / "started")!r}, "w").write("x")
        open({str(tmp_path / "reported")!r}).read()
    """
    runner = bench.start(bench.training("train", code), name="first")
    (tmp_path / "started").read_text()
    (first,) = list_executions(bench.home)
    waited: list[StepWaiting] = []

    def listener(event: object) -> None:
        if isinstance(event, StepWaiting):
            if not waited:
                (tmp_path / "reported").write_text("x")
            waited.append(event)

    bench.succeed(
        bench.training("one"), bench.processing("other"), cores_per_job=1, listener=listener
    )
    assert runner.communicate(timeout=60)[0] == "Succeeded None\n"
    assert (waited[0].holders, waited[0].what) == ((first.execution_id,), "cores")
    assert len({each.step for each in waited}) == len(waited)


@pytest.mark.slow
def test_two_executions_at_once_keep_training_jobs_apart(bench: Workbench, tmp_path: Path) -> None:
    code = recording(tmp_path / "records")
    runners = [
        bench.start(
            bench.processing(name, code),
            *(bench.training(f"train-{index}", code) for index in range(2)),
            name=name,
            cores_per_job=1,
        )
        for name in ("left", "right")
    ]
    assert [runner.communicate(timeout=60)[0] for runner in runners] == ["Succeeded None\n"] * 2

    records = [json.loads(path.read_text()) for path in (tmp_path / "records").iterdir()]
    assert len(records) == 6
    assert_apart(records, "cpus")


def on_instance(bench: Workbench, name: str, instance: str, **environment: str) -> Json:
    members = {"ResourceConfig.InstanceType": instance, "Environment": environment}
    code = recording(bench.folder / "records")
    return changed(bench.training(name, code), members)


def records(bench: Workbench, result: Any) -> dict[str, Json]:
    folder = bench.folder / "records"
    jobs = {name: folder / step.job_name for name, step in result.steps.items()}
    return {name: json.loads(path.read_text()) for name, path in jobs.items()}


@pytest.mark.slow
def test_jobs_on_gpus_share_none_and_other_jobs_see_none(bench: Workbench) -> None:
    two = {"COMPILEGATE_PROCESSES": "2", "CUDA_VISIBLE_DEVICES": "7"}
    result = bench.succeed(
        *(on_instance(bench, name, "ml.g5.xlarge") for name in "abc"),
        on_instance(bench, "cpu", "ml.c5.large"),
        on_instance(bench, "two", "ml.g5.12xlarge", **two),
        gpus=("3", "5"),
        cores_per_job=1,
    )
    found = records(bench, result)
    numbers = {name: (each["number"], each["gpus"]) for name, each in found.items()}
    assert numbers["cpu"] == ("0", "")
    assert numbers["two"] == ("2", "3,5")
    takers = [found[name] for name in ("a", "b", "c", "two")]
    assert {it["order"] for it in takers} == {"PCI_BUS_ID"}  # numbers as nvidia-smi has them
    assert {(it["number"], it["gpus"]) for it in takers[:3]} <= {("1", "3"), ("1", "5")}
    assert_apart([it | {"gpus": it["gpus"].split(",")} for it in takers], "gpus")
    reported = {each.step: each.gpus for each in bench.events if isinstance(each, StepStarted)}
    assert reported == {
        name: tuple(filter(None, each["gpus"].split(","))) for name, each in found.items()
    }


@pytest.mark.slow
def test_a_job_that_waits_for_a_gpu_holds_up_no_job_that_needs_none(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And on a machine without GPUs nothing of this applies."""
    other = gpu_pool(("0",), bench.home / "locks" / "gpus").acquire(1)
    assert other is not None

    def listener(event: Any) -> None:
        """Lets the GPU go when the later job, which needs none, has started."""
        bench.events.append(event)
        if isinstance(event, StepStarted):
            other.release()

    steps = [on_instance(bench, "waits", "ml.g5.xlarge"), on_instance(bench, "cpu", "ml.m5.large")]
    bench.succeed(*steps, gpus=("0",), listener=listener)
    assert [it.step for it in bench.events if isinstance(it, StepStarted)] == ["cpu", "waits"]
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    found = records(bench, bench.succeed(steps[0], gpus=()))["waits"]
    assert (found["gpus"], found["number"]) == (None, "0")


def test_the_gpus_are_those_that_cuda_would_see() -> None:
    for named, found in {
        None: ("0", "1", "2"),
        "2,0": ("2", "0"),
        "": (),
        "-1": (),
        "1,7,0": ("1",),
        "1,1": ("1",),
        " 1 , 2 ": ("1", "2"),
        "GPU-8932f937-d72c,MIG-2b": ("GPU-8932f937-d72c", "MIG-2b"),
    }.items():
        variables = {} if named is None else {"CUDA_VISIBLE_DEVICES": named}
        assert gpus_here(variables, 3) == found
        assert gpus_here(variables, 0) == ()
    for instance in ("ml.g4dn.xlarge", "ml.p4d.24xlarge", "ml.gr6.4xlarge", "local"):
        assert gpus_wanted(instance, 3) == 3
    for instance in ("ml.m5.large", "ml.c6g.large", "ml.trn1.2xlarge"):
        assert gpus_wanted(instance, 3) == 0


MEET = """
    import os, subprocess, sys
    if "RANK" not in os.environ:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
        sys.exit(subprocess.run([*torchrun, __file__]).returncode)
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    total = torch.ones(1)
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        print("sum", total.item())
    dist.destroy_process_group()
"""


@pytest.mark.long
@pytest.mark.slow
def test_processes_that_a_script_starts_meet_at_a_port_that_no_other_job_has(
    bench: Workbench,
) -> None:
    with lease_port() as one, lease_port() as other:
        assert one.things != other.things
        result = bench.succeed(bench.training("train", MEET), cores_per_job=1)
    assert "sum 2.0" in log_of(result, "train")


@pytest.mark.slow
def test_one_host_gets_the_processes_and_data_of_all_instances(bench: Workbench) -> None:
    for name in "abcd":
        bench.put(f"s3://bucket/in/{name}", name)
    show = """
        import os, sys
        print(os.environ["SM_HOSTS"], os.environ.get("COMPILEGATE_PROCESSES"), *sys.argv[1:])
    """
    by_argument = {"distribution": "torchrun", "processes": "3"}
    listed = "import os; print(sorted(os.listdir('/opt/ml/processing/in')))"
    sharded = bench.processing("sharded", listed, inputs={"in": "s3://bucket/in"})
    two = {"ResourceConfig.InstanceCount": 2}
    result = bench.succeed(
        changed(
            bench.training("variable", show), {**two, "Environment.COMPILEGATE_PROCESSES": "3"}
        ),
        changed(bench.training("argument", show, hyperparameters=by_argument), two),
        changed(
            sharded,
            {
                "ProcessingInputs.0.S3Input.S3DataDistributionType": "ShardedByS3Key",
                "ProcessingResources.ClusterConfig.InstanceCount": 2,
            },
        ),
    )
    assert log_of(result, "variable") == '["algo-1"] 6\n'
    argument = log_of(result, "argument").split()
    assert argument[0] == '["algo-1"]'
    assert argument[argument.index("--processes") + 1] == "6"
    assert log_of(result, "sharded") == "['a', 'b', 'c', 'd']\n"
