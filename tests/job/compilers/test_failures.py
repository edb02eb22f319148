"""What a compiler's words mean, and what to do: the messages are those of torch, Triton and XLA."""

from __future__ import annotations

import pytest
import torch

from compilegate.job.compilers.failures import cause_of, compiler_failure, explained
from compilegate.job.errors import CompilerError, InputError


@pytest.mark.parametrize(
    ("message", "cause"),
    [
        ("OutOfResources: out of resource: shared memory, Required: 180224", "multiprocessor"),
        ("CUDA out of memory. Tried to allocate 2.00 GiB", "out of memory"),
        ("RESOURCE_EXHAUSTED: Out of memory while trying to allocate", "out of memory"),
        ("g++: fatal error: Killed signal terminated program cc1plus", "out of memory"),
        ("No working C++ compiler found in torch._inductor.config.cpp.cxx", "C++ compiler"),
        ("Failed to find C compiler. Please specify via CC environment variable", "C++ compiler"),
        ("fatal error: Python.h: No such file or directory", "headers"),
        ("Cannot find a working triton installation", "Triton"),
        ("Found Tesla K80 which is too old to be supported by the triton GPU compiler", "Triton"),
        ("_XLAC.so: undefined symbol: _ZN5torch4lazy", "wrong image"),
        ("CUDA error: no kernel image is available for execution", "wrong image"),
        ("tensorflow/...: Missing XLA configuration", "number of GPUs"),
        ("Check failed: xtensor: Input tensor is not an XLA tensor: CUDAFloatType", "devices"),
        ("Default process group has not been initialized", "distribution"),
        ("torch.compile with aot_autograd does not currently support double backward", "gradient"),
        ("Data-dependent branching (fullgraph=True)", "breaks"),
        ("UNIMPLEMENTED: Dynamic shape", "not supported"),
        ("Could not run 'aten::unique' with arguments from the 'XLA' backend", "not supported"),
    ],
)
def test_known_words_have_a_cause_and_a_remedy(message: str, cause: str) -> None:
    found = cause_of(RuntimeError(message))
    assert found is not None
    assert cause in found.name
    sentence = str(compiler_failure("inductor", RuntimeError(f"{message}\npages\nof advice")))
    assert sentence.startswith(f"inductor could not compile: {found.name} (RuntimeError: ")
    assert sentence.endswith(found.remedy)
    assert "\n" not in sentence


def test_the_first_cause_of_a_chain_is_found_and_ours_stay_as_they_are() -> None:
    own = CompilerError("what it is; what to do")
    try:
        raise RuntimeError("backend raised") from own
    except RuntimeError as error:
        assert compiler_failure("inductor", error) is own
    unknown = str(compiler_failure("inductor", ValueError("hm")))
    assert "(ValueError: hm)" in unknown
    assert "another torch version or backend" in unknown


@pytest.mark.parametrize(
    ("error", "remedy"),
    [
        (RuntimeError("CUDA out of memory"), True),
        (ValueError("mode 'x' is not supported"), False),
        (InputError("out of memory"), False),
        (torch.OutOfMemoryError("CUDA out of memory"), True),
    ],
)
def test_a_step_that_fails_is_explained_where_its_cause_is_known(
    error: Exception, remedy: bool
) -> None:
    assert ("reduce the batch size" in explained(error)) is remedy
