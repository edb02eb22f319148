"""A job on several instances is as many processes, which find each other by name."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from compilegate.execution.events import PathsChosen
from compilegate.execution.status import ExecutionStatus, StepStatus
from compilegate.local import RefusedDefinitionError
from compilegate.local.errors import StepRequestError
from compilegate.local.jobs.cluster.gathering import gather
from compilegate.local.jobs.cluster.hosts import hosts_file, read_hosts, resource_config
from compilegate.local.requests import RequestReader

TWO = {"InstanceType": "ml.m5.xlarge", "InstanceCount": 2}

MEET = """
    import json, os, socket
    hosts, me = json.loads(os.environ["SM_HOSTS"]), os.environ["SM_CURRENT_HOST"]
    resources = json.load(open(os.environ["SM_INPUT_CONFIG_DIR"] + "/resourceconfig.json"))
    assert resources["hosts"] == hosts and resources["current_host"] == me
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    assert address[0] == hosts[0]
    if me == hosts[0]:
        with socket.create_server(address) as server:
            other, _ = server.accept()
            heard = other.makefile().readline()
    else:
        while True:
            try:
                other = socket.create_connection(address)
                break
            except ConnectionRefusedError:
                pass
        other.sendall((me + " calls\\n").encode())
        other.close()
        heard = "nothing"
    names = sorted(os.listdir(os.environ["SM_CHANNEL_DATA"]))
    with open(os.path.join(os.environ["SM_MODEL_DIR"], str(hosts.index(me))), "w") as file:
        file.write(f"{heard.strip()}, {names}")
    print("rank:", hosts.index(me))
"""


def with_shards(step: dict[str, Any]) -> dict[str, Any]:
    source = step["Arguments"]["InputDataConfig"][0]["DataSource"]["S3DataSource"]
    source["S3DataDistributionType"] = "ShardedByS3Key"
    return step


def model_of(bench: Any, result: Any, step: str) -> dict[str, str]:
    uri = result.steps[step].properties["ModelArtifacts"]["S3ModelArtifacts"]
    with tarfile.open(bench.store.path(uri)) as tar:
        return {m.name: tar.extractfile(m).read().decode() for m in tar if m.isfile()}


@pytest.mark.slow
@pytest.mark.parametrize("rewriting", [False, True], ids=["own-root", "rewriting"])
def test_hosts_meet_get_their_shares_and_leave_one_model(bench: Any, rewriting: bool) -> None:
    for name in "abc":
        bench.put(f"s3://bucket/data/{name}", name)
    step = with_shards(
        bench.training(
            "train",
            MEET,
            channels={"data": "s3://bucket/data/"},
            metrics={"rank": r"rank: (\d)"},
            request={"ResourceConfig": TWO},
        )
    )
    result = bench.run(step, own_root=False if rewriting else None)
    assert result.status is ExecutionStatus.SUCCEEDED, result.steps["train"].failure
    (paths,) = [event for event in bench.events if isinstance(event, PathsChosen)]
    other = "algo-2" if paths.own_root else "127.0.0.2"
    assert model_of(bench, result, "train") == {
        "0": f"{other} calls, ['a', 'c']",
        "1": "nothing, ['b']",
    }
    (metric,) = result.steps["train"].properties["FinalMetricDataList"]
    assert metric["MetricName"] == "rank"


@pytest.mark.slow
def test_the_first_host_that_fails_ends_the_others_and_is_named(bench: Any) -> None:
    code = """
        import json, os, signal, sys
        if os.environ["SM_CURRENT_HOST"] == json.loads(os.environ["SM_HOSTS"])[0]:
            signal.pause()
        print("no memory")
        sys.exit(3)
    """
    step = bench.training("train", code, request={"ResourceConfig": TWO})
    result = bench.run(step, own_root=None)
    assert result.steps["train"].status is StepStatus.FAILED
    failure = result.steps["train"].failure
    assert failure.sentence.startswith("exit code 3")
    assert failure.sentence.endswith("2)")
    assert failure.last_lines == ("no memory",)
    assert failure.log.read_text() == "no memory\n"


@pytest.mark.slow
def test_processing_on_two_hosts_deals_its_input_out_and_stores_all_outputs(bench: Any) -> None:
    for name in "abcd":
        bench.put(f"s3://bucket/in/{name}", name)
    code = """
        import json, os, shutil
        resources = json.load(open(os.environ["CONFIG"]))
        me = resources["hosts"].index(resources["current_host"])
        for name in os.listdir(os.environ["IN"]):
            shutil.copy(os.path.join(os.environ["IN"], name), os.environ["OUT"])
        open(os.path.join(os.environ["OUT"], "who"), "w").write(str(me))
    """
    step = bench.processing("job", code, inputs={"in": "s3://bucket/in"}, outputs=["out"])
    step["Arguments"]["ProcessingInputs"][0]["S3Input"]["S3DataDistributionType"] = "ShardedByS3Key"
    step["Arguments"]["ProcessingResources"]["ClusterConfig"]["InstanceCount"] = 2
    step["Arguments"]["Environment"] = {
        "CONFIG": "/opt/ml/config/resourceconfig.json",
        "IN": "/opt/ml/processing/in",
        "OUT": "/opt/ml/processing/out",
    }
    result = bench.run(step)
    assert result.status is ExecutionStatus.SUCCEEDED, result.steps["job"].failure
    stored = sorted(path.name for path in bench.store.path("s3://bucket/job/out").iterdir())
    assert stored == ["a", "b", "c", "d", "who"]
    assert bench.store.read("s3://bucket/job/out/who") == b"0"
    said = result.steps["job"].log.read_text()
    assert "wrote another who than the hosts before it, whose file is stored" in said


def test_what_hosts_have_in_common_is_gathered_and_what_differs_is_told(tmp_path: Path) -> None:
    first, second = tmp_path / "1", tmp_path / "2"
    for folder, texts in ((first, {"same": "x", "own": "1"}), (second, {"same": "x", "own": "2"})):
        (folder / "sub").mkdir(parents=True)
        for name, text in texts.items():
            (folder / name).write_text(text)
    (second / "sub" / "more").write_text("more")
    (sentence,) = gather(first, [("algo-2", second)])
    assert sentence.startswith("algo-2 wrote another own ")
    assert (first / "own").read_text() == "1"
    assert (second / "own").read_text() == "2"
    assert (first / "sub" / "more").read_text() == "more"


def test_instance_groups_number_their_hosts_one_after_another() -> None:
    groups = [
        {"InstanceGroupName": "data", "InstanceType": "ml.c5.xlarge", "InstanceCount": 2},
        {"InstanceGroupName": "dnn", "InstanceType": "ml.p3.2xlarge", "InstanceCount": 1},
    ]
    hosts = read_hosts(RequestReader({"InstanceGroups": groups}))
    assert resource_config(hosts, hosts[2]) == {
        "current_host": "algo-3",
        "current_instance_type": "ml.p3.2xlarge",
        "current_group_name": "dnn",
        "hosts": ["algo-1", "algo-2", "algo-3"],
        "instance_groups": [
            {
                "instance_group_name": "data",
                "instance_type": "ml.c5.xlarge",
                "hosts": ["algo-1", "algo-2"],
            },
            {
                "instance_group_name": "dnn",
                "instance_type": "ml.p3.2xlarge",
                "hosts": ["algo-3"],
            },
        ],
        "network_interface_name": "lo",
    }


@pytest.mark.parametrize("count", [0, 17])
def test_a_number_of_hosts_beyond_what_one_machine_starts_is_refused(count: int) -> None:
    with pytest.raises(StepRequestError, match=f"InstanceCount is {count}, allowed here: 1 to 16"):
        read_hosts(RequestReader({"InstanceCount": count, "InstanceType": "ml.m5.large"}))


def test_each_host_has_an_address_of_this_machine() -> None:
    assert hosts_file("127.0.0.1 localhost\n", ["algo-1", "algo-2"]) == (
        "127.0.0.1 localhost\n127.0.0.1 algo-1\n127.0.0.2 algo-2\n"
    )


def test_a_channel_for_a_group_that_is_not_there_is_refused(bench: Any) -> None:
    step = bench.training("train", channels={"data": bench.put("s3://bucket/data/a", "a")})
    source = step["Arguments"]["InputDataConfig"][0]["DataSource"]["S3DataSource"]
    source["InstanceGroupNames"] = ["dnn"]
    with pytest.raises(RefusedDefinitionError, match="names the instance group 'dnn'; there are"):
        bench.run(step)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("flag", ["torch_distributed", "pytorch_ddp"])
def test_a_distribution_of_pytorch_starts_the_script_by_torchrun(bench: Any, flag: str) -> None:
    code = """
        import argparse, json, os, sys
        import torch, torch.distributed as dist
        parser = argparse.ArgumentParser()
        parser.add_argument("--rate", type=float)
        rate = parser.parse_args().rate
        dist.init_process_group("gloo")
        total = torch.tensor([rate])
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            told = {"sum": total.item(), "world": dist.get_world_size()}
            json.dump(told, open(os.environ["SM_MODEL_DIR"] + "/told", "w"))
        dist.destroy_process_group()
    """
    step = bench.training(
        "train",
        code,
        hyperparameters={f"sagemaker_{flag}_enabled": "true", "rate": "0.5"},
        request={"ResourceConfig": TWO, "StoppingCondition": {"MaxRuntimeInSeconds": 600}},
    )
    result = bench.run(step, cores_per_job=1)
    assert result.status is ExecutionStatus.SUCCEEDED, result.steps["train"].failure
    told = json.loads(model_of(bench, result, "train")["told"])
    assert told == {"sum": 1.0, "world": 2}


def test_a_launcher_that_is_not_here_is_refused_with_what_to_do(bench: Any) -> None:
    flags = {"sagemaker_mpi_enabled": "true"}
    with pytest.raises(RefusedDefinitionError, match=r"by MPI.* start it by torchrun"):
        bench.run(bench.training("train", hyperparameters=flags))
