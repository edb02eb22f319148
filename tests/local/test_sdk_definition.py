"""A definition that the real SageMaker SDK made runs from its first step to its last."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from compilegate.execution.result import ExecutionResult
from compilegate.execution.status import ExecutionStatus, StepStatus
from compilegate.local import ImageSources, LocalExecutor, list_packages

pytestmark = pytest.mark.slow

DEFINITION = Path(__file__).parent / "definitions" / "sdk_pipeline.json"

JOB = """
import json, os, pathlib, sys, tarfile

root = pathlib.Path("/opt/ml/processing".replace("/opt/ml", os.path.dirname(os.getcwd())))
out = root / "out"
if sys.argv[1] == "prepare":
    (out / "train.txt").write_text((root / "raw" / "raw.txt").read_text().upper())
elif sys.argv[1] == "gate":
    speed = {}
    for arm in ("baseline", "compiled"):
        with tarfile.open(root / arm / "model.tar.gz") as archive:
            speed[arm] = float(archive.extractfile("speed").read())
    ratio = speed["compiled"] / speed["baseline"]
    report = {
        "decision": {"arm": "compiled" if ratio > 1.2 else "baseline", "sound": True},
        "arms": {"compiled": {"speedup": ratio}},
        "reasons": [{"code": "speed"}],
        "job": sys.argv[2],
    }
    (out / "report.json").write_text(json.dumps(report))
"""

TRAIN = """
import argparse, os, pathlib

parser = argparse.ArgumentParser()
parser.add_argument("--arm")
parser.add_argument("--epochs", type=int)
arguments = parser.parse_args()
data = pathlib.Path(os.environ["SM_CHANNEL_TRAIN"], "train.txt").read_text()
if arguments.arm == "baseline" and "FAIL" in data:
    raise SystemExit("this data cannot be learned")
speed = 100 if arguments.arm == "baseline" else 50 if "SLOW" in data else 150
pathlib.Path(os.environ["SM_MODEL_DIR"], "speed").write_text(str(speed))
print(f"accuracy=0.{90 + arguments.epochs}")
"""


@pytest.fixture
def run(bench: Any) -> Any:
    bench.put("s3://bucket/code/job.py", JOB)
    archive = bench.store.path(bench.source(TRAIN, "training/train.py"))
    shutil.copy(archive, bench.store.path("s3://bucket/code/source.tar.gz"))

    def run_with(data: str, **parameters: Any) -> ExecutionResult:
        bench.put("s3://bucket/raw/raw.txt", data)
        executor = LocalExecutor(
            definition=DEFINITION.read_bytes(),
            home=bench.home,
            images=ImageSources(patterns=(("*/example:*", "here"),)),
            use_cache=False,
        )
        return executor.follow(executor.start("sdk-pipeline", parameters))

    return run_with


def test_the_winner_is_registered(bench: Any, run: Any) -> None:
    result = run("good", Epochs=2)
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    assert result.steps["decide"].outcome is True
    (package,) = list_packages(bench.home, "example")
    job = result.steps["compiled"].job_name
    assert package.description["InferenceSpecification"]["Containers"][0]["ModelDataUrl"] == (
        f"s3://bucket/models/{job}/output/model.tar.gz"
    )
    assert package.description["CustomerMetadataProperties"] == {"execution": result.execution_id}
    report = json.loads(bench.store.read(f"s3://bucket/{result.execution_id}/gate/report.json"))
    assert (report["job"], report["arms"]["compiled"]["speedup"]) == (job, 1.5)
    metrics = result.steps["compiled"].properties["FinalMetricDataList"]
    assert [(m["MetricName"], m["Value"]) for m in metrics] == [("validation:accuracy", 0.92)]
    assert result.steps["note"].status is StepStatus.NOT_EXECUTED


def test_a_loser_ends_in_the_fail_step(bench: Any, run: Any) -> None:
    result = run("slow")
    assert (result.status, result.failed_by) == (ExecutionStatus.FAILED, "fail-step")
    assert result.failure == "no model: baseline"
    assert list_packages(bench.home, "example") == []


def test_an_arm_that_fails_is_noted(run: Any) -> None:
    result = run("fail")
    assert result.status is ExecutionStatus.COMPLETED_WITH_FAILURES
    assert result.steps["note"].status is StepStatus.SUCCEEDED
    assert result.steps["gate"].status is StepStatus.NOT_EXECUTED
    assert "this data cannot be learned" in result.steps["baseline"].failure.text
