"""Hugging Face's Trainer under the gate, by one argument more."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from compilegate.gate.evidence import read_evidence
from compilegate.job import CompilegateError
from tests.job.callbacks.fresh import in_job
from tests.job.callbacks.models import COMPILED, texts, train

pytestmark = pytest.mark.slow


def read(folder: Path) -> Any:
    return read_evidence(folder / "evidence")


@pytest.mark.long
def test_a_training_is_compiled_timed_judged_at_its_best_and_saved(tmp_path: Path) -> None:
    reported = in_job(
        tmp_path,
        train,
        config=COMPILED,
        eval_strategy="steps",
        eval_steps=2,
        save_strategy="steps",
        save_steps=2,
        load_best_model_at_end=True,
        gradient_accumulation_steps=2,
        num_train_epochs=2,
    )
    found = read(tmp_path)
    assert (found.evidence.compiler.ran, found.evidence.compiler.recompilations) == (True, 0)
    # 30 rows are 7 whole batches: three steps of two, and one of the seventh, in each epoch.
    assert len(found.steps.seconds) == 8
    assert found.steps.loss.mean() == pytest.approx(reported["train_loss"], rel=1e-4)
    assert found.examples.losses.mean() == pytest.approx(reported["eval_loss"], rel=1e-4)
    np.testing.assert_allclose(
        found.examples.scores, softmax(reported["logits"], axis=1), atol=1e-6
    )
    assert list(found.examples.ids) == [str(place) for place in range(10)]
    assert (tmp_path / "model" / "config.json").exists()
    assert found.evidence.parity.steps > 0
    assert found.evidence.parity.obstacle is None
    assert found.evidence.recipe["global_batch_size"] == 8
    assert reported["drops_last"] is False
    assert any("2 of 4 examples: it was left out" in note for note in found.evidence.notes)


@pytest.mark.long
def test_under_autocast_the_probe_compares_in_the_trainers_precision(tmp_path: Path) -> None:
    in_job(tmp_path, train, config={**COMPILED, "precision": "bf16"}, bf16=True, max_steps=4)
    found = read(tmp_path).evidence
    assert (found.parity.precision, found.parity.obstacle) == ("bf16", None)
    assert (found.compiler.ran, found.compiler.recompilations) == (True, 0)


@pytest.mark.long
def test_texts_padded_to_the_longest_are_named_with_the_fix(tmp_path: Path) -> None:
    in_job(tmp_path, train, config=COMPILED, longest=9, rows=16, max_steps=4, seed=3)
    found = read(tmp_path).evidence
    assert found.compiler.recompilations > 0
    assert any("padding='max_length'" in note for note in found.notes)


@pytest.mark.parametrize("kind", ["numbers", "several"])
def test_models_of_other_kinds_are_judged_example_by_example(kind: str, tmp_path: Path) -> None:
    reported = in_job(tmp_path, train, kind=kind, max_steps=2)
    examples = read(tmp_path).examples
    assert examples.losses.mean() == pytest.approx(reported["eval_loss"], rel=1e-4)
    assert len(examples.ids) == 10
    assert (examples.targets is None) == (kind != "numbers")


def test_a_language_model_is_judged_by_the_loss_of_each_sequence(tmp_path: Path) -> None:
    reported = in_job(tmp_path, train, kind="language", max_steps=2)
    scores = log_softmax(reported["logits"].astype(np.float64), axis=2)
    following = np.array(texts(10, "language")["labels"])[:, 1:]  # what each position predicts
    losses = -np.take_along_axis(scores[:, :-1], following[:, :, None], axis=2).mean(axis=(1, 2))
    np.testing.assert_allclose(read(tmp_path).examples.losses, losses, rtol=1e-5)


def test_ids_and_slices_may_be_given(tmp_path: Path) -> None:
    data = texts(10)
    callback = {"eval_dataset": data, "ids": "name", "slices": {"half": ["a"] * 5 + ["b"] * 5}}
    in_job(tmp_path, train, max_steps=2, callback=callback)
    examples = read(tmp_path).examples
    assert list(examples.ids) == data["name"]
    assert list(examples.slices["half"]) == ["a"] * 5 + ["b"] * 5


def test_a_precision_that_nobody_declared_is_the_script_s_own(tmp_path: Path) -> None:
    in_job(tmp_path, train, bf16=True, max_steps=2)
    assert read(tmp_path).evidence.recipe["precision"] == "bf16"


@pytest.mark.parametrize(
    ("config", "settings", "sentence"),
    [
        ({"batch_size": 8}, {}, "batch_size is 8, and the Trainer's per_device_train_batch_size"),
        ({"learning_rate": 0.5}, {}, "the job's learning_rate is 0.5, and the Trainer's is 0.01"),
        (
            {"alone": False},
            {"bf16": True, "seed": 0},
            r"the job's precision is fp32, and the Trainer's is bf16; .*"
            r'set precision = "bf16" in \[arms\.arm\]',
        ),
        ({}, {"torch_compile": True}, "torch_compile is on, so that every arm would be compiled"),
        ({}, {"auto_find_batch_size": True}, "auto_find_batch_size is on"),
        ({}, {"callback": {"ids": "name"}}, r"give the ids themselves: .*ids=eval_dataset\['name'"),
        (
            {},
            {"several": True, "eval_strategy": "steps", "eval_steps": 1},
            r"several data sets \(eval_first, eval_second\).*choose it",
        ),
    ],
)
def test_what_cannot_be_judged_is_said_where_it_happens(
    config: dict[str, Any], settings: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    with pytest.raises(CompilegateError) as raised:
        in_job(tmp_path, train, config=config, **{"max_steps": 2, **settings})
    assert re.search(sentence, str(raised.value))
