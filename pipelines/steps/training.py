"""The training steps: one for each arm and seed; and those that compile Neuron's graphs before.

SageMaker uploads a job's checkpoint folder while the job runs, and puts its content into the next
job's container, in network isolation too. Two things live in it:

    compile-cache/    archives that fit a graph, for the next job that trains that graph
    checkpoints/      of spot arms, by the name of the job that can resume from them

Its URI is part of the step cache's key, so it holds nothing of one execution. The seeds of an arm
share the folder, since the graph is the arm's. The jobs of a spot arm have a folder each: a job
uploads again all that it found, and what it deletes is deleted, while the others still write.

Neuron compiles each graph when a step first meets it. `neuron_parallel_compile` goes through a few
steps without calculating anything, and compiles all their graphs side by side into a cache in S3.
One job does that for all seeds of an arm: Prepare -> Extract-ARM -> Train-ARM-SEED.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from compilegate.document.expressions import Expression, join, parameter, step_property
from compilegate.document.model import Dependency, Step
from compilegate.document.step_types import TRAINING
from compilegate.job import contract
from compilegate.job.compilers.declaration import (
    DEBUG,
    EXTRACTION_STEPS,
    PRECOMPILE,
    TRAINING_COMPILER,
)
from compilegate.pipelines.deployment import object_name
from compilegate.pipelines.images import image_of
from compilegate.pipelines.requests import (
    Blueprint,
    Uri,
    job_retries,
    job_tags,
    network_members,
    output_key,
    volume_key,
)
from compilegate.workload import Arm
from compilegate.workload.parameters import ATTEMPT, INSTANCE_TYPE, MAX_RUNTIME

NEURON_EXTRACTION = "compilegate/job/launch/neuron_extraction.py"
"""What runs the training program under `neuron_parallel_compile`."""
SM_DIST = "compilegate/job/launch/sm_dist.py"
"""What starts a script on several GPUs in Training Compiler's oldest images, to PyTorch 1.10.2."""
CODE_CHANNEL = "code"
_KEPT_FOLDER = "/opt/ml/checkpoints"

Replicate = tuple[str, int]


def training_steps(blueprint: Blueprint, data: Uri) -> dict[Replicate, Step]:
    """The step of each replicate, on the training data at that URI.

    Seed by seed, not arm by arm: where jobs run one after the other, a machine that slows down over
    time then slows all arms alike.
    """
    return {
        (arm, seed): training_step(blueprint, data, arm, seed)
        for seed in blueprint.workload.seeds
        for arm in blueprint.workload.arms
    }


def training_step(blueprint: Blueprint, data: Uri, arm_name: str, seed: int) -> Step:
    """The step of one replicate."""
    workload, deployment = blueprint.workload, blueprint.deployment
    arm = workload.arms[arm_name]
    program = workload.kind.training_program(workload, arm_name, seed)
    image = image_of(deployment, arm)
    instance_type = arm.instance_type or parameter(INSTANCE_TYPE)
    request: dict[str, Any] = {
        "AlgorithmSpecification": {
            "TrainingImage": image,
            "TrainingInputMode": "File",
            "MetricDefinitions": [
                {"Name": name, "Regex": regex} for name, regex in program.metrics.items()
            ],
        },
        "HyperParameters": {
            **program.hyperparameters,
            **_toolkit_parameters(blueprint, program.entry),
            **_training_compiler_parameters(arm, program.entry),
        },
        # Resources are no part of the step cache's key, but a timing taken on one instance type
        # says nothing about another: with the type named here, the cache tells them apart.
        "Environment": {
            contract.INSTANCE_TYPE_VARIABLE: instance_type,
            # For the evidence: no container knows what it was started from.
            contract.IMAGE_VARIABLE: image,
            "PYTHONUNBUFFERED": "1",
            **program.environment,
            **_environment(blueprint, arm_name),
        },
        "InputDataConfig": [
            _channel(workload.kind.data_channel, data),
            # The toolkit fetches the archive itself; in isolation it cannot, and the service does.
            *(
                [_channel(CODE_CHANNEL, blueprint.sources.training_archive)]
                if deployment.isolated
                else []
            ),
        ],
        "OutputDataConfig": {"S3OutputPath": blueprint.uri("training"), **output_key(deployment)},
        "ResourceConfig": {
            "InstanceType": instance_type,
            "InstanceCount": arm.instance_count,
            "VolumeSizeInGB": workload.compute.volume_gb,
            # Of the declared type; `volume_key_faults` refuses a parameter of the other kind.
            **volume_key(deployment, arm.instance_type or workload.compute.instance_type),
        },
        "RoleArn": deployment.training_role_arn,
        "StoppingCondition": {
            "MaxRuntimeInSeconds": parameter(MAX_RUNTIME),
            # The time for all machines of a spot job, waiting for them included.
            **({"MaxWaitTimeInSeconds": arm.max_wait_seconds} if arm.max_wait_seconds else {}),
        },
        **({"EnableManagedSpotTraining": True} if arm.spot else {}),
        **_checkpoint_config(blueprint, arm_name, seed),
        **network_members(deployment),
        # What several instances send each other is encrypted.
        **({"EnableInterContainerTrafficEncryption": True} if arm.instance_count > 1 else {}),
        **_observation(blueprint, arm),
        "Tags": job_tags(blueprint, arm_name),
    }
    return Step(
        f"Train-{arm_name}-{seed}",
        TRAINING,
        request,
        cache=blueprint.training_cache,
        retry_policies=job_retries(workload.compute),
        description=workload.kind.job_in_words(workload, arm_name, seed),
    )


def model_uri(step: Step) -> Expression:
    return step_property(step.name, "ModelArtifacts.S3ModelArtifacts")


def evidence_uri(step: Step) -> Expression:
    """The archive of SM_OUTPUT_DATA_DIR: no property of a training job holds its address."""
    output = step_property(step.name, "OutputDataConfig.S3OutputPath")
    return join("/", [output, job_name(step), "output", contract.OUTPUT_ARCHIVE])


def job_name(step: Step) -> Expression:
    """The name of the training job that did the work, in whichever execution that was."""
    return step_property(step.name, "TrainingJobName")


def _toolkit_parameters(blueprint: Blueprint, entry: str) -> dict[str, str]:
    """What SageMaker's training toolkit reads to start the script `entry` of the archive; it
    expects strings quoted as JSON."""
    archive = blueprint.sources.training_archive
    if blueprint.deployment.isolated:
        archive = f"/opt/ml/input/data/{CODE_CHANNEL}/{object_name(archive)}"
    return {
        "sagemaker_program": json.dumps(entry),
        "sagemaker_submit_directory": json.dumps(archive),
        "sagemaker_region": json.dumps(blueprint.deployment.region),
        "sagemaker_container_log_level": "20",
    }


def _training_compiler_parameters(arm: Arm, entry: str) -> dict[str, str]:
    """SageMaker Training Compiler's switches, and what starts the script on each GPU.

    The image's torch_xla reads them from SM_FRAMEWORK_PARAMS, which the training toolkit sets;
    without the toolkit the compiler silently stays off. They may replace the toolkit's own.
    """
    if arm.compiler != TRAINING_COMPILER.name or arm.stack is None:
        return {}
    switches = {
        contract.TRAINING_COMPILER_HYPERPARAMETER: "true",
        contract.TRAINING_COMPILER_DEBUG_HYPERPARAMETER: json.dumps(arm.stack.value(DEBUG)),
    }
    if arm.distribution == "pytorchxla":
        switches["sagemaker_pytorch_xla_multi_worker_enabled"] = "true"
    elif arm.distribution == "sm_dist":
        switches["sagemaker_program"] = json.dumps(SM_DIST)
        switches["training_script"] = json.dumps(entry)
    return switches


def _channel(name: str, uri: Uri) -> dict[str, Any]:
    """An input of a training job: what lies at the URI, in /opt/ml/input/data/NAME."""
    return {
        "ChannelName": name,
        "DataSource": {
            "S3DataSource": {
                "S3DataType": "S3Prefix",
                "S3Uri": uri,
                "S3DataDistributionType": "FullyReplicated",
            }
        },
    }


def _environment(blueprint: Blueprint, arm_name: str) -> dict[str, Any]:
    """What an arm's jobs need to know of their limits and of the places that they share."""
    workload, arm = blueprint.workload, blueprint.workload.arms[arm_name]
    found: dict[str, Any] = {}
    if arm_name != contract.BASELINE_ARM:
        # A candidate's end never costs the baseline's release, and a candidate that was lost is
        # not taken from the cache forever. The baseline's job just fails.
        found[contract.TIME_LIMIT_VARIABLE] = join("", [parameter(MAX_RUNTIME)])
        found[contract.ATTEMPT_VARIABLE] = parameter(ATTEMPT)
    if workload.keeps_compiled(arm):
        found[contract.COMPILE_CACHE_VARIABLE] = f"{_KEPT_FOLDER}/compile-cache"
    if arm.spot:
        found[contract.CHECKPOINTS_VARIABLE] = f"{_KEPT_FOLDER}/checkpoints"
        found[contract.CHECKPOINT_SECONDS_VARIABLE] = str(workload.compute.checkpoint_seconds)
    # Jobs in network isolation cannot reach Neuron's cache. It is not in the arm's own folder of
    # checkpoints: of a spot arm the service would fetch all of it.
    if arm.compiler == "neuron" and not blueprint.deployment.isolated:
        cache = blueprint.uri("checkpoints", "neuron-compile-cache", arm_name)
        found[contract.NEURON_CACHE_VARIABLE] = cache
    return found


def _checkpoint_config(blueprint: Blueprint, arm_name: str, seed: int) -> dict[str, Any]:
    """The folder of an arm that keeps anything; nothing for another.

    The URI ends in a slash: SageMaker takes it for the beginning of keys, and `.../seed-7` is one
    of `.../seed-70/` too.
    """
    arm = blueprint.workload.arms[arm_name]
    if not (arm.spot or blueprint.workload.keeps_compiled(arm)):
        return {}
    uri = blueprint.uri("checkpoints", arm_name, f"seed-{seed}" if arm.spot else "shared")
    return {"CheckpointConfig": {"S3Uri": f"{uri}/", "LocalPath": _KEPT_FOLDER}}


def _observation(blueprint: Blueprint, arm: Arm) -> dict[str, Any]:
    """SageMaker's profiler and debugger. Both slow the very steps that are timed, so what an arm
    does not declare is turned off where the service would turn it on by itself."""
    output = blueprint.uri("training")
    profiler: dict[str, Any] = {"DisableProfiler": not arm.profiler}
    members = {"ProfilerConfig": profiler}
    if arm.profiler:
        profiler["S3OutputPath"] = output
    if arm.debugger:
        members["DebugHookConfig"] = {"S3OutputPath": output, "CollectionConfigurations": []}
    return members


def extracts(arm: Arm) -> bool:
    """Whether a job compiles the arm's graphs for Neuron before its training jobs."""
    return arm.stack is not None and bool(arm.stack.value(PRECOMPILE))


def extraction_steps(blueprint: Blueprint, trained: Mapping[Replicate, Step]) -> list[Step]:
    """One step for each arm whose graphs are compiled before its training."""
    seed = blueprint.workload.seeds[0]
    return [
        _extraction_step(blueprint, name, trained[name, seed])
        for name, arm in blueprint.workload.arms.items()
        if extracts(arm)
    ]


def after_extraction(trained: Mapping[Replicate, Step], extraction: Sequence[Step]) -> list[Step]:
    """The training steps, each of which waits for its arm's extraction, where there is one."""
    extracted = {step.name for step in extraction}
    return [
        replace(step, depends_on=(Dependency(f"Extract-{arm}"),))
        if f"Extract-{arm}" in extracted
        else step
        for (arm, _), step in trained.items()
    ]


def _extraction_step(blueprint: Blueprint, arm_name: str, training: Step) -> Step:
    """The training job's own request, so that its graphs are the same, but for a few steps."""
    stack = blueprint.workload.arms[arm_name].stack
    request = dict(training.arguments)
    hyperparameters: dict[str, str] = request["HyperParameters"]
    # Resumed from a checkpoint, the job might have no step left to take a graph from; and what it
    # prints is no metric, since nothing is calculated.
    request.pop("CheckpointConfig", None)
    unused = {
        contract.CHECKPOINTS_VARIABLE,
        contract.CHECKPOINT_SECONDS_VARIABLE,
        "MetricDefinitions",
    }
    for member in ("Environment", "AlgorithmSpecification"):
        request[member] = {
            key: value for key, value in request[member].items() if key not in unused
        }
    request["HyperParameters"] = {
        **hyperparameters,
        "sagemaker_program": json.dumps(NEURON_EXTRACTION),
        "training_script": json.loads(hyperparameters["sagemaker_program"]),
        "max_steps": str(stack.value(EXTRACTION_STEPS) if stack is not None else 0),
        contract.PARITY_STEPS: "0",
        contract.SPEED_PROBE_SECONDS: "0",
        "on_failure": "stop",
    }
    return Step(
        f"Extract-{arm_name}",
        TRAINING,
        request,
        cache=blueprint.cache,
        retry_policies=job_retries(blueprint.workload.compute),
        description=f"Compile the graphs of arm {arm_name} before its training",
    )
