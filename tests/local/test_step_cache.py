"""An earlier result stands in for a step when, and only when, SageMaker's rules say so."""

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from compilegate.document.step_types import STEP_TYPES
from compilegate.execution.status import ExecutionStatus
from compilegate.local.cache import cache_slot

pytestmark = pytest.mark.slow

CACHED = {"Enabled": True, "ExpireAfter": "P30D"}
WRITE = "open('/opt/ml/processing/out/x', 'w').write('x')"


def cached(bench: Any, result: Any) -> set[str]:
    assert result.status is ExecutionStatus.SUCCEEDED, result.failure
    return {name for name, step in result.steps.items() if step.cached}


def steps(bench: Any, *, rate: str = "0.1", config: Any = CACHED) -> list[dict[str, Any]]:
    uri = {"Get": "Steps.prepare.ProcessingOutputConfig.Outputs['out'].S3Output.S3Uri"}
    return [
        bench.processing("prepare", WRITE, outputs=["out"], CacheConfig=config),
        bench.training(
            "train",
            hyperparameters={"rate": rate},
            channels={"train": uri},
            CacheConfig=config,
        ),
    ]


def test_a_step_with_the_same_arguments_keeps_its_first_job_and_properties(bench: Any) -> None:
    first = bench.run(*steps(bench))
    second = bench.run(*steps(bench))
    assert cached(bench, first) == set()
    assert cached(bench, second) == {"prepare", "train"}
    for name in ("prepare", "train"):
        assert second.steps[name].job_name == first.steps[name].job_name
        assert second.steps[name].properties == first.steps[name].properties


def test_other_hyperparameters_another_pipeline_and_no_cache_are_misses(bench: Any) -> None:
    bench.run(*steps(bench))
    assert cached(bench, bench.run(*steps(bench, rate="0.2"))) == {"prepare"}
    assert cached(bench, bench.run(*steps(bench), pipeline_name="other")) == set()
    assert cached(bench, bench.run(*steps(bench), use_cache=False)) == set()


def test_what_was_made_in_a_described_machine_stands_in_for_nothing_else(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.run(*steps(bench))
    monkeypatch.setenv("COMPILEGATE_MACHINE", '{"accelerator": "V100"}')
    assert cached(bench, bench.run(*steps(bench))) == set()
    assert cached(bench, bench.run(*steps(bench))) == {"prepare", "train"}
    monkeypatch.setenv("COMPILEGATE_MACHINE", '{"accelerator": "A10G"}')
    assert cached(bench, bench.run(*steps(bench))) == set()


def test_a_step_without_a_cache_config_always_runs(bench: Any) -> None:
    for config in (None, {"Enabled": False, "ExpireAfter": "P30D"}):
        bench.run(*steps(bench, config=config))
        assert cached(bench, bench.run(*steps(bench, config=config))) == set()


def test_a_result_older_than_expire_after_is_a_miss(bench: Any) -> None:
    bench.run(*steps(bench))
    for path in (bench.home / "cache").rglob("*.json"):
        entry = json.loads(path.read_text())
        path.write_text(json.dumps({**entry, "finished": time.time() - 3 * 86400}))
    assert cached(bench, bench.run(*steps(bench, config={**CACHED, "ExpireAfter": "2d"}))) == set()


def test_a_result_whose_outputs_are_gone_or_changed_is_a_miss(bench: Any) -> None:
    bench.run(*steps(bench))
    bench.put("s3://bucket/prepare/out/y", "somebody else's")
    assert cached(bench, bench.run(*steps(bench))) == {"train"}
    shutil.rmtree(bench.home / "s3" / "bucket" / "training")
    # The other run of prepare has overwritten the very same bytes, so it is a hit no more either.
    assert cached(bench, bench.run(*steps(bench))) == {"prepare"}


def test_a_failed_run_is_never_a_hit(bench: Any) -> None:
    step = bench.processing("bad", "raise SystemExit(1)", CacheConfig=CACHED)
    assert bench.run(step).status is ExecutionStatus.FAILED
    assert bench.run(step).steps["bad"].attempts == 1


def test_a_damaged_entry_is_a_miss(bench: Any) -> None:
    bench.run(*steps(bench))
    for path in (bench.home / "cache").rglob("*.json"):
        path.write_bytes(path.read_bytes()[:40])
    assert cached(bench, bench.run(*steps(bench))) == set()


def key(tmp_path: Path, bench: Any, *, kind: str, identity: str = "e", **request: Any) -> Path:
    return cache_slot(
        tmp_path,
        bench.store,
        pipeline="p",
        step="s",
        step_type=kind,
        request=request,
        environment_identity=identity,
    ).path


@pytest.mark.parametrize(
    ("kind", "member"), [(kind, m) for kind, known in STEP_TYPES.items() for m in known.cache_key]
)
def test_the_key_holds_each_documented_attribute(
    bench: Any, tmp_path: Path, kind: str, member: str
) -> None:
    one = key(tmp_path, bench, kind=kind, **{member: {"a": 1, "b": 2}})
    assert one == key(tmp_path, bench, kind=kind, **{member: {"b": 2, "a": 1}})
    assert one != key(tmp_path, bench, kind=kind, **{member: {"a": 1, "b": 3}})


def test_the_key_ignores_where_results_go_but_not_the_environment(
    bench: Any, tmp_path: Path
) -> None:
    one = key(tmp_path, bench, kind="Training", OutputDataConfig={"S3OutputPath": "s3://a"})
    assert one == key(tmp_path, bench, kind="Training", OutputDataConfig={"S3OutputPath": "s3://b"})
    assert one != key(tmp_path, bench, kind="Training", identity="torch upgraded")
