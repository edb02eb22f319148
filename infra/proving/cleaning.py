"""Removes everything that a project has in an account, what its jobs and functions made included.

Only for a project that was deployed to prove with: it empties the bucket and the registry. Each
step goes on after the failure of another, and says what it could not do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from botocore.exceptions import WaiterError

from compilegate.access import Arns
from compilegate.account.errors import asking
from compilegate.account.executions.calls import running_execution, stop_execution
from compilegate.infra.proving.account import Proving
from compilegate.infra.proving.commands import NotProvedError
from compilegate.infra.proving.inventory import is_of, names_of

SETTLES_MINUTES = 90.0
"""The longest that a stack may be on its way: a deployment that was interrupted goes on."""
ENDS_MINUTES = 30.0


def empty(proving: Proving) -> list[str]:
    """Remove what stands in the way of the stacks' removal; a sentence for each failure."""
    return _each(
        proving,
        settle_stacks,
        stop_executions,
        stop_builds,
        remove_endpoints,
        remove_packages,
        empty_repositories,
        lambda each: empty_buckets(each, toolkit=False),
    )


def finish(proving: Proving) -> list[str]:
    """Remove what the stacks' removal left, and the bootstrap; a sentence for each failure."""
    return _each(
        proving,
        settle_stacks,
        remove_stacks,
        lambda each: empty_buckets(each, toolkit=True),
        remove_toolkit,
        remove_buckets,
        remove_policies,
        remove_logs,
    )


def _each(proving: Proving, *steps: Callable[[Proving], None]) -> list[str]:
    problems = []
    for step in steps:
        try:
            step(proving)
        except Exception as error:  # noqa: BLE001  a bug of one step must not leave what costs
            problems.append(f"{type(error).__name__}: {error}".splitlines()[0])
    return problems


def settle_stacks(proving: Proving) -> None:
    """Wait until CloudFormation is at work on none."""

    def look() -> bool | None:
        going = [name for name, status, _ in _stacks(proving) if status.endswith("_IN_PROGRESS")]
        return None if going else True

    proving.until("an end of CloudFormation's work", SETTLES_MINUTES, look)


def stop_executions(proving: Proving) -> None:
    pipelines = _names(proving, "pipeline")
    for pipeline in pipelines:
        arn = running_execution(proving.session, pipeline)
        if arn is not None:
            stop_execution(proving.session, arn)
    for pipeline in pipelines:
        proving.until(
            f"the end of the executions of {pipeline}",
            ENDS_MINUTES,
            lambda name=pipeline: (
                True if running_execution(proving.session, name) is None else None
            ),
        )


def stop_builds(proving: Proving) -> None:
    """One that goes on would push an image into a repository that is being removed."""
    client = proving.client("codebuild")
    for project in _names(proving, "build project"):
        with asking(f"stop the builds of {project}"):
            ids = client.list_builds_for_project(projectName=project)["ids"][:10]
            builds = client.batch_get_builds(ids=ids)["builds"] if ids else []
            for build in builds:
                if build["buildStatus"] == "IN_PROGRESS":
                    client.stop_build(id=build["id"])


def remove_endpoints(proving: Proving) -> None:
    """Made by a function and no stack; a real-time one would cost for as long as it is there."""
    sagemaker = proving.client("sagemaker")
    endpoints = _names(proving, "endpoint")
    for name in endpoints:
        with asking(f"delete the endpoint {name}"):
            sagemaker.delete_endpoint(EndpointName=name)
    if endpoints:
        proving.until(
            "the end of the endpoints",
            ENDS_MINUTES,
            lambda: None if _names(proving, "endpoint") else True,
        )
    for name in _names(proving, "endpoint configuration"):
        with asking(f"delete the endpoint configuration {name}"):
            sagemaker.delete_endpoint_config(EndpointConfigName=name)
    for name in _names(proving, "model"):
        with asking(f"delete the model {name}"):
            sagemaker.delete_model(ModelName=name)


def remove_packages(proving: Proving) -> None:
    sagemaker = proving.client("sagemaker")
    for group in _names(proving, "model package group"):
        with asking(f"delete the models of {group}"):
            pages = sagemaker.get_paginator("list_model_packages").paginate(
                ModelPackageGroupName=group
            )
            arns = [
                item["ModelPackageArn"]
                for page in pages
                for item in page["ModelPackageSummaryList"]
            ]
            for arn in arns:
                sagemaker.delete_model_package(ModelPackageName=arn)


def empty_repositories(proving: Proving) -> None:
    """CloudFormation does it, too, where no build pushes meanwhile."""
    ecr = proving.client("ecr")
    for repository in _names(proving, "repository"):
        with asking(f"delete the images of {repository}"):
            pages = ecr.get_paginator("list_images").paginate(repositoryName=repository)
            for images in [page["imageIds"] for page in pages]:
                if images:
                    ecr.batch_delete_image(repositoryName=repository, imageIds=images)


def empty_buckets(proving: Proving, *, toolkit: bool) -> None:
    """All versions of all objects, of the project's bucket or of all that are left."""
    s3 = proving.client("s3")
    for bucket in _names(proving, "bucket"):
        if not toolkit and bucket != proving.bucket:
            continue
        with asking(f"empty the bucket {bucket}"):
            for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
                objects = [
                    {"Key": item["Key"], "VersionId": item["VersionId"]}
                    for item in [*page.get("Versions", []), *page.get("DeleteMarkers", [])]
                ]
                if objects:
                    answer = s3.delete_objects(
                        Bucket=bucket, Delete={"Objects": objects, "Quiet": True}
                    )
                    _refuse_errors(bucket, answer)


def _refuse_errors(bucket: str, answer: Mapping[str, Any]) -> None:
    for error in answer.get("Errors", []):
        raise NotProvedError(f"{bucket}: {error.get('Key')}: {error.get('Message')}")


def remove_stacks(proving: Proving) -> None:
    """Those that the CDK left, youngest first: none of them is needed by an older one."""
    toolkit = proving.names.toolkit_stack
    left = sorted(_stacks(proving), key=lambda stack: stack[2], reverse=True)
    for name, _, _ in left:
        if name != toolkit:
            _remove_stack(proving, name)


def remove_toolkit(proving: Proving) -> None:
    if any(name == proving.names.toolkit_stack for name, _, _ in _stacks(proving)):
        _remove_stack(proving, proving.names.toolkit_stack)


def _remove_stack(proving: Proving, name: str) -> None:
    client = proving.client("cloudformation")
    with asking(f"delete the stack {name}"):
        client.delete_stack(StackName=name)
        try:
            client.get_waiter("stack_delete_complete").wait(StackName=name)
        except WaiterError as error:
            raise NotProvedError(f"CloudFormation did not delete {name}; its events say why") from (
                error
            )


def remove_buckets(proving: Proving) -> None:
    """The CDK's own is kept by its stack."""
    for bucket in _names(proving, "bucket"):
        with asking(f"delete the bucket {bucket}"):
            proving.client("s3").delete_bucket(Bucket=bucket)


def remove_policies(proving: Proving) -> None:
    iam, arns = proving.client("iam"), Arns.of(proving.session)
    for name in _names(proving, "policy"):
        arn = arns.policy(name)
        with asking(f"delete the policy {name}"):
            for version in iam.list_policy_versions(PolicyArn=arn)["Versions"]:
                if not version["IsDefaultVersion"]:
                    iam.delete_policy_version(PolicyArn=arn, VersionId=version["VersionId"])
            iam.delete_policy(PolicyArn=arn)


def remove_logs(proving: Proving) -> None:
    """A function that was called while its stack was removed makes its group again."""
    logs = proving.client("logs")
    for name in _names(proving, "log group"):
        with asking(f"delete the log group {name}"):
            logs.delete_log_group(logGroupName=name)


def _names(proving: Proving, kind: str) -> list[str]:
    return names_of(proving.session, proving.names, kind)


def _stacks(proving: Proving) -> Iterator[tuple[str, str, Any]]:
    with asking("list the stacks"):
        pages = proving.client("cloudformation").get_paginator("describe_stacks").paginate()
        for page in pages:
            for stack in page["Stacks"]:
                if is_of(stack["StackName"], proving.names):
                    yield stack["StackName"], stack["StackStatus"], stack["CreationTime"]
