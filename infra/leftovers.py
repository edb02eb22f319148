"""Stacks that are deployed and no longer declared, and resources that outlived their stacks.

    python -m compilegate.infra.leftovers             names such stacks (make diff, make deploy)
    python -m compilegate.infra.leftovers --remove    deletes them after a question (make prune)
    python -m compilegate.infra.leftovers --adopt     writes what `cdk import` reads (make adopt)

Exit code 2: settings, workloads or account do not allow it; standard error says why.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from botocore.exceptions import BotoCoreError

from compilegate.account.errors import DeniedError, NotDeployedError, absent_allowed, aws_errors
from compilegate.account.executions import running_execution
from compilegate.account.session import AwsSession, open_session
from compilegate.account.settings import SETTINGS_FILE
from compilegate.errors import CompilegateError
from compilegate.infra.project import Project, endpoint_of, read_project

ASSEMBLY, FILES = Path("cdk.out"), Path(".cache", "kept")
"""Folder of the templates, and of a file `STACK.json` for each group to import."""
GROUP = "AWS::SageMaker::ModelPackageGroup"
GONE = ("DELETE_COMPLETE", "DELETE_IN_PROGRESS")


class LeftoverError(CompilegateError):
    """A leftover cannot be removed or adopted. The message says why."""


def find_leftovers(project: Project, session: AwsSession) -> dict[str, str]:
    """What each stack does, by name: endpoints before their workloads, and last the network, which
    jobs may use. Raises AwsError."""
    names, workloads = project.names, [declared.workload for declared in project.workloads]
    declared = {names.workload_stack(each.name) for each in workloads}
    declared |= {names.endpoint_stack(each.name) for each in workloads if endpoint_of(each)}
    if project.settings.network.create:
        declared.add(names.network_stack)
    does = {
        names.endpoint_stack(""): "its endpoint answers, and may cost by the hour",
        names.workload_stack(""): "a schedule or new data may start its pipeline",
        names.network_stack: "its endpoints cost by the hour, whether or not anything trains",
    }
    left = sorted(_deployed(session) - declared)
    return {name: does[kind] for kind in does for name in left if name.startswith(kind)}


def remove(project: Project, session: AwsSession, stacks: Iterable[str]) -> None:
    """Delete the stacks, one after the other. Raises LeftoverError, AwsError."""
    client = session.client("cloudformation")
    for stack in stacks:
        workload = stack.removeprefix(project.names.workload_stack(""))
        # A stack of another kind, or one that was made in part, has no pipeline.
        with suppress(NotDeployedError):
            if running := running_execution(session, project.names.pipeline(workload)):
                raise LeftoverError(
                    f"{stack}: an execution is running; stop it with: compilegate aws stop "
                    f"{running}"
                )
        with aws_errors(f"delete the stack {stack}"):
            client.delete_stack(StackName=stack)
            client.get_waiter("stack_delete_complete").wait(StackName=stack)
        print(f"{stack}: removed")


def adopt(project: Project, session: AwsSession) -> None:
    """Prepare the adoption of what an earlier deployment kept.

    CloudFormation finds bucket and repositories by name. The key has none: the settings must give
    its ARN, and no other, since the bucket's objects can be read with no other. A model package
    group is imported by its ARN, where its stack is not there. Raises LeftoverError, AwsError.
    """
    names, deployed = project.names, _deployed(session)
    key, bucket = None, names.bucket(session.account, session.region)
    with aws_errors(f"read the encryption of {bucket}"), absent_allowed():
        (rule,) = session.client("s3").get_bucket_encryption(
            Bucket=bucket, ExpectedBucketOwner=session.account
        )["ServerSideEncryptionConfiguration"]["Rules"]
        key = rule["ApplyServerSideEncryptionByDefault"].get("KMSMasterKeyID")
    named = project.settings.storage.key_arn
    if key not in (None, named) and names.foundation_stack not in deployed:
        raise LeftoverError(
            f"{SETTINGS_FILE}: storage.key_arn is {named or 'not set'}, expected {key}, the key of "
            "the bucket that was kept"
        )
    shutil.rmtree(FILES, ignore_errors=True)
    FILES.mkdir(parents=True)
    for workload in (declared.workload for declared in project.workloads):
        stack, group = names.workload_stack(workload.name), names.model_package_group(workload)
        if stack in deployed:
            continue
        with aws_errors(f"look for the group {group}"), absent_allowed():
            arn = session.client("sagemaker").describe_model_package_group(
                ModelPackageGroupName=group
            )["ModelPackageGroupArn"]
            template = json.loads((ASSEMBLY / f"{stack}.template.json").read_text("utf-8"))
            (id,) = (id for id, item in template["Resources"].items() if item["Type"] == GROUP)
            (FILES / f"{stack}.json").write_text(json.dumps({id: {"ModelPackageGroupArn": arn}}))
            print(f"{stack} adopts {arn}")


def _deployed(session: AwsSession) -> set[str]:
    """The names of all stacks of the account and region."""
    with aws_errors("list the stacks of the project"):
        stacks = session.listed("cloudformation", "describe_stacks", "Stacks")
        return {each["StackName"] for each in stacks if each["StackStatus"] not in GONE}


def _confirmed() -> bool:
    """Whether a person says yes; without a terminal nobody does."""
    if not sys.stdin.isatty():
        raise LeftoverError("found no terminal to ask at, expected: make prune FLAGS=--force")
    return input("Remove these stacks? [y/N] ").strip().lower() in ("y", "yes")


def main(arguments: Sequence[str]) -> int:
    try:
        project = read_project()
        session = open_session(project.settings.region, project.settings.account)
        if "--adopt" in arguments:
            adopt(project, session)
            return 0
        found = find_leftovers(project, session)
        for stack, sentence in found.items():
            print(f"{stack}: deployed and no longer declared; {sentence}", file=sys.stderr)
        if found and "--remove" not in arguments:
            print("remove what is no longer declared with: make prune", file=sys.stderr)
        elif found and ("--force" in arguments or _confirmed()):
            remove(project, session, found)
    except DeniedError as error:
        print(f"not looked for what is no longer declared: {error}", file=sys.stderr)
        # CI's roles do not see the account's stacks, and have deployed what there was to deploy.
        return 2 if arguments else 0
    except (BotoCoreError, CompilegateError) as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
