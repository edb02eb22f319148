"""Time what the rules of `compilegate check` warn of, on a CPU: the bad way and the good in turn.

    python -m benchmarks.check.costs [--write] [RULE ...]

A row is what a rule's page warns of; its peer is what the page advises. A step is forward, backward
and SGD of a small net on one thread. Figures are medians of all rounds. Rows with graphs start each
time with nothing compiled, and count the graphs that torch.compile makes. The clock is processor
time, with the C++ compiler's; only the loader's row takes wall time, since its worker runs beside.
"""

from __future__ import annotations

import contextlib
import logging
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # all processor time is this process's own

import torch
from torch import nn
from torch._dynamo.utils import counters
from torch._inductor.utils import fresh_cache

from benchmarks import results
from benchmarks.timing import in_turn

LENGTHS = (40, 72, 56, 120, 64, 96, 48, 104, 80, 112, 88, 128)
RAGGED, PADDED = [(16, each, 64) for each in LENGTHS], [(16, max(LENGTHS), 64)] * len(LENGTHS)


class Pair(NamedTuple):
    """A rule, and two ways to do the same; each call is timed as a whole."""

    rule: str
    what: str
    bad: Callable[[], object]
    good: Callable[[], object]
    rounds: int = 40
    cold: bool = False  # whether each call starts with nothing compiled

    def row(self) -> list[str]:
        """Both ways' milliseconds, their ratio, and the graphs of cold calls."""
        ways = {"bad": self.bad, "good": self.good}
        if not self.cold:
            in_turn(ways, 3)  # what is compiled now is not timed
        taken = in_turn({name: partial(self.timed, way) for name, way in ways.items()}, self.rounds)
        times = [statistics.median(each for each, _ in found) for found in taken.values()]
        graphs = "; ".join(str(found[-1][1]) for found in taken.values()) if self.cold else ""
        figures = [f"{each:.{2 if each < 10 else 1 if each < 100 else 0}f}" for each in times]
        return [self.rule, self.what, *figures, f"{times[0] / times[1]:.2f}", graphs]

    def timed(self, way: Callable[[], object]) -> tuple[float, int]:
        """The milliseconds of a call, and the graphs that are made in it."""
        clock = time.perf_counter if self.rule == "loader-workers" else cpu
        with fresh_cache() if self.cold else contextlib.nullcontext():
            if self.cold:
                torch.compiler.reset()
            counters.clear()
            began = clock()
            way()
            return 1e3 * (clock() - began), counters["stats"]["unique_graphs"]


class Block(nn.Module):
    """A linear layer and small operations written out, which a compiler fuses."""

    def __init__(self, width: int, between: Any) -> None:
        super().__init__()
        self.layer, self.between = nn.Linear(width, width), between
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        inner = self.layer(x)
        inner = inner * torch.rsqrt(inner.square().mean(-1, keepdim=True) + 1e-6) * self.scale
        x = x + inner * torch.sigmoid(1.702 * inner)
        return x if self.between is None else self.between(x)


class Net(nn.Sequential):
    """Blocks, under a forward that is not torch's own, which `compile()` would not look into."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self:
            x = block(x)
        return x


def new_net(width: int = 64, blocks: int = 4, between: Any = None) -> Net:
    return Net(*(Block(width, between) for _ in range(blocks)))


def training_step(model: Net, run: Any = None, batch: int = 16) -> Any:
    """A function that takes one training step and returns the loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    inputs = torch.randn(batch, next(model.parameters()).shape[0])

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        loss = (model if run is None else run)(inputs).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def compiled_step(between: Any) -> Any:
    """A step of a compiled net."""
    model = new_net(between=between)
    return training_step(model, torch.compile(model))


def cold_pass(shapes: list[tuple[int, ...]], **options: Any) -> Any:
    """A pass over batches of some shapes with a net that nothing has compiled yet."""

    def run() -> None:
        model = torch.compile(new_net(blocks=1), **options)
        with torch.no_grad():
            for shape in shapes:
                model(torch.ones(shape))

    return run


def in_the_step() -> Iterator[Pair]:
    """What stands in the step, or around all steps."""
    read = compiled_step(lambda x: x / x.abs().mean().item())
    stay = compiled_step(lambda x: x / x.abs().mean().detach())
    yield Pair("sync-in-step", "`.item()` in each of 4 compiled blocks", read, stay)
    step = training_step(model := new_net(width=256))
    each, once = lambda: [step().item() for _ in range(50)], lambda: sum(step() for _ in range(50))
    yield Pair("sync-in-step", "`loss.item()` in each of 50 eager steps", each, once, 15)
    branch = compiled_step(lambda x: x if x.mean() > 0 else -x)
    where = compiled_step(lambda x: torch.where(x.mean() > 0, x, -x))
    yield Pair("data-dependent", "an `if` in each of 4 compiled blocks", branch, where)

    def run(context: Any = contextlib.nullcontext, every: int = 50) -> None:
        with context(), tempfile.NamedTemporaryFile() as file:
            for number in range(50):
                step()
                if number % every == 0:
                    torch.save(model.state_dict(), file.name)

    yield Pair("too-often", "1 MB saved in each of 50 steps; once", partial(run, every=1), run, 15)
    anomaly = partial(run, torch.autograd.detect_anomaly)
    yield Pair("debugging-on", "anomaly mode", anomaly, run, 9)
    profiler = partial(run, torch.profiler.profile)
    yield Pair("debugging-on", "torch.profiler over 50 steps", profiler, run, 9)


class SlowData(torch.utils.data.Dataset[torch.Tensor]):
    """Examples that take a moment to come, as files over a network do."""

    def __len__(self) -> int:
        return 256

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(1e-3)
        return torch.ones(64)


def around_the_step() -> Iterator[Pair]:
    """Data, precision and the update."""

    def epoch(**options: Any) -> Any:
        loader = torch.utils.data.DataLoader(SlowData(), batch_size=32, **options)
        step = training_step(new_net(), batch=32)
        return lambda: [[step() for _ in range(20)] for _ in loader]

    worker = epoch(num_workers=1, persistent_workers=True)
    yield Pair("loader-workers", "an epoch without a worker; with one (wall)", epoch(), worker, 9)

    def step(compiler: Any, *, half: bool) -> Any:
        run = compiler(model := new_net(width=512))
        return training_step(
            model, torch.autocast("cpu", torch.bfloat16, enabled=half)(run), batch=256
        )

    for name, made in (("eager", lambda model: model.forward), ("compiled", torch.compile)):
        ways = step(made, half=False), step(made, half=True)
        yield Pair("full-precision", f"fp32; bf16, {name}", *ways, rounds=15)

    def update(*, foreach: bool) -> Any:
        optimizer = torch.optim.Adam(new_net(blocks=16).parameters(), foreach=foreach)
        for each in optimizer.param_groups[0]["params"]:
            each.grad = torch.randn_like(each)
        return optimizer.step

    alone, whole = update(foreach=False), torch.compile(update(foreach=False))
    together = update(foreach=True)
    yield Pair("python-optimizer", "48 parameters one by one; `foreach`", alone, together)
    yield Pair("python-optimizer", "48 parameters one by one; the same compiled", alone, whole)


def shapes() -> Iterator[Pair]:
    """Batches that differ in shape."""
    ways = {"the default": cold_pass(RAGGED), "`dynamic=False`": cold_pass(RAGGED, dynamic=False)}
    for name, way in ways.items():
        what = f"12 lengths, {name}; padded to one"
        yield Pair("varying-shapes", what, way, cold_pass(PADDED), 3, cold=True)
    model = torch.compile(new_net(), dynamic=True)
    batches = [[torch.ones(shape) for shape in shapes] for shapes in (PADDED, RAGGED)]
    padded, ragged = (lambda given=given: [model(each) for each in given] for given in batches)
    what = "12 batches, compiled already: padded; as they are"
    yield Pair("varying-shapes", what, padded, ragged)
    nine = [(16, 64)] * 9
    smaller, whole = cold_pass([*nine, (6, 64)]), cold_pass(nine)
    what = "9 batches and a smaller one; 9 batches"
    yield Pair("ragged-last-batch", what, smaller, whole, 3, cold=True)


def compiling() -> Iterator[Pair]:
    """What people stumble over with torch.compile."""
    torch.compile(model := new_net())
    eager, compiled = training_step(model), compiled_step(None)
    yield Pair("compiled-discarded", "the result thrown away; used", eager, compiled)
    (inside := new_net()).compile()
    past = training_step(inside, inside.forward)
    yield Pair("past-the-wrapper", "`model.forward(x)`; `model(x)`", past, training_step(inside))
    again = training_step(model, lambda x: torch.compile(model)(x))  # noqa: PLW0108  that is the point
    once = training_step(model, torch.compile(model))
    yield Pair("recompiles", "compiled in each step; once", again, once)

    def scheduled(rate: Any) -> None:
        optimizer = torch.optim.Adam([weight := nn.Parameter(torch.ones(64, 64))], lr=rate)
        weight.grad = torch.ones(64, 64)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        update = torch.compile(optimizer.step)
        for _ in range(6):
            update()
            schedule.step()

    ways = lambda: scheduled(1e-3), lambda: scheduled(torch.tensor(1e-3))
    yield Pair("recompiles", "6 compiled updates, rate a float; a tensor", *ways, 3, cold=True)

    def cast(*, late: bool, called: bool = False) -> None:
        model = new_net(blocks=1) if late else new_net(blocks=1).double()
        model.compile()
        if called:
            model(torch.ones(16, 64))
        model.double()(torch.ones(16, 64).double())

    before = partial(cast, late=False)
    for what, called in (("compile; before", False), ("the first call; before compile", True)):
        after = partial(cast, late=True, called=called)
        yield Pair("compile-order", f"cast after {what}", after, before, 3, cold=True)


def cpu() -> float:
    """Processor seconds of this process and of its children."""
    return time.process_time() + sum(os.times()[2:4])


def main() -> None:
    """Measure and print."""
    parser = results.parser(__doc__)
    parser.add_argument("rules", nargs="*", metavar="RULE")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    logging.disable(logging.WARNING)
    rows = []
    for pairs in (in_the_step, around_the_step, shapes, compiling):
        torch.compiler.reset()  # one code has a limit of compilations, for all models together
        for pair in pairs():
            if not options.rules or pair.rule in options.rules:
                rows.append(pair.row())
    columns = ["rule", "bad; good", "bad, ms", "good, ms", "bad / good", "graphs"]
    results.publish("check-costs", columns, rows, to_file=options.write)


if __name__ == "__main__":
    main()
