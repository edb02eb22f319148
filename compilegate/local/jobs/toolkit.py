"""What SageMaker's training toolkit (sagemaker-training 5.1) makes of a training job's files: the
SM_* variables and the command line that a training script sees, and what starts the script.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_BY_TORCHRUN = ("sagemaker_torch_distributed_enabled", "sagemaker_pytorch_ddp_enabled")
_OTHER_LAUNCHERS = {
    "sagemaker_mpi_enabled": "starts the script by MPI",
    "sagemaker_parameter_server_enabled": "starts TensorFlow's parameter servers",
    "sagemaker_distributed_dataparallel_enabled": "needs a library that only AWS's images have",
    "sagemaker_pytorch_xla_multi_worker_enabled": "starts the script by XLA's own launcher",
    "sagemaker_multi_worker_mirrored_strategy_enabled": "starts TensorFlow's workers",
}
_OWN = re.compile(
    "sagemaker_(program|submit_directory|enable_cloudwatch_metrics|region|container_log_level|"
    "job_name|s3_output)|default_user_module_name|_tuning_objective_metric"
)
"""What the toolkit keeps to itself; other sagemaker_* hyperparameters are the framework's."""


def _split(hyperparameters: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The script's own hyperparameters, and the toolkit's and framework's: each value as the JSON
    that it holds, or as it is when it holds none."""
    user: dict[str, Any] = {}
    reserved: dict[str, Any] = {}
    for name, value in hyperparameters.items():
        is_reserved = _OWN.fullmatch(name) or name.startswith("sagemaker_")
        decoded = reserved if is_reserved else user
        try:
            decoded[name] = json.loads(value)
        except ValueError:
            decoded[name] = value
    return user, reserved


def command_line(hyperparameters: Mapping[str, str]) -> list[str]:
    """The script's arguments: `--name value` by name, without the sagemaker_* hyperparameters."""
    user, _ = _split(hyperparameters)
    arguments: list[str] = []
    for name, value in sorted(user.items()):
        if isinstance(value, dict):
            value = ",".join(f"{key}={item}" for key, item in sorted(value.items()))  # noqa: PLW2901
        flag = f"--{name}" if len(name) > 1 else f"-{name}"
        arguments += [flag if name else "", "" if value is None else str(value)]
    return arguments


def toolkit_environment(
    *,
    job_name: str,
    base: str,
    hyperparameters: Mapping[str, str],
    input_data_config: Mapping[str, Mapping[str, str]],
    resources: Mapping[str, Any],
    cpus: int,
    gpus: int,
) -> dict[str, str]:
    """The SM_* variables, and the few others that the toolkit sets.

    `base` is the folder that is /opt/ml in a container; the mappings are what hyperparameters.json,
    inputdataconfig.json and resourceconfig.json hold.
    """
    user, reserved = _split(hyperparameters)
    host = resources["current_host"]
    channels = {name: f"{base}/input/data/{name}" for name in input_data_config}
    framework = {k: v for k, v in reserved.items() if not _OWN.fullmatch(k)}
    program = reserved.get("sagemaker_program")
    exported: dict[str, Any] = {
        **_of_resources(resources),
        **_folders(base),
        "framework_module": None,
        "input_data_config": input_data_config,
        "log_level": reserved.get("sagemaker_container_log_level", 20),
        "module_dir": str(reserved.get("sagemaker_submit_directory", f"{base}/code")),
        "module_name": str(program).removesuffix(".py"),
        "num_cpus": cpus,
        "num_gpus": gpus,
        "num_neurons": 0,
        "user_entry_point": program,
    }
    # The public properties of the toolkit's Environment.
    training_env = {
        **exported,
        "additional_framework_parameters": framework,
        "channel_input_dirs": channels,
        "distribution_hosts": [],
        "hyperparameters": user,
        "is_master": True,
        "is_modelparallel_enabled": None,
        "is_smddpmprun_installed": False,
        "is_smddprun_installed": False,
        "job_name": job_name,
        "master_hostname": host,
        "topology": [],
    }
    variables = {
        **exported,
        "hps": user,
        "framework_params": framework,
        "channels": sorted(channels),
        "training_env": training_env,
        "user_args": command_line(hyperparameters),
        **{f"channel_{name}": folder for name, folder in channels.items()},
        **{f"hp_{name}": value for name, value in user.items()},
    }
    return {
        **{f"SM_{name.upper()}": _variable(value) for name, value in variables.items()},
        "CURRENT_HOST": host,
        "SAGEMAKER_JOB_NAME": str(reserved.get("sagemaker_job_name", "")),
        "SAGEMAKER_REGION": str(reserved.get("sagemaker_region", "")),
        "TRAINING_JOB_NAME": job_name,
    }


def _of_resources(resources: Mapping[str, Any]) -> dict[str, Any]:
    """What follows from a job's hosts: one, in one group."""
    (group,) = resources["instance_groups"]
    name = group["instance_group_name"]
    return {
        "current_host": resources["current_host"],
        "current_instance_group": name,
        "current_instance_group_hosts": group["hosts"],
        "current_instance_type": group["instance_type"],
        "distribution_instance_groups": [],
        "hosts": resources["hosts"],
        "instance_groups": [name],
        "instance_groups_dict": {name: group},
        "is_hetero": False,
        "network_interface_name": resources["network_interface_name"],
        "resource_config": resources,
    }


def _folders(base: str) -> dict[str, str]:
    return {
        "input_config_dir": f"{base}/input/config",
        "input_dir": f"{base}/input",
        "model_dir": f"{base}/model",
        "output_data_dir": f"{base}/output/data",
        "output_dir": f"{base}/output",
        "output_intermediate_dir": f"{base}/output/intermediate",
    }


def _variable(value: Any) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def is_on(hyperparameters: Mapping[str, str], name: str) -> bool:
    return hyperparameters.get(name, "false").strip('"').lower() == "true"


def launcher_fault(hyperparameters: Mapping[str, str]) -> str | None:
    """Why the script cannot be started here as its hyperparameters say, if it cannot."""
    for name, why in _OTHER_LAUNCHERS.items():
        if is_on(hyperparameters, name):
            return (
                f"{name} {why}, which is not supported here; use torchrun (distribution "
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
