"""A batch transform with the model that was approved: one for each approval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from releaser.approvals import Approval
from releaser.models import SEPARATOR, Models, once


@dataclass(frozen=True)
class Batch:
    """Starts batch transforms."""

    sagemaker: Any
    models: Models

    def start(self, wanted: Approval) -> dict[str, str]:
        """Start the transform of this approval, unless it was started before."""
        serving = self.models.serving
        name = f"{serving.name}{SEPARATOR}{wanted.name}"
        started = once(
            self.sagemaker.create_transform_job,
            TransformJobName=name,
            ModelName=self.models.make(wanted),
            TransformInput={
                "DataSource": {
                    "S3DataSource": {"S3DataType": "S3Prefix", "S3Uri": serving.batch_input}
                },
                "ContentType": serving.content_type,
            },
            TransformOutput={
                "S3OutputPath": f"{serving.batch_output}{wanted.name}/",
                "KmsKeyId": serving.key_arn,
            },
            TransformResources={
                "InstanceType": serving.instance_type,
                "InstanceCount": serving.instance_count,
                "VolumeKmsKeyId": serving.key_arn,
            },
            Tags=serving.tags,
        )
        return {"transform" if started else "was started": name}
