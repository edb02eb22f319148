"""Real jobs of one arm, one after the other, over one folder of archives."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from training.compile_cache import CacheKey
from training.compile_cache.this_job import hardware_of

pytestmark = pytest.mark.slow

TrainJob = Callable[..., Any]


@pytest.fixture(scope="module")
def archives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a damaged archive, under the name that a job on one thread looks for here."""
    folder = tmp_path_factory.mktemp("compile-cache")
    hardware = hardware_of(torch.device("cpu"))
    name = CacheKey({}, {}, {**hardware, "threads": 1}).archive_name
    (folder / name).write_bytes(b"manifest.json, cut short")
    return folder


@pytest.fixture(scope="module")
def compiled(train_job: TrainJob, archives: Path) -> Callable[[], Any]:
    """Runs an inductor job with that compile cache."""

    def run() -> Any:
        variables = {"COMPILEGATE_COMPILE_CACHE": str(archives)}
        return train_job(variables, compiler="inductor", arm="control", epochs=1)

    return run


@pytest.fixture(scope="module")
def cold(compiled: Callable[[], Any]) -> Any:
    """The first job."""
    return compiled()


@pytest.fixture(scope="module")
def warm(cold: Any, compiled: Callable[[], Any]) -> Any:
    """The second."""
    assert cold.status == 0, cold.stderr
    return compiled()


def test_a_job_ignores_a_damaged_archive_compiles_and_replaces_it(
    cold: Any, archives: Path
) -> None:
    evidence = cold.evidence().evidence
    cache = evidence.compile_cache
    assert (cache.state, cache.hits, cache.misses) == ("ignored", 0, 2)
    assert ".tar was ignored: it is damaged: " in cache.reason
    assert evidence.compiler.proof["cache"] == "kept"
    (archive,) = archives.iterdir()
    assert archive.stat().st_size == cache.saved_bytes > 100_000


def test_the_next_job_compiles_nothing_and_trains_the_same_model(cold: Any, warm: Any) -> None:
    evidence, first = warm.evidence().evidence, cold.evidence().evidence
    cache = evidence.compile_cache
    assert (cache.state, cache.hits, cache.misses) == ("warm", 2, 0)
    assert (cache.loaded_bytes, cache.saved_bytes) == (first.compile_cache.saved_bytes, 0)
    assert cache.cold_compile_seconds == first.compiler.compile_seconds
    assert cache.cold_first_step_seconds == cold.evidence().steps.seconds[0]
    assert evidence.digests["model"] == first.digests["model"]
    assert (evidence.compiler.graphs, evidence.compiler.ran) == (1, True)
    assert "compile cache: warm. " in warm.stdout
