"""The paired speed probe, on small training scripts: it times what it says, or says why it cannot,
and leaves everything as it was."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from compilegate.job.compilers.compiler import Eager
from compilegate.job.evidence import PairedBlocks, PairedSpeedRecord
from compilegate.job.machine.world import World
from compilegate.job.probes.capture import Compiled
from compilegate.job.probes.speed import LEAST_PAIRS, Side, probe_speed
from compilegate.job.script.config import Baseline
from tests.job.probes.scenes import Plain, backend, bits, captured, states
from tests.job.script import jobs

BATCH, CLASSES, FEATURES = 6, 3, 8
SHORT = {"seconds": 120.0, "block_seconds": 1e-3, "most_pairs": LEAST_PAIRS}
"""As few and short blocks as there can be, however slow the machine is."""
EAGER = Side("eager", BATCH, "fp32")


class Model(nn.Module):
    """Shared and frozen weights, statistics, dropout, a buffer that is replaced, noise that is not
    torch's; and it notes what each of its calls saw."""

    saw: ClassVar[list[tuple[str, tuple[int, ...], bool]]] = []  # the module's own is put back

    def __init__(self) -> None:
        super().__init__()
        self.frozen = nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.BatchNorm1d(FEATURES)).eval()
        self.frozen.requires_grad_(False)
        self.inner = nn.Linear(FEATURES, FEATURES, bias=False)
        self.norm, self.dropout = nn.BatchNorm1d(FEATURES), nn.Dropout(0.5)
        self.outer = nn.Linear(FEATURES, FEATURES, bias=False)
        self.outer.weight = self.inner.weight
        self.head = nn.Linear(FEATURES, CLASSES)
        self.register_buffer("seen", torch.zeros(()))
        self.register_buffer("places", torch.arange(3.0).reshape(3, 1).expand(3, 4))
        Model.saw = []

    def forward(self, rows: torch.Tensor, side: str = "eager") -> torch.Tensor:
        self.saw.append((side, tuple(rows.shape), torch.is_autocast_enabled("cpu")))
        self.seen = self.seen + 1
        flat = self.inner(self.frozen(rows.reshape(-1, FEATURES)))
        hidden = self.dropout(self.norm(flat)) + random.random() + np.random.rand()
        return self.head(self.outer(hidden)).reshape(*rows.shape[:-1], CLASSES)

    @staticmethod
    def batch() -> tuple[torch.Tensor]:
        return (torch.randn(BATCH, FEATURES),)

    def as_compiled(self, rows: torch.Tensor) -> torch.Tensor:
        return self.forward(rows, "compiled")


class KeepsLists(torch.optim.Optimizer):
    """An optimizer of somebody's own, whose state is nested and replaced in every step."""

    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            group["taken"] = group.get("taken", 0) + 1
            for each in group["params"]:
                if each.grad is not None:
                    history = self.state[each].setdefault("history", [])
                    history.append(each.grad.clone())
                    self.state[each]["mean"] = (sum(history) / len(history), len(history))
                    each.data.sub_(group["lr"] * self.state[each]["mean"][0])


OPTIMIZERS: dict[str, Callable[[list[nn.Parameter]], torch.optim.Optimizer]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    "adam": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, amsgrad=True),
    "tensor-rate": lambda parameters: torch.optim.Adam(
        parameters, lr=torch.tensor(0.01), foreach=False
    ),
    "lists": lambda parameters: KeepsLists(parameters, {"lr": 0.01}),
}


@dataclass
class Script:
    """A script after its training."""

    part: Compiled
    optimizer: torch.optim.Optimizer
    spoken: list[str] = field(default_factory=list)
    """What its hooks said, in order."""

    def state(self) -> list[Any]:
        """All that a measurement must leave as it was, in values that can be compared."""
        module = self.part.module
        own = [*module.parameters(), *module.buffers()]
        own += [each.grad for each in module.parameters()]
        return [
            states(),
            [*self.spoken],
            [each.training for each in module.modules()],
            [(id(each), plain(each)) for each in own],
            plain(self.optimizer.state_dict()),
            len(self.optimizer._optimizer_step_post_hooks),  # type: ignore[attr-defined]
        ]


def plain(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return bits(value)
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, (list, tuple)) else value


def trained(optimizer: str = "adam", *, gradients_left: bool = False, **options: Any) -> Script:
    """A script whose steps were captured, with an optimizer that has stepped, and a hook of the
    script's own that follows its steps."""
    torch.manual_seed(1)
    module = Model()
    part = captured(module, Plain(lambda forward: module.as_compiled), **{"steps": 2, **options})
    wanted = [each for each in module.parameters() if each.requires_grad]
    script = Script(part, OPTIMIZERS[optimizer](wanted))
    script.optimizer.register_step_post_hook(lambda *_: script.spoken.append("stepped"))
    for each in wanted:
        each.grad = torch.randn_like(each)
    script.optimizer.step()
    if not gradients_left:
        script.optimizer.zero_grad()
    Model.saw = []
    return script


def probed(
    script: Script, *, candidate: Side = EAGER, baseline: Side = EAGER, **options: Any
) -> tuple[PairedSpeedRecord, PairedBlocks | None]:
    """Probe the script, which is afterwards what it was before."""
    before = script.state()
    found = probe_speed(
        [script.part],
        [script.optimizer],
        candidate=candidate,
        baseline=baseline,
        **{"compiler": Eager(), "seed": 1, **SHORT, **options},
    )
    assert script.state() == before
    return found


def timed(script: Script, **options: Any) -> tuple[PairedSpeedRecord, PairedBlocks]:
    record, blocks = probed(script, **options)
    assert record.obstacle is None
    assert blocks is not None
    return record, blocks


@pytest.mark.parametrize("optimizer", sorted(OPTIMIZERS))
@pytest.mark.parametrize(
    "switches", [{}, {"calls": 2, "precision": "bf16", "gradients_left": True}]
)
def test_everything_is_afterwards_bit_for_bit_what_it_was(
    optimizer: str, switches: dict[str, Any]
) -> None:
    """Neither are hooks of the script called, and they are there afterwards."""
    script = trained(optimizer, **switches)
    script.part.module.train(not switches)
    called: list[str] = []
    handle = register_optimizer_step_pre_hook(lambda *_: called.append("before any step"))
    timed(script)
    assert called == []
    script.optimizer.step()
    handle.remove()
    assert (called, script.spoken[-1]) == (["before any step"], "stepped")


def test_both_sides_take_the_same_number_of_steps_and_there_are_times_of_each() -> None:
    record, blocks = timed(trained(calls=2))
    sides = Counter(side for side, *_ in Model.saw)
    first = 2 * 2  # calls of two steps, by which the probe learns how long one takes
    assert sides["eager"] == sides["compiled"] - first > LEAST_PAIRS * record.steps_per_block
    for seconds in (blocks.baseline_seconds, blocks.candidate_seconds):
        assert seconds.shape == (LEAST_PAIRS,)
        assert (seconds > 0).all()
    sizes = (record.baseline_compiler, record.baseline_batch_size, record.candidate_batch_size)
    assert sizes == ("eager", BATCH, BATCH)


def test_all_captured_steps_are_taken_in_turn() -> None:
    """Their batches may have different lengths."""
    script = trained(steps=3)
    for number, call in enumerate(script.part.calls):
        call.arguments = (torch.zeros(BATCH, number + 1, FEATURES),)
        call.cotangents = {"": torch.ones(BATCH, number + 1, CLASSES)}
    record, _ = timed(script)
    assert record.steps_per_block % 3 == 0
    counted = Counter(shape[1] for side, shape, _ in Model.saw if side == "eager")
    assert counted[2] == counted[3] <= counted[1]


def test_kept_calls_stand_for_those_of_a_step_that_were_not_kept() -> None:
    """A step that accumulates gradients over many calls still has one update."""
    script = trained(calls=2, steps=1)
    script.part.calls_a_step = 5
    updates: list[int] = []
    script.optimizer.step = lambda *_: updates.append(1)  # type: ignore[method-assign]
    timed(script)
    assert len(Model.saw) == 5 * len(updates)


def test_submodules_are_in_the_mode_of_training_while_they_are_timed() -> None:
    script = trained()
    module: Any = script.part.module
    seen: set[tuple[bool, bool]] = set()
    hook = module.head.register_forward_pre_hook(
        lambda *_: seen.add((module.training, module.frozen.training))
    )
    module.eval()
    timed(script)
    hook.remove()
    assert seen == {(True, False)}


@pytest.mark.slow
def test_the_order_is_balanced_and_follows_from_the_seed() -> None:
    orders = [timed(trained(), seed=seed, most_pairs=16)[1] for seed in (7, 7, 8, 9)]
    first, again, *others = (each.baseline_first.tolist() for each in orders)
    assert first == again
    assert len({tuple(each) for each in (first, *others)}) > 1
    assert all(a != b for a, b in zip(first[::2], first[1::2], strict=True))


@pytest.mark.parametrize(
    ("ours", "theirs", "batch"),
    [("fp32", "bf16", 2), ("bf16", "fp32", 15), ("bf16", "bf16", BATCH)],
)
def test_each_side_has_its_own_batch_size_and_precision(ours: str, theirs: str, batch: int) -> None:
    candidate, baseline = Side("eager", BATCH, ours), Side("eager", batch, theirs)
    record, _ = timed(trained(precision=ours), candidate=candidate, baseline=baseline)
    assert (record.baseline_batch_size, record.candidate_batch_size) == (batch, BATCH)
    assert set(Model.saw) == {
        ("eager", (batch, FEATURES), theirs == "bf16"),
        ("compiled", (BATCH, FEATURES), ours == "bf16"),
    }


def test_gradients_of_other_batch_sizes_are_those_of_the_same_examples() -> None:
    """Twice the batch repeats it: twice the captured gradients, summed over examples."""
    script = trained(steps=1)
    seen: list[torch.Tensor] = []
    bias: Any = script.part.module.get_parameter("head.bias")
    bias.register_post_accumulate_grad_hook(lambda each: seen.append(each.grad.clone()))
    timed(script, baseline=Side("eager", 2 * BATCH, "fp32"))
    sizes = sorted({float(each.norm()) for each in seen})
    assert sizes[-1] == pytest.approx(2 * sizes[0], rel=1e-4)


class WholeSteps(Eager):
    """A compiler that has the device to itself."""

    compiles_whole_steps = True


class OfSomebodys(torch.optim.SGD):
    """Wants to compute the loss again and again."""

    def step(self, closure: Callable[[], float]) -> float:  # type: ignore[override]
        return closure()


def but(change: Callable[[Script], Any]) -> Callable[[], Script]:
    """A script that was changed after its training."""

    def script() -> Script:
        found = trained()
        change(found)
        return found

    return script


def of_calls(change: Callable[[Any], Any]) -> Callable[[], Script]:
    return but(lambda script: [change(call) for call in script.part.calls])


def with_closure(script: Script) -> None:
    script.optimizer = OfSomebodys(script.part.module.parameters(), lr=0.1)


def failing(script: Script) -> None:
    def fails(rows: torch.Tensor) -> torch.Tensor:
        script.part.module.get_parameter("head.weight").data.fill_(7.0)
        raise RuntimeError("no kernel\nof that kind")

    script.part.compiled = fails


def anew(script: Script) -> None:
    script.part.compiled = torch.compile(script.part.eager, backend="eager")


def rows_of(*shape: int) -> Callable[[], Script]:
    return of_calls(lambda call: setattr(call, "arguments", (torch.zeros(shape),)))


SMALLER = {"baseline": Side("eager", 2, "fp32")}
FROM_BF16 = {"candidate": Side("eager", BATCH, "bf16"), "baseline": EAGER}
OBSTACLES: list[tuple[Callable[[], Script], dict[str, Any], str]] = [
    (trained, {"compiler": WholeSteps()}, "has the device to itself"),
    (trained, {"baseline": Side("inductor", BATCH)}, "the baseline is compiled too, by inductor"),
    (trained, {"world": World(2, 0, 0)}, "2 processes trained together"),
    (but(lambda script: script.part.calls.clear()), {}, "none of the captured steps called"),
    (of_calls(lambda call: call.cotangents.update({"": None})), {}, "no gradient came back"),
    (of_calls(lambda call: call.cotangents.clear()), {}, "no gradient came back"),
    (rows_of(5, BATCH, FEATURES), SMALLER, "as its first dimension"),
    (rows_of(BATCH + 1, FEATURES), {}, "has shape (7, 3) in the probe"),
    (
        of_calls(lambda call: setattr(call, "named", {"state": torch.zeros(1, BATCH, FEATURES)})),
        SMALLER,
        "it is not known which dimensions count examples",
    ),
    (but(with_closure), {}, "OfSomebodys calls the model as often as it likes"),
    (trained, {"seconds": 1e-6}, "set gate.speed_probe_seconds"),
    (but(lambda script: script.part.module.to(torch.bfloat16)), FROM_BF16, "not by autocast"),
    (
        trained,
        {
            "candidate": Side("eager", BATCH, padding="buckets"),
            "baseline": Side("eager", BATCH, padding="max"),
        },
        "the baseline's padding is 'max'",
    ),
    (but(failing), {}, "the probe broke off: RuntimeError: no kernel"),
    pytest.param(but(anew), {}, "made the compiler compile anew", marks=pytest.mark.slow),  # type: ignore[list-item]
]


@pytest.mark.parametrize(("script", "options", "obstacle"), OBSTACLES)
def test_what_cannot_be_compared_is_said(
    script: Callable[[], Script], options: dict[str, Any], obstacle: str
) -> None:
    record, blocks = probed(script(), **options)
    assert (blocks, record.steps_per_block) == (None, 0)
    assert obstacle in str(record.obstacle)


@pytest.mark.slow
def test_an_output_that_no_gradient_comes_to_is_left_out() -> None:
    """As the logits beside a loss. Compiled, one node has both, and calls the hooks of both."""
    module = nn.Linear(FEATURES, CLASSES)

    def loss_and_logits(rows: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = module.forward(rows)
        return {"loss": logits.pow(2).mean(), "logits": logits}

    part = captured(module, backend("aot_eager"), function=loss_and_logits, batch=Model.batch)
    for call in part.calls:
        assert [each is None for each in call.cotangents.values()] == [False, True]
    timed(Script(part, torch.optim.SGD(module.parameters(), lr=0.1)))


@pytest.mark.slow
@pytest.mark.parametrize("batch", [BATCH, 2 * BATCH])
def test_compiled_steps_are_timed_without_compiling_anew(batch: int) -> None:
    compiler = backend("aot_eager")
    module = nn.Sequential(nn.Linear(FEATURES, 5), nn.BatchNorm1d(5), nn.Dropout(0.5))
    part = captured(module, compiler, batch=Model.batch)
    module.eval()
    graphs = compiler.graphs()
    candidate, baseline = Side("torch-compile", BATCH, "fp32"), Side("eager", batch, "fp32")
    script = Script(part, torch.optim.SGD(module.parameters(), lr=0.1))
    timed(script, compiler=compiler, candidate=candidate, baseline=baseline)
    assert compiler.graphs() == graphs == 1


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [4.0, 0.0])
def test_a_job_times_its_step_against_the_baseline_s(seconds: float, tmp_path: Path) -> None:
    """Also one without a compiler: its batches may be larger. Calls are kept of the first steps
    alone, and of none where there is no probe: they take memory, and time."""
    baseline = Baseline("eager", 2, "fp32")
    job = jobs.job_of(tmp_path, baseline=baseline, speed_probe_seconds=seconds)
    jobs.trained(job, jobs.network(), torch.cat([jobs.ROWS] * 3).split(4))
    record = jobs.recorded(job)
    assert job._compilation is not None
    kept, speed = (
        sum(len(each.calls) for each in job._compilation.parts),
        record.evidence.paired_speed,
    )
    if not seconds:
        assert (kept, speed, record.paired) == (0, None, None)
        return
    assert (kept, record.paired is None) == (4, False)
    assert speed is not None
    assert (speed.obstacle, speed.baseline_batch_size, speed.candidate_batch_size) == (None, 2, 4)
