"""Workload to definition: the SageMaker pipeline JSON, compiled without AWS and without a clock.

    from compilegate.pipelines.compilation import compile_definition

The same workload, deployment and sources give the same bytes.
"""
