"""The parity probe on captured calls: any model, any output, and nothing left behind."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from compilegate.job.compilers import load_compiler
from compilegate.job.evidence import ParityErrors, ParityRecord
from compilegate.job.evidence.parity import Why, departing, parity_verdict
from compilegate.job.probes.capture import Compiled, await_cotangents
from compilegate.job.probes.parity import Parity, probe_parity
from compilegate.job.probes.reference import Draw, DrawRecorder, attended, exactly
from tests.job.probes.scenes import Plain, backend, captured, new_model

EPSILON = 2.0**-23
attention = functional.scaled_dot_product_attention


def looked(compiled: Compiled | list[Compiled], folder: Path, compiler: Any = None) -> Parity:
    several = compiled if isinstance(compiled, list) else [compiled]
    return probe_parity(several, compiler=compiler or Plain(), folder=folder)


def probed(
    model: Any, folder: Path, change: Callable[[Any], Any] | None = None, **options: Any
) -> tuple[ParityRecord, ParityErrors]:
    """A compiler that returns what it is given, or what `change` makes of it."""
    found = looked(captured(model, Plain(change or (lambda each: each)), **options), folder)
    assert found.record.obstacle is None
    assert found.errors is not None
    return found.collected(), found.errors


def obstacle(compiled: Compiled | list[Compiled], folder: Path, compiler: Any = None) -> str:
    found = looked(compiled, folder, compiler)
    assert (found.errors, found.repro) == (None, None)
    return str(found.record.obstacle)


def why(errors: ParityErrors) -> Why:
    return parity_verdict(errors, "fp32", 20.0).why


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("perceptron", ["loss", "output.logits", "gradient of first.weight"]),
        ("convolutions", ["output", "buffer norm.running_mean", "buffer norm.running_var"]),
        ("recurrent", ["output.0", "output.1", "gradient of cell.gate.weight"]),
    ],
)
def test_outputs_are_named_by_where_they_lie(kind: str, names: list[str], tmp_path: Path) -> None:
    model = new_model(kind)
    found = [*probed(model, tmp_path)[1].tensors]
    assert found[: len(names)] == names
    parameters = {f"gradient of {name}" for name, _ in model.named_parameters()}
    assert parameters == {name for name in found if name.startswith("gradient of ")}


def off(function: Any) -> Any:
    return lambda *arguments: function(*arguments) * 1.01


def test_what_departs_is_in_the_record_and_in_the_verdict(tmp_path: Path) -> None:
    record, errors = probed(new_model("convolutions"), tmp_path, off)
    output = list(errors.tensors).index("output")
    np.testing.assert_allclose(errors.compiled[:, output], 0.01, rtol=1e-4)
    assert departing(errors, "fp32", 20.0)[output]
    assert (record.repro, record.reproduced) == (None, None)
    assert "There is no repro" in str(record.departs)


def test_an_output_that_was_cut_off_from_the_gradients_departs(tmp_path: Path) -> None:
    def cut(function: Any) -> Any:
        def wrong(*arguments: Any) -> Any:
            logits, state = function(*arguments)
            return logits, state.detach()

        return wrong

    def backward(output: Any) -> None:
        (output[0].mean() + output[1].mean()).backward()

    _, errors = probed(new_model("recurrent"), tmp_path, cut, backward=backward)
    gate = list(errors.tensors).index("gradient of cell.gate.weight")
    assert (errors.compiled[:, gate] > 0.01).all()
    assert why(errors) is Why.BEYOND


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
        backward=lambda value: (value / 4).backward(),  # as a step of four accumulated ones
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
    model = Awkward()
    compiled = Compiled("Awkward", model, model.forward, model.forward)
    for step in range(2):
        call = compiled.capture_call(step, (torch.randn(4, 4),), {"shift": torch.randn(4)})
        call.cotangents = {
            "states.0": torch.randn(4, 4, dtype=torch.complex64),
            "states.1.0": torch.randn(4, 4),
        }
    model.cache, model.calls = {}, 7
    errors = looked(compiled, tmp_path).errors
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
    assert looked(compiled, tmp_path, compiler).record.obstacle is None
    assert compiler.graphs() == 1


# What a compiler may do, and what not.


def with_last_channels(function: Any) -> Any:
    """What Inductor does with convolutions: another layout, and so another rounding."""
    model = function.__self__

    def last(tensor: Tensor) -> Tensor:
        return tensor.to(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor

    def compiled(images: Tensor) -> Tensor:
        own = {name: last(each) for name, each in model.named_parameters()}
        return torch.func.functional_call(model, own, (last(images),))

    return compiled


def test_a_convolution_may_have_its_channels_last(tmp_path: Path) -> None:
    """The bias of a 1 x 1 convolution adds up 100,000 numbers in another order."""
    torch.manual_seed(0)
    model = nn.Conv2d(8, 8, 1)
    function = model.forward
    compiled = Compiled("Conv2d", model, function, with_last_channels(function))
    for step in range(4):
        call = compiled.capture_call(step, (torch.randn(32, 8, 56, 56),), {})
        call.cotangents = {"": torch.rand(32, 8, 56, 56)}
    errors = looked(compiled, tmp_path).errors
    assert errors is not None
    assert why(errors) is Why.ALIKE


class Pooled(nn.Module):
    """The gradient of the bias is the same in all of a sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.end = nn.Linear(16, 64), nn.LayerNorm(64), nn.Linear(64, 10)

    def forward(self, rows: Tensor, labels: Tensor) -> Tensor:
        hidden = self.norm(self.first(rows)).tanh() + self.first(rows)
        return functional.cross_entropy(self.end(hidden.mean(1)), labels)


@pytest.mark.slow
def test_sums_may_be_added_one_number_after_another(tmp_path: Path) -> None:
    """As inductor's loops on a CPU do; eager adds in pairs, which errs a hundredth as much."""

    def batch() -> tuple[Tensor, Tensor]:
        return torch.randn(64, 64, 16), torch.randint(10, (64,))

    torch.manual_seed(0)
    inductor = load_compiler("inductor")
    errors = looked(captured(Pooled(), inductor, batch=batch), tmp_path, inductor).errors
    assert errors is not None
    assert why(errors) is Why.ALIKE
    summed = errors.compiled[:, list(errors.tensors).index("gradient of first.bias")]
    assert summed.max() > 20 * EPSILON


class Dropping(nn.Module):
    """Drops of images, of permuted ones, and in place."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(2, 4, 3), nn.Conv2d(4, 4, 1)

    def forward(self, images: Tensor) -> Tensor:
        hidden = functional.dropout(self.first(images), 0.3, self.training)
        hidden = functional.dropout(hidden.permute(0, 2, 3, 1), 0.3).permute(0, 3, 1, 2)
        return functional.dropout(self.second(hidden), 0.3, True, True)


def test_images_in_another_layout_are_dropped_alike(tmp_path: Path) -> None:
    def batch() -> tuple[Tensor]:
        return (torch.randn(4, 2, 6, 6),)

    _, errors = probed(Dropping(), tmp_path, off, batch=batch)
    assert why(errors) is Why.BEYOND
    assert errors.eager.max() < 1e-5


class Draws(nn.Linear):
    """Drops features by NumPy's generator, as masks of speech models do."""

    def __init__(self, source: Any) -> None:
        super().__init__(6, 2)
        self.source = source

    def forward(self, rows: Tensor) -> Tensor:
        mask = torch.as_tensor(self.source(6), dtype=rows.dtype)
        return super().forward(rows * mask) + random.random()

    @staticmethod
    def batch() -> tuple[Tensor]:
        return (torch.randn(4, 6),)


def other_draws(function: Any) -> Any:
    def drawing(rows: Tensor) -> Tensor:
        np.random.rand(3)
        return function(rows)

    return drawing


def test_random_numbers_that_are_not_torch_s(tmp_path: Path) -> None:
    model = Draws(np.random.rand)
    _, errors = probed(model, tmp_path)
    assert why(errors) is Why.ALIKE
    assert "not torch's" in obstacle(captured(model, Plain(other_draws)), tmp_path)
    _, errors = probed(Draws(lambda count: np.random.default_rng().random(count)), tmp_path, off)
    assert why(errors) is Why.EAGER_VARIES


def test_a_tensor_that_is_lost_departs_however_small_it_is(tmp_path: Path) -> None:
    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.large, self.small = nn.Linear(6, 2), nn.Linear(6, 2)

        def forward(self, rows: Tensor, *, lost: bool = False) -> Tensor:
            small = 1e-7 * self.small(rows)
            return self.large(rows) + (small.detach() if lost else small)

    model = Small()

    def lost(function: Any) -> Any:
        return lambda rows: function(rows, lost=True)

    _, errors = probed(model, tmp_path, lost, batch=lambda: (torch.randn(4, 6),))
    found = errors.tensors[departing(errors, "fp32", 20.0)]
    assert sorted(found) == ["gradient of small.bias", "gradient of small.weight"]


def test_a_gradient_penalty_is_not_compared(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Linear(6, 3), nn.Tanh())
    compiled = Compiled("Sequential", model, model.forward, model.forward)
    inputs = torch.randn(3, 6, requires_grad=True)
    call = compiled.capture_call(0, (inputs,), {})
    output = compiled.compiled(inputs)
    await_cotangents(call, output)
    (gradient,) = torch.autograd.grad(output.sum(), inputs, create_graph=True)
    gradient.square().sum().backward()
    assert model[0].weight.grad is not None
    assert "differentiates twice" in obstacle(compiled, tmp_path)


def test_an_input_that_cannot_be_copied_is_an_obstacle_to_the_probe_alone(tmp_path: Path) -> None:
    class Uncopied:
        def __init__(self) -> None:
            self.rows = torch.randn(3, 6)

        def __copy__(self) -> Any:
            raise RuntimeError("one of a kind")

    model = nn.Linear(6, 2)
    compiled = Compiled("Linear", model, model.forward, model.forward)
    compiled.capture_call(0, (Uncopied(),), {})
    assert "one of a kind" in obstacle(compiled, tmp_path)


class Experts(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.randn(3, 16, 32) / 4)

    def forward(self, rows: Tensor) -> Tensor:
        ends = torch.tensor([2, 2, 6], dtype=torch.int32)  # one has none
        return functional.grouped_mm(rows, self.weights, offs=ends).square().mean()


def test_experts_are_compared(tmp_path: Path) -> None:
    found = captured(Experts(), Plain(), batch=lambda: (torch.randn(6, 16),))
    errors = looked(found, tmp_path).errors
    assert errors is not None
    assert why(errors) is Why.ALIKE
    assert "gradient of weights" in list(errors.tensors)


# Several processes.


@pytest.fixture
def one_of_a_group(tmp_path: Path) -> Iterator[None]:
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.usefixtures("one_of_a_group")
def test_the_wrapper_of_parallel_training_is_looked_through(tmp_path: Path) -> None:
    inner = new_model("convolutions")
    model = nn.parallel.DistributedDataParallel(inner)
    compiled = captured(inner, Plain())
    compiled.module, compiled.compiled, compiled.eager = model, model.forward, model.forward
    errors = looked(compiled, tmp_path).errors
    assert errors is not None
    assert "gradient of convolution.weight" in list(errors.tensors)
    np.testing.assert_array_equal(errors.compiled, errors.eager)
    # Its own bookkeeping is as it was: the next step of the training works.
    model(*inner.batch()).sum().backward()
    assert inner.end.weight.grad is not None


@pytest.mark.usefixtures("one_of_a_group")
def test_a_model_that_waits_for_others_is_not_waited_for(tmp_path: Path) -> None:
    model = nn.Linear(3, 1)

    def waiting(inputs: Tensor) -> Tensor:
        value = model(inputs).mean()
        torch.distributed.all_reduce(value.detach())
        return value

    compiled = captured(model, Plain(), function=waiting, batch=lambda: (torch.randn(2, 3),))
    assert obstacle(compiled, tmp_path).startswith("the model waits for other processes")


# What cannot be compared.


@pytest.mark.parametrize("room", [1000, 30000])
def test_a_reference_that_does_not_fit_is_said_with_figures(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compilegate.job.probes.replay.free_bytes", lambda device: room)
    assert re.search(r"\d+ (MB|kB|B)", obstacle(captured(new_model("unet"), Plain()), tmp_path))


def test_obstacles(tmp_path: Path) -> None:
    assert obstacle([], tmp_path) == "no compiled function was called in the first steps"
    compiler = Plain()
    compiler.shares_random_numbers = False
    found = obstacle(captured(new_model("language"), compiler), tmp_path, compiler)
    assert found == "the model draws random numbers (dropout), and the compiler draws its own"
    compiled = captured(new_model("unet"), compiler)

    def fails(image: Tensor) -> Tensor:
        raise MemoryError("no room")

    def counting(image: Tensor) -> Tensor:
        compiler.counted += 1
        return compiled.eager(image)

    compiled.compiled = fails
    assert obstacle(compiled, tmp_path) == "the probe broke off: MemoryError: no room"
    compiled.compiled = counting
    assert "compile anew" in obstacle(compiled, tmp_path, compiler)


@pytest.mark.parametrize("declared", ["fp32", "bf16"])
def test_what_is_judged_is_the_precision_of_the_step_whatever_is_declared(
    declared: str, tmp_path: Path
) -> None:
    """Autocast around the call, and one that the function itself switches on."""
    around = captured(new_model("perceptron"), Plain(), precision="bf16")
    plain = captured(new_model("perceptron"), Plain())
    model = new_model("perceptron")
    within = captured(model, Plain())

    def casting(*batch: Tensor) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(*batch)

    within.eager = within.compiled = casting
    for compiled, precision in ((around, "bf16"), (within, "bf16"), (plain, "fp32")):
        found = probe_parity([compiled], compiler=Plain(), folder=tmp_path, declared=declared)
        assert (found.record.precision, found.record.obstacle) == (precision, None)


def test_it_says_what_it_compared_and_alike_of_nothing_less(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = new_model("perceptron")
    own = sum(each.numel() for each in model.parameters())
    compiled, other = captured(model, Plain()), captured(new_model("recurrent"), Plain(), steps=2)
    assert "parity: alike" in outcome_of(capsys, compiled, tmp_path)
    assert "parity: alike" in outcome_of(capsys, [compiled, other], tmp_path)
    unused = dataclasses.replace(compiled, name="unused", module=nn.Linear(50, 50), calls=[])
    assert "parity: cannot tell" in outcome_of(capsys, [compiled, unused], tmp_path)
    first, second = looked([compiled, unused], tmp_path), looked([compiled, other], tmp_path)
    sizes = first.record.trained_parameters, first.record.compared_parameters
    assert sizes == (own + 2550, own)
    assert set(first.record.compared) == {"exact", "compiled", "eager"}
    assert first.record.compared["exact"] != second.record.compared["exact"]
    assert second.errors is not None
    titles = {name.partition(": ")[0] for name in second.errors.tensors}
    assert titles == {"Perceptron", "Recurrent"}


def outcome_of(capsys: Any, compiled: Compiled | list[Compiled], folder: Path) -> str:
    capsys.readouterr()
    looked(compiled, folder)
    return str(capsys.readouterr().err)


@pytest.mark.slow
def test_what_is_not_reproduced_is_no_failure(tmp_path: Path) -> None:
    compiler = backend("tests.job.probes.scenes.wrong_in_the_job")
    found = looked(captured(new_model("convolutions"), compiler), tmp_path, compiler)
    assert found.repro is not None
    record = found.collected()
    assert (record.reproduced, record.repro) == (False, None)
    assert found.errors is not None
    assert parity_verdict(found.errors, "fp32", 20.0, record.reproduced).why is Why.NOT_REPRODUCED


# Attention that drops is one kernel on a GPU. The meta device takes the same calls.


class Types(TorchFunctionMode):
    """Notes what attention is given in the end: the calls that no other mode has taken."""

    seen: frozenset[torch.dtype] = frozenset()

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if function is attention:
            self.seen |= {each.dtype for each in args if isinstance(each, Tensor)}
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("device", "share", "low", "computed"),
    [
        ("meta", 0.1, torch.bfloat16, torch.bfloat16),
        ("meta", 0.1, None, torch.float32),
        ("meta", 0.0, None, torch.float64),
        ("cpu", 0.1, torch.bfloat16, torch.float64),
    ],
)
def test_attention_that_drops_is_eager_s(
    device: str, share: float, low: torch.dtype | None, computed: torch.dtype
) -> None:
    query = torch.ones(2, 3, 8, 4, device=device, dtype=torch.float64, requires_grad=True)
    with Types() as types, exactly((), torch.float32, low):
        found = attention(query, query, query, dropout_p=share)
        found.sum().backward()
    assert (types.seen, found.dtype) == ({computed}, torch.float64)
    assert query.grad is not None
    assert query.grad.dtype is torch.float64


@pytest.mark.parametrize("needs_weights", [False, True])
def test_attention_that_drops_is_seen_within_a_function_of_torch(*, needs_weights: bool) -> None:
    """On a GPU float64 would draw other numbers there."""
    layer = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True, device="meta")
    rows, drawn = torch.ones(2, 3, 8, device="meta"), list[Draw]()
    with DrawRecorder(drawn):
        layer(rows, rows, rows, need_weights=needs_weights)
    assert [each.dtype for each in drawn] == [torch.float32] * needs_weights
    layer.double()
    with Types() as types, exactly(drawn):
        layer(*[rows.double()] * 3, need_weights=needs_weights)
    assert types.seen == (set() if needs_weights else {torch.float32})


def test_a_mask_of_the_least_float64_leaves_no_row_without_a_number() -> None:
    query = torch.rand(1, 1, 4, 4, dtype=torch.float64)
    least = torch.full((4, 4), torch.finfo(torch.float64).min, dtype=torch.float64)
    found = attended((query, query, query), {"attn_mask": least}, torch.float32)
    assert torch.isfinite(found).all()
