"""Laws of the probes, for random small models.

COMPILEGATE_LAWS=200 draws so many examples of each law; by default a few.
"""

from __future__ import annotations

import copy
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from compilegate.job.compilers.eager.running import Eager
from compilegate.job.evidence.parity import ParityAnswer, not_compared, parity_verdict
from compilegate.job.names import DEFAULT_PARITY_LIMITS
from compilegate.job.probes.capture import Compiled, await_cotangents
from compilegate.job.probes.parity import Parity, probe_parity
from compilegate.job.probes.replay import Side
from compilegate.job.probes.speed import LEAST_PAIRS, probe_speed
from tests.job.every_call import states
from tests.job.probes.scenes import Plain, backend, bits

EXAMPLES = int(os.environ.get("COMPILEGATE_LAWS", "0"))
WIDTH, BATCH = 4, 6
PASS, FAIL, CANNOT_TELL = ParityAnswer.PASS, ParityAnswer.FAIL, ParityAnswer.CANNOT_TELL


def law(few: int, **drawn: Any) -> Callable[[Any], Any]:
    def decorate(test: Any) -> Any:
        checks = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
        settled = settings(
            max_examples=EXAMPLES or few, deadline=None, suppress_health_check=checks
        )
        return settled(given(**drawn)(test))

    return decorate


class Twice(nn.Module):
    """One layer, used twice: a shared weight."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        return self.layer(torch.tanh(self.layer(hidden)))


class Beside(nn.Module):
    """A layer beside a connection that skips it, dropped for some rows, as stochastic depth is."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, hidden: Tensor) -> Tensor:
        shape = (len(hidden),) + (1,) * (hidden.dim() - 1)
        kept = torch.rand(shape, dtype=hidden.dtype, device=hidden.device) > 0.3
        return hidden + self.inner(hidden) * kept


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.three = nn.Linear(WIDTH, 3 * WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        return functional.scaled_dot_product_attention(
            *self.three(hidden).chunk(3, -1), is_causal=True
        )


class Average(nn.Module):
    """Keeps a moving average in a buffer, and a count."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(WIDTH))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, hidden: Tensor) -> Tensor:
        self.seen += 1
        self.mean.lerp_(hidden.detach().flatten(0, -2).mean(0).to(self.mean.dtype), 0.3)
        return hidden - 0.1 * self.mean


ANY: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "tanh": nn.Tanh,
    "dropout": lambda: nn.Dropout(0.3),
}
LAYERS: dict[str, dict[str, Callable[[], nn.Module]]] = {
    "rows": {
        **ANY,
        "linear": lambda: nn.Linear(WIDTH, WIDTH),
        "twice": Twice,
        "norm": lambda: nn.BatchNorm1d(WIDTH),
        "beside": lambda: Beside(nn.Linear(WIDTH, WIDTH)),
        "average": Average,
    },
    "texts": {
        **ANY,
        "linear": lambda: nn.Linear(WIDTH, WIDTH, bias=False),
        "attention": Attention,
        "norm": lambda: nn.LayerNorm(WIDTH),
        "beside": lambda: Beside(Attention()),
        "average": Average,
    },
    "images": {
        **ANY,
        "point": lambda: nn.Conv2d(WIDTH, WIDTH, 1),
        "convolution": lambda: nn.Conv2d(WIDTH, WIDTH, 3, padding=1),
        "groups": lambda: nn.Conv2d(WIDTH, WIDTH, 3, padding=1, groups=2),
        "norm": lambda: nn.BatchNorm2d(WIDTH, momentum=None),
        "groups norm": lambda: nn.GroupNorm(2, WIDTH),
        "beside": lambda: Beside(nn.Conv2d(WIDTH, WIDTH, 1)),
    },
}
SHAPES = {"rows": (BATCH, WIDTH), "texts": (BATCH, 5, WIDTH), "images": (BATCH, WIDTH, 4, 4)}


class Drawn(nn.Module):
    """A model of drawn layers, with one or two inputs and one or two outputs."""

    def __init__(self, kind: str, layers: list[str], *, frozen: bool, two: bool) -> None:
        super().__init__()
        self.kind, self.two = kind, two
        self.start = nn.Conv2d(WIDTH, WIDTH, 1) if kind == "images" else nn.Linear(WIDTH, WIDTH)
        self.layers = nn.Sequential(*(LAYERS[kind][name]() for name in layers))
        self.end = nn.Linear(WIDTH, 3)
        self.own = np.random.default_rng(1)  # a generator of its own
        if frozen:
            self.start.requires_grad_(False)

    def forward(self, values: Tensor, shift: Tensor | None = None) -> Any:
        hidden = self.layers(self.start(values))
        if self.kind == "images":
            hidden = hidden.mean((2, 3))
        elif self.kind == "texts":
            hidden = hidden.mean(1)
        logits = self.end(hidden) if shift is None else self.end(hidden + shift)
        return {"logits": logits, "hidden": (hidden,)} if self.two else logits


@st.composite
def cases(draw: Any, precisions: tuple[str, ...] = ("fp32", "bf16")) -> Callable[..., Any]:
    """Makes a model, and captures its first steps as a job would; each time the same."""
    kind = draw(st.sampled_from(sorted(LAYERS)))
    layers = draw(st.lists(st.sampled_from(sorted(LAYERS[kind])), max_size=4))
    flags = {
        name: draw(st.booleans())
        for name in ("frozen", "two", "shift", "turned", "last", "wants", "twice", "calls", "eval")
    }
    precision = draw(st.sampled_from(precisions))
    seed = draw(st.integers(0, 1000))

    def batch() -> tuple[Tensor, ...]:
        values = torch.randn(SHAPES[kind])
        if flags["turned"]:
            values = torch.randn(*SHAPES[kind][:-1], 2 * WIDTH)[..., ::2]
        if kind == "images" and flags["last"]:
            values = values.contiguous(memory_format=torch.channels_last)
        values.requires_grad_(flags["wants"])
        return (values, torch.randn(BATCH, WIDTH)) if flags["shift"] else (values,)

    def model() -> Drawn:
        torch.manual_seed(seed)
        return Drawn(kind, layers, frozen=flags["frozen"], two=flags["two"]).train(not flags["eval"])

    def steps(one: Drawn, compiled: Callable[..., Any], around: Any = None) -> Compiled:
        part = Compiled("Drawn", one, one.forward, compiled)
        torch.manual_seed(seed + 1)
        for step in range(4):
            for _ in range(1 + flags["calls"]):
                arguments = batch()
                with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
                    output = around(part, step, arguments) if around else None
                    if output is None:
                        call = part.keep_call(step, arguments, {})
                        output = compiled(*arguments)
                        await_cotangents(call, output)
                    parts = [*output.values()] if isinstance(output, dict) else [output]
                    losses = [
                        (each[0] if isinstance(each, tuple) else each).float().square().mean()
                        for each in parts
                    ]
                losses = [each for each in losses if each.requires_grad]
                if flags["twice"]:  # several backward passes
                    for each in losses:
                        each.backward(retain_graph=True)
                else:
                    sum(losses).backward()
            with torch.no_grad():
                for each in one.parameters():
                    if each.grad is not None:
                        each.sub_(0.05 * each.grad)
                        each.grad = None
        return part

    return model, steps, f"{kind} {layers} {precision} {[n for n, on in flags.items() if on]}"


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Any:
    """So that eager repeats itself to the last bit."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def answer(found: Parity) -> ParityAnswer:
    if found.errors is None:
        return CANNOT_TELL
    record = found.record
    limit = DEFAULT_PARITY_LIMITS[record.precision]
    verdict = parity_verdict(found.errors, record.precision, limit)
    return CANNOT_TELL if not_compared(record, found.errors) else verdict.answer


@law(12, case=cases())
def test_eager_against_eager_is_alike(case: Any, tmp_path: Path) -> None:
    model, steps, title = case
    one = model()
    found = probe_parity([steps(one, one.forward)], compiler=Plain(), folder=tmp_path)
    assert found.record.obstacle is None, title
    np.testing.assert_array_equal(found.errors.compiled, found.errors.eager)
    assert answer(found) is PASS, title


@law(4, case=cases())
def test_aot_eager_is_alike(case: Any, tmp_path: Path) -> None:
    model, steps, title = case
    one, compiler = model(), backend("aot_eager")
    part = steps(one, compiler.compile(one.forward, one))
    found = probe_parity([part], compiler=compiler, folder=tmp_path)
    assert answer(found) is PASS, (title, found.record.obstacle)


class Changed(torch.autograd.Function):
    """The identity, with a gradient that is changed on its way back."""

    @staticmethod
    def forward(context: Any, tensor: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
        context.change = change
        return tensor.view_as(tensor)

    @staticmethod
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return context.change(gradient), None


CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "scaled": lambda each: each * 1.3,
    "zeroed": torch.zeros_like,
    "turned": lambda each: each.flatten().flip(0).reshape(each.shape),
    "coarse": lambda each: (each * 3).round() / 3,
    "half": lambda each: each * (torch.arange(each.numel()) % 2).reshape(each.shape),
}


def planted(one: Drawn, place: str, change: Callable[[Tensor], Tensor]) -> Callable[..., Any]:
    """The model, wrong in one tensor."""
    names = {name for name, _ in one.named_parameters()}

    def wrong(*arguments: Tensor) -> Any:
        if place in names:
            own = one.get_parameter(place)
            return torch.func.functional_call(one, {place: Changed.apply(own, change)}, arguments)
        buffers = {name: each.clone() for name, each in one.named_buffers()}
        output = one.forward(*arguments)
        if place in buffers:
            one.get_buffer(place).copy_(buffers[place])
        elif place == "output":
            return (
                {**output, "logits": change(output["logits"])} if one.two else change(output)
            )
        return output

    return wrong


FOUND = {"found": 0, "cannot tell": 0}


@law(20, case=cases(precisions=("fp32",)), data=st.data())
def test_a_planted_error_is_found(case: Any, data: Any, tmp_path: Path) -> None:
    model, steps, title = case
    one = model()
    honest = probe_parity([steps(one, one.forward)], compiler=Plain(), folder=tmp_path)
    columns = {str(name): place for place, name in enumerate(honest.errors.tensors)}
    # Where eager itself is rounding alone, as behind a normalisation, nothing can be wrong.
    shown = honest.errors.eager.max(axis=0) < 1e-5
    places = [
        name.removeprefix("gradient of ").removeprefix("buffer ")
        for name, column in columns.items()
        if shown[column] and "input" not in name and "output" not in name
    ]
    place = data.draw(st.sampled_from(["output", *places]))
    change = data.draw(st.sampled_from(sorted(CHANGES)))
    one = model()
    size = dict(one.named_parameters()).get(place)
    assume(size is None or size.numel() > 1)
    assume(place != "output" or change != "zeroed")
    found = probe_parity(
        [steps(one, planted(one, place, CHANGES[change]))], compiler=Plain(), folder=tmp_path
    )
    said = answer(found)
    assert said is not PASS, (title, place, change)
    FOUND["found" if said is FAIL else "cannot tell"] += 1


def test_nearly_all_planted_errors_were_found() -> None:
    assert FOUND["found"] >= 0.95 * sum(FOUND.values()), FOUND


def surroundings(one: Drawn) -> list[Any]:
    """What of the process and of a model must be the same before and after any call of ours."""
    hooks = [
        {name: [*table] for name, table in vars(each).items() if name.endswith("_hooks") and table}
        for each in one.modules()
    ]
    tensors = [
        (name, id(each), bits(each), id(each.grad), each._backward_hooks)
        for name, each in [*one.named_parameters(), *one.named_buffers()]
    ]
    return [
        states(),
        str(one.own.bit_generator.state),
        [each.training for each in one.modules()],
        hooks,
        tensors,
        (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
        (torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        torch.are_deterministic_algorithms_enabled(),
        (torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark),
    ]


@law(8, case=cases(), training=st.booleans())
def test_everything_around_is_the_same_afterwards(
    case: Any, training: bool, tmp_path: Path
) -> None:
    model, steps, title = case
    one = model()
    optimizer = torch.optim.Adam([each for each in one.parameters() if each.requires_grad])
    part = steps(one, one.forward)
    one.train(training)
    hooked: list[int] = []
    for each in optimizer.param_groups[0]["params"]:
        each.register_hook(lambda gradient: hooked.append(1))
        each.grad = torch.ones_like(each)
    one.end.register_forward_hook(lambda *_: random.random() + one.own.random() and None)
    before = surroundings(one)
    found = probe_parity([part], compiler=Plain(), folder=tmp_path)
    assert found.record.obstacle is None, title
    assert surroundings(one) == before, title
    assert hooked == []
    quick = {"seconds": 60.0, "seed": 1, "block_seconds": 1e-4, "most_pairs": LEAST_PAIRS}
    side = Side("eager", BATCH)
    probe_speed([part], [optimizer], compiler=Eager(), candidate=side, baseline=side, **quick)
    assert surroundings(one) == before, title


class Failing(TorchDispatchMode):
    """Raises an exception at one operation."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.left = at

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.left -= 1
        if self.left == 0:
            raise RuntimeError("no memory")
        return func(*args, **(kwargs or {}))


@law(12, case=cases(), at=st.integers(1, 400), in_step=st.integers(0, 9))
def test_an_error_of_ours_leaves_the_numbers_of_the_training(
    case: Any, at: int, in_step: int, tmp_path: Path
) -> None:
    model, steps, title = case
    plain = model()
    steps(plain, plain.forward, lambda part, step, arguments: part.eager(*arguments))
    one = model()
    calls = 0

    def probing(part: Compiled, step: int, arguments: Any) -> Any:
        nonlocal calls
        calls += 1
        if step == 2 and part.calls:
            with Failing(at):
                probe_parity([part], compiler=Plain(), folder=tmp_path)
        if calls != in_step:
            return None
        with Failing(1 + at % 3):
            call = part.keep_call(step, arguments, {})
        output = part.compiled(*arguments)
        await_cotangents(call, output)
        return output

    steps(one, one.forward, probing)
    for (name, wanted), each in zip(
        copy.copy(plain.state_dict()).items(), one.state_dict().values(), strict=True
    ):
        assert bits(each) == bits(wanted), (title, name)
