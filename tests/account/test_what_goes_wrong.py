"""Whatever AWS refuses ends in one clear sentence and the right status, never in a traceback."""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from compilegate.cli import main
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


def test_nothing_is_deployed(aws: AwsServer, project: Path) -> None:
    done = compilegate(aws, project, "aws", "submit", "topics")
    assert done.returncode == 2
    assert the_sentence(done) == (
        "there is no stack compilegate-workload-topics in account 123456789012, us-east-1; "
        "deploy it with: make deploy"
    )


def test_a_pipeline_is_missing(aws: AwsServer, project: Path) -> None:
    done = compilegate(aws, project, "aws", "watch", "topics")
    assert done.returncode == 2
    assert the_sentence(done) == (
        "there is no pipeline compilegate-topics in us-east-1; deploy it with: make deploy"
    )


def test_a_pipeline_was_never_executed(deployed: Deployed, project: Path) -> None:
    done = compilegate(deployed.server, project, "aws", "watch", "topics")
    assert done.returncode == 2
    assert "compilegate-topics has no execution yet" in done.stderr
    assert "compilegate aws submit topics" in done.stderr


def test_an_execution_vanishes_midway(deployed: Deployed, project: Path) -> None:
    deployed.script(RUNNING, {"gone": True})
    arn = deployed.start()
    done = compilegate(deployed.server, project, "aws", "watch", arn)
    assert done.returncode == 5
    assert the_sentence(done) == (
        f"there is no execution {arn}: it, or its pipeline, was deleted or never existed"
    )


def test_aws_keeps_asking_to_slow_down(deployed: Deployed, project: Path) -> None:
    deployed.script(RUNNING)
    arn = deployed.start()
    deployed.server.fail("DescribePipelineExecution", "ThrottlingException", after=1)
    done = compilegate(deployed.server, project, "aws", "watch", arn, AWS_MAX_ATTEMPTS="2")
    assert done.returncode == 5
    assert the_sentence(done) == (
        f"cannot read the execution {arn}: AWS refused DescribePipelineExecution as too frequent "
        "(ThrottlingException), even at attempt 2; try again later; "
        f"the execution may continue; watch it again with: compilegate aws watch {arn}"
    )


def test_one_refusal_to_be_quick_is_waited_out(deployed: Deployed, project: Path) -> None:
    deployed.script(RUNNING, frame("Stopped"))
    arn = deployed.start()
    deployed.server.fail("ListPipelineExecutionSteps", "ThrottlingException", times=1)
    done = compilegate(deployed.server, project, "aws", "watch", arn, AWS_MAX_ATTEMPTS="2")
    assert done.returncode == 130
    assert "execution stopped" in done.stdout


def test_credentials_expire_while_watching(deployed: Deployed, project: Path) -> None:
    deployed.script(RUNNING)
    arn = deployed.start()
    deployed.server.fail("DescribePipelineExecution", "ExpiredTokenException", after=2)
    done = compilegate(deployed.server, project, "aws", "watch", arn)
    assert done.returncode == 5
    assert the_sentence(done) == (
        f"cannot read the execution {arn}: the AWS credentials have expired; "
        "sign in again, or set AWS_PROFILE, and try again; "
        f"the execution may continue; watch it again with: compilegate aws watch {arn}"
    )


def test_there_are_no_credentials(aws: AwsServer, project: Path) -> None:
    done = compilegate(
        aws, project, "aws", "submit", "topics", AWS_ACCESS_KEY_ID="", AWS_SECRET_ACCESS_KEY=""
    )
    assert done.returncode == 2
    assert "there are no AWS credentials" in the_sentence(done)


def test_there_is_no_region(aws: AwsServer, project: Path) -> None:
    done = compilegate(aws, project, "aws", "submit", "topics", AWS_REGION="")
    assert done.returncode == 2
    assert the_sentence(done) == (
        "no AWS region is set; set AWS_REGION, or region in infra/settings.toml"
    )


def test_the_credentials_are_of_another_account(aws: AwsServer, project: Path) -> None:
    (project / "infra").mkdir(exist_ok=True)
    (project / "infra" / "settings.toml").write_text('account = "000000000001"\n')
    done = compilegate(aws, project, "aws", "submit", "topics")
    assert done.returncode == 2
    assert "belong to account 123456789012, but infra/settings.toml allows only 000000000001" in (
        the_sentence(done)
    )


def test_an_action_is_not_allowed(deployed: Deployed, project: Path) -> None:
    deployed.server.fail(
        "StartPipelineExecution",
        "AccessDeniedException",
        message="User: arn:aws:sts::123456789012:assumed-role/ci/x is not authorized to perform: "
        "sagemaker:StartPipelineExecution on resource: "
        "arn:aws:sagemaker:us-east-1:123456789012:pipeline/compilegate-topics because no "
        "identity-based policy allows the sagemaker:StartPipelineExecution action",
    )
    done = compilegate(
        deployed.server, project, "aws", "submit", "topics", "-p", "Data=s3://b/data"
    )
    assert done.returncode == 2
    assert the_sentence(done) == (
        "cannot start an execution of compilegate-topics: the credentials do not allow "
        "sagemaker:StartPipelineExecution on arn:aws:sagemaker:us-east-1:123456789012:pipeline/"
        "compilegate-topics; ask for that permission"
    )


def test_the_bucket_may_not_be_written(deployed: Deployed, project: Path) -> None:
    deployed.server.fail("S3:PUT", "AccessDenied", status=403, message="Access Denied")
    done = compilegate(deployed.server, project, "aws", "upload", "topics")
    assert done.returncode == 2
    assert "error: cannot write s3://compilegate-123456789012-us-east-1/compilegate/data/" in (
        done.stderr
    )
    assert "the credentials do not allow PutObject; ask for that permission" in done.stderr


def test_nobody_answers(aws: AwsServer, project: Path) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))  # taken, and nobody listens
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        done = compilegate(aws, project, "aws", "watch", "topics", AWS_ENDPOINT_URL=url)
    assert done.returncode == 2
    assert "cannot list the executions of compilegate-topics: AWS does not answer" in (
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
    ("status", "said"),
    [(200, "a web page came back, with status 200"), (502, "502 Bad Gateway")],
)
def test_a_proxy_answers_in_place_of_aws(
    aws: AwsServer, project: Path, status: int, said: str
) -> None:
    with a_proxy_that_answers_itself(status) as url:
        done = compilegate(aws, project, "aws", "watch", "topics", AWS_ENDPOINT_URL=url)
    assert done.returncode == 2
    assert f"AWS does not answer ({said}); check the network, a proxy" in the_sentence(done)


def test_what_a_proxy_takes_is_not_staged(deployed: Deployed, project: Path) -> None:
    with a_proxy_that_answers_itself(200) as url:
        done = compilegate(
            deployed.server, project, "aws", "upload", "topics", AWS_ENDPOINT_URL_S3=url
        )
    assert done.returncode == 2
    assert the_sentence(done).startswith("cannot list s3://")
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("variable", "value"), [("AWS_ENDPOINT_URL", "localhost"), ("AWS_MAX_ATTEMPTS", "many")]
)
def test_a_variable_holds_what_nobody_can_use(
    aws: AwsServer, project: Path, variable: str, value: str
) -> None:
    done = compilegate(aws, project, "aws", "watch", "topics", **{variable: value})
    assert done.returncode == 2
    assert value in the_sentence(done)
    assert "check the variables AWS_* and the AWS profile" in the_sentence(done)


@pytest.mark.parametrize(
    ("arguments", "said"),
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
    project: Path, arguments: list[str], said: str
) -> None:
    """In this process, without AWS: nobody is asked."""
    with chdir(project):
        done = CliRunner().invoke(main, ["aws", "submit", "topics", *arguments])
    assert done.exit_code == 2
    assert said in done.stderr


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


def test_an_argument_is_neither_a_workload_nor_an_execution(aws: AwsServer, project: Path) -> None:
    done = compilegate(aws, project, "aws", "watch", "arn:aws:sagemaker:us-east-1:1:pipeline/x")
    assert done.returncode == 2
    assert "neither a workload's name nor the ARN of an execution" in done.stderr
