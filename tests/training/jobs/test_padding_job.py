"""Training jobs over documents of many lengths, padded in each way: what they leave."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from compilegate.gate.settings import ParitySettings
from compilegate.job.evidence.parity import error_ratios
from tests.training.conftest import FILLER, TOPICS, PrepareProcess, TrainJob, write_jsonl
from training.data.prepared import read_prepared
from training.evaluation import logits_of
from training.model import load_model

pytestmark = [pytest.mark.slow, pytest.mark.long]

SEQUENCE_LENGTH = 64
Train = Callable[..., Any]


def documents(count: int, seed: int) -> list[dict[str, str]]:
    """Short documents, and some that are long enough to be cut."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        topic = draw.choice(sorted(TOPICS))
        filler = draw.choice([1, 2, 3, 80])
        words = draw.choices(FILLER, k=filler) + draw.choices(TOPICS[topic], k=3)
        draw.shuffle(words)
        rows.append({"text": " ".join(words), "label": topic})
    return rows


@pytest.fixture(scope="module")
def lengthy(prepare_process: PrepareProcess, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A prepared data set of such documents."""
    raw, output = tmp_path_factory.mktemp("raw"), tmp_path_factory.mktemp("lengthy")
    write_jsonl(raw / "train.jsonl", documents(330, seed=1))
    write_jsonl(raw / "validation.jsonl", documents(90, seed=2))
    result = prepare_process(raw, output, "--sequence-length", str(SEQUENCE_LENGTH))
    assert result.returncode == 0, result.stderr
    return output


@pytest.fixture(scope="module")
def train(train_job: TrainJob, lengthy: Path) -> Train:
    """Runs a job on those documents, without dropout: its masks depend on shapes."""

    def run(**options: object) -> Any:
        told = {"dropout": 0.0, **options}
        return train_job({"SM_CHANNEL_PREPARED": str(lengthy)}, **told)

    return run


@pytest.fixture(scope="module")
def whole(train: Train) -> Any:
    """Every document at full length."""
    return train()


@pytest.fixture(scope="module")
def compiled(train: Train) -> Any:
    """In buckets, with a compiler of static shapes."""
    return train(padding="buckets", compiler="inductor", arm="buckets")


def test_a_compiler_of_static_shapes_compiles_as_many_graphs_as_there_are_buckets(
    compiled: Any,
) -> None:
    evidence = compiled.evidence().evidence
    padding, compiler = evidence.padding, evidence.compiler
    assert padding.padding == evidence.recipe["padding"] == "buckets"
    assert padding.lengths == (8, SEQUENCE_LENGTH)
    assert compiler.graphs == 2
    assert (compiler.graph_breaks, compiler.recompilations) == (0, 0)
    assert evidence.recipe["steps"] == 60
    assert compiler.proof["graph_calls"] == 60  # the steps', and none of the probe's
    assert evidence.speed.steady_from == 2 + 5


def test_the_probe_compares_the_graph_of_every_bucket(compiled: Any) -> None:
    record = compiled.evidence()
    assert (record.evidence.parity.obstacle, record.evidence.parity.steps) == (None, 4)
    assert error_ratios(record.parity, "fp32").max() < ParitySettings().fp32_limit / 2


def test_a_model_trained_in_buckets_is_evaluated_as_at_full_length(
    compiled: Any, lengthy: Path
) -> None:
    found = compiled.evidence()
    split = read_prepared(lengthy).validation
    logits = torch.from_numpy(logits_of(load_model(compiled.model), split, torch.device("cpu"), 90))
    assert found.examples.ids.tolist() == split.ids.tolist()
    np.testing.assert_allclose(found.examples.scores, logits.softmax(1).numpy(), atol=1e-5)
    assert found.evidence.metrics["accuracy"] > 0.8


def test_padding_to_the_longest_trains_on_the_same_batches_as_full_length(
    train: Train, whole: Any
) -> None:
    short, full = train(padding="longest").evidence(), whole.evidence()
    assert short.evidence.recipe["data_order"] == full.evidence.recipe["data_order"]
    assert short.evidence.recipe["steps"] == full.evidence.recipe["steps"]
    np.testing.assert_allclose(short.steps.loss[:20], full.steps.loss[:20], rtol=1e-4)
    assert (short.evidence.padding.padding, short.evidence.padding.lengths) == ("longest", ())
    assert short.evidence.padding.positions == full.evidence.padding.positions


def test_every_job_records_the_same_lengths_and_what_padding_costs_it(
    whole: Any, compiled: Any
) -> None:
    full, buckets = whole.evidence().evidence.padding, compiled.evidence().evidence.padding
    assert (full.padding, full.lengths) == ("max", (SEQUENCE_LENGTH,))
    assert full.bucket_lengths == buckets.bucket_lengths == buckets.lengths
    assert full.histogram_documents == buckets.histogram_documents
    assert sum(full.histogram_documents) == 330
    assert full.positions.max == 20 * 16 * SEQUENCE_LENGTH
    assert full.share > 0.6
    assert buckets.share < 0.4
