"""Start the server on a free port of this machine, and print which."""

from __future__ import annotations

from moto.moto_server.werkzeug_app import MotoRequestHandler
from werkzeug.serving import make_server

from tests.aws_server import cloudformation, repairs, sagemaker
from tests.aws_server.application import Application


class QuietHandler(MotoRequestHandler):
    """Logs no requests."""

    def log(self, type: str, message: str, *args: object) -> None:
        pass


def main() -> None:
    server = make_server("127.0.0.1", 0, Application(), threaded=True, request_handler=QuietHandler)
    cloudformation.register_types(f"http://localhost:{server.server_port}")
    repairs.repair_moto()
    sagemaker.repair_moto()
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
