"""An inference image's server: a handler's functions, AWS's defaults for what it lacks, and HTTP.

    python toolkit.py --model-dir FOLDER --host 127.0.0.1 --port 8080 --defaults pytorch

A handler is the module that SAGEMAKER_PROGRAM names, in `code/` of the model's folder or where the
container says; the images of PyTorch and Hugging Face look for `inference.py` without it:

    model_fn(model_dir)                                 loads the model, once
    input_fn(body, content_type)                        what the request says
    predict_fn(data, model)                             what the model makes of it
    output_fn(prediction, accept)                       the answer
    transform_fn(model, body, content_type, accept)     in place of the last three

Each may take one more argument, the context (sagemaker-inference 1.10, with the toolkits for
PyTorch and Hugging Face). Run as a program it serves `/ping` and `/invocations`; a batch transform
imports it. It imports nothing of this project, and is for Python 3.8: it runs in the environment
that stands for the image.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import importlib.util
import inspect
import io
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

JSON, CSV, NPY = "application/json", "text/csv", "application/x-npy"
TEXT_TYPES = (JSON, CSV)
"""Bodies of these types reach the handler as text, all others as bytes."""
FUNCTIONS = ("input_fn", "predict_fn", "output_fn")
PROGRAM = "inference.py"
"""The handler's name where the container gives none."""
MOST_BYTES = 100 * 2**20
"""The largest body of any request that SageMaker passes on: a batch transform's."""
DEFAULT_ACCEPT = "SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT"

TASKS = {
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForQuestionAnswering": "question-answering",
    "ForMaskedLM": "fill-mask",
    "ForCausalLM": "text-generation",
}
"""The tasks that the Hugging Face image infers from the end of an architecture's name."""


class UnsupportedTypeError(Exception):
    """A content type that the defaults cannot read or write."""


class HandlerError(Exception):
    """What makes a model's code no handler."""


class Handler:
    """A loaded model, and the functions that answer with it.

    `code` is the folder of the handler, `program` its file ("": the image's own choice), `defaults`
    the image's: `pytorch`, `huggingface`, or `arrays` for those of scikit-learn and XGBoost. Raises
    HandlerError, and whatever the handler raises.
    """

    def __init__(self, model_dir: str, code: Path, program: str, defaults: str) -> None:
        self._defaults = DEFAULTS[defaults]
        module = _module(code, program, self._defaults)
        self._functions: dict[str, Callable[..., Any]] = {}
        for name in ("model_fn", "transform_fn", "pre_model_fn", "model_warmup_fn", *FUNCTIONS):
            given = getattr(module, name, None)
            if given is not None:
                self._functions[name] = given
        alone = "transform_fn" in self._functions and "model_fn" in self._defaults
        if alone and set(FUNCTIONS) & set(self._functions):
            raise HandlerError(
                "the handler has transform_fn beside input_fn, predict_fn or output_fn, allowed: "
                "transform_fn alone, or the others"
            )
        if not {"model_fn"} & {*self._functions, *self._defaults}:
            raise HandlerError(f"{program} has no model_fn, which loads the model")
        if "pre_model_fn" in self._functions:
            self._call("pre_model_fn", model_dir)
        self._model = self._call("model_fn", model_dir)
        if "model_warmup_fn" in self._functions:
            self._call("model_warmup_fn", model_dir, self._model)

    def answer(self, body: bytes, content_type: str, accept: str) -> tuple[bytes, str]:
        """The response to a request, and its content type."""
        sent: Any = body.decode("utf-8") if _plain_type(content_type) in TEXT_TYPES else body
        if "transform_fn" in self._functions:
            result = self._call("transform_fn", self._model, sent, content_type, accept)
        else:
            data = self._call("input_fn", sent, content_type)
            prediction = self._call("predict_fn", data, self._model)
            result = self._call("output_fn", prediction, accept)
        kind = accept
        if isinstance(result, tuple) and len(result) == 2:  # of older handlers
            result, kind = result[0], str(result[1])
        elif hasattr(result, "response") and hasattr(result, "mimetype"):  # worker.Response
            result, kind = result.response, str(result.mimetype)
            result = result if isinstance(result, (str, bytes)) else b"".join(result)
        if isinstance(result, (bytes, bytearray)):
            return bytes(result), kind
        return (result if isinstance(result, str) else _written(result, kind)).encode(), kind

    def _call(self, name: str, *arguments: Any) -> Any:
        function = self._functions.get(name) or self._defaults[name]
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):  # of a compiled extension
            return function(*arguments)
        for given in (arguments, (*arguments, None)):  # no context: no model server is behind it
            try:
                signature.bind(*given)
            except TypeError:
                continue
            return function(*given)
        raise HandlerError(
            f"{name} of the handler takes {len(signature.parameters)} arguments, allowed: "
            f"{len(arguments)}, or one more for the context"
        )


def _module(code: Path, program: str, defaults: Mapping[str, Any]) -> Any:
    """The handler's module; None where the image's defaults are all there is."""
    file = program or PROGRAM
    name = (file[:-3] if file.endswith(".py") else file).replace("/", ".")
    sys.path.insert(0, str(code))
    parent, find = name.rpartition(".")[0], importlib.util.find_spec
    if (not parent or find(parent)) and find(name):
        return importlib.import_module(name)
    if "model_fn" in defaults:
        return None
    there = ", ".join(sorted(path.name for path in code.glob("*"))) or "nothing"
    raise HandlerError(f"SAGEMAKER_PROGRAM {file} is not in its folder: {there}")


def _pytorch_model(model_dir: str) -> Any:
    found = sorted(each for each in Path(model_dir).iterdir() if each.suffix in (".pt", ".pth"))
    if len(found) != 1:
        raise HandlerError(
            f"the archive has no handler with model_fn in code/, and {len(found)} files *.pt or "
            "*.pth, allowed: a handler, or one TorchScript file"
        )
    import torch  # noqa: PLC0415 - only where the default loads it

    return torch.jit.load(str(found[0]), map_location="cpu")


def _pytorch_input(body: Any, content_type: str) -> Any:
    import numpy  # noqa: PLC0415 - a handler of one's own may do without
    import torch  # noqa: PLC0415

    if content_type == NPY:
        return torch.from_numpy(numpy.load(io.BytesIO(body), allow_pickle=False))
    if content_type == JSON:
        return torch.FloatTensor(numpy.array(json.loads(body)))
    if content_type == CSV:
        read = numpy.genfromtxt(io.StringIO(body), dtype=numpy.float32, delimiter=",")
        return torch.FloatTensor(read)
    raise UnsupportedTypeError(_not_read(content_type, (JSON, CSV, NPY)))


def _pytorch_prediction(data: Any, model: Any) -> Any:
    import torch  # noqa: PLC0415

    with torch.no_grad():
        model.eval()
        return model(data)


def _pytorch_output(prediction: Any, accept: str) -> Any:
    if hasattr(prediction, "detach"):
        prediction = prediction.detach().cpu().numpy()
    for content_type in (each.strip() for each in accept.split(",")):
        if content_type == JSON:
            return json.dumps(prediction, default=_plain)
        if content_type in (CSV, NPY):
            return _packed(prediction, content_type)
    raise UnsupportedTypeError(_not_read(accept, (JSON, CSV, NPY)))


def _packed(prediction: Any, content_type: str) -> Any:
    import numpy  # noqa: PLC0415

    if content_type == CSV:
        text = io.StringIO()
        numpy.savetxt(text, numpy.atleast_1d(prediction), delimiter=",", fmt="%s")
        return text.getvalue()
    packed = io.BytesIO()
    numpy.save(packed, numpy.asarray(prediction), allow_pickle=False)
    return packed.getvalue()


def _hugging_face_model(model_dir: str) -> Any:
    from transformers import pipeline  # noqa: PLC0415 - seconds of import

    task = os.environ.get("HF_TASK")
    if not task:
        configuration = Path(model_dir) / "config.json"
        if not configuration.is_file():
            raise HandlerError(
                "the archive has no handler in code/ and no config.json, and HF_TASK is not set, "
                "allowed: one of the three"
            )
        (architecture,) = json.loads(configuration.read_text(encoding="utf-8"))["architectures"]
        task = next((TASKS[end] for end in TASKS if architecture.endswith(end)), None)
        if task is None:
            raise HandlerError(
                f"no task is known for {architecture}, allowed: HF_TASK in the image"
            )
    return pipeline(task, model=model_dir, tokenizer=model_dir)


def _hugging_face_input(body: Any, content_type: str) -> Any:
    if content_type == JSON:
        return json.loads(body)
    raise UnsupportedTypeError(_not_read(content_type, (JSON,)))


def _hugging_face_prediction(data: Any, model: Any) -> Any:
    if not isinstance(data, dict):
        return model(data)
    inputs, parameters = data.pop("inputs", data), data.pop("parameters", None)
    return model(inputs, **(parameters or {}))


def _hugging_face_output(prediction: Any, accept: str) -> Any:
    if accept != JSON:
        raise UnsupportedTypeError(_not_read(accept, (JSON,)))
    return json.dumps(prediction, default=_plain)


def _array_input(body: Any, content_type: str) -> Any:
    import numpy  # noqa: PLC0415 - the image's own, as below

    kind = _plain_type(content_type)
    if kind == NPY:
        return numpy.load(io.BytesIO(body), allow_pickle=False)
    if kind == JSON:
        return numpy.array(json.loads(body))
    if kind == CSV:
        return numpy.array(list(csv.reader(io.StringIO(body))), dtype=numpy.float32)
    raise UnsupportedTypeError(_not_read(content_type, (JSON, CSV, NPY)))


def _array_prediction(data: Any, model: Any) -> Any:
    if type(model).__module__.startswith("xgboost") and not hasattr(model, "get_booster"):
        import xgboost  # noqa: PLC0415

        data = xgboost.DMatrix(data, feature_names=model.feature_names)
    if hasattr(model, "predict"):
        return model.predict(data)
    torch = sys.modules.get("torch")
    if torch is not None and callable(model):
        with torch.no_grad():
            return model(torch.as_tensor(data))
    raise HandlerError(f"{type(model).__name__} has no predict: the handler needs a predict_fn")


def _plain(value: Any) -> Any:
    """A number or an array of numpy's as Python's own."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def _not_read(found: str, allowed: tuple[str, ...]) -> str:
    return f"content type {found!r} is not supported, allowed: {', '.join(allowed)}"


def _plain_type(content_type: str) -> str:
    """The type without its parameters, such as the character set."""
    return content_type.split(";", maxsplit=1)[0].strip()


def _written(value: Any, accept: str) -> str:
    """A prediction as text: lines of CSV where they are asked for, JSON otherwise."""
    if _plain_type(accept) != CSV:
        return json.dumps(value, default=_plain)
    rows = value.tolist() if hasattr(value, "tolist") else value
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    for row in rows if isinstance(rows, list) else [rows]:
        lines.writerow(row if isinstance(row, (list, tuple)) else [row])
    return text.getvalue()


DEFAULTS: dict[str, dict[str, Callable[..., Any]]] = {
    "pytorch": {
        "model_fn": _pytorch_model,
        "input_fn": _pytorch_input,
        "predict_fn": _pytorch_prediction,
        "output_fn": _pytorch_output,
    },
    "huggingface": {
        "model_fn": _hugging_face_model,
        "input_fn": _hugging_face_input,
        "predict_fn": _hugging_face_prediction,
        "output_fn": _hugging_face_output,
    },
    "arrays": {
        "input_fn": _array_input,
        "predict_fn": _array_prediction,
        "output_fn": _written,
    },
}


class Requests(BaseHTTPRequestHandler):
    """`/ping` and `/invocations`, one invocation at a time."""

    protocol_version = "HTTP/1.1"
    handler: Any
    client_error: int
    turn = threading.Lock()

    def do_GET(self) -> None:
        self._reply(200 if self.path == "/ping" else 404, b"", JSON)

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if self.path != "/invocations" or not length.isdigit() or int(length) > MOST_BYTES:
            self.close_connection = True
            status = 404 if self.path != "/invocations" else 413 if length.isdigit() else 411
            self._reply(status, b"", "text/plain")
            return
        body = self.rfile.read(int(length))
        default = os.environ.get(DEFAULT_ACCEPT, JSON)
        accept = self.headers.get("Accept") or default
        with self.turn:
            status, answer, content_type = self._invoke(
                body,
                self.headers.get("Content-Type", JSON),
                default if accept == "*/*" else accept,
            )
        self._reply(status, answer, content_type)

    def _invoke(self, body: bytes, content_type: str, accept: str) -> tuple[int, bytes, str]:
        try:
            answer, answered = self.handler.answer(body, content_type, accept)
            return 200, answer, answered
        except UnsupportedTypeError as error:
            return 415, str(error).encode(), "text/plain"
        except Exception as error:  # noqa: BLE001 - whatever the handler raises, the server goes on
            traceback.print_exc()
            text = f"{type(error).__name__}: {error}"
            return self.client_error, text.encode(), "text/plain"

    def _reply(self, status: int, body: bytes, content_type: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def main() -> int:
    """Load the model, report where it is served, and serve it until the input ends."""
    parser = argparse.ArgumentParser(prog="toolkit.py")
    parser.add_argument("--model-dir", required=True)
    parser.add_argument("--host", default="0.0.0.0")  # noqa: S104 - as in a container
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--ready", type=int)
    parser.add_argument("--defaults", choices=("pytorch", "huggingface"), default="pytorch")
    options = parser.parse_args()
    sys.path.pop(0)  # the folder of this file, which is nothing of the image's
    try:
        program = os.environ.get("SAGEMAKER_PROGRAM", "")
        code = Path(options.model_dir) / "code"
        Requests.handler = Handler(options.model_dir, code, program, options.defaults)
        Requests.client_error = 400 if options.defaults == "huggingface" else 500
        server = ThreadingHTTPServer((options.host, options.port), Requests)
    except BaseException as error:  # noqa: BLE001 - a handler may even exit
        traceback.print_exc()
        _report(options.ready, {"error": f"{type(error).__name__}: {error}"})
        return 1
    server.daemon_threads = True
    _report(options.ready, {"port": server.server_address[1]})
    if options.ready is not None:
        threading.Thread(target=_end_with_input, daemon=True).start()
    server.serve_forever()
    return 0


def _report(descriptor: int | None, what: dict[str, Any]) -> None:
    if descriptor is not None:
        os.write(descriptor, json.dumps(what).encode() + b"\n")
        os.close(descriptor)


def _end_with_input() -> None:
    """Whoever started this holds the other end, and lets go of it in any case."""
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
