"""Real jobs of one arm, one after the other, over one folder of archives."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from compilegate.job.cache import CacheKey, hardware_of

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
def compiled(train_job: TrainJob, archives: Path) -> Callable[..., Any]:
    """Runs an inductor job with that compile cache."""

    def run(**options: Any) -> Any:
        variables = {"COMPILEGATE_COMPILE_CACHE": str(archives)}
        return train_job(variables, compiler="inductor", arm="compiler-only", epochs=1, **options)

    return run


@pytest.fixture(scope="module")
def cold(compiled: Callable[..., Any]) -> Any:
    """The first job."""
    return compiled()


@pytest.fixture(scope="module")
def warm(cold: Any, compiled: Callable[..., Any]) -> Any:
    """The second."""
    assert cold.status == 0, cold.stderr
    return compiled()


@pytest.mark.long
def test_a_job_ignores_a_damaged_archive_compiles_and_replaces_it(
    cold: Any, archives: Path
) -> None:
    evidence = cold.evidence().evidence
    cache = evidence.compile_cache
    assert (cache.state, cache.hits, cache.misses) == ("ignored", 0, 2)
    assert ".zip was ignored: it is damaged: " in cache.reason
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


def test_code_with_which_a_job_fails_is_left_to_no_other_job(
    warm: Any, compiled: Callable[..., Any], archives: Path
) -> None:
    """Its digest is right: whoever wrote it wrote that too."""
    assert warm.status == 0, warm.stderr
    (archive,) = archives.iterdir()
    forge(archive, dict.fromkeys(members(archive, ".py"), b"raise SystemError('forged')"))
    job = compiled(on_failure="record")
    failure = job.evidence().evidence.failure
    assert "SystemError: forged" in failure
    assert f"{archive.name} was removed: its code may be why" in job.stdout
    assert list(archives.iterdir()) == []


def members(archive: Path, suffix: str) -> list[str]:
    return [name for name in unpacked(archive) if name.endswith(suffix)]


def unpacked(archive: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(archive) as packed:
        return {name: packed.read(name) for name in packed.namelist()}


def forge(archive: Path, changed: dict[str, bytes]) -> None:
    """Replace files of an archive."""
    files = {**unpacked(archive), **changed}
    with zipfile.ZipFile(archive, "w") as packed:
        for name, content in files.items():
            packed.writestr(name, content)
