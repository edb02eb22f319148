"""Where executions and postures are kept: on this machine, or in the account."""

from __future__ import annotations

import getpass
import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from compilegate.access.layout import verdicts_prefix
from compilegate.account.deployed import StackOutputs, read_outputs
from compilegate.account.errors import NotDeployedError, asking
from compilegate.account.executions import past_executions
from compilegate.account.session import AwsSession, open_session
from compilegate.account.settings import Names, read_settings
from compilegate.cli.options import Project
from compilegate.cli.posture import records_in
from compilegate.execution.result import ExecutionResult
from compilegate.gate.verdict import Verdict, VerdictError
from compilegate.history.rows import Past, Row, rows_of
from compilegate.job.names import VERDICT_FILE
from compilegate.local import LocalExecutor, list_executions
from compilegate.pipelines.images import ImageFolder, image_folders
from compilegate.posture.function import now
from compilegate.posture.records import DynamoRecords, Record, current, decide
from compilegate.posture.state import Event

_TABLE = "PostureTableName"
"""An output of the foundation: the table has a part for each workload."""


@dataclass(frozen=True)
class Account:
    """Where a project is deployed."""

    names: Names
    session: AwsSession

    @property
    def bucket(self) -> str:
        """The project's bucket. Raises NotDeployedError."""
        return read_outputs(self.session, self.names.foundation_stack)["BucketName"]

    def image_folders(self, containers: Path) -> dict[str, ImageFolder]:
        """The image folders, with the bases and their digests that the settings name."""
        images = self.names.settings.images
        return image_folders(containers, images.base, images.pinned)


def open_account(project: Project) -> Account:
    """Read the settings and open a session; refuses what is wrong with either."""
    # The SageMaker SDK turns on boto3's log messages about where it found what.
    logging.getLogger("botocore").setLevel(logging.WARNING)
    declared = read_settings(project.settings_file)
    return Account(Names(declared), open_session(declared.region, declared.account))


@dataclass(frozen=True)
class Here:
    """The home on this machine."""

    home: Path

    @property
    def called(self) -> str:
        return str(self.home)

    @cached_property
    def _executor(self) -> LocalExecutor:
        return LocalExecutor(home=self.home)

    @cached_property
    def _executions(self) -> list[ExecutionResult]:
        return list(list_executions(self.home))

    def executed(self) -> list[str]:
        """The names of the workloads that have executions."""
        return sorted({one.pipeline_name for one in self._executions})

    def rows(self, workload: str) -> list[Row]:
        """A workload over its executions."""
        past = [
            Past(
                execution=one.execution_id,
                started=one.started,
                status=str(one.status),
                verdict=self._verdict(one),
            )
            for one in self._executions
            if one.pipeline_name == workload
        ]
        return rows_of(past, self.posture(workload))

    def _verdict(self, result: ExecutionResult) -> Verdict | None:
        fetched = self._executor.fetch_verdict(result)
        return _read((result.folder / VERDICT_FILE).read_bytes()) if fetched else None

    def who(self) -> str:
        """As whom a person changes a posture."""
        return getpass.getuser()

    def posture(self, workload: str) -> Record:
        return current(records_in(self.home), workload, when=now(), who=self.who())

    def change_posture(self, workload: str, event: Event) -> Record:
        return decide(records_in(self.home), workload, event)


@dataclass(frozen=True)
class Deployed:
    """The account that the project is deployed to."""

    project: Project

    @cached_property
    def _account(self) -> Account:
        return open_account(self.project)

    @property
    def called(self) -> str:
        return f"account {self._account.session.account}, {self._account.session.region}"

    def executed(self) -> list[str]:
        """Those that the settings name, or else all; without those that are not deployed."""
        declared = self._account.names.settings.workloads
        named = declared or [path.stem for path in self.project.workloads.glob("*.toml")]
        deployed = []
        for name in sorted(named):
            with suppress(NotDeployedError):
                self._outputs(name)
                deployed.append(name)
        return deployed

    def _outputs(self, workload: str) -> StackOutputs:
        return read_outputs(self._account.session, self._account.names.workload_stack(workload))

    def rows(self, workload: str) -> list[Row]:
        outputs = self._outputs(workload)
        verdicts = f"s3://{self._account.bucket}/{verdicts_prefix(workload).rstrip('/')}"
        record = self.posture(workload)
        past = [
            Past(
                execution=execution,
                started=started,
                status=status,
                verdict=None if text is None else _read(text),
            )
            for execution, started, status, text in past_executions(
                self._account.session, outputs["PipelineName"], verdicts
            )
        ]
        return rows_of(past, record if record.decisions else None)

    def who(self) -> str:
        with asking("find out who you are"):
            arn = self._account.session.client("sts").get_caller_identity()["Arn"]
        return str(arn).rpartition(":")[2]

    @contextmanager
    def _records(self, workload: str) -> Iterator[DynamoRecords]:
        self._outputs(workload)  # refuses one that is not deployed
        account = self._account
        table = read_outputs(account.session, account.names.foundation_stack)[_TABLE]
        with asking(f"read or write the posture of {workload}"):
            yield DynamoRecords(self._account.session.client("dynamodb"), table)

    def posture(self, workload: str) -> Record:
        with self._records(workload) as records:
            return current(records, workload, when=now(), who="compilegate")

    def change_posture(self, workload: str, event: Event) -> Record:
        with self._records(workload) as records:
            return decide(records, workload, event)


Place = Here | Deployed


def place_of(project: Project) -> Place:
    """The account with `--aws`, or else this machine."""
    return Deployed(project) if project.aws else Here(project.home)


def _read(text: bytes) -> Verdict | None:
    """None where it is not of Compilegate's kind, or of another release."""
    try:
        return Verdict.from_json(text)
    except VerdictError:
        return None
