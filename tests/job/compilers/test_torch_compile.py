"""torch.compile with any of its backends: what it counts and proves, what it leaves to eager, and
what it refuses. Inductor itself compiles in one test."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo import config
from torch._dynamo.utils import counters

from compilegate.job import CompilerError, InputError, Job, JobConfig
from compilegate.job.compilers import declarations, load_compiler

ROOT = Path(__file__).resolve().parents[3]
CHANGED = ("suppress_errors", "allow_rnn", "recompile_limit")
GPU = torch.device("cuda", 0)

PACKAGE = '''
"""Backends as people write them."""

import torch
from torch._dynamo.backends.common import aot_autograd
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition


def _operators(graph, inputs):
    return make_boxed_func(graph.forward)


def compiling(graph, inputs, options=None):
    """Forward and backward graphs, each run operator by operator."""
    partition = min_cut_rematerialization_partition
    return aot_autograd(fw_compiler=_operators, partition_fn=partition)(graph, inputs)


def with_its_own_random_numbers(graph, inputs):
    def run(*arguments):
        torch.rand(3)
        return graph.forward(*arguments)
    return run


def as_it_was(graph, inputs):
    """What the custom backend of many tutorials does."""
    return graph.forward


def as_a_module(graph, inputs):
    return graph


def of_inference(graph, inputs):
    def run(*arguments):
        with torch.no_grad():
            return graph.forward(*arguments)
    return run


def failing(graph, inputs):
    raise NotImplementedError("no kernel for aten::addmm")


NO_FUNCTION = 3
'''


class Small(torch.nn.Module):
    """Two layers with dropout."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first = torch.nn.Linear(6, 5)
        self.last = torch.nn.Linear(5, 2)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        hidden = torch.nn.functional.dropout(torch.relu(self.first(values)), 0.4)
        return self.last(hidden)


class Reader(torch.nn.Module):
    """A recurrent layer between others."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.last = torch.nn.Linear(6, 5), torch.nn.Linear(4, 2)
        self.layer = torch.nn.LSTM(5, 4, num_layers=2, dropout=0.2, batch_first=True)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.last(self.layer(self.first(values)[:, None])[0])


class Stack(torch.nn.Module):
    """Equal blocks, one of them used twice, and a short list of something else."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.heads = torch.nn.ModuleList([torch.nn.Linear(6, 1)])
        self.blocks = torch.nn.ModuleList([torch.nn.Linear(6, 6) for _ in range(3)])
        self.blocks.append(self.blocks[0])

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            values = block(values)
        return self.heads[0](values)


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    torch.compiler.reset()
    counters.clear()
    with config.patch({name: getattr(config, name) for name in CHANGED}):
        yield
    torch.compiler.reset()
    counters.clear()


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    (tmp_path / "house.py").write_text(PACKAGE)
    (tmp_path / "broken_house.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "house"
    sys.modules.pop("house", None)


def torch_compile(backend: str = "aot_eager", **options: Any) -> Any:
    return load_compiler("torch-compile", {"backend": backend, **options})


def trained(compiler: Any, model: torch.nn.Module) -> list[torch.Tensor]:
    """The gradients of one step."""
    call = compiler.compile(model.forward, model) if compiler else model.forward
    torch.manual_seed(0)
    model.zero_grad()
    call(torch.ones(4, 6)).square().sum().backward()
    return [each.grad.clone() for each in model.parameters() if each.grad is not None]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "house.compiling"])
def test_a_backend_other_than_inductor_trains_counts_and_proves(package: str, backend: str) -> None:
    eager, compiler = trained(None, Small()), torch_compile(backend)
    assert all(map(torch.equal, eager, trained(compiler, Small())))
    record = compiler.record(1.5, 0)
    assert (record.name, record.ran, record.graphs) == ("torch-compile", True, 1)
    assert record.options == {**declarations()["torch-compile"].settings({}), "backend": backend}
    proof = record.proof
    assert (proof["backend"], proof["graph_calls"], proof["unique_graphs"]) == (backend, 1, 1)
    assert (proof["graphs_left_as_they_were"], proof["frames_left_to_eager"]) == (0, 0)
    assert set(declarations()["torch-compile"].proof) <= set(proof)


@pytest.mark.slow
def test_several_functions_of_one_job_are_counted_together_without_the_probes() -> None:
    compiler = torch_compile()
    generator, discriminator = Small(), torch.nn.Linear(2, 1)
    generate = compiler.compile(generator.forward, generator)
    judge = compiler.compile(discriminator.forward, discriminator)
    generator.forward = None  # type: ignore[assignment] - as a job replaces it
    for _ in range(3):
        judge(generate(torch.ones(4, 6))).sum().backward()
    with compiler.uncounted():
        generate(torch.ones(4, 6))
    record = compiler.record(0.0, 0)
    assert (record.graphs, record.proof["graph_calls"]) == (2, 6)


@pytest.mark.slow
def test_a_model_with_a_recurrent_layer_is_compiled_around_it() -> None:
    eager, compiler, model = trained(None, Reader()), torch_compile(), Reader()
    assert all(map(torch.equal, eager, trained(compiler, model)))
    record = compiler.record(0.0, 0)
    assert (record.ran, record.graphs, record.graph_breaks) == (True, 2, 1)
    assert "forward" not in vars(model.layer)


@pytest.mark.slow
def test_repeated_blocks_share_a_graph_and_are_themselves_again_after_a_call() -> None:
    """Also where a job has replaced the model's forward pass, and a library that of a block."""
    eager, compiler, stack = trained(None, Stack()), torch_compile(regional=True), Stack()
    hooked = stack.blocks[1].forward
    stack.blocks[1].forward = own = hooked
    call = compiler.compile(stack.forward, stack)
    stack.forward = call  # type: ignore[method-assign]
    torch.manual_seed(0)
    stack(torch.ones(4, 6)).square().sum().backward()
    for one, other in zip(eager, stack.parameters(), strict=True):
        torch.testing.assert_close(other.grad, one)
    record = compiler.record(0.0, 0)
    assert (record.ran, record.proof["graph_calls"]) == (True, 4)
    assert stack.blocks[1].forward is own
    assert "forward" not in vars(stack.blocks[0])
    with pytest.raises(CompilerError):
        trained(torch_compile(regional=True), torch.nn.Linear(6, 2))


@pytest.mark.slow
@pytest.mark.parametrize("function", ["as_it_was", "as_a_module", "failing", "recurrent"])
def test_what_runs_in_eager_mode_trains_and_is_recorded_as_not_compiled(
    package: str, function: str
) -> None:
    if function == "recurrent":
        compiler, model = torch_compile(), torch.nn.LSTM(6, 2)
        compiler.compile(model.forward, model)(torch.ones(5, 2, 6))[0].sum().backward()
    else:
        compiler, model = torch_compile(f"{package}.{function}"), Small()
        call = compiler.compile(model.forward, model)
        config.suppress_errors = function == "failing"  # by the script itself
        call(torch.ones(4, 6)).sum().backward()
    record = compiler.record(0.0, 0)
    assert (record.ran, record.graphs) == (False, 0)
    assert record.proof["left_to_eager"].startswith(f"{type(model).__name__}: ")
    assert record.proof["errors_suppressed"] is config.suppress_errors


@pytest.mark.slow
def test_shapes_are_torchs_to_decide_and_its_limit_is_evidence() -> None:
    script = """
import json, torch
from compilegate.job.compilers import load_compiler
def record(limit, **given):
    torch.compiler.reset()
    torch._dynamo.config.recompile_limit = limit
    compiler = load_compiler("torch-compile", {"backend": "aot_eager", **given})
    model = torch.nn.Linear(4, 4)
    call = compiler.compile(model.forward, model)
    for rows in (2, 3, 5, 7):
        call(torch.ones(rows, 4)).sum().backward()
    found = compiler.record(0.0, 0)
    return found.ran, found.graphs, found.proof["graph_calls"], found.proof.get("left_to_eager")
import torch._dynamo.config
# Torch remembers which shapes changed: the static one comes first.
print(json.dumps([record(2, dynamic_shapes=False), record(8), record(1, dynamic_shapes=True)]))
"""
    static, torch_device, dynamic = json.loads(run_python(script))
    assert static[:3] == [False, 2, 2]
    assert "recompile_limit (2)" in static[3]
    assert torch_device[0]
    assert torch_device[1] <= 2
    assert torch_device[2:] == [4, None]
    assert dynamic == [True, 1, 4, None]


def run_python(script: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.slow
def test_slices_and_tensors_of_their_own_share_a_graph_of_dynamic_shapes() -> None:
    compiler, model = torch_compile(dynamic_shapes=True), torch.nn.Linear(4, 4)

    def step(pair: dict[str, torch.Tensor]) -> torch.Tensor:
        return model(pair["one"]) + model(pair["same"])

    call = compiler.compile(step, model)
    rows = torch.randn(40, 4)
    for batch in (rows[:8], rows[8:16], rows[:8].clone(), torch.randn(6, 4), rows[16:30]):
        pair = {"one": batch, "same": batch}
        torch.testing.assert_close(call(pair), step(pair))
    assert compiler.graphs() == 1


def test_a_backend_through_which_no_gradient_flows_is_refused_in_training_alone(
    package: str,
) -> None:
    with pytest.raises(CompilerError, match="no gradient"):
        trained(torch_compile(f"{package}.of_inference"), Small())
    compiler, model = torch_compile(f"{package}.of_inference"), Small()
    with torch.no_grad():
        assert not compiler.compile(model.forward, model)(torch.ones(2, 6)).requires_grad


MODE = {"compile_mode": "max-autotune"}


def table(text: str) -> dict[str, Any]:
    return {"backend_options": text}


@pytest.mark.parametrize(
    ("error", "backend", "options", "words"),
    [
        (InputError, "eager", {}, "compiles nothing"),
        (InputError, "aot_eager", MODE, "mode is"),
        (InputError, "cudagraphs", table('{"a":1}'), "options has a"),
        (InputError, "neuron", {"dynamic_shapes": True}, "dynamic is true"),
        (InputError, "a.b", {"fallback_random": False}, "'inductor'"),
        (InputError, "neuron", table('{"fallback_execution":true}'), "fallback_execution"),
        (CompilerError, "inductor", table('{"max_autotun":true}'), "max_autotun"),
        (CompilerError, "inductor", table('{"max_autotune":1}'), "got int should be bool"),
        (CompilerError, "house.as_it_was", table('{"level":2}'), "'options'"),
        (CompilerError, "house.compiling", MODE, "'mode'"),
        (CompilerError, "tensorrt", {}, "comes with the package torch-tensorrt"),
        (CompilerError, "inducter", {}, "has .*inductor.*requirements.txt"),
        (CompilerError, "house.absent", {}, "'absent'"),
        (CompilerError, "house.NO_FUNCTION", {}, "a int"),
        (CompilerError, "broken_house.compiling", {}, "No module named 'no_such_package'"),
        (CompilerError, "cudagraphs", {}, "needs a GPU"),
        # Also where TORCHDYNAMO_SUPPRESS_ERRORS asks for silence.
        (CompilerError, "house.failing", {}, "not supported .*aten::addmm"),
    ],
)
def test_what_cannot_train_is_refused_in_one_sentence(
    package: str, error: Any, backend: str, options: Any, words: str
) -> None:
    config.suppress_errors = True
    with pytest.raises(error, match=words) as refused:
        trained(torch_compile(backend, **options), Small())
    assert "\n" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "shared"),
    [
        ("aot_eager", True),
        ("house.compiling", True),
        ("house.with_its_own_random_numbers", False),
        ("house.failing", False),
    ],
)
def test_whether_dropout_draws_what_eager_draws_is_known_of_each_backend(
    package: str, backend: str, shared: bool
) -> None:
    compiler, model = torch_compile(backend), Small()
    compiler.compile(model.forward, model)
    state = torch.get_rng_state()
    assert compiler.shares_random_numbers is shared
    assert torch.equal(torch.get_rng_state(), state)
    assert compiler.record(0.0, 0).proof["unique_graphs"] == 0


@pytest.mark.parametrize(
    ("backend", "kept"), [("inductor", True), ("house.compiling", True), ("aot_eager", False)]
)
def test_only_what_inductor_may_have_compiled_is_kept(
    package: str, backend: str, kept: bool
) -> None:
    assert declarations()["torch-compile"].keeps_output({"backend": backend}) is kept
    compiler = torch_compile(backend)
    assert (compiler.cache_folder() is not None) is kept
    assert compiler.record(0.0, 0).proof["cache"] == ("kept" if kept else "keeps nothing")


# What a GPU does otherwise, as far as a machine without one can show: nothing computes there.


def on_gpu(name: str, **options: Any) -> Any:
    """A compiler that was given a model on a GPU."""
    compiler: Any = load_compiler(name, options)
    compiler._device = GPU
    return compiler


@pytest.mark.parametrize(
    ("name", "options", "overwrites"),
    [
        ("eager", {}, False),
        ("inductor", {"compile_mode": "max-autotune-no-cudagraphs"}, False),
        ("inductor", {"compile_mode": "reduce-overhead"}, True),
        ("inductor", {"compile_mode": "max-autotune"}, True),
        ("torch-compile", {"backend": "aot_eager"}, False),
        ("torch-compile", {"backend": "cudagraphs"}, True),
        ("torch-compile", {"backend_options": '{"triton.cudagraphs":true}'}, True),
    ],
)
def test_whatever_records_cuda_graphs_overwrites_gradients_on_a_gpu_alone(
    name: str, options: dict[str, Any], overwrites: bool
) -> None:
    assert on_gpu(name, **options).overwrites_gradients is overwrites
    assert not load_compiler(name, options).overwrites_gradients  # on a CPU


@pytest.mark.slow
@pytest.mark.parametrize(
    ("to_none", "backward_passes", "steps"),
    [(True, 1, 6), (True, 2, 0), (False, 1, 1)],
    ids=["fresh", "added up", "set to zero"],
)
def test_gradients_that_stay_in_recorded_memory_are_refused(
    to_none: bool, backward_passes: int, steps: int, tmp_path: Path
) -> None:
    options = {"compile_mode": "reduce-overhead"}
    place: Any = {
        "job": "a-job",
        "arm": "candidate",
        "model": tmp_path / "model",
        "output": tmp_path,
    }
    job = Job(JobConfig(**place, compiler="inductor", options=options, batch_size=4))
    model = job.compile(torch.nn.Linear(3, 2))
    job._compiling().compiler._device = GPU  # pyrefly: ignore[missing-attribute]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with nullcontext() if steps == 6 else pytest.raises(CompilerError):
        for _ in range(6):
            with job.step():
                optimizer.zero_grad(set_to_none=to_none)
                for _ in range(backward_passes):  # beside what this machine cannot record
                    outputs = torch.nn.functional.linear(torch.ones(4, 3), model.weight, model.bias)
                    outputs.square().mean().backward()
                optimizer.step()
    assert job.steps_taken == steps


def test_a_gpus_fused_attention_shares_no_random_numbers() -> None:
    assert on_gpu("inductor").shares_random_numbers
    counters["inductor"]["fuse_attention"] = 2
    assert not on_gpu("inductor").shares_random_numbers
    assert load_compiler("inductor").shares_random_numbers  # on a CPU it drops as eager does


INDUCTOR = """
import json, torch
from compilegate.job.compilers import load_compiler

def step(name, given, width=5):
    torch.compiler.reset()
    compiler = load_compiler(name, given)
    layers = torch.nn.Linear(6, width), torch.nn.ReLU(), torch.nn.Linear(width, 2)
    model = torch.nn.Sequential(*layers)
    compiler.compile(model.forward, model)(torch.ones(4, 6)).sum().backward()
    return compiler.record(0.0, 0)

found = step("inductor", {}), step("torch-compile", {"backend_options": '{"max_fusion_size":2}'})
print(json.dumps([[each.name, each.ran, each.graphs, dict(each.proof), dict(each.options)]
                  for each in found]))

torch._inductor.config.cpp.cxx = ("no-such-compiler",)
try:
    step("inductor", {}, width=7)
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


@pytest.mark.long
@pytest.mark.slow
def test_inductor_is_the_same_by_its_short_name_and_its_failure_is_a_sentence() -> None:
    found, without_compiler = run_python(INDUCTOR).strip().split("\n")
    short, long = json.loads(found)
    assert (short[:3], long[:3]) == (["inductor", True, 1], ["torch-compile", True, 1])
    for _, _, _, proof, _ in (short, long):
        assert (proof["backend"], proof["graph_calls"]) == ("inductor", 1)
        assert proof["kernels"] > 0
    assert long[4] == {**short[4], "backend": "inductor", **table('{"max_fusion_size":2}')}
    assert without_compiler.startswith("CompilerError: inductor could not compile: there is no C++")
