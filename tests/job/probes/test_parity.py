"""The parity probe on captured calls: any model, any output, and nothing left behind."""

from __future__ import annotations

import copy
import dataclasses
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor, nn

from compilegate.job.compilers import load_compiler
from compilegate.job.evidence import ParityErrors, ParityRecord
from compilegate.job.evidence.parity import error_ratios, lasting
from compilegate.job.probes.obstacles import free_bytes
from compilegate.job.probes.capture import Compiled, same_layout
from compilegate.job.probes.parity import probe_parity
from tests.job.every_call import states
from tests.job.probes.scenes import KINDS, Plain, captured, new_model

EPSILON = 2.0**-23


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """So that eager repeats itself to the last bit."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def probed(
    model: Any, folder: Path, compiler: Any = None, **options: Any
) -> tuple[ParityRecord, ParityErrors]:
    compiler = compiler or Plain()
    found = probe_parity([captured(model, compiler, **options)], compiler=compiler, folder=folder)
    record = found.collected()
    assert record.obstacle is None
    assert found.errors is not None
    return record, found.errors


def unprobed(compiled: Compiled, folder: Path, compiler: Any = None, **options: Any) -> str:
    """Why there is nothing to compare."""
    found = probe_parity([compiled], compiler=compiler or Plain(), folder=folder, **options)
    assert found.errors is None
    assert found.record.obstacle is not None
    return found.record.obstacle


def looked(compiled: list[Compiled], **options: Any) -> tuple[ParityRecord, Any]:
    found = probe_parity(compiled, **options)
    return found.collected(), found.errors


def everything(model: nn.Module) -> list[Any]:
    """All that a probe could disturb, as values."""
    tensors = [*model.state_dict().values(), *(each.grad for each in model.parameters())]
    flags = [each.training for each in model.modules()]
    states = [torch.get_rng_state(), random.getstate(), np.random.get_state()[1].tolist()]
    return copy.deepcopy([tensors, flags, states])


def equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return one == other


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_same_code_has_the_same_errors_and_leaves_no_trace(
    kind: str, precision: str, tmp_path: Path
) -> None:
    model, compiler = new_model(kind), Plain()
    compiled = captured(model, compiler, precision=precision)
    for each in model.parameters():
        each.grad = torch.ones_like(each)
    before = everything(model)
    record, errors = looked([compiled], compiler=compiler, folder=tmp_path)
    assert equal(before, everything(model))
    assert (record.precision, record.steps, record.obstacle) == (precision, 3, None)
    assert errors is not None
    np.testing.assert_array_equal(errors.compiled, errors.eager)
    np.testing.assert_array_equal(errors.repeated, 0)
    unit = EPSILON if precision == "fp32" else 2.0**-7
    assert 0.01 * unit < np.median(errors.eager) < 30 * unit
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("perceptron", ["loss", "output.logits", "gradient of first.weight"]),
        ("convolutions", ["output", "buffer norm.running_mean", "buffer norm.running_var"]),
        ("language", ["output.0", "loss", "gradient of embedding.weight"]),
        ("recurrent", ["output.0", "output.1", "gradient of cell.gate.weight"]),
    ],
)
def test_outputs_are_named_by_where_they_lie(kind: str, names: list[str], tmp_path: Path) -> None:
    model = new_model(kind)
    _, errors = probed(model, tmp_path)
    found = list(errors.tensors)
    assert found[: len(names)] == names
    parameters = {f"gradient of {name}" for name, _ in model.named_parameters()}
    assert parameters == {name for name in found if name.startswith("gradient of ")}


def test_what_departs_is_printed_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def off(function: Any) -> Any:
        def wrong(images: Tensor) -> Tensor:
            return function(images) * 1.01

        return wrong

    record, errors = probed(new_model("convolutions"), tmp_path, Plain(off))
    output = list(errors.tensors).index("output")
    np.testing.assert_allclose(errors.compiled[:, output], 0.01, rtol=1e-4)
    told = capsys.readouterr().err
    assert "compiled tensors err more than 20 times what eager's rounding explains in fp32" in told
    assert "  output (error 0.01 of its size, eager" in told
    assert record.repro is None
    assert record.departs is not None
    assert record.departs.startswith("The compiled output (error 0.01 of its size")
    assert "There is no repro: its compiler is no backend of torch.compile." in record.departs


def test_an_output_that_was_cut_off_from_the_gradients_departs(tmp_path: Path) -> None:
    def cut(function: Any) -> Any:
        def wrong(*arguments: Any) -> Any:
            logits, state = function(*arguments)
            return logits, state.detach()

        return wrong

    record, errors = probed(
        new_model("recurrent"),
        tmp_path,
        Plain(cut),
        loss=lambda output: output[0].mean() + output[1].mean(),
    )
    gate = list(errors.tensors).index("gradient of cell.gate.weight")
    assert (errors.compiled[:, gate] > 0.01).all()
    assert "departs" in str(record.departs)


def test_gradients_of_inputs_are_compared_where_they_are_wanted(tmp_path: Path) -> None:
    def batch() -> tuple[Any, ...]:
        return torch.randn(4, 3, 6), torch.zeros(4, 6).requires_grad_()

    _, errors = probed(new_model("recurrent"), tmp_path, batch=batch)
    assert "gradient of input 1" in list(errors.tensors)


def test_a_function_is_compared_as_a_module_is(tmp_path: Path) -> None:
    model = nn.Linear(3, 1)
    scale = torch.tensor(0.5)

    def loss(inputs: Tensor, targets: Tensor) -> Tensor:
        return ((model(inputs) - targets) * scale).square().mean()

    _, errors = probed(
        model,
        tmp_path,
        function=loss,
        batch=lambda: (torch.randn(8, 3), torch.randn(8, 1)),
        loss=lambda value: value / 4,  # as a step of four accumulated ones
    )
    assert list(errors.tensors) == ["loss", "gradient of weight", "gradient of bias"]
    assert errors.eager.max() < 20 * EPSILON


class Awkward(nn.Module):
    """Frozen, unused, complex and integer parameters, a cache, a count, constants of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Parameter(torch.randn(4, 4), requires_grad=False)
        self.unused = nn.Parameter(torch.randn(2))
        self.phase = nn.Parameter(torch.randn(4, dtype=torch.complex64))
        self.table = nn.Parameter(torch.arange(4), requires_grad=False)
        self.rows = nn.Embedding(5, 4, sparse=True)
        self.scale = torch.full((4,), 0.5)
        self.weights = [self.phase, self.frozen]
        self.calls = 0
        self.cache: dict[str, Tensor] = {}

    def forward(self, inputs: Tensor, *, shift: Tensor) -> dict[str, Any]:
        self.calls += 1
        self.cache["last"] = inputs.detach()
        self.seen = inputs.shape
        hidden = inputs.to(torch.float32) @ self.weights[1] * self.scale + self.rows(self.table)
        hidden = hidden + torch.zeros(4) + torch.randn(4) * 0.1
        turned = torch.fft.fft(hidden) * self.phase
        return {"states": [turned, (hidden.float() + shift,)], "count": torch.tensor(3)}


def test_an_awkward_module_is_compared_and_left_alone(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model, compiler = Awkward(), Plain()
    compiled = Compiled("Awkward", model, model.forward, model.forward)
    for step in range(2):
        call = compiled.keep_call(step, (torch.randn(4, 4),), {"shift": torch.randn(4)})
        call.cotangents = [torch.randn(4, 4, dtype=torch.complex64), torch.randn(4, 4)]
    del model.cache, model.calls
    model.cache, model.calls = {}, 7
    before = everything(model)
    record, errors = looked([compiled], compiler=compiler, folder=tmp_path)
    assert record.obstacle is None
    assert errors is not None
    assert list(errors.tensors) == [
        "output.states.0",
        "output.states.1.0",
        "gradient of unused",
        "gradient of phase",
        "gradient of rows.weight",
    ]
    np.testing.assert_array_equal(errors.compiled, errors.eager)
    assert errors.eager.max() < 20 * EPSILON
    assert (model.calls, model.cache, hasattr(model, "seen")) == (7, {}, False)
    assert model.weights == [model.phase, model.frozen]
    assert model.scale.dtype is torch.float32
    assert equal(before, everything(model))


@pytest.mark.slow
def test_views_are_captured_as_views_which_guards_on_dynamic_shapes_look_at(tmp_path: Path) -> None:
    torch.compiler.reset()
    compiler = load_compiler("torch-compile", {"backend": "aot_eager", "dynamic_shapes": True})
    data, targets = torch.randn(32, 6), torch.randint(0, 3, (32,))
    starts = iter(range(0, 32, 8))

    def batch() -> tuple[Any, ...]:
        start = next(starts)
        return data[start : start + 8], targets[start : start + 8]

    compiled = captured(new_model("perceptron"), compiler, batch=batch)
    record, errors = looked([compiled], compiler=compiler, folder=tmp_path)
    assert (record.obstacle, compiler.graphs()) == (None, 1)
    assert errors is not None


@pytest.mark.slow
@given(st.data())
def test_a_copy_has_the_layout_of_its_original(data: st.DataObject) -> None:
    base = torch.arange(60.0).reshape(3, 4, 5)
    views: dict[str, Callable[[Tensor], Tensor]] = {
        "row": lambda each: each[1:],
        "turned": lambda each: each.transpose(0, -1),
        "every other": lambda each: each[..., ::2],
        "repeated": lambda each: each[:, :1].expand(each.shape[0], 3, *each.shape[2:]),
    }
    view = base
    for name in data.draw(st.lists(st.sampled_from(sorted(views)), max_size=3)):
        view = views[name](view)
    view = view.clone() if data.draw(st.booleans()) else view
    assume(view.numel() > 0)
    copy = same_layout(view)
    assert torch.equal(copy, view)
    assert (copy.stride(), copy._is_view()) == (view.stride(), view._is_view())
    assert (
        copy.untyped_storage().data_ptr() != view.untyped_storage().data_ptr() or not copy.numel()
    )


def test_several_functions_are_told_apart(tmp_path: Path) -> None:
    compiler = Plain()
    compiled = [captured(new_model(kind), compiler, steps=2) for kind in ("unet", "recurrent")]
    record, errors = looked(compiled, compiler=compiler, folder=tmp_path)
    assert errors is not None
    assert record.steps == 2
    assert {name.partition(": ")[0] for name in errors.tensors} == {"UNet", "Recurrent"}


def test_the_wrapper_of_parallel_training_is_looked_through(tmp_path: Path) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    try:
        inner = new_model("convolutions")
        model = nn.parallel.DistributedDataParallel(inner)
        compiler = Plain()
        compiled = captured(inner, compiler)
        compiled.module, compiled.compiled, compiled.eager = model, model.forward, model.forward
        record, errors = looked([compiled], compiler=compiler, folder=tmp_path)
        assert record.obstacle is None
        assert errors is not None
        assert "gradient of convolution.weight" in list(errors.tensors)
        np.testing.assert_array_equal(errors.compiled, errors.eager)
        # Its own bookkeeping is as it was: the next step of the training works.
        model(*inner.batch()).sum().backward()
        assert inner.end.weight.grad is not None
    finally:
        torch.distributed.destroy_process_group()


class Waits(nn.Module):
    """Adds up over processes, within its forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.end = nn.Linear(3, 1)

    def forward(self, inputs: Tensor) -> Tensor:
        value = self.end(inputs).mean()
        torch.distributed.all_reduce(value.detach())
        return value

    @staticmethod
    def batch() -> tuple[Tensor]:
        return (torch.randn(2, 3),)


def test_a_model_that_waits_for_others_is_not_waited_for(tmp_path: Path) -> None:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    try:
        compiler = Plain()
        record, errors = looked(
            [captured(Waits(), compiler)], compiler=compiler, folder=tmp_path
        )
    finally:
        torch.distributed.destroy_process_group()
    assert errors is None
    assert str(record.obstacle).startswith("the model waits for other processes within its forward")


@pytest.mark.parametrize("room", [100, 3000])
def test_a_reference_that_does_not_fit_is_said_with_figures(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compilegate.job.probes.variants.free_bytes", lambda device: room * 10)
    compiler = Plain()
    model = new_model("unet")
    before = everything(model)
    record, errors = looked([captured(model, compiler)], compiler=compiler, folder=tmp_path)
    assert errors is None
    assert re.search(r"\d+ (MB|kB|B)", str(record.obstacle)), record.obstacle
    assert len(before) == 3


def test_memory_that_is_free_is_known_here() -> None:
    assert 10_000_000 < free_bytes(torch.device("cpu")) < 1 << 60


def test_nothing_captured_is_an_obstacle(tmp_path: Path) -> None:
    record, errors = looked([], compiler=Plain(), folder=tmp_path)
    assert errors is None
    assert record.obstacle == "no compiled function was called in the first steps"


def test_a_compiler_that_compiles_anew_in_the_probe_cannot_be_judged(tmp_path: Path) -> None:
    compiler = Plain()
    compiled = captured(new_model("unet"), compiler)
    eager = compiled.compiled

    def counting(*arguments: Any) -> Any:
        compiler.counted += 1
        return eager(*arguments)

    compiled.compiled = counting
    record, errors = looked([compiled], compiler=compiler, folder=tmp_path)
    assert errors is None
    assert "made the compiler compile anew" in str(record.obstacle)


def test_dropout_of_a_compiler_with_random_numbers_of_its_own_cannot_be_compared(
    tmp_path: Path,
) -> None:
    compiler = Plain()
    compiler.shares_random_numbers = False
    compiled = captured(new_model("language"), compiler)
    record, errors = looked([compiled], compiler=compiler, folder=tmp_path)
    assert errors is None
    assert record.obstacle == (
        "the model draws random numbers (dropout), and the compiler draws its own"
    )


def test_modules_are_probed_in_the_mode_that_they_were_called_in(tmp_path: Path) -> None:
    model, compiler = new_model("language"), Plain()
    compiled = captured(model, compiler)
    model.eval()
    record, errors = looked([compiled], compiler=compiler, folder=tmp_path)
    assert errors is not None
    assert record.obstacle is None
    assert not any(each.training for each in model.modules())
    assert lasting(error_ratios(errors, "fp32")).max() < 5


def test_a_call_that_fails_costs_no_model(tmp_path: Path) -> None:
    model, compiler = new_model("unet"), Plain()
    compiled = captured(model, compiler)
    before = everything(model)

    def fails(image: Tensor) -> Tensor:
        raise MemoryError("no room")

    compiled.compiled = fails
    record, errors = looked([compiled], compiler=compiler, folder=tmp_path)
    assert errors is None
    assert record.obstacle == "the probe broke off: MemoryError: no room"
    assert equal(before, everything(model))


def test_an_interrupted_probe_leaves_the_generators_as_they_were(tmp_path: Path) -> None:
    model, compiler = new_model("unet"), Plain()
    compiled = captured(model, compiler)

    def interrupted(image: Tensor) -> Tensor:
        random.random(), np.random.random(), torch.manual_seed(1)
        raise KeyboardInterrupt

    compiled.compiled = interrupted
    before = states()
    with pytest.raises(KeyboardInterrupt):
        probe_parity([compiled], compiler=compiler, folder=tmp_path)
    assert states() == before


@pytest.mark.parametrize("declared", ["fp32", "bf16"])
def test_what_is_judged_is_the_precision_of_the_step_whatever_is_declared(
    declared: str, tmp_path: Path
) -> None:
    """Autocast around the call, and one that the function itself switches on."""
    compiler = Plain()
    around = captured(new_model("perceptron"), compiler, precision="bf16")
    plain = captured(new_model("perceptron"), compiler)
    model = new_model("perceptron")
    within = captured(model, compiler)

    def casting(*batch: Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(*batch)

    within.eager = within.compiled = casting
    for compiled, precision in ((around, "bf16"), (within, "bf16"), (plain, "fp32")):
        record, _ = looked([compiled], compiler=compiler, folder=tmp_path, declared=declared)
        assert (record.precision, record.obstacle) == (precision, None)


def test_it_says_how_many_of_the_trained_parameters_it_compared(tmp_path: Path) -> None:
    model, compiler = new_model("perceptron"), Plain()
    own = sum(each.numel() for each in model.parameters())
    unused = nn.Linear(5, 5)
    compiled = captured(model, compiler)
    uncalled = dataclasses.replace(compiled, name="unused", module=unused, calls=[])
    record, _ = looked([compiled, uncalled], compiler=compiler, folder=tmp_path)
    assert (record.trained_parameters, record.compared_parameters) == (own + 30, own)


def test_two_models_compare_other_numbers(tmp_path: Path) -> None:
    one, other = new_model("perceptron"), new_model("perceptron")
    next(other.parameters()).data.add_(0.01)
    records = [probed(model, tmp_path)[0] for model in (one, other)]
    assert set(records[0].compared) == {"exact", "compiled", "eager"}
    assert records[0].compared["exact"] != records[1].compared["exact"]
