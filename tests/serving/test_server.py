"""A handler in a process of its own, called over HTTP, as AWS's inference toolkits call it."""

from __future__ import annotations

import io
import json
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import numpy as np
import pytest

from compilegate.serving import ModelServer, ServingError, serving_model, unpack_model

pytestmark = pytest.mark.slow

JSON, NPY = "application/json", "application/x-npy"

FOUR = """
import json
def model_fn(model_dir):
    with open(model_dir + "/weights.json") as stored:
        return json.load(stored)
def input_fn(body, content_type):
    assert isinstance(body, str), type(body)
    return json.loads(body)["inputs"]
def predict_fn(data, model):
    return [model["factor"] * each for each in data]
def output_fn(prediction, accept):
    return json.dumps(prediction)
"""
WITH_CONTEXT = FOUR.replace("predict_fn(data, model)", "predict_fn(data, model, context)")
TRANSFORM = """
def model_fn(model_dir):
    return "m"
def transform_fn(model, body, content_type, accept):
    return model + body.decode() + content_type + accept, "text/x-own"
"""
# Workers hold all that the handler's process has open, and end with its input here.
FORKING = """
import os, sys
def model_fn(model_dir):
    if os.fork() == 0:
        sys.stdin.buffer.read()
        os._exit(0)
    return 2
def transform_fn(model, body, content_type, accept):
    return str(model)
"""
FLATTEN = "import torch\ndef model_fn(model_dir):\n    return torch.nn.Flatten(0)\n"

Serve = Callable[..., AbstractContextManager[ModelServer]]


@pytest.fixture
def serve(tmp_path: Path) -> Serve:
    """Serves a handler of this text, with a model that multiplies by three."""

    @contextmanager
    def started(
        code: str | None, *, program: str = "inference.py", **options: str
    ) -> Iterator[ModelServer]:
        folder = tmp_path / "model"
        (folder / "code").mkdir(parents=True)
        (folder / "weights.json").write_text('{"factor": 3}', encoding="utf-8")
        if code is not None:
            (folder / "code" / program).write_text(code, encoding="utf-8")
        named = {} if program == "inference.py" else {"SAGEMAKER_PROGRAM": program}
        log, python = tmp_path / "log.txt", Path(sys.executable)
        with serving_model(folder, python=python, environment=named, log=log, **options) as server:
            yield server
        assert server.process.returncode is not None, "it ends with whoever started it"

    return started


def answer(server: ModelServer, value: object) -> object:
    response = server.invoke(json.dumps(value).encode(), content_type=JSON)
    assert response.status == 200, response.body
    return json.loads(response.body)


@pytest.mark.parametrize(
    ("code", "program"),
    [(FOUR, "inference.py"), (FOUR, "answer.py"), (WITH_CONTEXT, "inference.py")],
    ids=["four functions", "another name", "with the context"],
)
def test_a_handler_answers_and_a_failed_request_ends_nothing(
    serve: Serve, code: str, program: str
) -> None:
    with serve(code, program=program) as server:
        assert server.ping()
        assert answer(server, {"inputs": [1, 2]}) == [3, 6]
        assert server.invoke(b"", content_type=JSON).status == 500
        assert answer(server, {"inputs": [5]}) == [15]


def test_transform_fn_takes_the_place_of_three_and_may_name_its_type(serve: Serve) -> None:
    with serve(TRANSFORM) as server:
        response = server.invoke(b"!", content_type="image/png", accept="text/plain")
    assert (response.body, response.content_type) == (b"m!image/pngtext/plain", "text/x-own")


def test_workers_that_a_handler_forks_keep_nobody_waiting(serve: Serve) -> None:
    with serve(FORKING) as server:
        assert server.invoke(b"", content_type=JSON).body == b"2"


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("import no_such_module", "No module named 'no_such_module'"),
        ("def model_fn(model_dir):\n    raise OSError('no weights here')", "no weights here"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        (None, "allowed: a handler, or one TorchScript file"),
        ("def model_fn():\n    return 1", "model_fn of the handler takes 0 arguments"),
        (
            f"{FOUR}\ndef transform_fn(model, body, content_type, accept):\n    return ''\n",
            "transform_fn alone, or the others",
        ),
        ("import os\nprint('out of luck', flush=True)\nos._exit(9)\n", "out of luck"),
    ],
)
def test_a_model_that_does_not_load_is_a_sentence(
    serve: Serve, code: str | None, sentence: str
) -> None:
    with pytest.raises(ServingError, match=sentence), serve(code):
        pass


def packed(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


def test_the_defaults_of_pytorchs_image_read_and_write_three_types_and_no_pickle(
    serve: Serve,
) -> None:
    rows = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)
    with serve(FLATTEN) as server:
        assert answer(server, rows.tolist()) == [1.0, 2.0, 3.0, 4.0]
        csv = server.invoke(b"1,2\n3,4\n", content_type="text/csv", accept="text/csv")
        assert [float(each) for each in csv.body.split()] == [1.0, 2.0, 3.0, 4.0]
        npy = server.invoke(packed(rows), content_type=NPY, accept=NPY)
        assert np.load(io.BytesIO(npy.body)).tolist() == [1.0, 2.0, 3.0, 4.0]
        assert server.invoke(b"<a/>", content_type="text/xml").status == 415
        assert server.invoke(b"[1]", content_type=JSON, accept="text/xml").status == 415
        pickled = packed(np.array([{"an": "object"}], dtype=object))
        refused = server.invoke(pickled, content_type=NPY)
        assert (refused.status, b"allow_pickle=False" in refused.body) == (500, True)


def test_a_failure_in_hugging_faces_image_is_the_clients(serve: Serve) -> None:
    code = "def model_fn(model_dir):\n    return str.upper\n"
    with serve(code, defaults="huggingface") as server:
        assert answer(server, {"inputs": "loud"}) == "LOUD"
        assert server.invoke(b"{", content_type=JSON).status == 400


def test_an_archive_is_one_and_does_not_reach_outside_its_folder(tmp_path: Path) -> None:
    archive = tmp_path / "model.tar.gz"
    with tarfile.open(archive, "w:gz") as members:
        members.addfile(tarfile.TarInfo("../outside"), io.BytesIO())
    with pytest.raises(ServingError, match="cannot be unpacked as a model's archive"):
        unpack_model(archive, tmp_path / "model")
    assert not (tmp_path / "outside").exists()
    archive.write_bytes(b"nothing of the kind")
    with pytest.raises(ServingError, match="cannot be unpacked"):
        unpack_model(archive, tmp_path / "model")
