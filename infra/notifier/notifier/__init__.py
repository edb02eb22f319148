"""The notifier: a Lambda function that keeps executions from overlapping and tells people.

It runs on Python 3.14 with the runtime's own boto3 and imports nothing else. The function's code is
the folder above this package; its handler is `notifier.handler`. Rules of EventBridge send it the
status changes of one pipeline's executions and of its gate's step (`events` has the patterns). For
a workload with a posture, the stream of its table sends it every decision that moved the posture.

A rule calls it every hour with `{"look": WORKLOAD}`: it looks for an execution that runs too long,
and for a schedule that started nothing.

Environment: TOPIC_ARN, PIPELINE_ARN, BUCKET, WORKLOAD, PREFIX where it is not "compilegate", and
LIMITS, the JSON that `limits` reads.

Its role must allow exactly this:

- sagemaker:DescribePipeline and sagemaker:ListPipelineExecutions on the pipeline;
  sagemaker:DescribePipelineExecution, sagemaker:ListPipelineExecutionSteps and
  sagemaker:StopPipelineExecution on its executions
- sagemaker:DescribeProcessingJob on the pipeline's processing jobs
- s3:GetObject below PREFIX/workloads/WORKLOAD/verdicts/, and s3:PutObject and s3:DeleteObject
  below PREFIX/workloads/WORKLOAD/notices/; kms:Decrypt and kms:GenerateDataKey on the bucket's key
- sns:Publish on the topic
- with a posture, dynamodb:DescribeStream, dynamodb:GetRecords and dynamodb:GetShardIterator on the
  stream of its table, and dynamodb:ListStreams
"""

from notifier.entry import handler

__all__ = ["handler"]
