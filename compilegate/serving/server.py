"""Start a model's server in a process of its own, send it requests, and stop it."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from compilegate.errors import CompilegateError

TOOLKIT = Path(__file__).with_name("toolkit.py")
"""The program of the handler's process; a batch transform needs it as a module."""
HOST = "127.0.0.1"
SECONDS_TO_END = 10.0
PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "HF_HOME", "HF_HUB_OFFLINE")
"""What the handler's process gets of this one's environment; the rest is the container's."""

_TAIL_LINES = 15


class ServingError(CompilegateError):
    """The model cannot be served; one sentence that says why and what to do."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """The response to one request."""

    status: int
    """200 where the handler answered."""
    content_type: str
    body: bytes


@dataclass(frozen=True, kw_only=True)
class ModelServer:
    """A model that is loaded and answers."""

    port: int
    process: subprocess.Popen[bytes]

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def ping(self) -> bool:
        """Whether the server is healthy, as SageMaker checks every few seconds."""
        return self._send("GET", "/ping", None, {}).status == http.client.OK

    def invoke(self, body: bytes, *, content_type: str, accept: str = "application/json") -> Answer:
        """Send one request to the handler. Raises ServingError where its process has ended."""
        headers = {"Content-Type": content_type, "Accept": accept}
        return self._send("POST", "/invocations", body, headers)

    def wait(self) -> int:
        """Wait until the process ends by itself; its exit status."""
        return self.process.wait()

    def _send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Answer:
        connection = http.client.HTTPConnection(HOST, self.port)
        try:
            connection.request(method, path, body, dict(headers))
            response = connection.getresponse()
            content_type = response.getheader("Content-Type") or ""
            return Answer(status=response.status, content_type=content_type, body=response.read())
        except (OSError, http.client.HTTPException) as error:
            raise ServingError(f"the model's server ended without an answer: {error}") from error
        finally:
            connection.close()


def unpack_model(archive: Path, folder: Path) -> None:
    """Unpack the archive into a folder, which becomes the handler's /opt/ml/model.

    Raises ServingError for what is no archive, and for one with members outside the folder.
    """
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
    except (tarfile.TarError, OSError, EOFError) as error:
        raise ServingError(f"{archive} cannot be unpacked as a model's archive: {error}") from error


@contextmanager
def serving_model(
    folder: Path,
    *,
    python: Path,
    environment: Mapping[str, str] = MappingProxyType({}),
    log: Path,
    port: int = 0,
    defaults: str = "pytorch",
) -> Iterator[ModelServer]:
    """Serve the model of an unpacked archive until the block ends.

    `python` is the interpreter of the environment that stands for the inference image,
    `environment` what the registered container sets, `log` the file of all that the handler
    prints. `port` 0 takes a free one. `defaults` says which image's functions stand in for those
    that the handler leaves out: `pytorch`, or `huggingface`. Raises ServingError, with the log's
    last lines, where the model cannot be loaded.
    """
    ready, report = os.pipe()
    log.parent.mkdir(parents=True, exist_ok=True)
    command = [
        *[str(python), str(TOOLKIT), "--model-dir", str(folder.resolve()), "--host", HOST],
        *["--port", str(port), "--ready", str(report), "--defaults", defaults],
    ]
    try:
        with log.open("ab") as output:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                env={
                    **{name: os.environ[name] for name in PASSED_ON if name in os.environ},
                    "PYTHONUNBUFFERED": "1",
                    "SAGEMAKER_BIND_TO_PORT": str(port),
                    **environment,
                },
                pass_fds=(report,),
            )
    except OSError as error:
        os.close(ready)
        raise ServingError(f"{python} cannot be started: {error}") from error
    finally:
        os.close(report)
    try:
        with os.fdopen(ready, "rb") as pipe:
            line = pipe.readline()  # not to its end: workers of the handler hold it open
        yield ModelServer(port=_port(line, log), process=process)
    finally:
        _end(process)


def _port(line: bytes, log: Path) -> int:
    """The port in what the server reported once the model was loaded."""
    if not line:
        printed = log.read_text(encoding="utf-8", errors="replace").splitlines()
        tail = "\n".join(printed[-_TAIL_LINES:])
        raise ServingError(
            f"the model's server ended before the model was loaded; {log} ends:\n{tail}"
        )
    answer = json.loads(line)
    if "error" in answer:
        raise ServingError(f"the model cannot be served: {answer['error']} (see {log})")
    return int(answer["port"])


def _end(process: subprocess.Popen[bytes]) -> None:
    """The process ends when its input does; one that hangs is killed."""
    if process.stdin is not None:
        process.stdin.close()
    try:
        process.wait(SECONDS_TO_END)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
