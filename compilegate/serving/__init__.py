"""A registered model answers requests on this machine, as it will in its inference image.

`unpack_model` makes the handler's /opt/ml/model of an archive; `serving_model` serves it while its
block lasts, and gives a server whose `invoke` sends a request and returns the answer.

    server.py    unpacks the archive, starts the handler's process, and sends it requests
    toolkit.py   runs in that process: AWS's inference toolkits and server as a handler sees them
    handlers/    what serves the built-in program's models
"""

from compilegate.serving.server import (
    TOOLKIT,
    Answer,
    ModelServer,
    ServingError,
    serving_model,
    unpack_model,
)

__all__ = ["TOOLKIT", "Answer", "ModelServer", "ServingError", "serving_model", "unpack_model"]
