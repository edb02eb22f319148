"""The address at which an execution's jobs find AWS.

It is a listening socket and a thread that sleeps: the server's code is loaded when the first job
connects, so an execution whose jobs never speak to AWS pays nothing for it.
"""

from __future__ import annotations

import os
import secrets
import select
import shutil
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from compilegate.local.aws.variables import endpoint_variables
from compilegate.local.home.object_store import ObjectStore

_DEFAULT_REGION = "us-east-1"


@contextmanager
def aws_endpoint(
    store: ObjectStore, scratch: Path, machine: Mapping[str, str], named: str = ""
) -> Iterator[Mapping[str, str]]:
    """Answer S3 from `store` as long as the block lasts; gives the variables that lead a job there.

    `scratch` is the folder of uploads in flight, on the store's disk. `machine` is the runner's own
    environment, of which the region alone is passed on. A bucket whose name stands in the text
    `named` is made when a job first writes to it.
    """
    key = f"LOCAL{secrets.token_hex(8).upper()}"
    region = machine.get("AWS_REGION") or machine.get("AWS_DEFAULT_REGION") or _DEFAULT_REGION
    reader, writer = os.pipe()
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        port = listener.getsockname()[1]
        options = {"store": store, "scratch": scratch, "key": key, "named": named}
        thread = threading.Thread(target=_serve, args=(listener, reader, options), daemon=True)
        thread.start()
        try:
            yield endpoint_variables(f"http://127.0.0.1:{port}", key, region)
        finally:
            os.close(writer)
            thread.join()
            os.close(reader)
            shutil.rmtree(scratch, ignore_errors=True)


def _serve(listener: socket.socket, stop: int, options: Mapping[str, Any]) -> None:
    readable, _, _ = select.select([listener, stop], [], [])
    if stop in readable:
        return
    from compilegate.local.aws.server import serve  # noqa: PLC0415 - see above

    serve(listener, stop, **options)
