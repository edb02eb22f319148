"""The parity probe, on a real model and real compilers, most of them wrong on purpose."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification

from benchmarks.miscompilers import EDITS, Miscompiler, unchanged
from compilegate.gate.parity import error_ratios, lasting
from compilegate.gate.settings import ParitySettings
from compilegate.job.compilers.immediate import ImmediateSteps
from compilegate.job.evidence import ParityErrors, ParityRecord
from compilegate.job.probes.parity import keep_weights, probe_parity
from training.data.batches import BatchSource, batches_of_run
from training.data.prepared import PreparedSplit
from training.hyperparameters import Hyperparameters
from training.schedule import run_length
from training.update import WeightUpdate

DOCUMENTS, SEQUENCE_LENGTH, VOCABULARY, CLASSES = 64, 12, 50, 3
RECIPE = Hyperparameters(batch_size=8, epochs=1, learning_rate=1e-2)
EPSILON = 2.0**-23
WRONG = sorted(EDITS)


class PlainCall(ImmediateSteps):
    """No compiler at all behind a compiler's interface: it calls what it is given."""

    shares_random_numbers = True

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call
        self.calls = 0

    def compile(self, model: Any) -> Callable[..., Any]:
        return self.call

    def graphs(self) -> int:
        return 1

    def record(self, compile_seconds: float, recompilations: int) -> Any:
        raise NotImplementedError


class CompilesEveryTime(PlainCall):
    """Counts a new graph at every call."""

    def graphs(self) -> int:
        self.calls += 1
        return self.calls


class OwnRandomNumbers(PlainCall):
    """As a compiler with a generator of its own, and without a switch to eager's."""

    shares_random_numbers = False


def new_model(dropout: float = 0.0, seed: int = 0) -> Any:
    torch.manual_seed(seed)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=SEQUENCE_LENGTH,
        initializer_range=0.1,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
        num_labels=CLASSES,
        problem_type="single_label_classification",
    )
    return BertForSequenceClassification(config)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """So that eager repeats itself to the last bit, and two small threads wait for nobody."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def source() -> BatchSource:
    """Documents of random tokens, padded to different lengths."""
    draw = np.random.default_rng(0)
    lengths = draw.integers(4, SEQUENCE_LENGTH + 1, DOCUMENTS)
    mask = np.arange(SEQUENCE_LENGTH) < lengths[:, None]
    split = PreparedSplit(
        input_ids=np.where(mask, draw.integers(1, VOCABULARY, mask.shape), 0).astype(np.int32),
        attention_mask=mask.astype(np.int8),
        labels=draw.integers(0, CLASSES, DOCUMENTS),
        ids=np.arange(DOCUMENTS).astype(str),
    )
    return BatchSource(split, torch.device("cpu"))


def probed(
    source: BatchSource,
    model: Any,
    compiler: Any,
    *,
    recipe: Hyperparameters = RECIPE,
    steps: int = 3,
) -> tuple[ParityRecord, ParityErrors | None]:
    """What the probe says; the compiled function has served one step before, as after training."""
    initial = keep_weights(model)
    forward = compiler.compile(model)
    model.train()
    forward(**next(source.training(0, 0, recipe.batch_size)))
    length = run_length(recipe, len(source))
    return probe_parity(
        model,
        forward,
        compiler=compiler,
        initial=initial,
        batches=batches_of_run(source, recipe, length, 0),
        begin_updates=lambda: WeightUpdate(model, recipe, length, scaled=False).apply,
        precision=recipe.precision,
        seed=0,
        steps=steps,
    )


def test_the_same_arithmetic_has_the_same_errors_to_the_last_bit(source: BatchSource) -> None:
    model = new_model()
    record, errors = probed(source, model, PlainCall(model))
    assert (record.precision, record.steps, record.obstacle) == ("fp32", 3, None)
    assert errors is not None
    np.testing.assert_array_equal(errors.compiled, errors.eager)
    np.testing.assert_array_equal(errors.repeated, 0)


def test_eager_errs_against_float64_by_the_rounding_of_its_precision(source: BatchSource) -> None:
    model = new_model()
    _, single = probed(source, model, PlainCall(model))
    half = dataclasses.replace(RECIPE, precision="bf16")
    record, errors = probed(source, model, PlainCall(model), recipe=half)
    assert record.precision == "bf16"
    assert single is not None
    assert errors is not None
    assert 0.1 * EPSILON < np.median(single.eager) < 30 * EPSILON
    assert 0.1 * 2**-7 < np.median(errors.eager) < 30 * 2**-7


def test_the_loss_the_logits_and_every_gradient_are_compared(source: BatchSource) -> None:
    model = new_model()
    _, errors = probed(source, model, PlainCall(model))
    assert errors is not None
    parameters = [f"gradient of {name}" for name, _ in model.named_parameters()]
    assert list(errors.tensors) == ["loss", "logits", *parameters]
    assert errors.eager.shape == (3, len(errors.tensors))


def test_steps_start_from_weights_that_eager_has_trained(source: BatchSource) -> None:
    model = new_model()
    seen: list[torch.Tensor] = []

    def watched(**batch: Any) -> Any:
        seen.append(model.classifier.weight.detach().clone())
        return model(**batch)

    probed(source, model, PlainCall(watched))
    first, *later = seen[1:]  # the first call is no part of the probe
    torch.testing.assert_close(first, new_model().classifier.weight, rtol=0, atol=0)
    assert len(later) == 2
    assert not any(torch.equal(before, after) for before, after in itertools.pairwise(seen[1:]))


def test_no_more_steps_are_compared_than_the_run_has(source: BatchSource) -> None:
    model = new_model()
    record, errors = probed(
        source, model, PlainCall(model), recipe=dataclasses.replace(RECIPE, max_steps=2)
    )
    assert record.steps == 2
    assert errors is not None
    assert len(errors.compiled) == 2


def test_the_model_and_the_random_numbers_are_left_as_they_were(source: BatchSource) -> None:
    model = new_model()
    other = keep_weights(new_model(seed=1))
    trained = keep_weights(model)
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    compiler = PlainCall(model)
    length = run_length(RECIPE, DOCUMENTS)
    probe_parity(
        model,
        model,
        compiler=compiler,
        initial=other,
        batches=batches_of_run(source, RECIPE, length, 0),
        begin_updates=lambda: WeightUpdate(model, RECIPE, length, scaled=False).apply,
        precision="fp32",
        seed=0,
        steps=2,
    )
    assert torch.equal(torch.rand(1), expected)
    for name, each in model.state_dict().items():
        assert torch.equal(each, trained[name]), name
    assert all(each.grad is None for each in model.parameters())


@pytest.mark.slow
def test_a_captured_graph_is_compared_without_compiling_it_again(source: BatchSource) -> None:
    compiler = Miscompiler(unchanged)
    record, errors = probed(source, new_model(), compiler)
    assert (record.obstacle, compiler.graphs()) == (None, 1)
    assert errors is not None
    np.testing.assert_array_equal(errors.compiled, errors.eager)


@pytest.mark.slow
@pytest.mark.parametrize("defect", WRONG)
def test_a_miscompiled_graph_errs_far_more_than_eager(source: BatchSource, defect: str) -> None:
    _, errors = probed(source, new_model(), Miscompiler(EDITS[defect]))
    assert errors is not None
    np.testing.assert_array_equal(errors.repeated, 0)
    # Not by a hair: the gate's limit leaves room on both sides.
    assert lasting(error_ratios(errors, "fp32")).max() > 5 * ParitySettings().fp32_limit


@pytest.mark.slow
def test_a_wrong_gradient_is_found_in_its_own_tensor_alone(source: BatchSource) -> None:
    _, errors = probed(source, new_model(), Miscompiler(EDITS["a weight's gradient off by 10%"]))
    assert errors is not None
    far = (errors.compiled > 10 * np.maximum(errors.eager, EPSILON)).all(axis=0)
    assert far.sum() == 1
    np.testing.assert_allclose(errors.compiled[:, far], 0.1, rtol=1e-4)


def test_what_is_zero_in_float64_and_is_not_when_compiled_is_infinitely_wrong(
    source: BatchSource,
) -> None:
    model = new_model()
    torch.nn.init.zeros_(model.classifier.weight)
    torch.nn.init.zeros_(model.classifier.bias)

    def off(**batch: torch.Tensor) -> Any:
        output = model(**batch)
        output.logits = output.logits + 1e-3
        return output

    _, errors = probed(source, model, PlainCall(off))
    assert errors is not None
    logits = list(errors.tensors).index("logits")
    assert (errors.eager[0, logits], errors.compiled[0, logits]) == (0.0, np.inf)


def test_dropout_is_compared_where_the_random_numbers_are_shared(source: BatchSource) -> None:
    model = new_model(dropout=0.3)
    record, errors = probed(source, model, PlainCall(model))
    assert record.obstacle is None
    assert errors is not None
    assert errors.eager.max() < 1e-4  # float64 too has dropped the same units
    np.testing.assert_array_equal(errors.repeated, 0)


def test_dropout_with_random_numbers_of_its_own_cannot_be_compared(source: BatchSource) -> None:
    model = new_model(dropout=0.3)
    record, errors = probed(source, model, OwnRandomNumbers(model))
    assert (record.steps, errors) == (0, None)
    assert record.obstacle == (
        "the model draws random numbers (dropout), and the compiler draws its own"
    )


def test_without_dropout_it_does_not_matter_whose_random_numbers(source: BatchSource) -> None:
    model = new_model()
    record, _ = probed(source, model, OwnRandomNumbers(model))
    assert record.obstacle is None


def test_an_eager_step_that_does_not_repeat_itself_is_measured(source: BatchSource) -> None:
    model = new_model()
    noise = itertools.count()

    def disturb(_module: Any, _inputs: Any, output: torch.Tensor) -> torch.Tensor:
        return output + 1e-3 * (next(noise) % 7)

    model.bert.embeddings.register_forward_hook(disturb)
    _, errors = probed(source, model, PlainCall(model))
    assert errors is not None
    assert errors.repeated.max() > 1000 * EPSILON


def test_a_model_without_float64_cannot_be_compared(source: BatchSource) -> None:
    model = new_model()

    def refuse(_module: Any, inputs: tuple[torch.Tensor, ...]) -> None:
        if inputs[0].dtype is torch.float64:
            raise NotImplementedError("\"fast_linear\" not implemented for 'Double'\nmore advice")

    model.classifier.register_forward_pre_hook(refuse)
    record, errors = probed(source, model, PlainCall(model))
    assert (record.steps, errors) == (0, None)
    assert record.obstacle == (
        "the step cannot be computed in float64 here: NotImplementedError: "
        "\"fast_linear\" not implemented for 'Double'"
    )


def test_a_compiler_that_compiles_anew_in_the_probe_cannot_be_judged(source: BatchSource) -> None:
    model = new_model()
    record, errors = probed(source, model, CompilesEveryTime(model))
    assert (record.steps, errors) == (0, None)
    assert "the probe made the compiler compile anew" in str(record.obstacle)


def test_a_probe_that_breaks_off_costs_no_model(source: BatchSource) -> None:
    model = new_model()
    calls = itertools.count()

    def breaks(**batch: Any) -> Any:
        if next(calls) == 2:
            raise MemoryError("no room for the second step")
        return model(**batch)

    trained = keep_weights(model)
    record, errors = probed(source, model, PlainCall(breaks))
    assert errors is None
    assert record.obstacle == "the probe broke off: MemoryError: no room for the second step"
    for name, each in model.state_dict().items():
        assert torch.equal(each, trained[name]), name
