"""What every job's request has from its workload and account: keys, network, tags, retries, cache.

Keys and networks are named where the deployment has any. Tags split a bill: `compiler` says whether
compilers are worth their money, the others whose money it was. The deployment's own tags come
along, since tag policies and budgets look at jobs, which inherit no tag of the pipeline.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, get_args

from compilegate.document.expressions import Expression, parameter
from compilegate.document.model import (
    CachePolicy,
    Definition,
    Parameter,
    RetryPolicy,
    Scalar,
    parse_duration,
)
from compilegate.document.step_types import TRAINING
from compilegate.job.contract import NO_ARM
from compilegate.pipelines.deployment import Deployment, Sources
from compilegate.workload import Compute, Workload
from compilegate.workload.parameters import (
    APPROVAL,
    ATTEMPT,
    DATA,
    INSTANCE_TYPE,
    MAX_RUNTIME,
    Approval,
)

Uri = str | Expression


@dataclass(frozen=True, kw_only=True)
class Blueprint:
    """What the steps are made from: a workload, and where it will run."""

    workload: Workload
    deployment: Deployment
    sources: Sources

    def uri(self, *parts: str) -> str:
        """A place of the workload's own in the bucket."""
        return self.deployment.uri("workloads", self.workload.name, *parts)

    @property
    def cache(self) -> CachePolicy | None:
        """For steps whose result depends on their request alone; None where the workload turns
        caching off."""
        declared = self.workload.cache
        return CachePolicy(parse_duration(declared.expire_after)) if declared.enabled else None

    @property
    def training_cache(self) -> CachePolicy | None:
        """For the steps that train arms; None where each execution trains anew."""
        schedule = self.workload.schedule
        return None if schedule is not None and schedule.retrain == "always" else self.cache

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """What one execution may change, with the workload's own values as defaults."""
        workload, compute = self.workload, self.workload.compute
        return (
            Parameter(DATA, "String", self.sources.data),
            Parameter(APPROVAL, "String", workload.registry.approval, get_args(Approval)),
            Parameter(INSTANCE_TYPE, "String", compute.instance_type),
            Parameter(MAX_RUNTIME, "Integer", compute.max_runtime_seconds),
            Parameter(ATTEMPT, "String", "1"),
        )


# EC2's instance store documentation, read in November 2026. A `d` after the generation says that
# there are local disks (m5d, p4d, g4dn); these families have them without saying so. Of g7 it is
# assumed: a key that is left out encrypts otherwise, one that may not be named fails the job.
_LOCAL_DISKS = re.compile(
    r"ml\.(?:[a-z]+\d+[a-z]*d[a-z]*|dl1|g5|gr?6[ef]?|g7e?|i\d\w*|p5e?n?|p6[-\w]*|trn1n?|trn2)\."
)


def has_local_disks(instance_type: str) -> bool:
    """Whether SageMaker uses the instance's own disks and creates no volume.

    Their hardware encrypts them, and a request that names a key for them is refused.
    """
    return _LOCAL_DISKS.match(instance_type) is not None


def volume_key_of(instance_type: str, key_arn: str | None) -> str | None:
    """The key that a request names for the volume of its instances: of a job, a batch transform or
    an endpoint. None where the instances have disks of their own, or there is no key."""
    return None if has_local_disks(instance_type) else key_arn


def volume_key(deployment: Deployment, instance_type: str) -> dict[str, str]:
    """`VolumeKmsKeyId`, where there is a key and a volume."""
    key = volume_key_of(instance_type, deployment.kms_key)
    return {} if key is None else {"VolumeKmsKeyId": key}


def volume_key_faults(definition: Definition, parameters: Mapping[str, Scalar]) -> Iterator[str]:
    """A sentence where an execution's parameters give training steps an instance type with local
    disks, and their requests were compiled for one without, or the other way round.

    An execution cannot change the members of a request: with a type that has disks of its own the
    service refuses the key, and with one that has none the volume would go without it.
    """
    given = str(parameters.get(INSTANCE_TYPE))
    requests = [step.arguments for step in definition.steps if step.type == TRAINING]
    for request in requests:
        resources = request["ResourceConfig"]
        if resources["InstanceType"] != parameter(INSTANCE_TYPE):
            continue
        named = "VolumeKmsKeyId" in resources
        if "KmsKeyId" in request["OutputDataConfig"] and named == has_local_disks(given):
            kind = "without" if named else "with"
            yield (
                f"{INSTANCE_TYPE} is {given}, expected a type {kind} local disks, as the "
                "definition was compiled for: it decides whether the key for volumes is named. "
                "Set compute.instance_type in the workload's file, and deploy"
            )
            return


def output_key(deployment: Deployment) -> dict[str, str]:
    """`KmsKeyId` of a job's outputs, where there is a key."""
    return {} if deployment.kms_key is None else {"KmsKeyId": deployment.kms_key}


def network_members(deployment: Deployment, *, offline: bool = False) -> dict[str, Any]:
    """The VPC and the isolation of a job. A program that is `offline` calls nothing, so its
    container can reach nothing: the service moves its inputs and outputs."""
    network = deployment.network
    members: dict[str, Any] = {}
    if network is not None and network.subnets:
        members["VpcConfig"] = {
            "SecurityGroupIds": list(network.security_group_ids),
            "Subnets": list(network.subnets),
        }
    if offline or deployment.isolated:
        members["EnableNetworkIsolation"] = True
    return members


def job_tags(blueprint: Blueprint, arm_name: str = NO_ARM) -> list[dict[str, str]]:
    """The tags of a training job; without an arm, those of a job that works for all arms."""
    arm = blueprint.workload.arms.get(arm_name)
    compiler = "none" if arm is None else arm.compiler
    tags = {
        **blueprint.deployment.tags,
        "compilegate:workload": blueprint.workload.name,
        "compilegate:arm": arm_name,
        "compilegate:compiler": compiler,
        "compiler": str(compiler not in {"none", "eager"}).lower(),
    }
    return [{"Key": key, "Value": value} for key, value in tags.items()]


def job_retries(compute: Compute) -> tuple[RetryPolicy, ...]:
    """The retry policies of every Training and Processing step.

    A job that fails by itself is not tried again: the same program on the same data fails again.
    """
    attempts, wait = compute.retry_attempts, compute.capacity_wait_minutes
    faults = (
        RetryPolicy(
            ("Step.THROTTLING", "Step.SERVICE_FAULT"), interval_seconds=10, max_attempts=attempts
        ),
        # A job that the service breaks for the third time costs more than a person's look at it.
        RetryPolicy(
            ("SageMaker.JOB_INTERNAL_ERROR",), interval_seconds=60, max_attempts=min(attempts, 2)
        ),
    )
    instances = (
        # Instances count for a while after their job has ended; a quota that is too low stays so.
        RetryPolicy(
            ("SageMaker.RESOURCE_LIMIT",),
            interval_seconds=60,
            backoff_rate=1.0,
            expire_after_minutes=min(wait, 10),
        ),
        RetryPolicy(
            ("SageMaker.CAPACITY_ERROR",),
            interval_seconds=300,
            backoff_rate=1.5,
            expire_after_minutes=wait,
        ),
    )
    return (*(faults if attempts else ()), *(instances if wait else ()))
