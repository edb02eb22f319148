"""`compilegate models serve`, after a real training: the scores of the evidence come over HTTP."""

from __future__ import annotations

import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.command import COMMAND, ENVIRONMENT
from tests.end_to_end.test_main_job import Folder, folder_with
from tests.made_once import made_once
from training.data.tables import Columns, read_split
from training.prepare import identifiers

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """An execution of a workload that says how it is served."""

    def make(path: Path) -> None:
        folder = folder_with(path)
        with folder.declared.open("a", encoding="utf-8") as declared:
            declared.write("\n[serving]\n")
        done = folder.run()
        assert done.returncode == 0, done.stdout + done.stderr

    return Folder(made_once(tmp_path_factory, "served", make))


def serve(folder: Folder, package: str, *more: str, given: str = "") -> Any:
    return subprocess.run(
        [*COMMAND, "models", "serve", package, "--home", str(folder.home), *more],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        env=ENVIRONMENT,
    )


def expected(folder: Folder) -> dict[str, list[float]]:
    """By document, the scores in the evidence of the job whose model was registered."""
    (package,) = folder.packages()
    job = package["CustomerMetadataProperties"]["training_job"]
    (output,) = folder.home.glob(f"s3/**/training/{job}/output/output.tar.gz")
    with tarfile.open(output) as archive:
        archive.extractall(folder.path / "output", filter="data")
    with np.load(folder.path / "output" / "evidence" / "examples.npz") as examples:
        of_id = dict(zip(examples["ids"].tolist(), examples["scores"].tolist(), strict=True))
    rows = read_split(folder.path, "validation", Columns("text", "label", None, ()))
    names = identifiers(rows, "validation")
    return {row.text: of_id[name] for row, name in zip(rows, names, strict=True)}


@pytest.mark.long
def test_validation_examples_get_the_scores_that_the_evidence_holds(trained: Folder) -> None:
    scores = expected(trained)
    assert len(scores) == 40
    done = serve(trained, "tiny/1", "--request", "-", given=json.dumps({"inputs": list(scores)}))
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    for answer, (text, probabilities) in zip(answers, scores.items(), strict=True):
        served = [answer["scores"][name] for name in ("bank", "sea")]
        assert served == pytest.approx(probabilities, abs=1e-5), text
        assert answer["score"] == max(served)
        assert answer["label"] == ("bank", "sea")[served.index(max(served))]


def test_the_package_says_what_serves_it(trained: Folder) -> None:
    (package,) = trained.packages()
    specification = package["InferenceSpecification"]
    (container,) = specification["Containers"]
    assert "/huggingface-pytorch-inference:2.6.0-transformers5.5.3-cpu-" in container["Image"]
    assert container["Environment"]["SAGEMAKER_PROGRAM"] == "inference.py"
    assert specification["SupportedContentTypes"][0] == "application/json"
    assert package["ModelPackageDescription"].endswith("Can be served.")
    model = trained.home / "s3" / container["ModelDataUrl"].removeprefix("s3://")
    with tarfile.open(model) as archive:
        assert {"model.safetensors", "config.json", "code/inference.py"} <= set(archive.getnames())


def test_what_the_handler_refuses_is_a_sentence_and_ends_with_status_2(trained: Folder) -> None:
    done = serve(trained, "tiny/1", "--request", "-", given='{"inputs": 7}')
    assert done.returncode == 2
    assert "the handler answered with status 400: ValueError: the request has no" in done.stderr


def test_a_model_of_a_workload_without_serving_is_refused(tmp_path: Path) -> None:
    registered = tmp_path / "home" / "registry" / "plain" / "1.json"
    registered.parent.mkdir(parents=True)
    container = {"Image": "training:1", "ModelDataUrl": "s3://bucket/model.tar.gz"}
    package = {"InferenceSpecification": {"Containers": [container]}}
    text = json.dumps({"ModelApprovalStatus": "Approved", **package})
    registered.write_text(text, encoding="utf-8")
    done = serve(Folder(tmp_path), "plain/1")
    assert done.returncode == 2
    assert done.stderr.startswith("error: plain/1 cannot be served: its workload had no table")
