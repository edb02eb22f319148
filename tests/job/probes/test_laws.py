"""Laws of the probes, for random small models.

COMPILEGATE_LAWS=300 draws so many examples of each law, in about ten minutes; by default a few.
"""

from __future__ import annotations

import dataclasses
import itertools
import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.miscompilers import ChangedGradient
from compilegate.job.compilers.compiler import Eager
from compilegate.job.evidence.parity import (
    DEFAULT_PARITY_LIMITS,
    ParityAnswer,
    ParityVerdict,
    Why,
    not_compared,
    parity_verdict,
)
from compilegate.job.probes.capture import Compiled, await_cotangents
from compilegate.job.probes.parity import Parity, probe_parity
from compilegate.job.probes.reference import norm, scales
from compilegate.job.probes.replay import Replay
from compilegate.job.probes.speed import LEAST_PAIRS, Side, probe_speed
from tests.job.probes.scenes import Plain, backend, bits, capture, captured, states

EXAMPLES = int(os.environ.get("COMPILEGATE_LAWS", "0"))
WIDTH, BATCH = 4, 6


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
        # Not GroupNorm: torch 2.13 crashes in its backward pass with channels last and no gradient
        # of its input.
        "instances": lambda: nn.InstanceNorm2d(WIDTH, affine=True),
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
        self.noise: list[float] = []
        if frozen:
            self.start.requires_grad_(False)

    def forward(self, values: Tensor, shift: Tensor | None = None) -> Any:
        hidden = self.layers(self.start(values))
        if self.kind == "images":
            # The plain mean of normalised instances is a constant, and has no gradient.
            hidden = torch.tanh(hidden).mean((2, 3))
        elif self.kind == "texts":
            hidden = hidden.mean(1)
        logits = self.end(hidden) if shift is None else self.end(hidden + shift)
        return {"logits": logits, "hidden": (hidden,)} if self.two else logits


FLAGS = ("frozen", "two", "shift", "strided", "last", "wants", "backwards", "calls", "eval")


@dataclasses.dataclass(frozen=True)
class Case:
    """A model and its first steps, the same each time."""

    kind: str
    layers: list[str]
    flags: frozenset[str]
    precision: str
    seed: int

    def model(self) -> Drawn:
        torch.manual_seed(self.seed)
        flags = self.flags
        one = Drawn(self.kind, self.layers, frozen="frozen" in flags, two="two" in flags)
        return one.train("eval" not in flags)

    def batch(self) -> tuple[Tensor, ...]:
        shape = SHAPES[self.kind]
        values = torch.randn(shape)
        if "strided" in self.flags:
            values = torch.randn(*shape[:-1], 2 * shape[-1])[..., ::2]
        if self.kind == "images" and "last" in self.flags:
            values = values.contiguous(memory_format=torch.channels_last)
        values.requires_grad_("wants" in self.flags)
        return (values, torch.randn(BATCH, WIDTH)) if "shift" in self.flags else (values,)

    def backward(self, output: Any) -> None:
        """One backward pass, or one for each output."""
        parts = [output["logits"], *output["hidden"]] if isinstance(output, dict) else [output]
        losses = [each.float().square().mean() for each in parts if each.requires_grad]
        if "backwards" not in self.flags:
            losses = [torch.stack(losses).sum()]
        for each in losses:
            each.backward(retain_graph=True)

    def steps(self, one: Drawn, compiled: Any, one_call: Any = capture) -> Compiled:
        return captured(
            one,
            Plain(lambda _: compiled),
            precision=self.precision,
            steps=4,
            calls=2 if "calls" in self.flags else 1,
            batch=self.batch,
            backward=self.backward,
            one_call=one_call,
            seed=self.seed + 1,
        )


def cases(precisions: tuple[str, ...] = ("fp32", "bf16")) -> st.SearchStrategy[Case]:
    return st.sampled_from(sorted(LAYERS)).flatmap(
        lambda kind: st.builds(
            Case,
            kind=st.just(kind),
            layers=st.lists(st.sampled_from(sorted(LAYERS[kind])), max_size=4),
            flags=st.frozensets(st.sampled_from(FLAGS)),
            precision=st.sampled_from(precisions),
            seed=st.integers(0, 1000),
        )
    )


def verdict(found: Parity) -> ParityVerdict:
    record, errors = found.record, found.errors
    assert record.obstacle is None
    assert errors is not None
    return parity_verdict(errors, record.precision, DEFAULT_PARITY_LIMITS[record.precision])


def require_alike(found: Parity) -> None:
    """In bf16 small models may be too coarse to tell."""
    judged = verdict(found)
    if found.record.precision == "fp32" or judged.why is not Why.TOO_COARSE:
        assert judged.answer is ParityAnswer.PASS, judged
        assert found.errors is not None
        assert not_compared(found.record, found.errors) is None


@law(12, case=cases())
def test_eager_against_eager_is_alike(case: Case, tmp_path: Path) -> None:
    one = case.model()
    found = probe_parity([case.steps(one, one.forward)], compiler=Plain(), folder=tmp_path)
    require_alike(found)


@law(3, case=cases())
def test_aot_eager_is_alike(case: Case, tmp_path: Path) -> None:
    one, compiler = case.model(), backend("aot_eager")
    part = case.steps(one, compiler.compile(one.forward, one))
    found = probe_parity([part], compiler=compiler, folder=tmp_path)
    require_alike(found)


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
            return torch.func.functional_call(
                one, {place: ChangedGradient.apply(own, change)}, arguments
            )
        buffers = {name: each.clone() for name, each in one.named_buffers()}
        output = one.forward(*arguments)
        if place in buffers:
            one.get_buffer(place).data.copy_(buffers[place])
        elif place == "output":
            return {**output, "logits": change(output["logits"])} if one.two else change(output)
        return output

    return wrong


FOUND: Counter[ParityAnswer] = Counter()


@law(20, case=cases(precisions=("fp32",)), data=st.data())
def test_a_planted_error_is_found(case: Case, data: Any, tmp_path: Path) -> None:
    one = case.model()
    honest = case.steps(one, one.forward)
    with Replay(honest, Plain()) as replay:
        replay.eager(honest.calls[0])
        exact = replay.exact(honest.calls[0]).tensors
    # What is zero in exact arithmetic, as before a normalisation, cannot be wrong.
    places = [
        name.partition(" ")[2].removeprefix("of ")
        for name, scale in scales(exact).items()
        if norm(exact[name]) > 0.1 * scale
        and name.startswith(("gradient of ", "buffer "))
        and "input" not in name
    ]
    place = data.draw(st.sampled_from(["output", *places]))
    change = data.draw(st.sampled_from(sorted(CHANGES)))
    one = case.model()
    assume(place == "output" or one.state_dict()[place].numel() > 1 or place.endswith("seen"))
    assume(place != "output" or change != "zeroed")  # then nothing comes back
    part = case.steps(one, planted(one, place, CHANGES[change]))
    answer = verdict(probe_parity([part], compiler=Plain(), folder=tmp_path)).answer
    assert answer is not ParityAnswer.PASS, place
    FOUND[answer] += 1


def test_nearly_all_planted_errors_were_found() -> None:
    assert FOUND[ParityAnswer.FAIL] >= 0.95 * FOUND.total(), FOUND


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
        (str(one.own.bit_generator.state), [*one.noise]),
        [each.training for each in one.modules()],
        hooks,
        tensors,
        (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
        (torch.get_default_dtype(), torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        torch.are_deterministic_algorithms_enabled(),
        (torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark),
    ]


@law(6, case=cases(), training=st.booleans())
def test_everything_around_is_the_same_afterwards(
    case: Case, training: bool, tmp_path: Path
) -> None:
    one = case.model()
    optimizer = torch.optim.Adam([each for each in one.parameters() if each.requires_grad])
    part = case.steps(one, one.forward)
    one.train(training)
    hooked: list[int] = []
    for each in optimizer.param_groups[0]["params"]:
        each.register_hook(lambda gradient: hooked.append(1))
        each.grad = torch.ones_like(each)
    one.end.register_forward_hook(lambda *_: one.noise.append(random.random() + one.own.random()))
    before = surroundings(one)
    found = probe_parity([part], compiler=Plain(), folder=tmp_path)
    assert found.record.obstacle is None
    assert surroundings(one) == before
    assert hooked == []
    side = Side("eager", BATCH)
    record, _ = probe_speed(
        [part],
        [optimizer],
        compiler=Eager(),
        candidate=side,
        baseline=side,
        seconds=60.0,
        seed=1,
        block_seconds=1e-4,
        most_pairs=LEAST_PAIRS,
    )
    assert record.obstacle is None
    assert surroundings(one) == before


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


@law(12, case=cases(), at=st.integers(1, 400), in_call=st.integers(0, 9))
def test_an_error_of_ours_leaves_the_numbers_of_the_training(
    case: Case, at: int, in_call: int, tmp_path: Path
) -> None:
    plain, one = case.model(), case.model()
    case.steps(plain, plain.forward, lambda part, step, arguments: part.eager(*arguments))
    calls = itertools.count()

    def failing(part: Compiled, step: int, arguments: tuple[Tensor, ...]) -> Any:
        if step == 2:
            with Failing(at):
                probe_parity([part], compiler=Plain(), folder=tmp_path)
        with Failing(1 + at % 3 if next(calls) == in_call else 0):
            call = part.capture_call(step, arguments, {})
        output = part.compiled(*arguments)
        await_cotangents(call, output)
        return output

    case.steps(one, one.forward, failing)
    found, wanted = one.state_dict(), plain.state_dict()
    assert {name: bits(each) for name, each in found.items()} == {
        name: bits(each) for name, each in wanted.items()
    }
