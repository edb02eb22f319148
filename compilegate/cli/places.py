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
from compilegate.account.errors import NotDeployedError, aws_errors
from compilegate.account.executions import past_executions
from compilegate.account.session import AwsSession, StackOutputs, open_session, read_outputs
from compilegate.account.settings import Names, read_settings
from compilegate.cli.options import Project
from compilegate.cli.posture import records_in
from compilegate.execution.result import ExecutionResult
from compilegate.gate.verdict import Verdict, VerdictError
from compilegate.history.rows import Past, Row, rows_of
from compilegate.job.contract import VERDICT_FILE
from compilegate.local import LocalExecutor, list_executions
from compilegate.posture.function import now
from compilegate.posture.records import DynamoRecords, FileRecords, current

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

    def __str__(self) -> str:
        return f"account {self.session.account}, {self.session.region}"


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

    def __str__(self) -> str:
        return str(self.home)

    @cached_property
    def _executions(self) -> list[ExecutionResult]:
        return list(list_executions(self.home))

    def executed(self) -> list[str]:
        """The names of the workloads that have executions."""
        return sorted({one.pipeline_name for one in self._executions})

    def rows(self, workload: str) -> list[Row]:
        """A workload over its executions."""
        executor = LocalExecutor(home=self.home)
        past = []
        for one in self._executions:
            if one.pipeline_name == workload:
                fetched = executor.fetch_verdict(one)
                text = (one.folder / VERDICT_FILE).read_bytes() if fetched else None
                past.append(_past(one.execution_id, one.started, str(one.status), text))
        return rows_of(past, current(records_in(self.home), workload, when=now(), who=self.who()))

    def who(self) -> str:
        """As whom a person changes a posture."""
        return getpass.getuser()

    @contextmanager
    def records(self, _workload: str) -> Iterator[FileRecords]:
        """Where a workload's posture is kept."""
        yield records_in(self.home)


@dataclass(frozen=True)
class Deployed:
    """The account that the project is deployed to."""

    project: Project

    @cached_property
    def _account(self) -> Account:
        return open_account(self.project)

    def __str__(self) -> str:
        return str(self._account)

    def executed(self) -> list[str]:
        """Those that the settings name, or else all; without those that are not deployed."""
        deployed = []
        for name in sorted(self.project.deployed_names(self._account.names.settings)):
            with suppress(NotDeployedError):
                self._outputs(name)
                deployed.append(name)
        return deployed

    def _outputs(self, workload: str) -> StackOutputs:
        return read_outputs(self._account.session, self._account.names.workload_stack(workload))

    def rows(self, workload: str) -> list[Row]:
        outputs = self._outputs(workload)
        verdicts = f"s3://{self._account.bucket}/{verdicts_prefix(workload).rstrip('/')}"
        with self.records(workload) as records:
            record = current(records, workload, when=now(), who="compilegate")
        found = past_executions(self._account.session, outputs["PipelineName"], verdicts)
        return rows_of([_past(*each) for each in found], record if record.decisions else None)

    def who(self) -> str:
        with aws_errors("find out who you are"):
            arn = self._account.session.client("sts").get_caller_identity()["Arn"]
        return str(arn).rpartition(":")[2]

    @contextmanager
    def records(self, workload: str) -> Iterator[DynamoRecords]:
        self._outputs(workload)  # refuses one that is not deployed
        account = self._account
        table = read_outputs(account.session, account.names.foundation_stack)[_TABLE]
        with aws_errors(f"read or write the posture of {workload}"):
            yield DynamoRecords(account.session.client("dynamodb"), table)


Place = Here | Deployed


def place_of(project: Project) -> Place:
    """The account with `--aws`, or else this machine."""
    return Deployed(project) if project.aws else Here(project.home)


def _past(execution: str, started: float, status: str, text: bytes | None) -> Past:
    """One execution; without a verdict where it is of another kind, or of another release."""
    verdict = None
    if text is not None:
        with suppress(VerdictError):
            verdict = Verdict.from_json(text)
    return Past(execution=execution, started=started, status=status, verdict=verdict)
