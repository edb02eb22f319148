"""Whatever AWS refuses ends in one clear sentence and the right status, never in a traceback."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from compilegate.account.errors import AwsError
from compilegate.account.executions import known
from compilegate.cli import main
from compilegate.execution.status import ExecutionStatus, StepStatus
from compilegate.gate.findings import Outcome
from tests.account import scripted
from tests.account.command import compilegate
from tests.account.deployed import Deployed
from tests.account.scripted import frame, job
from tests.aws_server.client import AwsServer

RUNNING = frame("Executing", job("Prepare", "Processing", 0))
pytestmark = pytest.mark.slow


def the_sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The only thing that was said on standard error."""
    (line,) = [line for line in done.stderr.splitlines() if line]
    assert line.startswith("error: ")
    return line.removeprefix("error: ")


DENIED = (
    "User: arn:aws:sts::123456789012:assumed-role/ci/x is not authorized to perform: "
    "sagemaker:StartPipelineExecution on resource: arn:aws:sagemaker:us-east-1:123456789012:"
    "pipeline/compilegate-topics because no identity-based policy allows it"
)
SUBMIT = ("submit", "topics", "-p", "Data=s3://b/data")


@pytest.mark.parametrize(
    ("arguments", "environment", "refusal"),
    [
        (
            SUBMIT,
            {},
            "there is no stack compilegate-workload-topics in account 123456789012, us-east-1; "
            "deploy it with: make deploy",
        ),
        (
            ("watch", "topics"),
            {},
            "there is no pipeline compilegate-topics in us-east-1; deploy it with: make deploy",
        ),
        (
            SUBMIT,
            {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
            "there are no AWS credentials",
        ),
        (
            SUBMIT,
            {"AWS_REGION": ""},
            "no AWS region is set; set AWS_REGION, or region in infra/settings.toml",
        ),
        (
            ("watch", "topics"),
            {"AWS_ENDPOINT_URL": "localhost"},
            "localhost; check the variables AWS_* and the AWS profile",
        ),
        (
            ("watch", "topics"),
            {"AWS_MAX_ATTEMPTS": "many"},
            "check the variables AWS_* and the AWS profile",
        ),
        (
            ("watch", "topics"),
            {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"},  # nothing answers there
            "cannot list the executions of compilegate-topics: AWS does not answer",
        ),
    ],
)
def test_without_a_deployment_credentials_or_an_answer_nothing_is_done(
    aws: AwsServer,
    project: Path,
    arguments: tuple[str, ...],
    environment: dict[str, str],
    refusal: str,
) -> None:
    done = compilegate(aws, project, "aws", *arguments, **environment)
    assert done.returncode == 2
    assert refusal in the_sentence(done)


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (("watch", "topics"), "compilegate-topics has no execution yet; start one with:"),
        (
            ("watch", "arn:aws:sagemaker:us-east-1:1:pipeline/x"),
            "neither a workload's name nor the ARN of an execution",
        ),
    ],
)
def test_there_is_nothing_to_watch(
    deployed: Deployed, project: Path, arguments: tuple[str, ...], refusal: str
) -> None:
    done = compilegate(deployed.server, project, "aws", *arguments)
    assert done.returncode == 2
    assert refusal in done.stderr


def test_an_action_is_not_allowed(deployed: Deployed, project: Path) -> None:
    deployed.server.fail("StartPipelineExecution", "AccessDeniedException", message=DENIED)
    deployed.server.fail("S3:PUT", "AccessDenied", status=403, message="Access Denied")
    for arguments, refusal in (
        (
            SUBMIT,
            "cannot start an execution of compilegate-topics: the credentials do not allow "
            "sagemaker:StartPipelineExecution on arn:aws:sagemaker:us-east-1:123456789012:pipeline/"
            "compilegate-topics; ask for that permission",
        ),
        (("upload", "topics"), "the credentials do not allow PutObject; ask for that permission"),
    ):
        done = compilegate(deployed.server, project, "aws", *arguments)
        assert done.returncode == 2
        assert refusal in done.stderr


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        (None, "there is no execution {arn}: it, or its pipeline, was deleted or never existed"),
        (
            {"code": "ThrottlingException", "after": 1},
            "cannot read the execution {arn}: AWS refused DescribePipelineExecution as too "
            "frequent (ThrottlingException), even at attempt 2; try again later; the execution may "
            "continue; watch it again with: compilegate aws watch {arn}",
        ),
        (
            {"code": "ExpiredTokenException", "after": 2},
            "cannot read the execution {arn}: the AWS credentials have expired; sign in again, or "
            "set AWS_PROFILE, and try again; the execution may continue; watch it again with: "
            "compilegate aws watch {arn}",
        ),
    ],
    ids=["it vanishes", "throttled for good", "credentials expire"],
)
def test_contact_is_lost_while_watching(
    deployed: Deployed, project: Path, fault: dict[str, Any] | None, why: str
) -> None:
    deployed.script(RUNNING, {"gone": True} if fault is None else RUNNING)
    arn = deployed.start()
    if fault is not None:
        deployed.server.fail("DescribePipelineExecution", **fault)
    done = compilegate(deployed.server, project, "aws", "watch", arn, AWS_MAX_ATTEMPTS="2")
    assert done.returncode == 5
    assert the_sentence(done) == why.format(arn=arn)


def test_one_refusal_to_be_quick_is_waited_out(deployed: Deployed, project: Path) -> None:
    deployed.script(RUNNING, frame("Stopped"))
    arn = deployed.start()
    deployed.server.fail("ListPipelineExecutionSteps", "ThrottlingException", times=1)
    done = compilegate(deployed.server, project, "aws", "watch", arn, AWS_MAX_ATTEMPTS="2")
    assert done.returncode == 130
    assert "execution stopped" in done.stdout


def test_the_credentials_are_of_another_account(aws: AwsServer, project: Path) -> None:
    (project / "infra").mkdir(exist_ok=True)
    (project / "infra" / "settings.toml").write_text('account = "000000000001"\n')
    done = compilegate(aws, project, "aws", "submit", "topics")
    assert done.returncode == 2
    assert "belong to account 123456789012, but infra/settings.toml allows only 000000000001" in (
        the_sentence(done)
    )


@contextmanager
def a_proxy_that_answers_itself(status: int) -> Iterator[str]:
    """A server that has a page for everything, as where somebody has to sign in first; its URL."""

    class Portal(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(status)
            self.send_header("content-type", "text/html")
            self.end_headers()
            self.wfile.write(b"<html>Sign in</html>")

        def do_GET(self) -> None:
            self.headers["content-length"] = "0"
            self.do_POST()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Portal) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


@pytest.mark.parametrize(
    ("status", "refusal"),
    [(200, "a web page came back, with status 200"), (502, "502 Bad Gateway")],
)
def test_a_proxy_answers_in_place_of_aws(
    aws: AwsServer, project: Path, status: int, refusal: str
) -> None:
    with a_proxy_that_answers_itself(status) as url:
        done = compilegate(aws, project, "aws", "watch", "topics", AWS_ENDPOINT_URL=url)
    assert done.returncode == 2
    assert f"AWS does not answer ({refusal}); check the network, a proxy" in the_sentence(done)


def test_what_a_proxy_takes_is_not_staged(deployed: Deployed, project: Path) -> None:
    with a_proxy_that_answers_itself(200) as url:
        done = compilegate(
            deployed.server, project, "aws", "upload", "topics", AWS_ENDPOINT_URL_S3=url
        )
    assert done.returncode == 2
    assert the_sentence(done).startswith("cannot list s3://")
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "refusal"),
    [
        (["--project", "typo"], "--project: typo is not a folder"),
        (
            ["--token", ""],
            "--token is empty; give a text that differs for each run",
        ),
        (["-p", "Data=data/"], "--parameter Data is 'data/', expected s3://BUCKET/KEY"),
        (["--wait", "--home", "/dev/null/x"], "/dev/null/x: Not a directory"),
    ],
)
def test_an_argument_that_cannot_be_meant_starts_nothing(
    project: Path, arguments: list[str], refusal: str
) -> None:
    """In this process, without AWS: nobody is asked."""
    with chdir(project):
        done = CliRunner().invoke(main, ["aws", "submit", "topics", *arguments])
    assert done.exit_code == 2
    assert refusal in done.stderr


def test_the_verdict_cannot_be_read(deployed: Deployed, project: Path) -> None:
    scripted.gate_has_run(deployed, scripted.verdict("baseline", Outcome.FAIL))
    deployed.script(frame("Succeeded", job("Gate", "Processing", 0, 60)))
    deployed.server.fail("S3:GET", "AccessDenied", status=403)
    arn = deployed.start()
    done = compilegate(deployed.server, project, "aws", "watch", arn)
    assert done.returncode == 5
    assert the_sentence(done).startswith(
        "the execution ended as Succeeded, but its results could not be read: cannot list s3://"
    )
    assert "the credentials do not allow ListObjectsV2" in the_sentence(done)


def test_what_other_jobs_wrote_need_not_be_readable(deployed: Deployed, project: Path) -> None:
    """CI's role reads verdicts and nothing else, also of an execution that has none."""
    deployed.script(frame("Stopped", job("Prepare", "Processing", 0, 60)))
    deployed.server.fail("S3:GET", "AccessDenied", status=403)
    done = compilegate(deployed.server, project, "aws", "watch", deployed.start())
    assert done.returncode == 130, done.stderr


def test_a_status_that_came_up_later_is_named_with_those_that_are_known() -> None:
    assert known(StepStatus, "Starting") is StepStatus.STARTING
    with pytest.raises(AwsError, match="the status 'Paused', allowed: Executing, Stopping"):
        known(ExecutionStatus, "Paused")
