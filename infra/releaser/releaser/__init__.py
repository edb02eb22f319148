"""The releaser: a Lambda function that acts on what people decide about registered models.

EventBridge reports each change of a model package's approval. The model that was approved last is
deployed as `[serving] deploy` says: to an endpoint, or by a batch transform. Every event leads to
the same question, what should run and what does, so that events may come twice, late and in any
order.

It runs on Python 3.14 with the runtime's own boto3 and imports nothing else; its handler is
`releaser.handler`. `settings.py` says what its environment holds.
"""

from releaser.entry import connect, handler

__all__ = ["connect", "handler"]
