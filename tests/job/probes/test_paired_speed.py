"""The paired speed probe, on scripts of many kinds: it times what it says, or says why it cannot,
and leaves everything as it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

from compilegate.job.compilers.compiler import Eager
from compilegate.job.evidence import PairedBlocks, PairedSpeedRecord
from compilegate.job.machine.world import World
from compilegate.job.probes.capture import (
    Compiled,
    await_cotangents,
    brought_back,
    set_aside,
)
from compilegate.job.probes.speed import LEAST_PAIRS, Side, probe_speed, seconds_allowed
from tests.job.probes.scenes import backend
from tests.job.probes.scripts import (
    BATCH,
    FEATURES,
    MODELS,
    OPTIMIZERS,
    PartlyFrozen,
    Script,
    state_of,
    trained,
)

SHORT = {"seconds": 120.0, "block_seconds": 1e-3, "most_pairs": LEAST_PAIRS}
"""As few and short blocks as there can be, however slow the machine is."""
EAGER = Side("eager", BATCH, "fp32")


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def probed(
    script: Script, *, candidate: Side = EAGER, baseline: Side = EAGER, **options: Any
) -> tuple[PairedSpeedRecord, PairedBlocks | None]:
    """Probe the script, which is afterwards what it was before."""
    told = {"compiler": Eager(), "seed": 1, **SHORT, **options}
    before = state_of(script)
    found = probe_speed(
        script.compiled, script.optimizers, candidate=candidate, baseline=baseline, **told
    )
    assert state_of(script) == before
    return found


def obstacle(script: Script, **options: Any) -> str:
    record, blocks = probed(script, **options)
    assert blocks is None
    assert record.steps_per_block == 0
    assert record.obstacle is not None
    return record.obstacle


class Watched(nn.Linear):
    """Notes what each of its calls saw."""

    saw: ClassVar[list[tuple[str, tuple[int, ...], bool]]] = []

    def __init__(self) -> None:
        super().__init__(FEATURES, 3)
        Watched.saw = []  # of the class: what is of the module is put back

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.noting("eager", rows)

    def as_compiled(self, rows: torch.Tensor) -> torch.Tensor:
        return self.noting("compiled", rows)

    def noting(self, side: str, rows: torch.Tensor) -> torch.Tensor:
        self.saw.append((side, tuple(rows.shape), torch.is_autocast_enabled("cpu")))
        return super().forward(rows)


def watched(**options: Any) -> tuple[Script, Watched]:
    """A script with two sides that can be told apart; nothing was seen yet."""
    script = trained([Watched], **options)
    (module,) = script.modules
    assert isinstance(module, Watched)
    script.compiled[0].compiled = module.as_compiled
    module.saw.clear()
    return script, module


@pytest.mark.slow
@given(
    models=st.lists(st.sampled_from(MODELS), min_size=1, max_size=3),
    optimizer=st.sampled_from(sorted(OPTIMIZERS)),
    calls=st.integers(1, 3),
    switches=st.fixed_dictionaries(
        {name: st.booleans() for name in ("bf16", "gradients_left", "one_optimizer")}
    ),
    in_training=st.booleans(),
)
@settings(max_examples=15, deadline=None)
def test_everything_is_afterwards_bit_for_bit_what_it_was(
    models: list[type[nn.Module]],
    optimizer: str,
    calls: int,
    switches: dict[str, bool],
    in_training: bool,
) -> None:
    script = trained(models, optimizer, calls=calls, **switches)
    for each in script.modules:
        each.train(in_training)
    record, blocks = probed(script)
    assert record.obstacle is None
    assert blocks is not None


def test_both_sides_take_the_same_number_of_steps_and_there_are_times_of_each() -> None:
    script, module = watched(calls=2)
    record, blocks = probed(script)
    sides = Counter(side for side, *_ in module.saw)
    first = 2 * 2  # calls of two steps, by which the probe learns how long one takes
    assert sides["eager"] == sides["compiled"] - first > LEAST_PAIRS * record.steps_per_block
    assert blocks is not None
    for seconds in (blocks.baseline_seconds, blocks.candidate_seconds):
        assert seconds.shape == (LEAST_PAIRS,)
        assert (seconds > 0).all()
    assert record == PairedSpeedRecord(
        seconds=record.seconds,
        baseline_compiler="eager",
        baseline_batch_size=BATCH,
        candidate_batch_size=BATCH,
        steps_per_block=record.steps_per_block,
    )


def test_all_captured_steps_are_taken_in_turn() -> None:
    """Their batches may have different lengths."""
    script, module = watched(steps=3)
    for number, call in enumerate(script.compiled[0].calls):
        call.arguments = (torch.zeros(BATCH, number + 1, FEATURES),)
        call.cotangents = [torch.ones(BATCH, number + 1, 3)]
    record, _ = probed(script)
    assert record.steps_per_block % 3 == 0
    lengths = [shape[1] for side, shape, _ in module.saw if side == "eager"]
    counted = Counter(lengths)
    assert counted[2] == counted[3] <= counted[1]


def test_calls_that_were_set_aside_are_taken_as_they_were() -> None:
    """What was one tensor is one again, and what wanted a gradient wants it."""
    script = trained()
    (first, *_) = script.compiled[0].calls
    rows = first.arguments[0].requires_grad_()
    first.named = {"again": [rows]}
    aside = set_aside(first)
    back = brought_back(aside)
    assert len(aside.places) == 2  # of the rows and of what came back to the logits
    assert back.arguments[0] is back.named["again"][0]
    assert back.arguments[0].requires_grad
    assert torch.equal(back.arguments[0], rows)
    assert torch.equal(back.cotangents[0], first.cotangents[0])
    assert back.places == ()


def test_kept_calls_stand_for_those_of_a_step_that_were_not_kept() -> None:
    """A step that accumulates gradients over many calls still has one update."""
    script, module = watched(calls=2, steps=1)
    script.compiled[0].calls_a_step = 5
    updates = 0

    def counted(*_: Any) -> None:
        nonlocal updates
        updates += 1

    script.optimizers[0].step = counted  # type: ignore[method-assign]
    _, blocks = probed(script)
    assert blocks is not None
    assert len(module.saw) == 5 * updates


def test_submodules_are_in_the_mode_of_training_while_they_are_timed() -> None:
    script = trained([PartlyFrozen])
    (module,) = script.modules
    seen: set[tuple[bool, bool]] = set()
    module.head.register_forward_pre_hook(
        lambda *_: seen.add((module.training, module.frozen.training))
    )
    module.eval()
    _, blocks = probed(script)
    assert blocks is not None
    assert seen == {(True, False)}


@pytest.mark.slow
def test_the_order_is_balanced_and_follows_from_the_seed() -> None:
    def order(seed: int) -> list[bool]:
        _, blocks = probed(trained(), seed=seed, most_pairs=16)
        assert blocks is not None
        return blocks.baseline_first.tolist()

    first = order(7)
    assert order(7) == first
    assert len({tuple(order(seed)) for seed in (7, 8, 9)}) > 1
    assert all(a != b for a, b in zip(first[::2], first[1::2], strict=True))


@pytest.mark.parametrize(
    ("ours", "theirs", "batch"),
    [("fp32", "bf16", 2), ("bf16", "fp32", 15), ("bf16", "bf16", BATCH)],
)
def test_each_side_has_its_own_batch_size_and_precision(ours: str, theirs: str, batch: int) -> None:
    script, module = watched(bf16=ours == "bf16")
    record, blocks = probed(
        script, candidate=Side("eager", BATCH, ours), baseline=Side("eager", batch, theirs)
    )
    assert blocks is not None
    assert (record.baseline_batch_size, record.candidate_batch_size) == (batch, BATCH)
    assert set(module.saw) == {
        ("eager", (batch, FEATURES), theirs == "bf16"),
        ("compiled", (BATCH, FEATURES), ours == "bf16"),
    }


def test_gradients_of_other_batch_sizes_are_those_of_the_same_examples() -> None:
    """Twice the batch repeats it: twice the captured gradients, summed over examples."""
    script, module = watched(steps=1)
    seen: list[torch.Tensor] = []
    module.weight.register_post_accumulate_grad_hook(lambda each: seen.append(each.grad.clone()))
    probed(script, baseline=Side("eager", 2 * BATCH, "fp32"))
    own, theirs = seen[0], seen[-1]
    sizes = sorted({float(each.norm()) for each in seen})
    assert sizes[-1] == pytest.approx(2 * sizes[0], rel=1e-4)
    assert torch.allclose(own / own.norm(), theirs / theirs.norm(), atol=1e-5)


def test_the_hooks_of_a_script_are_not_called_and_are_there_afterwards() -> None:
    script = trained()
    called: list[object] = []
    handle = register_optimizer_step_pre_hook(lambda *_: called.append("before any step"))
    try:
        _, blocks = probed(script)
        assert blocks is not None
        assert called == []
        script.optimizers[0].step()
        assert called == ["before any step"]
        assert script.spoken[-1] == "stepped"
    finally:
        handle.remove()


def test_a_script_that_failed_in_the_probe_is_as_it_was() -> None:
    script = trained()

    def failing(rows: torch.Tensor) -> torch.Tensor:
        script.modules[0].head.weight.data.fill_(7.0)
        raise RuntimeError("no kernel\nof that kind")

    script.compiled[0].compiled = failing
    assert obstacle(script) == "the probe broke off: RuntimeError: no kernel"


def test_without_a_time_the_probe_takes_a_share_of_the_training_s() -> None:
    assert seconds_allowed(None, 100) == pytest.approx(5)
    assert seconds_allowed(None, 1e6) == 60
    assert seconds_allowed(90, 100) == 90
    assert seconds_allowed(0, 100) == 0


class WholeSteps(Eager):
    """A compiler that has the device to itself."""

    compiles_whole_steps = True


class OfSomebodys(torch.optim.SGD):
    """Wants to compute the loss again and again."""

    def step(self, closure: Callable[[], float]) -> float:  # type: ignore[override]
        return closure()


def uncalled() -> Script:
    script = trained()
    script.compiled[0].calls.clear()
    return script


def without_backward() -> Script:
    script = trained()
    for call in script.compiled[0].calls:
        call.cotangents = [None for _ in call.cotangents]
    return script


def of_other_shapes(shape: tuple[int, ...]) -> Script:
    script = trained()
    for call in script.compiled[0].calls:
        call.arguments = (torch.zeros(shape),)
    return script


def with_state() -> Script:
    """As of a recurrent network: (layers, batch, features)."""
    script = trained()
    for call in script.compiled[0].calls:
        call.named = {"state": torch.zeros(1, BATCH, FEATURES)}
    return script


def with_closure() -> Script:
    script = trained()
    script.optimizers[0] = OfSomebodys(script.modules[0].parameters(), lr=0.1)
    return script


def in_half() -> Script:
    script = trained()
    script.modules[0].to(torch.bfloat16)
    for call in script.compiled[0].calls:
        call.arguments = (call.arguments[0].to(torch.bfloat16),)
    return script


@pytest.mark.parametrize(
    ("script", "options", "said"),
    [
        (trained, {"compiler": WholeSteps()}, "has the device to itself"),
        (trained, {"baseline": Side("inductor")}, "the baseline is compiled too, by inductor"),
        (trained, {"world": World(2, 0, 0)}, "2 processes trained together"),
        (uncalled, {}, "none of the captured steps called what was compiled"),
        (without_backward, {}, "no gradient came back"),
        (
            lambda: of_other_shapes((5, BATCH, FEATURES)),
            {"baseline": Side("eager", 3, "fp32")},
            f"no input of a captured call has this job's, {BATCH}, as its first dimension",
        ),
        (
            lambda: of_other_shapes((BATCH + 1, FEATURES)),
            {},
            "an output that had shape (6, 3) in training has shape (7, 3) in the probe",
        ),
        (
            with_state,
            {"baseline": Side("eager", 2, "fp32")},
            "it is not known which dimensions count examples",
        ),
        (with_closure, {}, "OfSomebodys calls the model as often as it likes"),
        (trained, {"seconds": 1e-6}, "set gate.speed_probe_seconds"),
        (
            in_half,
            {
                "candidate": Side("eager", BATCH, "bf16"),
                "baseline": Side("eager", BATCH, "fp32"),
            },
            "the baseline trains in fp32 and this job in bf16, not by autocast",
        ),
        (
            trained,
            {"candidate": Side(padding="buckets"), "baseline": Side(padding="max")},
            "the baseline's padding is 'max' and this job's 'buckets'",
        ),
    ],
)
def test_what_cannot_be_compared_is_said(
    script: Callable[[], Script], options: dict[str, Any], said: str
) -> None:
    assert said in obstacle(script(), **options)


@pytest.mark.slow
def test_a_compiler_that_has_to_compile_anew_is_an_obstacle() -> None:
    """What is timed then is not what trained."""
    script = trained()
    one = script.compiled[0]
    one.compiled = torch.compile(one.eager, backend="eager")
    assert (
        obstacle(script) == "the probe made the compiler compile anew, so it looked at other code"
    )


@pytest.mark.slow
def test_an_output_that_no_gradient_comes_to_is_left_out() -> None:
    """As the logits beside a loss. Compiled, one node has both, and calls the hooks of both."""
    module = nn.Linear(FEATURES, 3)

    def loss_and_logits(rows: torch.Tensor) -> dict[str, torch.Tensor]:
        logits = module.forward(rows)
        return {"loss": logits.pow(2).mean(), "logits": logits}

    compiled = torch.compile(loss_and_logits, backend="aot_eager")
    one = Compiled("loss_and_logits", module, loss_and_logits, compiled)
    rows = torch.randn(BATCH, FEATURES)
    call = one.keep_call(0, (rows,), {})
    output = one.compiled(rows)
    await_cotangents(call, output)
    output["loss"].backward()
    assert [each is None for each in call.cotangents] == [False, True]
    script = Script([one], [torch.optim.SGD(module.parameters(), lr=0.1)])
    record, blocks = probed(script, candidate=Side("torch-compile", BATCH, "fp32"))
    assert record.obstacle is None
    assert blocks is not None


@pytest.mark.slow
@pytest.mark.parametrize("batch", [BATCH, 2 * BATCH])
def test_compiled_steps_are_timed_without_compiling_anew(batch: int) -> None:
    compiler = backend("aot_eager")
    script = trained(compiling=lambda forward: compiler.compile(forward, forward.__self__))
    script.modules[0].eval()
    graphs = compiler.graphs()
    record, blocks = probed(
        script,
        compiler=compiler,
        candidate=Side("torch-compile", BATCH, "fp32"),
        baseline=Side("eager", batch, "fp32"),
    )
    assert record.obstacle is None
    assert blocks is not None
    assert np.isfinite(blocks.candidate_seconds).all()
    assert compiler.graphs() == graphs == 1
