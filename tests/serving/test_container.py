"""A handler in a process of its own, asked over HTTP: what AWS's inference toolkits make of it."""

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

PYTHON = Path(sys.executable)
JSON = "application/json"

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
        told = {} if program == "inference.py" else {"SAGEMAKER_PROGRAM": program}
        with serving_model(
            folder, python=PYTHON, environment=told, log=tmp_path / "log.txt", **options
        ) as server:
            yield server

    return started


def ask(server: ModelServer, said: object, **options: str) -> object:
    answer = server.invoke(json.dumps(said).encode(), content_type=JSON, **options)
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


def test_four_functions_answer_a_request(serve: Serve) -> None:
    with serve(FOUR) as server:
        assert server.ping()
        assert ask(server, {"inputs": [1, 2]}) == [3, 6]
        assert server.invoke(b"", content_type=JSON).status == 500
        assert ask(server, {"inputs": [5]}) == [15]  # a failed request ends nothing


def test_a_handler_of_another_name_is_found_by_the_containers_variable(serve: Serve) -> None:
    with serve(FOUR, program="answer.py") as server:
        assert ask(server, {"inputs": [1]}) == [3]


def test_a_function_may_take_the_context_too(serve: Serve) -> None:
    code = FOUR.replace("predict_fn(data, model)", "predict_fn(data, model, context)")
    with serve(code) as server:
        assert ask(server, {"inputs": [1]}) == [3]


def test_transform_fn_takes_the_place_of_three_and_may_name_its_type(serve: Serve) -> None:
    code = """
def model_fn(model_dir):
    return "m"
def transform_fn(model, body, content_type, accept):
    return model + body.decode() + content_type + accept, "text/x-own"
"""
    with serve(code) as server:
        answer = server.invoke(b"!", content_type="image/png", accept="text/plain")
    assert (answer.body, answer.content_type) == (b"m!image/pngtext/plain", "text/x-own")


def test_transform_fn_beside_the_three_is_refused_with_the_reason(serve: Serve) -> None:
    code = FOUR + "\ndef transform_fn(model, body, content_type, accept):\n    return ''\n"
    with pytest.raises(ServingError, match="transform_fn alone, or the others"), serve(code):
        pass


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("import no_such_module", "No module named 'no_such_module'"),
        ("def model_fn(model_dir):\n    raise OSError('no weights here')", "no weights here"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        (None, "allowed: a handler, or one TorchScript file"),
        ("def model_fn():\n    return 1", "model_fn of the handler takes 0 arguments"),
    ],
)
def test_a_model_that_does_not_load_is_a_sentence(
    serve: Serve, code: str | None, said: str
) -> None:
    with pytest.raises(ServingError, match=said), serve(code):
        pass


def test_a_process_that_dies_while_loading_shows_its_last_lines(serve: Serve) -> None:
    code = "import os\nprint('out of luck', flush=True)\nos._exit(9)\n"
    with pytest.raises(ServingError, match="out of luck"), serve(code):
        pass


def test_workers_that_a_handler_forks_keep_nobody_waiting(serve: Serve) -> None:
    """They hold all that the handler's process has open, and end with its input here."""
    forking = """
import os, sys
def model_fn(model_dir):
    if os.fork() == 0:
        sys.stdin.buffer.read()
        os._exit(0)
    return 2
def transform_fn(model, body, content_type, accept):
    return str(model)
"""
    with serve(forking) as server:
        assert server.invoke(b"", content_type=JSON).body == b"2"


LINEAR = """
import torch
def model_fn(model_dir):
    return torch.nn.Flatten(0)
"""


def test_the_defaults_of_pytorchs_image_read_and_write_three_types(serve: Serve) -> None:
    rows = np.array([[1.0, 2.0], [3.0, 4.0]], dtype=np.float32)
    packed = io.BytesIO()
    np.save(packed, rows)
    with serve(LINEAR) as server:
        assert ask(server, rows.tolist()) == [1.0, 2.0, 3.0, 4.0]
        csv = server.invoke(b"1,2\n3,4\n", content_type="text/csv", accept="text/csv")
        assert [float(each) for each in csv.body.split()] == [1.0, 2.0, 3.0, 4.0]
        npy = server.invoke(
            packed.getvalue(), content_type="application/x-npy", accept="application/x-npy"
        )
        assert np.load(io.BytesIO(npy.body)).tolist() == [1.0, 2.0, 3.0, 4.0]
        assert server.invoke(b"<a/>", content_type="text/xml").status == 415
        assert server.invoke(b"[1]", content_type=JSON, accept="text/xml").status == 415


def test_pickles_in_a_request_are_not_read(serve: Serve) -> None:
    packed = io.BytesIO()
    np.save(packed, np.array([{"an": "object"}], dtype=object), allow_pickle=True)
    with serve(LINEAR) as server:
        answer = server.invoke(packed.getvalue(), content_type="application/x-npy")
    assert answer.status == 500
    assert b"allow_pickle=False" in answer.body


def test_a_failure_in_hugging_faces_image_is_the_clients(serve: Serve) -> None:
    code = "def model_fn(model_dir):\n    return str.upper\n"
    with serve(code, defaults="huggingface") as server:
        assert ask(server, {"inputs": "loud"}) == "LOUD"
        assert server.invoke(b"{", content_type=JSON).status == 400


def test_the_server_ends_with_whoever_started_it(serve: Serve) -> None:
    with serve(FOUR) as server:
        process = server.process
    assert process.returncode is not None


def test_an_archive_does_not_reach_outside_its_folder(tmp_path: Path) -> None:
    archive = tmp_path / "model.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        member = tarfile.TarInfo("../outside")
        packed.addfile(member, io.BytesIO())
    with pytest.raises(ServingError, match="cannot be unpacked as a model's archive"):
        unpack_model(archive, tmp_path / "model")
    assert not (tmp_path / "outside").exists()


def test_what_is_no_archive_is_said_to_be(tmp_path: Path) -> None:
    (tmp_path / "model.tar.gz").write_bytes(b"nothing of the kind")
    with pytest.raises(ServingError, match="cannot be unpacked"):
        unpack_model(tmp_path / "model.tar.gz", tmp_path / "model")
