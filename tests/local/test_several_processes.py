"""A job on several instances is several processes on one host, which meet at the job's own port."""

from __future__ import annotations

import json
import os
import tarfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from compilegate.execution.status import ExecutionStatus
from compilegate.local import RefusedDefinitionError
from compilegate.local.errors import StepRequestError
from compilegate.local.jobs.job import read_instances
from compilegate.local.jobs.leases import lease_port
from compilegate.local.requests import RequestReader
from tests.local.conftest import Workbench

TWO = {"InstanceType": "ml.m5.xlarge", "InstanceCount": 2}

MEET = """
    import json, os
    import torch, torch.distributed as dist
    dist.init_process_group("gloo")
    total = torch.ones(1)
    if dist.get_rank() == 0:
        # The two jobs hold their ports at the same moment: each waits for the other.
        for name in ("left", "right"):
            mode = "w" if name == os.environ["SIDE"] else "r"
            with open(os.path.join(os.environ["PIPES"], name), mode) as pipe:
                pipe.write("here") if mode == "w" else pipe.read()
    dist.all_reduce(total)
    if dist.get_rank() == 0:
        told = {"sum": total.item(), "port": os.environ["MASTER_PORT"]}
        json.dump(told, open(os.environ["SM_MODEL_DIR"] + "/told", "w"))
    dist.destroy_process_group()
"""
BY_ITSELF = """
    import os, subprocess, sys
    if "RANK" not in os.environ:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", "2"]
        sys.exit(subprocess.run([*torchrun, __file__]).returncode)
"""


def model_of(bench: Any, result: Any, step: str) -> dict[str, str]:
    uri = result.steps[step].properties["ModelArtifacts"]["S3ModelArtifacts"]
    with tarfile.open(bench.store.path(uri)) as tar:
        return {m.name: tar.extractfile(m).read().decode() for m in tar if m.isfile()}


@pytest.mark.long
@pytest.mark.slow
def test_jobs_of_several_processes_side_by_side_meet_at_ports_of_their_own(tmp_path: Path) -> None:
    """One is started by the toolkit's torchrun, the other starts torchrun's default by itself."""
    for name in ("left", "right"):
        os.mkfifo(tmp_path / name)

    def told(side: str) -> dict[str, Any]:
        # In homes of their own, so that no lease of cores keeps them apart.
        bench = Workbench(tmp_path / f"home-{side}")
        flag = {"sagemaker_torch_distributed_enabled": "true"} if side == "left" else {}
        request = {
            "Environment": {"SIDE": side, "PIPES": str(tmp_path)},
            "ResourceConfig": TWO if side == "left" else {**TWO, "InstanceCount": 1},
            "StoppingCondition": {"MaxRuntimeInSeconds": 600},
        }
        code = MEET if side == "left" else BY_ITSELF + MEET
        step = bench.training("train", code, hyperparameters=flag, request=request)
        result = bench.run(step, cores_per_job=1)
        assert result.status is ExecutionStatus.SUCCEEDED, result.steps["train"].failure
        found: dict[str, Any] = json.loads(model_of(bench, result, "train")["told"])
        return found

    with ThreadPoolExecutor(2) as pool:
        left, right = pool.map(told, ["left", "right"])
    assert (left["sum"], right["sum"]) == (2.0, 2.0)
    assert left["port"] != right["port"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "given",
    [
        {"Environment": {"COMPILEGATE_PROCESSES": "3"}},
        {"HyperParameters": {"distribution": "torchrun", "processes": "3"}},
    ],
)
def test_a_launcher_starts_the_processes_of_all_instances(bench: Any, given: Any) -> None:
    code = """
        import json, os, sys
        seen = {"argv": sys.argv[1:], "variable": os.environ.get("COMPILEGATE_PROCESSES")}
        print(json.dumps({**seen, "hosts": os.environ["SM_HOSTS"]}))
    """
    step = bench.training("train", code, request={"ResourceConfig": TWO})
    for member, values in given.items():
        step["Arguments"].setdefault(member, {}).update(values)
    result = bench.run(step)
    seen = json.loads(result.steps["train"].log.read_text())
    assert seen["hosts"] == '["algo-1"]'
    assert "6" in (seen["variable"], *seen["argv"])


@pytest.mark.slow
def test_the_one_host_gets_what_would_be_divided_among_instances(bench: Any) -> None:
    for name in "abcd":
        bench.put(f"s3://bucket/in/{name}", name)
    code = """
        import os, shutil
        for name in os.listdir("/opt/ml/processing/in"):
            shutil.copy("/opt/ml/processing/in/" + name, "/opt/ml/processing/out")
    """
    step = bench.processing("job", code, inputs={"in": "s3://bucket/in"}, outputs=["out"])
    step["Arguments"]["ProcessingInputs"][0]["S3Input"]["S3DataDistributionType"] = "ShardedByS3Key"
    step["Arguments"]["ProcessingResources"]["ClusterConfig"]["InstanceCount"] = 2
    result = bench.run(step)
    assert result.status is ExecutionStatus.SUCCEEDED, result.steps["job"].failure
    stored = sorted(path.name for path in bench.store.path("s3://bucket/job/out").iterdir())
    assert stored == ["a", "b", "c", "d"]


def test_a_leased_port_can_be_bound_and_is_given_to_nobody_else() -> None:
    leases = [lease_port() for _ in range(20)]
    assert len({lease.number for lease in leases}) == 20
    for lease in leases:
        lease.release()


@pytest.mark.parametrize("count", [0, 17])
def test_a_number_of_instances_beyond_what_one_machine_starts_is_refused(count: int) -> None:
    with pytest.raises(StepRequestError, match=f"InstanceCount is {count}, allowed here: 1 to 16"):
        read_instances(RequestReader({"InstanceCount": count, "InstanceType": "ml.m5.large"}))


def test_more_processes_than_a_launcher_starts_are_refused(bench: Any) -> None:
    step = bench.training("train", request={"ResourceConfig": {**TWO, "InstanceCount": 16}})
    step["Arguments"]["Environment"] = {"COMPILEGATE_PROCESSES": "8"}
    with pytest.raises(RefusedDefinitionError, match="128 processes"):
        bench.run(step)


def test_groups_of_different_instances_are_refused_with_what_to_do(bench: Any) -> None:
    groups = [{"InstanceGroupName": name, **TWO} for name in ("data", "dnn")]
    step = bench.training("train", request={"ResourceConfig": {"InstanceGroups": groups}})
    with pytest.raises(RefusedDefinitionError, match=r"InstanceGroups names 2 .*--command"):
        bench.run(step)


def test_a_launcher_that_is_not_here_is_refused_with_what_to_do(bench: Any) -> None:
    flags = {"sagemaker_mpi_enabled": "true"}
    with pytest.raises(RefusedDefinitionError, match=r"by MPI.* start it by torchrun"):
        bench.run(bench.training("train", hyperparameters=flags))
