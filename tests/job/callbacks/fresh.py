"""A job is a process's one: each training runs in a process of its own, forked where the libraries
are imported already."""

from __future__ import annotations

import json
import multiprocessing
import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

LIBRARIES = [
    *("torch", "torch._dynamo", "torch._functorch.aot_autograd", "accelerate", "datasets", "keras"),
    *("pytorch_lightning", "transformers.trainer", "transformers.models.bert.modeling_bert"),
    "compilegate.job.callbacks.trainer",
]


def environment(folder: Path, config: dict[str, Any], **variables: str) -> dict[str, str]:
    """Of a process that is such a job, started by a workload."""
    return {
        **os.environ,
        "PYTHONPATH": str(Path(__file__).parents[3]),
        "OMP_NUM_THREADS": "1",
        "COMPILEGATE_JOB": json.dumps(config),
        "SM_MODEL_DIR": str(folder / "model"),
        "SM_OUTPUT_DATA_DIR": str(folder),
        **variables,
    }


def in_job(folder: Path, train: Callable[..., Any], **arguments: Any) -> Any:
    """What `train` returns as the job whose model and evidence are left in `folder`; its exception
    where it fails. `arguments` may have `config`, fields of `job.JobConfig`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LIBRARIES)
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(_run, folder, train, arguments).result()


def _run(folder: Path, train: Callable[..., Any], arguments: dict[str, Any]) -> Any:
    os.chdir(folder)
    import torch  # noqa: PLC0415 - the parent of this process has it, the tests need not

    torch.set_num_threads(1)
    from compilegate import job  # noqa: PLC0415

    config = {"compiler": "eager", "speed_probe_seconds": 0.0, "alone": True}
    config.update(arguments.pop("config", {}))
    job.start(
        config=job.JobConfig(
            job="job-1", arm="arm", model=folder / "model", output=folder, **config
        )
    )
    result = train(**arguments)
    job.finish()
    return result
