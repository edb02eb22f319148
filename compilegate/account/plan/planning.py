"""The plan of one workload: what the account says before anything is started, and whether this
checkout's definition is the deployed one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from compilegate.access.endpoints import GATEWAYS, reached_services
from compilegate.account.errors import AwsError, NotDeployedError
from compilegate.account.executions import read_pipeline
from compilegate.account.plan.budget import bound_of, over_budget
from compilegate.account.plan.jobs import PlanError, PlannedJob, jobs_given
from compilegate.account.plan.quotas import (
    QuotaAnswer,
    ask_quotas,
    check_builds,
    check_size,
    read_quotas,
)
from compilegate.account.session import AwsSession, StackOutputs
from compilegate.account.settings import Names, Settings
from compilegate.account.settings.declaration import Network
from compilegate.account.settings.names import output_suffix
from compilegate.account.settings.reading import network_of
from compilegate.document.reading import read_definition
from compilegate.pipelines.deployment import Deployment, ProjectNetwork, Sources, object_name
from compilegate.workload import Workload

NOT_DEPLOYED = "arn:aws:iam::000000000000:role/not-deployed"
"""Stands for the roles of a workload that has no stack yet."""
_HOURS_A_MONTH = 730
USD_PER_ENDPOINT_HOUR = {"us-east-1": 0.010, "us-west-2": 0.010, "eu-west-1": 0.011}
"""What one interface endpoint costs in one zone (`VpcEndpoint-Hours`), November 2026."""
USD_PER_ENDPOINT_GIGABYTE = 0.010
"""What passes an interface costs this in these regions; what passes a gateway costs nothing."""


@dataclass(frozen=True)
class Plan:
    """What would be, were this checkout deployed and an execution started."""

    pipeline: str
    region: str
    definition: Literal["not deployed", "same", "changed"]
    """Against the deployed one."""
    jobs: tuple[PlannedJob, ...]
    most_usd: float
    """All jobs with a known price at their maximum runtimes, nothing taken from the cache. A job
    that the service tries again can cost more."""
    usd_of: Mapping[str, float]
    """The same by step, of the jobs that are counted."""
    unknown: tuple[str, ...]
    """Why jobs are missing from that, each reason once."""
    quotas: tuple[QuotaAnswer, ...]
    quotas_unknown: str | None
    """Why the account's quotas could not be read; what holds for every account is there still."""
    network: str | None
    """What the network costs that the project makes; None where it makes none."""
    over_budget: tuple[str, ...]
    """Why an execution may not start: what the workload allows it to cost."""


def make_plan(
    session: AwsSession,
    pipeline: str,
    definition: str,
    workload: Workload,
    *,
    given: Mapping[str, str],
    settings: Settings,
    unbuilt: Sequence[str],
    now: datetime,
) -> Plan:
    """Plan an execution of `definition` (JSON) as that pipeline, with the given parameters.

    `unbuilt` are the images that it runs in and that are not there yet.

    Raises PlanError for parameters that it does not take, AwsError.
    """
    planned, faults = read_definition(definition)
    if faults:
        raise PlanError(*faults)
    jobs = jobs_given(planned, given)
    try:
        deployed = json.loads(read_pipeline(session, pipeline))
    except NotDeployedError:
        deployed = None
    most = workload.compute.max_parallel_steps
    answers, quotas_unknown = ask_quotas(session, planned, jobs, most)
    if unbuilt and quotas_unknown is None:
        try:
            of_builds = read_quotas(session, "codebuild")
            answers.append(check_builds(settings.images.build_machine, len(unbuilt), of_builds))
        except AwsError as error:
            quotas_unknown = str(error)
    bound = bound_of(jobs, workload.declared_prices, session.region)
    same = deployed == json.loads(definition)
    return Plan(
        pipeline=pipeline,
        region=session.region,
        definition="not deployed" if deployed is None else "same" if same else "changed",
        jobs=tuple(jobs),
        most_usd=bound.usd,
        usd_of=bound.usd_of,
        unknown=bound.unknown,
        quotas=(check_size(len(definition)), *answers),
        quotas_unknown=quotas_unknown,
        network=network_cost(settings.network, session.region),
        over_budget=over_budget(session, pipeline if deployed else None, workload, jobs, now),
    )


def network_cost(declared: Network, region: str) -> str | None:
    """What the endpoints cost that the project makes, by the hour and zone; None without any
    network of its own."""
    if not declared.create:
        return None
    services = reached_services(declared.endpoints, isolated=declared.isolation)
    endpoints = sum(service not in GATEWAYS for service in services)
    if endpoints == 0:
        return "Network: 0.00 USD a month, gateways cost nothing"
    where = region if region in USD_PER_ENDPOINT_HOUR else "us-east-1"
    usd = endpoints * declared.zone_count * USD_PER_ENDPOINT_HOUR[where] * _HOURS_A_MONTH
    return (
        f"Network: {usd:,.2f} USD a month at the prices of {where} for {endpoints} interface "
        f"endpoints in {declared.zone_count} zones, whether or not anything trains, and "
        f"{USD_PER_ENDPOINT_GIGABYTE} USD for each GB that passes them"
    )


def target_deployment(
    foundation: StackOutputs,
    stack: StackOutputs | None,
    names: Names,
    image_tags: Mapping[str, str],
    region: str,
    *,
    network: StackOutputs | None = None,
) -> Deployment:
    """The deployment that `make deploy` would compile for. Raises NotDeployedError.

    `stack` is the workload's own, or None when it was never deployed: then its roles have no names
    yet, and there is no definition to compare with. `network` is the stack of the VPC that the
    project has made, or None where it has made none.

    An image folder that is new has no repository yet, and one of a known name in the same registry.
    """
    registry = foundation["RepositoryUriGate"].partition("/")[0]
    repositories = {
        folder: foundation.values.get(
            f"RepositoryUri{output_suffix(folder)}", f"{registry}/{names.repository(folder)}"
        )
        for folder in image_tags
    }
    made = None
    if network is not None:
        made = ProjectNetwork(
            subnets=network["SubnetIds"].split(","), security_group=network["SecurityGroupId"]
        )
    return Deployment(
        region=region,
        bucket=foundation["BucketName"],
        training_role_arn=stack["TrainingRoleArn"] if stack else NOT_DEPLOYED,
        processing_role_arn=stack["ProcessingRoleArn"] if stack else NOT_DEPLOYED,
        images={folder: f"{repositories[folder]}:{tag}" for folder, tag in image_tags.items()},
        kms_key=foundation["KeyArn"],
        network=network_of(names.settings, made),
        name_prefix=names.pipeline(""),
        tags=names.tags,
    )


def target_sources(staged: Sources, stack: StackOutputs) -> Sources:
    """The staged content as assets: in the bucket that the deployed ones lie in, by its own
    digests. Raises NotDeployedError."""

    def beside(output: str, uri: str) -> str:
        return f"{stack[output].rpartition('/')[0]}/{object_name(uri)}"

    return Sources(
        training_archive=beside("TrainingArchiveUri", staged.training_archive),
        training_code=beside("TrainingCodeUri", staged.training_code),
        gate_code=beside("GateCodeUri", staged.gate_code),
        experiment=beside("ExperimentUri", staged.experiment),
        data=staged.data,
        serving_code=staged.serving_code and beside("GateCodeUri", staged.serving_code),
    )
