"""One trial: its folder, its commands, what it made in the account, and the removal of that."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from string import Template
from typing import Any

from compilegate.access import Arns
from compilegate.access.jobs import PROJECT_TAG
from compilegate.account import executions as calls
from compilegate.account.session import AwsSession
from compilegate.account.settings import Names, Settings

HERE = Path(__file__).parent
LINKED = ("Makefile", "node_modules", "cdk.json")
INSTALLED = ("pyproject.toml", "constraints.txt", "package.json", "package-lock.json")
"""What `make` installs from: empty and old, so that nothing is installed for the folder."""
PROJECTS = {"first": "cgproof", "next": "cgprooflater"}
"""By stage: a second project takes the place of the second account that a stage usually has."""
WORKLOAD, SECOND, GPU, NETWORK = "proof", "second", "gpu", "network"
EVERY_SECONDS = 15.0
LASTING = re.compile(r":(training|processing|transform)-job/|/execution/|:key/")
"""What costs nothing and stays: what no API deletes, and a stack's key, for 30 days."""
LISTS = {
    "stack": "cloudformation describe_stacks Stacks[].StackName",
    "pipeline": "sagemaker list_pipelines PipelineSummaries[].PipelineName",
    "group": "sagemaker list_model_package_groups "
    "ModelPackageGroupSummaryList[].ModelPackageGroupName",
    "model": "sagemaker list_models Models[].ModelName",
    "bucket": "s3 list_buckets Buckets[].Name",
    "repository": "ecr describe_repositories repositories[].repositoryName",
    "policy": "iam list_policies Policies[].PolicyName",
    "role": "iam list_roles Roles[].RoleName",
    "log group": "logs describe_log_groups logGroups[].logGroupName",
}
"""What has to be removed one by one, or is not on the list of what is tagged."""


@dataclass
class Trial:
    """The two projects, and the account that they are deployed to."""

    folder: Path
    session: AwsSession
    chosen: frozenset[str]
    """What `--with` asks for."""
    pause: Callable[[float], None] = time.sleep
    execution: str = ""
    """The one that was started last."""
    names = Names(Settings(project=PROJECTS["first"]))

    def __post_init__(self) -> None:
        self.path = self.folder / "project"
        self.bucket = self.names.bucket(self.session.account, self.session.region)
        self.sagemaker = self.client("sagemaker")

    def client(self, service: str) -> Any:
        return self.session.client(service)

    def make_folder(self) -> None:
        """Write the project anew; `make` finds there what it needs of a clone."""
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(HERE / "project", self.path)
        for name in LINKED:
            (self.path / name).symlink_to(HERE.parents[1] / name)
        for name in INSTALLED:
            (self.path / name).touch()
            os.utime(self.path / name, (0, 0))
        if GPU not in self.chosen:
            (self.path / "workloads" / f"{GPU}.toml").unlink()
        settings = self.path / "infra" / "settings.toml"
        text = Template(settings.read_text(encoding="utf-8")).substitute(
            account=self.session.account,
            region=self.session.region,
            network=str(NETWORK in self.chosen).lower(),
        )
        settings.write_text(text, encoding="utf-8")

    def declare(self, old: str = "", new: str = "") -> None:
        """Write the workload's file as it was at first, but for one change."""
        text = (HERE / "project" / "workloads" / f"{WORKLOAD}.toml").read_text(encoding="utf-8")
        path = self.path / "workloads" / f"{WORKLOAD}.toml"
        path.write_text(text.replace(old, new, 1) if old else text + new, encoding="utf-8")

    def make(self, target: str, flags: str = "", stage: str = "first") -> str:
        """Run `make` in the project's folder, in the environment of this program."""
        given = f"VENV={sys.prefix}", f"FLAGS={flags}", f"STAGE={stage}"
        return self.run(stage, "make", target, *given)

    def compilegate(self, *arguments: str, stage: str = "first") -> str:
        return self.run(stage, f"{sys.prefix}/bin/compilegate", *arguments)

    def run(self, stage: str, *command: str) -> str:
        """Run a command, which must end well; returns what it printed.

        All of its processes end with this program: else they would make what is being removed.
        """
        with subprocess.Popen(
            command,
            cwd=self.path,
            env={**os.environ, "COMPILEGATE_STAGE": stage},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                printed = process.communicate()[0]
            except BaseException:
                os.killpg(process.pid, signal.SIGTERM)
                raise
        with (self.folder / "commands.log").open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(command)}\n{printed}")
        last = "; ".join(printed.strip().splitlines()[-5:])
        assert process.returncode == 0, f"{command[1]} ended with {process.returncode}: {last}"
        return printed

    def until(self, what: str, minutes: float, look: Callable[[], Any]) -> Any:
        """What `look` finds, once that is anything, within so many minutes."""
        for _ in range(int(minutes * 60 / EVERY_SECONDS) + 1):
            if found := look():
                return found
            self.pause(EVERY_SECONDS)
        raise AssertionError(f"{what}: not seen within {minutes:g} minutes")

    def listed(self, what: str, **given: Any) -> list[Any]:
        """All that a listing finds: its service, its operation, and where the answers have it."""
        service, operation, where = what.split()
        pages = self.client(service).get_paginator(operation).paginate(**given)
        return [item for item in pages.search(where) if item is not None]

    def mine(self, kind: str) -> list[str]:
        """The names of one of `LISTS` that are of the two projects or their bootstraps: none that
        merely begins with the same letters."""
        own = [Names(Settings(project=project)) for project in PROJECTS.values()]
        whole = {name for each in own for name in (each.settings.project, each.toolkit_stack)}
        begins = tuple(
            f"{name}-" for each in own for name in (each.settings.project, f"cdk-{each.qualifier}")
        )
        return [
            name
            for name in self.listed(LISTS[kind])
            if any(part in whole or part.startswith(begins) for part in name.split("/"))
        ]

    def packages(self, group: str = f"{PROJECTS['first']}-{WORKLOAD}") -> list[Any]:
        """The registered versions, oldest first."""
        what = "sagemaker list_model_packages ModelPackageSummaryList[]"
        found = self.listed(what, ModelPackageGroupName=group)
        return sorted(found, key=lambda each: int(each["ModelPackageVersion"]))

    def things(self) -> list[str]:
        """All that the account has of the two projects."""
        tagged = self.listed(
            "resourcegroupstaggingapi get_resources ResourceTagMappingList[].ResourceARN",
            TagFilters=[{"Key": PROJECT_TAG, "Values": list(PROJECTS.values())}],
        )
        named = [f"{kind} {name}" for kind in LISTS for name in self.mine(kind)]
        return [*named, *(arn for arn in tagged if not LASTING.search(arn))]

    def emptying(self) -> Iterator[Callable[[], object]]:
        """What stands in the way of the stacks' removal: executions, models, images, objects."""
        yield self._settle
        for pipeline in self.mine("pipeline"):
            yield partial(self._stop, pipeline)
        for group in self.mine("group"):
            for package in self.packages(group):
                arn = package["ModelPackageArn"]
                yield partial(self.sagemaker.delete_model_package, ModelPackageName=arn)
        for repository in self.mine("repository"):
            if ids := self.listed("ecr list_images imageIds[]", repositoryName=repository):
                delete = self.client("ecr").batch_delete_image
                yield partial(delete, repositoryName=repository, imageIds=ids)
        for bucket in self.mine("bucket"):
            if not bucket.startswith("cdk-"):  # the CDK deploys from its own
                yield partial(self._empty, bucket)

    def finishing(self) -> Iterator[Callable[[], object]]:
        """What `make destroy` leaves: stacks that failed, the bootstraps with their buckets and
        policies, models of batch transforms, logs of what ran while its stack was removed."""
        yield self._settle
        mine, cloudformation = self.mine("stack"), self.client("cloudformation")
        stacks = self.listed("cloudformation describe_stacks Stacks[].[CreationTime,StackName]")
        for _, name in sorted(stacks, reverse=True):  # none needs a younger one
            if name in mine:
                yield partial(cloudformation.delete_stack, StackName=name)
                waiter = cloudformation.get_waiter("stack_delete_complete")
                yield partial(waiter.wait, StackName=name)
        for bucket in self.mine("bucket"):
            yield partial(self._empty, bucket)
            yield partial(self.client("s3").delete_bucket, Bucket=bucket)
        for name in self.mine("policy"):
            arn, iam = Arns.of(self.session).policy(name), self.client("iam")
            where = "iam list_policy_versions Versions[?!IsDefaultVersion].VersionId"
            for version in self.listed(where, PolicyArn=arn):
                yield partial(iam.delete_policy_version, PolicyArn=arn, VersionId=version)
            yield partial(iam.delete_policy, PolicyArn=arn)
        for name in self.mine("model"):
            yield partial(self.sagemaker.delete_model, ModelName=name)
        for name in self.mine("log group"):
            yield partial(self.client("logs").delete_log_group, logGroupName=name)

    def _settle(self) -> None:
        """Wait until CloudFormation has ended what an interrupted deployment began."""
        going = "Stacks[?ends_with(StackStatus,'_IN_PROGRESS')].StackName"
        self.until(
            "the end of CloudFormation's work",
            90,
            lambda: (
                not {*self.listed(f"cloudformation describe_stacks {going}")}
                & {*self.mine("stack")}
            ),
        )

    def _stop(self, pipeline: str) -> None:
        while arn := calls.running_execution(self.session, pipeline):
            calls.stop_execution(self.session, arn)
            self.until(
                "the end of an execution",
                30,
                lambda arn=arn: calls.running_execution(self.session, pipeline) != arn,
            )

    def _empty(self, bucket: str) -> None:
        for where in ("Versions[].[Key,VersionId]", "DeleteMarkers[].[Key,VersionId]"):
            for key, version in self.listed(f"s3 list_object_versions {where}", Bucket=bucket):
                self.client("s3").delete_object(Bucket=bucket, Key=key, VersionId=version)


def carry_out(removals: Iterable[Callable[[], object]]) -> list[str]:
    """Make each call, whatever became of the one before; a sentence for each failure."""
    problems = []
    for removal in removals:
        try:
            removal()
        except Exception as error:  # noqa: BLE001  a bug of one must not leave what costs
            problems.append(f"{type(error).__name__}: {error}")
    return problems
