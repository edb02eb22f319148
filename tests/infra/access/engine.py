"""An IAM policy engine: may this principal do that, by every policy that has a say?"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compilegate.access import Arns
from compilegate.account.settings import Names, Settings
from compilegate.infra.bootstrap import policies
from tests.infra.assembly import ACCOUNT, REGION, Assembly

PROGRAM = Path(__file__).with_name("simulate_policies.mjs")
ARNS_HERE = Arns(partition="aws", region=REGION, account=ACCOUNT)
OF_RESOURCES = {
    "AWS::S3::BucketPolicy": "PolicyDocument",
    "AWS::KMS::Key": "KeyPolicy",
    "AWS::ECR::Repository": "RepositoryPolicyText",
    "AWS::SNS::TopicPolicy": "PolicyDocument",
    "AWS::SQS::QueuePolicy": "PolicyDocument",
    "AWS::EC2::VPCEndpoint": "PolicyDocument",
    "AWS::SageMaker::ModelPackageGroup": "ModelPackageGroupPolicy",
}
"""Where a resource's own policy is, by its type."""

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Who:
    """A principal, its policies, and the one that bounds it."""

    arn: str
    policies: Sequence[Document]
    boundary: Document | None = None


@dataclass(frozen=True)
class Question:
    """May the principal do this to that? A key without a value is not in the request."""

    who: Who
    action: str
    resource: str
    context: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.who.arn}: {self.action} on {self.resource} with {dict(self.context)}"


def answers(assembly: Assembly, questions: Sequence[Question]) -> list[bool]:
    """Whether each is allowed, in this assembly's accounts."""
    shared = dict(_policies_of_resources(assembly))
    done = subprocess.run(
        ["node", str(PROGRAM)],
        input=json.dumps([_request(shared, question) for question in questions]),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [answer == "Allowed" for answer in json.loads(done.stdout)]


def refused(assembly: Assembly, questions: Sequence[Question]) -> list[str]:
    given = answers(assembly, questions)
    return [str(each) for each, may in zip(questions, given, strict=True) if not may]


def _request(shared: Mapping[str, tuple[Document, Document]], question: Question) -> Document:
    who, resource = question.who, question.resource
    owner = found[0] if (found := re.search(r"\d{12}", resource)) else ACCOUNT
    # Of an object its bucket's, of a version its group's.
    arn = resource.replace(":model-package/", ":model-package-group/")
    arn = arn.partition("/")[0] if ":s3:" in arn else re.sub(r"(group/[^/]+)/.*", r"\1", arn)
    policy, tags = shared.get(arn, (_otherwise(resource, owner), {}))
    context = {"aws:PrincipalArn": who.arn, **tags, **question.context}
    request = {
        "principal": who.arn,
        "policies": list(who.policies),
        "boundary": who.boundary,
        "action": question.action,
        "resource": resource,
        "account": owner,
        "context": {key: value for key, value in context.items() if value},
        "resourcePolicy": policy,
    }
    return {key: value for key, value in request.items() if value is not None}


def _otherwise(resource: str, owner: str) -> Document | None:
    """The policy of what is not in the assembly."""
    allowed = {}
    if ":kms:" in resource:
        # It comes first, and lets the policies of the account's roles decide.
        allowed = {"Principal": {"AWS": f"arn:aws:iam::{owner}:root"}, "Action": "kms:*"}
    elif owner == "763104351884":
        # AWS lets everybody see and pull its own images.
        allowed = {"Principal": "*", "Action": ["ecr:BatchGetImage", "ecr:DescribeImages"]}
    return document({"Resource": "*", **allowed}) if allowed else None


def document(*statements: Document) -> dict[str, Any]:
    allowed = [{"Effect": "Allow", **statement} for statement in statements]
    return {"Version": "2012-10-17", "Statement": allowed}


def _policies_of_resources(
    assembly: Assembly,
) -> Iterator[tuple[str, tuple[Document, dict[str, str]]]]:
    """By the ARN that each is about: the policy, and a key's tags, which conditions ask for."""
    for type in ("S3::BucketPolicy", "KMS::Key", "ECR::Repository", "SageMaker::ModelPackageGroup"):
        for found in assembly.all_resources(f"AWS::{type}"):
            properties, bucket = found.properties, found.properties.get("Bucket")
            if (policy := properties.get(OF_RESOURCES[found.type])) is not None:
                tags = properties["Tags"] if type == "KMS::Key" else []
                context = {f"aws:ResourceTag/{tag['Key']}": tag["Value"] for tag in tags}
                yield f"arn:aws:s3:::{bucket}" if bucket else found.arn, (policy, context)


def role(assembly: Assembly, stack: str, starting: str, **names: Any) -> Who:
    """A role of a template, whose boundary says these names, too."""
    found = assembly.one(stack, "AWS::IAM::Role", starting)
    project = names_of(stack.partition("-")[0], **names)
    assert found.properties["PermissionsBoundary"].endswith(f":policy/{project.boundary}")
    own = [each["PolicyDocument"] for each in found.properties["Policies"]]
    boundary = policies(ARNS_HERE, project)[str(project.boundary)]
    return Who(found.arn, own, boundary)


def endpoint(assembly: Assembly, service: str) -> Who:
    """What the walled project's endpoint allows, as a policy of whoever asks: the engine knows no
    other."""
    (found,) = (
        each.properties["PolicyDocument"]["Statement"]
        for each in assembly.resources("walled-network", "AWS::EC2::VPCEndpoint")
        if each.properties["ServiceName"] == f"com.amazonaws.{REGION}.{service}"
    )
    own = [{key: each[key] for key in each if key != "Principal"} for each in found]
    return Who(f"arn:aws:iam::{ACCOUNT}:role/somebody", [document(*own)])


def names_of(project: str, **settings: Any) -> Names:
    """The names of a project with nothing but its name, and these tables, in its settings."""
    return Names(Settings.model_validate({"project": project, **settings}))
