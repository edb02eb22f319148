"""Why a compiler failed, by known causes, and what to do. Needs no torch.

Sources: AWS's training-compiler-troubleshooting.html, torch.compile's troubleshooting, and the
messages of torch 2.13 (`_inductor/exc.py`, `_dynamo/exc.py`), Triton and torch_xla.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from compilegate.job.errors import CompilegateError, CompilerError, first_line, one_sentence


class Cause(NamedTuple):
    """A cause, the words that give it away, and what to do."""

    name: str
    words: str
    """A regular expression for the errors' types and messages; the first of CAUSES that matches
    counts."""
    remedy: str


CAUSES = (
    Cause(
        "a kernel needs more memory than a GPU's multiprocessor has",
        r"OutOfResources|out of resource: shared memory",
        "take mode = 'default' instead of max-autotune, or another GPU",
    ),
    Cause(
        "the machine ran out of memory",
        r"out of memory|OutOfMemory|MemoryError|bad_alloc|RESOURCE_EXHAUSTED|memory exhausted"
        r"|Cannot allocate memory|Killed signal terminated program",
        "reduce the batch size, compile less at once (regional = true), or take an instance with "
        "more memory",
    ),
    Cause(
        "there is no C++ compiler",
        r"InvalidCxxCompiler|No working C\+\+ compiler|Failed to find C compiler|g\+\+: not found",
        "install g++ (Debian: apt-get install g++), or name one in the CXX variable",
    ),
    Cause(
        "Python's headers are missing",
        r"Python\.h: No such file",
        "install them (Debian: apt-get install python3-dev)",
    ),
    Cause(
        "Triton is missing, or does not support this GPU",
        r"TritonMissing|working triton installation|GPUTooOldForTriton|too old to be supported",
        "take an image with torch's GPU build and a GPU of compute capability 7.0 or newer",
    ),
    Cause(
        "the wrong image: torch, its compiler and the driver do not belong together",
        r"undefined symbol|cannot open shared object|No module named '(?:torch_xla|triton|torch_n)"
        r"|no kernel image is available|driver version is insufficient|not compiled with CUDA"
        r"|not supported on Python",
        "run the arm in the compiler's own image (image = ... in the arm), and install no other "
        "torch there",
    ),
    Cause(
        "torch_xla does not know the number of GPUs",
        r"Missing XLA configuration",
        "set GPU_NUM_DEVICES to the number of GPUs of the instance",
    ),
    Cause(
        "tensors of several devices meet in one operation",
        r"not an XLA tensor|[Ee]xpected all tensors to be on the same device|bridge::IsXlaTensor",
        "move the model and every tensor that the step makes to job.current().device",
    ),
    Cause(
        "the wrong distribution: the processes did not find each other",
        r"process group has not been initialized|init_process_group|NCCL error|ncclInvalidUsage"
        r"|Duplicate GPU detected",
        "start them by the arm's distribution ('torchrun', 'pytorchxla' for XLA on GPUs), one "
        "process for each GPU",
    ),
    Cause(
        "a gradient of a gradient, which compiled functions do not have",
        r"double backward",
        "compute the penalty on a part that is not given to job.compile(), or take compiler = "
        "'eager'",
    ),
    Cause(
        "the graph breaks where it must be whole",
        r"fullgraph|[Gg]raph break|Data-dependent|DataDependent|data-dependent|UserError"
        r"|dynamo\.exc\.Unsupported",
        "compute without looking at values (torch.where instead of if), or leave that part out of "
        "job.compile()",
    ),
    Cause(
        "an operation that is not supported here",
        r"NotImplementedError|not implemented|[Uu]nsupported|UNIMPLEMENTED|MissingOperator"
        r"|no kernel for|LoweringException|Could not run 'aten::|not (?:currently )?supported",
        "replace the operation, leave its part out of job.compile(), or take another backend",
    ),
)


_OF_LIBRARIES = (RuntimeError, ImportError, OSError, MemoryError)
"""A script's own ValueError may use the same words as a compiler."""


def cause_of(error: BaseException) -> Cause | None:
    text = "\n".join(
        f"{type(each).__module__}.{type(each).__qualname__}: {each}" for each in _chain(error)
    )
    return next((each for each in CAUSES if re.search(each.words, text)), None)


def compiler_failure(compiler: str, error: BaseException) -> CompilerError:
    """One sentence for an error with which a compiler gave up; our own errors stay as they are."""
    chain = _chain(error)
    own = next((each for each in chain if isinstance(each, CompilerError)), None)
    if own is not None:
        return own
    detail = f"{type(chain[-1]).__name__}: {first_line(chain[-1])}"[:300]
    cause = cause_of(error)
    if cause is not None:
        return CompilerError(
            f"{compiler} could not compile: {cause.name} ({detail}); {cause.remedy}"
        )
    return CompilerError(
        f"{compiler} could not compile ({detail}); try another torch version or backend, or "
        "take compiler = 'eager'"
    )


def explained(error: BaseException) -> str:
    """The error of a step in one sentence; with what to do, where its cause is a known one."""
    sentence = one_sentence(error)
    if isinstance(error, CompilegateError) or not isinstance(error, _OF_LIBRARIES):
        return sentence
    cause = cause_of(error)
    return sentence if cause is None else f"{sentence}; {cause.name}: {cause.remedy}"


def _chain(error: BaseException) -> list[BaseException]:
    """The error and what it wraps; torch keeps a backend's in `inner_exception`."""
    found = [error]
    while True:
        inner = getattr(found[-1], "inner_exception", None) or found[-1].__cause__
        if not isinstance(inner, BaseException) or inner in found:
            return found
        found.append(inner)
