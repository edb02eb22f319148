"""Programs that start training jobs with SageMaker Training Compiler."""
