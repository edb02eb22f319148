"""torch.compile with any of its backends: what it counts and proves, what it leaves to eager, and
what it refuses. Inductor itself compiles in one test."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._dynamo import config, lookup_backend
from torch._dynamo.utils import counters
from torch._inductor.cpu_vec_isa import VecAVX2, VecISA, VecNEON

from compilegate.job import CompilerError, InputError
from compilegate.job.compilers import (
    compiler_options,
    declarations,
    hyperparameter_of,
    load_compiler,
    table_text,
)
from compilegate.job.compilers.inductor import kept_cache
from compilegate.job.compilers.torch_compile import CountedBackend, _repeated_blocks, _with_forwards

ROOT = Path(__file__).resolve().parents[3]
CHANGED = ("suppress_errors", "allow_rnn", "recompile_limit")

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

    def __init__(self, layer: type[torch.nn.RNNBase]) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.last = torch.nn.Linear(6, 5), torch.nn.Linear(4, 2)
        self.layer = layer(5, 4, num_layers=2, dropout=0.2, batch_first=True)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.last(self.layer(self.first(values)[:, None])[0])


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
    (tmp_path / "house").mkdir()
    (tmp_path / "house" / "__init__.py").write_text("")
    (tmp_path / "house" / "backends.py").write_text(PACKAGE)
    (tmp_path / "house" / "broken.py").write_text("import no_such_package\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield "house.backends"
    for name in [each for each in sys.modules if each.split(".")[0] == "house"]:
        del sys.modules[name]


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
@pytest.mark.parametrize("backend", ["aot_eager", "house.backends.compiling"])
def test_a_backend_other_than_inductor_trains_counts_and_proves(package: str, backend: str) -> None:
    eager, compiler = trained(None, Small()), torch_compile(backend)
    for one, other in zip(eager, trained(compiler, Small()), strict=True):
        assert torch.equal(one, other)
    record = compiler.record(1.5, 0)
    assert (record.name, record.ran, record.graphs) == ("torch-compile", True, 1)
    assert record.options == {**declarations()["torch-compile"].settings({}), "backend": backend}
    proof = record.proof
    assert (proof["backend"], proof["graph_calls"], proof["unique_graphs"]) == (backend, 1, 1)
    assert (proof["graphs_left_as_they_were"], proof["frames_left_to_eager"]) == (0, 0)
    assert set(declarations()["torch-compile"].proof) <= set(proof)


@pytest.mark.slow
def test_several_functions_of_one_job_are_counted_together() -> None:
    compiler = torch_compile()
    generator, discriminator = Small(), torch.nn.Linear(2, 1)
    generate = compiler.compile(generator.forward, generator)
    judge = compiler.compile(discriminator.forward, discriminator)
    generator.forward = None  # type: ignore[assignment] - as a job replaces it
    for _ in range(3):
        judge(generate(torch.ones(4, 6))).sum().backward()
    with compiler.aside():
        generate(torch.ones(4, 6))
    record = compiler.record(0.0, 0)
    assert (record.graphs, record.proof["graph_calls"]) == (2, 6)


@pytest.mark.slow
@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU])
def test_a_model_with_a_recurrent_layer_is_compiled_around_it(layer: Any) -> None:
    eager, compiler, model = trained(None, Reader(layer)), torch_compile(), Reader(layer)
    for one, other in zip(eager, trained(compiler, model), strict=True):
        assert torch.equal(one, other)
    record = compiler.record(0.0, 0)
    assert (record.ran, record.graphs, record.graph_breaks) == (True, 2, 1)
    assert "forward" not in vars(model.layer)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("as_it_was", "Small: the backend handed back every graph"),
        ("as_a_module", "Small: the backend handed back every graph"),
        ("failing", "Small: an error was suppressed"),
    ],
)
def test_what_runs_in_eager_mode_trains_and_is_recorded_as_not_compiled(
    package: str, function: str, reason: str
) -> None:
    compiler, model = torch_compile(f"{package}.{function}"), Small()
    call = compiler.compile(model.forward, model)
    config.suppress_errors = function == "failing"  # by the script itself
    call(torch.ones(4, 6)).sum().backward()
    record = compiler.record(0.0, 0)
    assert (record.ran, record.graphs) == (False, 0)
    assert record.proof["left_to_eager"].startswith(reason)
    assert record.proof["errors_suppressed"] is config.suppress_errors


@pytest.mark.slow
def test_a_layer_that_torch_does_not_capture_trains_and_is_recorded() -> None:
    compiler, model = torch_compile(), torch.nn.LSTM(6, 4)
    compiler.compile(model.forward, model)(torch.ones(5, 2, 6))[0].sum().backward()
    record = compiler.record(0.0, 0)
    assert (record.ran, record.graphs) == (False, 0)
    assert record.proof["left_to_eager"].startswith("LSTM: ")


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
    static, torchs_own, dynamic = json.loads(run_python(script))
    assert static[:3] == [False, 2, 2]
    assert "recompile_limit (2)" in static[3]
    assert "size mismatch at index 0. expected 3, actual 5" in static[3]
    assert torchs_own[0]
    assert torchs_own[1] <= 2
    assert torchs_own[2:] == [4, None]
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
    with pytest.raises(CompilerError, match="no gradient flows through"):
        trained(torch_compile(f"{package}.of_inference"), Small())
    compiler, model = torch_compile(f"{package}.of_inference"), Small()
    with torch.no_grad():
        assert not compiler.compile(model.forward, model)(torch.ones(2, 6)).requires_grad


def test_a_backend_that_fails_is_one_sentence_even_where_errors_were_to_be_suppressed(
    package: str,
) -> None:
    config.suppress_errors = True
    with pytest.raises(CompilerError, match=r"not supported .*aten::addmm") as it:
        trained(torch_compile(f"{package}.failing"), Small())
    assert "\n" not in str(it.value)


@pytest.mark.parametrize(
    ("backend", "words"),
    [
        ("tensorrt", "not installed .* comes with the package torch-tensorrt"),
        ("neuron", "comes with the package torch-neuronx"),
        ("inducter", "did you mean 'inductor'"),
        ("house.backends.absent", "names nothing"),
        ("house.backends.NO_FUNCTION", "names a int"),
        ("house.broken.compiling", "ModuleNotFoundError: No module named 'no_such_package'"),
        ("no_such_house.compiling", "ModuleNotFoundError"),
    ],
)
def test_a_backend_that_is_not_there_is_one_sentence(
    package: str, backend: str, words: str
) -> None:
    with pytest.raises(CompilerError, match=words) as caught:
        torch_compile(backend)
    assert "\n" not in str(caught.value)


def test_cuda_graphs_are_refused_on_a_cpu() -> None:
    model = Small()
    with pytest.raises(CompilerError, match="'cudagraphs' needs a GPU"):
        torch_compile("cudagraphs").compile(model.forward, model)


@pytest.mark.slow
def test_cuda_graphs_that_are_not_recorded_are_counted() -> None:
    backend, model = CountedBackend("cudagraphs", lookup_backend("cudagraphs")), Small()
    torch.compile(model.forward, backend=backend)(torch.ones(2, 6)).sum().backward()
    assert (backend.graphs, backend.skipped) == (1, 1)


@pytest.mark.parametrize(
    ("error", "options", "words"),
    [
        (InputError, {"backend": "eager"}, "runs the captured graph as it is"),
        (InputError, {"backend": "aot_eager", "compile_mode": "max-autotune"}, "mode is"),
        (InputError, {"backend": "cudagraphs", "backend_options": '{"a":1}'}, "options has a"),
        (InputError, {"backend": "neuron", "dynamic_shapes": True}, "dynamic is true"),
        (InputError, {"backend": "a.b", "fallback_random": False}, "only with 'inductor'"),
        (
            InputError,
            {"backend": "neuron", "backend_options": '{"fallback_execution":true}'},
            "fall back",
        ),
        (CompilerError, {"backend_options": '{"max_autotun":true}'}, "max_autotun; "),
        (CompilerError, {"backend_options": '{"max_autotune":1}'}, "got int should be bool"),
        (
            CompilerError,
            {"backend": "house.backends.as_it_was", "backend_options": '{"level":2}'},
            "'options'",
        ),
        (
            CompilerError,
            {"backend": "house.backends.compiling", "compile_mode": "max-autotune"},
            "'mode'",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(
    package: str, error: Any, options: Any, words: str
) -> None:
    with pytest.raises(error, match=words):
        trained(load_compiler("torch-compile", options), Small())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "shared"),
    [
        ("aot_eager", True),
        ("house.backends.compiling", True),
        ("house.backends.with_its_own_random_numbers", False),
        ("house.backends.failing", False),
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
    ("backend", "kept"),
    [
        ("inductor", True),
        ("house.backends.compiling", True),
        ("aot_eager", False),
        ("cudagraphs", False),
    ],
)
def test_only_what_inductor_may_have_compiled_is_kept(
    package: str, backend: str, kept: bool
) -> None:
    assert declarations()["torch-compile"].keeps_output({"backend": backend}) is kept
    compiler = torch_compile(backend)
    assert (compiler.cache_folder() is not None) is kept
    assert compiler.record(0.0, 0).proof["cache"] == ("kept" if kept else "keeps nothing")


@pytest.mark.slow
def test_which_vector_instructions_work_is_asked_once_and_kept_with_the_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(VecISA, "_probe_load", VecISA._probe_load)  # put back afterwards
    folder = kept_cache()
    assert folder is not None
    isa = next(each for each in (VecAVX2(), VecNEON()) if each.check_build(VecISA._avx_code))
    (noted,) = (path for path in folder.files() if path.endswith(".loads"))
    (folder.path / noted[: -len(".loads")]).write_bytes(b"no library at all")  # nobody looks
    assert isa.check_build(VecISA._avx_code)
    broken = tmp_path / "broken.so"
    broken.write_bytes(b"no library at all")
    assert not isa._probe_load(str(broken))
    assert list(tmp_path.iterdir()) == [broken]  # what does not load is not noted


SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
)
NAMES = st.from_regex(r"\A[A-Za-z_][\w.-]{0,20}\Z", alphabet=st.characters(codec="ascii"))


@pytest.mark.slow
@settings(max_examples=50)
@given(st.dictionaries(NAMES, SCALARS, max_size=5))
def test_a_table_of_options_arrives_as_it_was_written(table: dict[str, Any]) -> None:
    option = compiler_options()["backend_options"]
    text = table_text(table)
    assert option.parsed(text) == text == table_text(dict(reversed(table.items())))
    assert json.loads(text) == table
    sent = hyperparameter_of(text)
    assert option.parsed(sent) == option.parsed(json.loads(sent)) == text  # decoded, or as it is


@pytest.mark.parametrize(
    "text", ["[]", "3", '{"a":[1]}', '{"a":null}', '{"a b":1}', "{", "x" * 2000]
)
def test_other_than_a_table_of_plain_values_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\S"):
        compiler_options()["backend_options"].parsed(text)


class Stack(torch.nn.Module):
    """Equal blocks, one of them used twice, and a short list of something else."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = torch.nn.ModuleList([torch.nn.Linear(4, 1)])
        self.blocks = torch.nn.ModuleList([torch.nn.Linear(4, 4) for _ in range(3)])
        self.blocks.append(self.blocks[0])

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            values = block(values)
        return self.heads[0](values)


def test_repeated_blocks_are_replaced_during_a_call_and_themselves_again_after_it() -> None:
    """Also where a job has replaced the model's forward pass, and a library that of a block."""
    stack, called = Stack(), []
    assert _repeated_blocks(stack) == list(stack.blocks)
    hooked = stack.blocks[1].forward
    stack.blocks[1].forward = lambda values: hooked(values) + 1
    own, wanted = stack.blocks[1].forward, stack(torch.ones(2, 4))

    def counted(forward: Callable[..., Any]) -> Callable[..., Any]:
        return lambda values: called.append(1) or forward(values)

    replaced = {each: counted(each.forward) for each in _repeated_blocks(stack)}
    stack.forward = _with_forwards(stack.forward, replaced)  # type: ignore[method-assign]
    torch.testing.assert_close(stack(torch.ones(2, 4)), wanted)
    assert len(called) == 4
    assert stack.blocks[1].forward is own
    assert "forward" not in vars(stack.blocks[0])
    with pytest.raises(CompilerError, match="Linear has no list of modules of one class"):
        _repeated_blocks(torch.nn.Linear(2, 2))


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

short = step("inductor", {})
long = step("torch-compile", {"backend_options": '{"max_fusion_size":2}'})
print(json.dumps([[each.name, each.ran, each.graphs, dict(each.proof), dict(each.options)]
                  for each in (short, long)]))

import torch._inductor.compile_fx as fx
def failing(*arguments, **named):
    raise RuntimeError("bfloat17 is not implemented")
fx.compile_fx_inner = failing
try:
    step("inductor", {}, width=7)
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


@pytest.mark.long
@pytest.mark.slow
def test_inductor_is_the_same_by_its_short_name_and_its_failure_is_a_sentence() -> None:
    found, failure = run_python(INDUCTOR).strip().split("\n")
    short, long = json.loads(found)
    assert (short[:3], long[:3]) == (["inductor", True, 1], ["torch-compile", True, 1])
    for _, _, _, proof, _ in (short, long):
        assert (proof["backend"], proof["graph_calls"]) == ("inductor", 1)
        assert proof["kernels"] > 0
    assert long[4] == {
        **short[4],
        "backend": "inductor",
        "backend_options": '{"max_fusion_size":2}',
    }
    assert failure.startswith("CompilerError: inductor could not compile: an operation that is not")
