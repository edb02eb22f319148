"""torch.compile with any of its backends: what is counted, proven and refused is not Inductor's."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._dynamo import config, lookup_backend
from torch._dynamo.utils import counters

from compilegate.job import CompilerError, InputError
from compilegate.job.compilers import (
    compiler_options,
    declarations,
    hyperparameter_of,
    load_compiler,
    table_text,
)
from compilegate.job.compilers.torch_compile.counted import CountedBackend

ROOT = Path(__file__).resolve().parents[3]

PACKAGE = '''
"""Backends as people write them."""

import torch
from torch._dynamo.backends.common import aot_autograd
from functorch.compile import make_boxed_func

SEEN = []


def _operators(graph, inputs):
    SEEN.append(sum(node.op == "call_function" for node in graph.graph.nodes))
    return make_boxed_func(graph.forward)


def compiling(graph, inputs, options=None):
    """Forward and backward graphs, each run operator by operator."""
    return aot_autograd(fw_compiler=_operators, partition_fn=None or _partition)(graph, inputs)


def _partition(*arguments, **named):
    from functorch.compile import min_cut_rematerialization_partition
    return min_cut_rematerialization_partition(*arguments, **named)


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


@pytest.fixture(autouse=True)
def _fresh_dynamo() -> Iterator[None]:
    names = ("suppress_errors", "fail_on_recompile_limit_hit", "recompile_limit")
    torch.compiler.reset()
    counters.clear()
    with config.patch({name: getattr(config, name) for name in names}):
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


def torch_compile(backend: str, **options: Any) -> Any:
    return load_compiler("torch-compile", {"backend": backend, **options})


def trained(compiler: Any, model: torch.nn.Module, rows: int = 4, seed: int = 0) -> list[Any]:
    """The gradients of one step."""
    call = compiler.compile(model.forward, model) if compiler else model.forward
    torch.manual_seed(seed)
    model.zero_grad()
    call(torch.ones(rows, 6)).square().sum().backward()
    return [each.grad.clone() for each in model.parameters()]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["aot_eager", "house.backends.compiling"])
def test_a_backend_other_than_inductor_trains_counts_and_proves(package: str, backend: str) -> None:
    model = Small()
    eager = trained(None, model)
    compiler = torch_compile(backend)
    compiled = trained(compiler, model)
    for one, other in zip(eager, compiled, strict=True):
        torch.testing.assert_close(one, other)
    record = compiler.record(1.5, 0)
    assert (record.name, record.ran, record.graphs) == ("torch-compile", True, 1)
    assert record.options == {
        **declarations()["torch-compile"].settings({}),
        "backend": backend,
    }
    proof = record.proof
    assert (proof["backend"], proof["graph_calls"], proof["unique_graphs"]) == (backend, 1, 1)
    assert (proof["graphs_left_as_they_were"], proof["frames_left_to_eager"]) == (0, 0)
    assert set(declarations()["torch-compile"].proof) <= set(proof)


@pytest.mark.slow
def test_several_functions_of_one_job_are_counted_together() -> None:
    compiler = torch_compile("aot_eager")
    generator, discriminator = Small(), torch.nn.Linear(2, 1)
    generate = compiler.compile(generator.forward, generator)
    judge = compiler.compile(discriminator.forward, discriminator)
    for _ in range(3):
        judge(generate(torch.ones(4, 6))).sum().backward()
    record = compiler.record(0.0, 0)
    assert (record.graphs, record.proof["graph_calls"]) == (2, 6)


@pytest.mark.slow
def test_a_module_whose_forward_was_replaced_is_compiled_by_its_own() -> None:
    compiler, model = torch_compile("aot_eager"), Small()
    compiled = compiler.compile(model.forward, model)
    model.forward = compiled  # type: ignore[method-assign]
    model(torch.ones(4, 6)).sum().backward()
    assert compiler.record(0.0, 0).ran


@pytest.mark.slow
@pytest.mark.parametrize("function", ["as_it_was", "as_a_module"])
def test_a_backend_that_hands_every_graph_back_ends_the_job_in_its_first_step(
    package: str, function: str
) -> None:
    compiler = torch_compile(f"{package}.{function}")
    with pytest.raises(CompilerError, match="handed back every graph as it was, so nothing is"):
        trained(compiler, Small())
    record = compiler.record(0.0, 0)
    assert (record.ran, record.graphs) == (False, 0)
    assert record.proof["graphs_left_as_they_were"] == 1


def test_a_backend_through_which_no_gradient_flows_is_refused_in_the_first_step(
    package: str,
) -> None:
    with pytest.raises(CompilerError, match="of_inference' returned a result that no gradient"):
        trained(torch_compile(f"{package}.of_inference"), Small())


def test_inference_needs_no_gradient(package: str) -> None:
    model = Small()
    compiler = torch_compile(f"{package}.of_inference")
    with torch.no_grad():
        assert not compiler.compile(model.forward, model)(torch.ones(2, 6)).requires_grad


def test_a_backend_that_fails_ends_the_job_even_where_errors_were_to_be_suppressed(
    package: str,
) -> None:
    config.suppress_errors = True
    compiler = torch_compile(f"{package}.failing")
    with pytest.raises(Exception, match="no kernel for aten::addmm"):
        trained(compiler, Small())


def test_errors_that_a_script_suppresses_itself_leave_no_proof(package: str) -> None:
    compiler, model = torch_compile(f"{package}.failing"), Small()
    call = compiler.compile(model.forward, model)
    config.fail_on_recompile_limit_hit = False
    config.suppress_errors = True
    with pytest.raises(CompilerError, match=r"compiled nothing of Small .* was suppressed"):
        call(torch.ones(2, 6))
    record = compiler.record(0.0, 0)
    assert not record.ran
    assert record.proof["errors_suppressed"]
    assert record.proof["frames_left_to_eager"] == 1


@pytest.mark.parametrize(
    ("backend", "told"),
    [
        ("tensorrt", "backend 'tensorrt' is not installed beside torch .* it comes with the "
         "package torch-tensorrt"),
        ("neuron", "it comes with the package torch-neuronx from 2.14 on"),
        ("onnxrt", "it comes with torch before 2.9 together with .* onnxruntime-training"),
        ("inducter", "add the package that registers it .*; did you mean 'inductor'"),
        ("house.backends.absent", "names nothing, expected a function"),
        ("house.backends.NO_FUNCTION", "names a int, expected a function"),
        ("house.broken.compiling", "cannot be imported .ModuleNotFoundError: No module named "
         "'no_such_package'.; its package has to be installed"),
        ("no_such_house.compiling", "cannot be imported .ModuleNotFoundError"),
    ],
)  # fmt: skip
def test_a_backend_that_is_not_there_is_one_sentence(package: str, backend: str, told: str) -> None:
    with pytest.raises(CompilerError, match=told) as caught:
        torch_compile(backend)
    assert "\n" not in str(caught.value)


def test_cuda_graphs_are_refused_on_a_cpu() -> None:
    model = Small()
    with pytest.raises(CompilerError, match="'cudagraphs' needs a GPU, and the model is on 'cpu'"):
        torch_compile("cudagraphs").compile(model.forward, model)


@pytest.mark.slow
def test_cuda_graphs_that_are_not_recorded_are_counted() -> None:
    backend, model = CountedBackend("cudagraphs", lookup_backend("cudagraphs")), Small()
    torch.compile(model.forward, backend=backend)(torch.ones(2, 6)).sum().backward()
    assert (backend.graphs, backend.skipped) == (1, 1)


@pytest.mark.parametrize(
    ("given_", "told"),
    [
        ({"backend": "eager"}, "'eager', which runs the captured graph as it is"),
        ({"backend": "aot_eager", "compile_mode": "max-autotune"}, "mode is 'max-autotune'"),
        ({"backend": "cudagraphs", "backend_options": '{"a":1}'}, "options has a with backend"),
        ({"backend": "neuron", "dynamic_shapes": True}, "dynamic is true with backend 'neuron'"),
        ({"backend": "a.b", "fallback_random": False}, "allowed: only with 'inductor'"),
        (
            {"backend": "neuron", "backend_options": '{"fallback_execution":true}'},
            "options.fallback_execution is true, allowed: false, since neuron would fall back",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(given_: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        load_compiler("torch-compile", given_)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ('{"max_autotun":true}', "options.max_autotun is none of inductor's .* max_autotune"),
        ('{"max_autotune":1}', "options.max_autotune is 1, expected bool, as in"),
        ('{"no_such_thing_at_all":1}', r"none of inductor's in torch [\d.+a-z]+$"),
    ],
)
def test_an_option_that_inductor_lacks_is_one_sentence(options: str, told: str) -> None:
    with pytest.raises(CompilerError, match=told):
        torch_compile("inductor", backend_options=options)


def test_options_that_a_backend_does_not_take_are_one_sentence(package: str) -> None:
    with pytest.raises(CompilerError, match=r"options is given, and backend .* has no parameter"):
        torch_compile(f"{package}.as_it_was", backend_options='{"level":2}')
    with pytest.raises(CompilerError, match="mode is given, and backend"):
        torch_compile(f"{package}.compiling", compile_mode="max-autotune")
    assert torch_compile(f"{package}.compiling", backend_options='{"level":2}')


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
    torch.testing.assert_close(torch.get_rng_state(), state)
    assert compiler.record(0.0, 0).proof["unique_graphs"] == 0


@pytest.mark.slow
def test_aot_eager_draws_what_eager_draws() -> None:
    model = Small()
    eager, compiled = trained(None, model, 64), trained(torch_compile("aot_eager"), model, 64)
    assert all(torch.equal(*pair) for pair in zip(eager, compiled, strict=True))


@pytest.mark.slow
def test_a_shape_too_many_stops_the_job_under_any_backend() -> None:
    config.recompile_limit = 2
    compiler, model = torch_compile("aot_eager"), torch.nn.Linear(4, 4)
    call = compiler.compile(model.forward, model)
    for rows in (2, 3):
        call(torch.ones(rows, 4))
    with pytest.raises(CompilerError, match=r"aot_eager would .* more often than 2 times: guard"):
        call(torch.ones(5, 4))
    torch.compiler.reset()
    config.recompile_limit = 2
    dynamic = torch_compile("aot_eager", dynamic_shapes=True)
    call = dynamic.compile(model.forward, model)
    for rows in (2, 3, 5, 7):
        call(torch.ones(rows, 4))
    assert dynamic.graphs() == 1


@pytest.mark.slow
def test_slices_and_tensors_of_their_own_share_a_graph_of_dynamic_shapes() -> None:
    compiler, model = torch_compile("aot_eager", dynamic_shapes=True), torch.nn.Linear(4, 4)

    def step(pair: dict[str, torch.Tensor]) -> torch.Tensor:
        return model(pair["one"]) + model(pair["same"])

    call = compiler.compile(step, model)
    rows = torch.randn(40, 4)
    for batch in (rows[:8], rows[8:16], rows[:8].clone(), torch.randn(6, 4), rows[16:30]):
        pair = {"one": batch, "same": batch}
        torch.testing.assert_close(call(pair), step(pair))
    assert compiler.graphs() == 1


@pytest.mark.parametrize(
    ("backend", "kept"),
    [("inductor", True), ("house.backends.compiling", True), ("aot_eager", False),
     ("cudagraphs", False)],
)  # fmt: skip
def test_only_what_inductor_may_have_compiled_is_kept(
    package: str, backend: str, kept: bool
) -> None:
    assert declarations()["torch-compile"].keeps_output({"backend": backend}) is kept
    compiler = torch_compile(backend)
    assert (compiler.cache_folder() is not None) is kept
    assert compiler.record(0.0, 0).proof["cache"] == ("kept" if kept else "keeps nothing")


SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(2**53), 2**53),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
)
TABLES = st.dictionaries(st.from_regex(r"\A[A-Za-z_][\w.-]{0,20}\Z", alphabet=st.characters(
    codec="ascii")), SCALARS, max_size=5)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(TABLES)
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


INDUCTOR = """
import json, torch
from compilegate.job.compilers import load_compiler

def step(name, given):
    torch.compiler.reset()
    compiler = load_compiler(name, given)
    model = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.ReLU(), torch.nn.Linear(5, 2))
    compiler.compile(model.forward, model)(torch.ones(4, 6)).sum().backward()
    return compiler.record(0.0, 0)

short = step("inductor", {})
long = step("torch-compile", {"backend_options": '{"max_fusion_size":2}'})
print(json.dumps([[each.name, each.ran, each.graphs, dict(each.proof), dict(each.options)]
                  for each in (short, long)]))
"""


@pytest.mark.long
@pytest.mark.slow
def test_inductor_is_the_same_by_its_short_name() -> None:
    result = subprocess.run(
        [sys.executable, "-c", INDUCTOR], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    short, long = json.loads(result.stdout)
    assert (short[:3], long[:3]) == (["inductor", True, 1], ["torch-compile", True, 1])
    for _, _, _, proof, _ in (short, long):
        assert (proof["backend"], proof["graph_calls"]) == ("inductor", 1)
        assert proof["kernels"] > 0
    assert long[4] == {
        **short[4],
        "backend": "inductor",
        "backend_options": '{"max_fusion_size":2}',
    }
