"""What SageMaker's training toolkit (sagemaker-training 5.1) makes of a training job's files: the
SM_* variables and the command line that a training script sees, and what starts the script.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from compilegate.local.jobs.sandbox import HOST

_INTERFACE = "lo"
_GROUP = "homogeneousCluster"
_BY_TORCHRUN = ("sagemaker_torch_distributed_enabled", "sagemaker_pytorch_ddp_enabled")
_ELSEWHERE = {
    "sagemaker_mpi_enabled": "starts the script by MPI",
    "sagemaker_parameter_server_enabled": "starts TensorFlow's parameter servers",
    "sagemaker_distributed_dataparallel_enabled": "needs a library that is in AWS's images only",
    "sagemaker_pytorch_xla_multi_worker_enabled": "starts the script by XLA's own launcher",
    "sagemaker_multi_worker_mirrored_strategy_enabled": "starts TensorFlow's workers",
}
_PREFIX = "sagemaker_"

# Hyperparameters that the toolkit keeps to itself; other sagemaker_* ones are framework parameters.
_OWN_HYPERPARAMETERS = frozenset(
    {
        "sagemaker_program",
        "sagemaker_submit_directory",
        "sagemaker_enable_cloudwatch_metrics",
        "sagemaker_region",
        "sagemaker_container_log_level",
        "sagemaker_job_name",
        "sagemaker_s3_output",
        "default_user_module_name",
        "_tuning_objective_metric",
    }
)
_DEFAULT_LOG_LEVEL = 20


@dataclass(frozen=True)
class TrainingContainer:
    """The facts that the toolkit reads from a container's files and devices."""

    job_name: str
    base: str
    """The folder that is /opt/ml in a container."""
    hyperparameters: Mapping[str, str]
    """As in hyperparameters.json: all values are strings."""
    input_data_config: Mapping[str, Mapping[str, str]]
    """As in inputdataconfig.json, by channel."""
    resource_config: Mapping[str, Any]
    """As in resourceconfig.json."""
    cpus: int
    gpus: int


def decode_hyperparameters(hyperparameters: Mapping[str, str]) -> dict[str, Any]:
    """Each value as the JSON it holds, or as it is when it holds none."""
    decoded: dict[str, Any] = {}
    for name, value in hyperparameters.items():
        try:
            decoded[name] = json.loads(value)
        except ValueError:
            decoded[name] = value
    return decoded


def command_line(hyperparameters: Mapping[str, str]) -> list[str]:
    """The script's arguments: `--name value` by name, without the sagemaker_* hyperparameters."""
    user, _ = _split(decode_hyperparameters(hyperparameters))
    arguments: list[str] = []
    for name in sorted(user):
        flag = f"--{name}" if len(name) > 1 else f"-{name}"
        arguments += [flag if name else "", _argument(user[name])]
    return arguments


def _argument(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in sorted(value.items()))
    return "" if value is None else str(value)


def _split(decoded: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(the script's own hyperparameters, the toolkit's and framework's)."""
    reserved = {
        name: value
        for name, value in decoded.items()
        if name in _OWN_HYPERPARAMETERS or name.startswith(_PREFIX)
    }
    return {name: value for name, value in decoded.items() if name not in reserved}, reserved


def toolkit_environment(container: TrainingContainer) -> dict[str, str]:
    """The SM_* variables, and the few others that the toolkit sets."""
    decoded = decode_hyperparameters(container.hyperparameters)
    user, reserved = _split(decoded)
    properties = _properties(container, user, reserved)
    variables = {name: properties[name] for name in _EXPORTED}
    variables |= {
        "hps": user,
        "framework_params": properties["additional_framework_parameters"],
        "channels": sorted(properties["channel_input_dirs"]),
        "training_env": properties,
        "user_args": command_line(container.hyperparameters),
    }
    variables |= {f"channel_{k}": v for k, v in properties["channel_input_dirs"].items()}
    variables |= {f"hp_{name}": value for name, value in user.items()}
    return {
        **{f"SM_{name.upper()}": _variable(value) for name, value in variables.items()},
        "CURRENT_HOST": properties["current_host"],
        "SAGEMAKER_JOB_NAME": str(reserved.get("sagemaker_job_name", "")),
        "SAGEMAKER_REGION": str(reserved.get("sagemaker_region", "")),
        "TRAINING_JOB_NAME": container.job_name,
    }


_EXPORTED = (
    "hosts",
    "network_interface_name",
    "user_entry_point",
    "resource_config",
    "input_data_config",
    "output_data_dir",
    "current_host",
    "current_instance_type",
    "current_instance_group",
    "current_instance_group_hosts",
    "instance_groups",
    "instance_groups_dict",
    "distribution_instance_groups",
    "is_hetero",
    "module_name",
    "log_level",
    "framework_module",
    "input_dir",
    "input_config_dir",
    "output_dir",
    "num_cpus",
    "num_gpus",
    "num_neurons",
    "model_dir",
    "module_dir",
    "output_intermediate_dir",
)


def _variable(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def _properties(
    container: TrainingContainer, user: Mapping[str, Any], reserved: Mapping[str, Any]
) -> dict[str, Any]:
    """The public properties of the toolkit's Environment, which SM_TRAINING_ENV holds whole."""
    base, resources = container.base, container.resource_config
    groups: Sequence[Mapping[str, Any]] = resources["instance_groups"]
    group = resources["current_group_name"]
    host = resources["current_host"]
    program = reserved.get("sagemaker_program")
    module = str(program)
    return {
        "additional_framework_parameters": {
            name: value for name, value in reserved.items() if name not in _OWN_HYPERPARAMETERS
        },
        "channel_input_dirs": {
            channel: f"{base}/input/data/{channel}" for channel in container.input_data_config
        },
        "current_host": host,
        "current_instance_group": group,
        "current_instance_group_hosts": [
            name for g in groups if g["instance_group_name"] == group for name in g["hosts"]
        ],
        "current_instance_type": resources["current_instance_type"],
        "distribution_hosts": [],
        "distribution_instance_groups": [],
        "framework_module": None,
        "hosts": resources["hosts"],
        "hyperparameters": dict(user),
        "input_config_dir": f"{base}/input/config",
        "input_data_config": dict(container.input_data_config),
        "input_dir": f"{base}/input",
        "instance_groups": [g["instance_group_name"] for g in groups],
        "instance_groups_dict": {g["instance_group_name"]: g for g in groups},
        "is_hetero": len(groups) > 1,
        "is_master": host == resources["hosts"][0],
        "is_modelparallel_enabled": None,
        "is_smddpmprun_installed": False,
        "is_smddprun_installed": False,
        "job_name": container.job_name,
        "log_level": reserved.get("sagemaker_container_log_level", _DEFAULT_LOG_LEVEL),
        "master_hostname": resources["hosts"][0],
        "model_dir": f"{base}/model",
        "module_dir": str(reserved.get("sagemaker_submit_directory", f"{base}/code")),
        "module_name": module.removesuffix(".py"),
        "network_interface_name": resources["network_interface_name"],
        "num_cpus": container.cpus,
        "num_gpus": container.gpus,
        "num_neurons": 0,
        "output_data_dir": f"{base}/output/data",
        "output_dir": f"{base}/output",
        "output_intermediate_dir": f"{base}/output/intermediate",
        "resource_config": dict(resources),
        "topology": [],
        "user_entry_point": program,
    }


def resource_config(instance_type: str) -> dict[str, Any]:
    """resourceconfig.json of a job, which has one host here."""
    return {
        "current_host": HOST,
        "current_instance_type": instance_type,
        "current_group_name": _GROUP,
        "hosts": [HOST],
        "instance_groups": [
            {"instance_group_name": _GROUP, "instance_type": instance_type, "hosts": [HOST]}
        ],
        "network_interface_name": _INTERFACE,
    }


def is_on(hyperparameters: Mapping[str, str], name: str) -> bool:
    """Whether a flag among the hyperparameters is set."""
    return hyperparameters.get(name, "false").strip('"').lower() == "true"


def launcher_fault(hyperparameters: Mapping[str, str]) -> str | None:
    """Why the script cannot be started here as its hyperparameters say, if it cannot."""
    for name, why in _ELSEWHERE.items():
        if is_on(hyperparameters, name):
            return (
                f"{name} {why}, which is not done here; start it by torchrun (distribution "
                "torch_distributed), or turn it off for a run on this machine"
            )
    return None


def script_command(
    python: str, program: str, hyperparameters: Mapping[str, str], code: Path, processes: int
) -> list[str]:
    """What starts the script `program` of the folder `code`; `processes` is how many torchrun
    starts where a hyperparameter calls for it. They meet at the job's own port (`environment.py`).
    """
    arguments = command_line(hyperparameters)
    if any(is_on(hyperparameters, name) for name in _BY_TORCHRUN):
        torchrun = ["-m", "torch.distributed.run", "--nnodes=1", f"--nproc_per_node={processes}"]
        return [python, *torchrun, program, *arguments]
    if (code / "setup.py").is_file():
        return [python, "-m", program.removesuffix(".py").replace("/", "."), *arguments]
    if program.endswith(".py"):
        return [python, program, *arguments]
    (code / program).chmod(0o777)
    # The toolkit has a shell run a file that begins with no `#!`.
    return ["/bin/sh", "-c", f"./{program} {shlex.join(arguments)}"]
