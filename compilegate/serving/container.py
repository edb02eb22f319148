"""Runs in the handler's process, in place of the server of an inference image.

    python container.py --model-dir FOLDER --host 127.0.0.1 --port 8080 --defaults pytorch

`/ping` and `/invocations` over HTTP, answered by the handler (`toolkit.py`). Imports nothing of
this project but that neighbour: it runs in the environment that stands for the image.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
import threading
import traceback
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # the neighbour of a file that runs by itself
    toolkit: Any = importlib.import_module("toolkit")
    del sys.modules["toolkit"]  # the handler may have a module of that name
else:
    toolkit = importlib.import_module(f"{__package__}.toolkit")

MOST_BYTES = 100 * 2**20
"""The largest body of any request that SageMaker passes on: a batch transform's."""
DEFAULT_ACCEPT = "SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT"


class Requests(BaseHTTPRequestHandler):
    """`/ping` and `/invocations`, one invocation at a time."""

    protocol_version = "HTTP/1.1"
    handler: Any
    client_error: int
    turn = threading.Lock()

    def do_GET(self) -> None:
        self._reply(200 if self.path == "/ping" else 404, b"", toolkit.JSON)

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if self.path != "/invocations" or not length.isdigit() or int(length) > MOST_BYTES:
            self.close_connection = True
            status = 404 if self.path != "/invocations" else 413 if length.isdigit() else 411
            self._reply(status, b"", "text/plain")
            return
        body = self.rfile.read(int(length))
        default = os.environ.get(DEFAULT_ACCEPT, toolkit.JSON)
        accept = self.headers.get("Accept") or default
        with self.turn:
            status, answer, content_type = self._invoked(
                body,
                self.headers.get("Content-Type", toolkit.JSON),
                default if accept == "*/*" else accept,
            )
        self._reply(status, answer, content_type)

    def _invoked(self, body: bytes, content_type: str, accept: str) -> tuple[int, bytes, str]:
        try:
            answer, answered = self.handler.answer(body, content_type, accept)
            return 200, answer, answered
        except toolkit.UnsupportedTypeError as error:
            return 415, str(error).encode(), "text/plain"
        except Exception as error:  # noqa: BLE001 - whatever the handler raises, the server goes on
            traceback.print_exc()
            said = f"{type(error).__name__}: {error}"
            return self.client_error, said.encode(), "text/plain"

    def _reply(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> int:
    """Load the model, tell where it is served, and serve it until the input ends."""
    options = _parser().parse_args()
    sys.path.pop(0)  # the folder of this file, which is nothing of the image's
    try:
        program = os.environ.get("SAGEMAKER_PROGRAM", "")
        code = Path(options.model_dir) / "code"
        Requests.handler = toolkit.Handler(options.model_dir, code, program, options.defaults)
        Requests.client_error = 400 if options.defaults == "huggingface" else 500
        server = ThreadingHTTPServer((options.host, options.port), Requests)
    except BaseException as error:  # noqa: BLE001 - a handler may even exit
        traceback.print_exc()
        _tell(options.ready, {"error": f"{type(error).__name__}: {error}"})
        return 1
    server.daemon_threads = True
    _tell(options.ready, {"port": server.server_address[1]})
    if options.ready is not None:
        threading.Thread(target=_end_with_input, daemon=True).start()
    server.serve_forever()
    return 0


def _tell(descriptor: int | None, what: dict[str, Any]) -> None:
    if descriptor is not None:
        os.write(descriptor, json.dumps(what).encode() + b"\n")
        os.close(descriptor)


def _end_with_input() -> None:
    """Whoever started this holds the other end, and lets go of it in any case."""
    sys.stdin.buffer.read()
    os._exit(0)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="container.py")
    parser.add_argument("--model-dir", required=True)
    parser.add_argument("--host", default="0.0.0.0")  # noqa: S104 - as in a container
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--ready", type=int)
    parser.add_argument("--defaults", choices=("pytorch", "huggingface"), default="pytorch")
    return parser


if __name__ == "__main__":
    sys.exit(main())
