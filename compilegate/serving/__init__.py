"""A registered model answers requests on this machine, as it will in its inference image.

`unpack_model` makes the handler's /opt/ml/model of an archive; `serving_model` serves it while its
block lasts, and gives a server whose `invoke` sends a request and returns the answer.

    archive.py     the archive of a model, unpacked
    server.py      starts the handler's process, and asks it
    container.py   runs in that process: the server of an inference image, over HTTP
    toolkit.py     AWS's inference toolkits as a handler sees them, for batch transforms too
    handlers/      what serves the built-in program's models
"""

from compilegate.serving.archive import unpack_model
from compilegate.serving.errors import ServingError
from compilegate.serving.server import TOOLKIT, Answer, ModelServer, serving_model

__all__ = ["TOOLKIT", "Answer", "ModelServer", "ServingError", "serving_model", "unpack_model"]
