"""The starter: a Lambda function that starts a pipeline when a delivery of raw data is complete.

A delivery is a folder below the workload's prefix that holds one `train.*` and one `validation.*`.
EventBridge reports each object that is written. Once both are there the delivery is put into a
queue, and an execution is started with the folder as the pipeline's parameter `Data`, as soon as no
other execution runs: at once, or when SageMaker reports the end of the one that does.

It runs on Python 3.14 with the runtime's own boto3 and imports nothing else; its handler is
`starter.handler`. `settings.py` says what its environment holds.
"""

from starter.delivery import DeliveryError
from starter.entry import connect, handler

__all__ = ["DeliveryError", "connect", "handler"]
