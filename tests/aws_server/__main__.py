"""Start the server on a free port of this machine, and print which."""

from __future__ import annotations

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import make_server

from tests.aws_server import cloudformation
from tests.aws_server.application import Application
from tests.aws_server.serving import repair_registry, repair_transforms


class QuietHandler(MotoRequestHandler):
    """Says nothing about each request."""

    def log(self, type: str, message: str, *args: object) -> None:
        pass


def main() -> None:
    server = make_server("127.0.0.1", 0, Application(), threaded=True, request_handler=QuietHandler)
    cloudformation.install(f"http://localhost:{server.server_port}")
    repair_registry()
    repair_transforms()
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
