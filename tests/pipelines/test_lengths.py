"""How long a value gets in an execution, from what the definition says of its parts."""

from __future__ import annotations

from typing import Any

import pytest

from compilegate.pipelines.requests.lengths import JOB_NAME, NUMBER, Lengths

TRAINING = {"OutputDataConfig": {"S3OutputPath": "s3://bucket/out"}}
PREPARING = {
    "ProcessingOutputConfig": {
        "Outputs": [
            {"OutputName": "other", "S3Output": {"S3Uri": "s3://b"}},
            {
                "OutputName": "prepared",
                "S3Output": {"S3Uri": {"Std:Join": {"On": "/", "Values": ["s3://bucket", "key"]}}},
            },
        ]
    }
}
LENGTHS = Lengths({"Train-a-7": TRAINING, "Prepare": PREPARING})


def get(reference: str) -> dict[str, str]:
    return {"Get": reference}


@pytest.mark.parametrize(
    ("value", "longest"),
    [
        ("text", 4),
        (12, 2),
        (get("Execution.PipelineExecutionId"), 12),
        (get("Parameters.Data"), None),
        (get("Execution.StartDateTime"), None),
        (get("Steps.Train-a-7.TrainingJobName"), JOB_NAME),
        (get("Steps.Train-a-7.FinalMetricDataList['loss'].Value"), NUMBER),
        (get("Steps.Train-a-7.OutputDataConfig.S3OutputPath"), len("s3://bucket/out")),
        (get("Steps.Train-a-7.SecondaryStatus"), None),
        (
            get("Steps.Train-a-7.ModelArtifacts.S3ModelArtifacts"),
            len("s3://bucket/out/") + JOB_NAME + len("/output/model.tar.gz"),
        ),
        (
            get("Steps.Prepare.ProcessingOutputConfig.Outputs['prepared'].S3Output.S3Uri"),
            len("s3://bucket/key"),
        ),
        (get("Steps.Prepare.ProcessingOutputConfig.Outputs['none'].S3Output.S3Uri"), None),
        (get("Steps.Nobody.TrainingJobName"), JOB_NAME),
    ],
)
def test_a_value_is_as_long_as_its_longest_parts(value: Any, longest: int | None) -> None:
    assert LENGTHS.longest(value) == longest
    joined = {"Std:Join": {"On": "--", "Values": [value, "x", "y"]}}
    assert LENGTHS.longest(joined) == (None if longest is None else longest + 2 * 2 + 2)
