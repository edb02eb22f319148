"""Public SageMaker pipelines, compiled where they lie and run here: docs/public-pipelines.md."""
