"""Every compiler's declaration: name, image, options and proof. Needs no torch.

A new compiler is a `Declaration` here, its class, and dated facts in `facts/NAME.toml`, which are
not staged with a job, so that changed facts train nothing again.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Iterator, Mapping, Union

from compilegate.job.errors import InputError
from compilegate.job.machine.accelerators import CUDA, NEURON

Setting = Union[bool, int, str]
Settings = Mapping[str, Any]  # a compiler's settings: a value for each of its options, by name

LONGEST_TEXT = 1000  # characters of an option's text; SageMaker allows 2,500 in a hyperparameter


@dataclass(frozen=True)
class Option:
    name: str  # as a hyperparameter and in the evidence
    key: str  # in a workload, under `[arms.NAME]`
    default: Setting | None
    """Its type is the option's. None: a truth that the compiler decides unless the arm does."""
    description: str
    choices: tuple[str, ...] = ()  # the allowed texts
    pattern: str = ""  # those as a regular expression, where there are too many to list
    table: bool = False  # of plain values, by key; it travels as JSON, see `table_text`
    at_least: int = 0  # bounds of a whole number
    at_most: int = 0

    @property
    def truth(self) -> bool:
        return self.default is None or isinstance(self.default, bool)

    def parsed(self, text: str) -> Setting:
        """The value that a hyperparameter's text stands for. Raises ValueError."""
        if self.truth:
            # SageMaker's toolkit decodes `true` and writes it back as Python does.
            if text.lower() not in ("true", "false"):
                raise ValueError(f"{text!r} is neither true nor false")
            return text.lower() == "true"
        if isinstance(self.default, int):
            if not self.at_least <= int(text) <= self.at_most:
                raise ValueError(f"{text} is not from {self.at_least} to {self.at_most}")
            return int(text)
        if len(text) > LONGEST_TEXT:
            raise ValueError(f"it has {len(text)} characters, of at most {LONGEST_TEXT}")
        if self.table:
            return table_text(_read_table(text))
        if self.pattern and not re.fullmatch(self.pattern, text):
            raise ValueError(f"{text!r} is not {self.description}")
        if self.choices and text not in self.choices:
            raise ValueError(f"{text!r} is not one of {', '.join(self.choices)}")
        return text


def table_text(table: Mapping[str, Any]) -> str:
    """A table of plain values as JSON: equal tables have one text. Raises ValueError."""
    for key, value in table.items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_.-]*", key):
            raise ValueError(f"options has {key!r}, which is no name of an option")
        plain = isinstance(value, (bool, int, float, str))
        if not plain or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError(f"options.{key} is {value!r}, allowed: true, false, a number, a text")
    return json.dumps(table, sort_keys=True, separators=(",", ":"))


def _read_table(text: str) -> dict[str, Any]:
    table = json.loads(text)
    if isinstance(table, str):  # nobody decoded it on the way, see `hyperparameter_of`
        table = json.loads(table)
    if not isinstance(table, dict):
        raise ValueError(f"{text!r} is no table of options in JSON")
    return table


def hyperparameter_of(value: Setting) -> str:
    """A setting as a hyperparameter's text, for `Option.parsed`. SageMaker's toolkit decodes JSON
    and writes a table as `key=value,key=value`, so a table travels as a JSON string."""
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    return json.dumps(text) if text.startswith("{") else text


@dataclass(frozen=True)
class StackTable:
    """The table `[arms.NAME.COMPILER]`: which of AWS's images an arm takes."""

    description: str
    frameworks: tuple[str, ...]  # what a script may be written in; the first is the default
    version: str  # the framework's, by default
    transformers: bool = False  # whether there are images with Hugging Face's Transformers
    options: tuple[Option, ...] = ()  # what else it has: settings of jobs, not of the compiler


@dataclass(frozen=True)
class Declaration:
    name: str  # in workloads and in the evidence
    implementation: str  # its class, as `module.Class` of this package
    image: str  # the folder in `containers/` that an arm's jobs run in by default
    proof: tuple[str, ...]  # what its record in the evidence shows at least, by name
    needs: tuple[str, ...] = ()  # of a machine, by the names of `compilegate.job.doctor.needs`
    options: tuple[Option, ...] = ()
    stack: StackTable | None = None
    """Which of AWS's images an arm may take; None where the image's folder alone decides."""
    any_shape: bool | Option = False
    """Whether one graph serves steps of any shape. An option: unless that is false."""
    computes_on: tuple[str, ...] = (CUDA,)  # kinds of accelerator; without one, the host
    keeps_accelerator: bool = False  # whether torch itself can compute nothing there meanwhile

    def settings(self, given: Settings) -> dict[str, Any]:
        """A value for each option: the given one, or the default. Raises InputError."""
        defaults = {each.name: each.default for each in self.options}
        for name in given:
            if name not in defaults:
                raise InputError(
                    f"{name} is not an option of compiler {self.name!r}, which has "
                    f"{', '.join(defaults) or 'none'}"
                )
        settings = {**defaults, **given}
        problem = self.problem(settings)
        if problem is not None:
            raise InputError(problem)
        return settings

    def problem(self, settings: Settings) -> str | None:
        """Why these settings do not go together, with a remedy; None if they do."""
        return next(_problems(settings), None) if BACKEND in self.options else None

    def keeps_output(self, given: Settings) -> bool:
        """Whether another job can use what is compiled with these settings."""
        named = given.get(BACKEND.name, INDUCTOR)
        return COMPILE_MODE in self.options and find_backend(named).keeps_output

    def serves_any_shape(self, given: Settings) -> bool:
        if isinstance(self.any_shape, Option):
            return given.get(self.any_shape.name, self.any_shape.default) is not False
        return self.any_shape


INDUCTOR = "inductor"
CUDAGRAPHS = "cudagraphs"


@dataclass(frozen=True)
class Backend:
    """What is known of one backend of torch.compile before anything runs."""

    name: str
    install: str | None = "torch itself"  # what brings it; None of one that is not listed
    module: str | None = None  # what to import before torch knows it
    draws_as_eager: bool | None = None  # its dropout; None: it has to be tried
    keeps_output: bool = False  # whether another job can use that, by Inductor's cache
    takes_mode: bool = False
    takes_options: bool = True
    takes_dynamic: bool = True
    only_on: str | None = None  # the type of device that the model has to be on
    strict_variables: tuple[tuple[str, str], ...] = ()
    strict_options: tuple[tuple[str, bool], ...] = ()
    """Environment variables and options that keep it from falling back to eager mode in silence."""
    needs: tuple[str, ...] = ()  # of a machine beyond torch.compile, by `doctor.needs`
    compiles: bool = True  # an arm may name it only then


_BACKENDS = (
    Backend(INDUCTOR, keeps_output=True, takes_mode=True, needs=("kernels",)),
    Backend(CUDAGRAPHS, takes_options=False, only_on="cuda", needs=("gpu",)),
    # Eager's own operators in eager's order: forward and backward pass are captured, not compiled.
    Backend("aot_eager", draws_as_eager=True, takes_options=False),
    Backend(
        "onnxrt",
        "torch before 2.9 together with the packages onnx, onnxscript and onnxruntime-training",
        draws_as_eager=False,
        needs=("torch before 2.9", "onnxruntime-training"),
    ),
    Backend(
        "neuron",
        "the package torch-neuronx from 2.14 on (TorchNeuron, on Trainium 2 and 3)",
        module="torch_neuronx",
        draws_as_eager=False,
        takes_dynamic=False,
        only_on="neuron",
        needs=("neuron device", "torch-neuronx"),
        strict_variables=(("TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION", "1"),),
        strict_options=(("fallback_execution", False),),
    ),
    Backend(
        "tensorrt",
        "the package torch-tensorrt",
        module="torch_tensorrt",
        draws_as_eager=False,
        only_on="cuda",
        needs=("gpu", "torch-tensorrt"),
        strict_options=(("pass_through_build_failures", True),),
    ),
    Backend(
        "openxla",
        "the package torch_xla",
        draws_as_eager=False,
        takes_options=False,
        needs=("torch_xla",),
    ),
    *(
        Backend(name, compiles=False)
        for name in ("eager", "eager_noexcept", "eager_debug", "pre_dispatch_eager")
    ),
)


def find_backend(name: str) -> Backend:
    """The entry of a backend. An unlisted one may take every option and build on Inductor."""
    unlisted = Backend(name, None, keeps_output=True, takes_mode=True)
    return next((each for each in _BACKENDS if each.name == name), unlisted)


def usable_backends() -> tuple[Backend, ...]:
    return tuple(each for each in _BACKENDS if each.compiles)


_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
BACKEND = Option(
    name="backend",
    key="backend",
    default=INDUCTOR,
    pattern=rf"{_NAME}(?:\.{_NAME})*",
    description="a backend of torch.compile by its name, or a function as package.module.function",
)
BACKEND_OPTIONS = Option(
    name="backend_options",
    key="options",
    default="{}",
    table=True,
    description="the backend's own options, which torch.compile passes on",
)
COMPILE_MODE = Option(
    name="compile_mode",
    key="mode",
    default="default",
    choices=("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"),
    description="what torch.compile calls its mode",
)
DYNAMIC_SHAPES = Option(
    name="dynamic_shapes",
    key="dynamic",
    default=None,
    description="true: one graph serves several shapes from the start; false: each shape is a "
    "graph of its own; left out, torch decides at the first change of shape",
)
REGIONAL = Option(
    name="regional",
    key="regional",
    default=False,
    description="compile the block that the model repeats, once, and not the model as a whole",
)
FALLBACK_RANDOM = Option(
    name="fallback_random",
    key="fallback_random",
    default=True,
    description="compiled dropout draws eager's random numbers, which parity needs",
)
STEP_GRAPHS = Option(
    name="step_graphs",
    key="step_graphs",
    # Steps that are all alike need one. But numbers of a step that happen to be equal, such as its
    # learning rate and a bias correction, are one input of its graph, and that is another graph.
    default=4,
    at_least=1,
    at_most=1000,
    description="graphs that XLA may compile for the training steps; one more stops the job",
)
DEBUG = Option(
    name="debug",
    key="debug",
    default=False,
    description="the compiler's debug mode: graphs and metrics go into the job's output, and steps "
    "are slower",
)
PRECOMPILE = Option(
    name="precompile",
    key="precompile",
    default=True,
    description="extract the graphs in a job of its own, and compile them side by side, before "
    "training",
)
EXTRACTION_STEPS = Option(
    name="extraction_steps",
    key="extraction_steps",
    default=10,
    at_least=2,
    at_most=1000,
    description="training steps that the extraction goes through; enough for every graph to occur",
)


def _problems(settings: Settings) -> Iterator[str]:
    name, mode = settings[BACKEND.name], settings[COMPILE_MODE.name]
    if not settings[FALLBACK_RANDOM.name] and name != INDUCTOR:
        yield (
            f"fallback_random is false with backend {name!r}, allowed: only with 'inductor', which "
            "alone has that setting"
        )
    backend = find_backend(name)
    if not backend.compiles:
        yield (
            f"backend is {name!r}, which runs the captured graph as it is and compiles nothing; "
            "take compiler = 'eager', or backend 'aot_eager' to try the capture alone"
        )
    if mode != COMPILE_MODE.default and not backend.takes_mode:
        yield f"mode is {mode!r} with backend {name!r}, which has none; leave it out"
    options = json.loads(settings[BACKEND_OPTIONS.name])
    if options and not backend.takes_options:
        yield (
            f"options has {', '.join(options)} with backend {name!r}, which takes none; "
            "leave it out"
        )
    for option, strict in backend.strict_options:
        if options.get(option, strict) != strict:
            yield (
                f"options.{option} is {json.dumps(options[option])}, allowed: "
                f"{json.dumps(strict)}, since {name} would fall back to eager mode without a word"
            )
    if settings[DYNAMIC_SHAPES.name] and not backend.takes_dynamic:
        yield f"dynamic is true with backend {name!r}, which refuses it; leave it out"


CONFIGURED = "SM_TRAINING_COMPILER_CONFIGURED"
"""The variable that AWS's torch_xla sets when it is imported with the compiler on."""
_TRACED = (
    *("torch", "torch_xla", "device", "graphs_compiled", "graphs_reused", "executions"),
    *("gradients_averaged", "xla_compile_seconds"),
)

EAGER = Declaration(
    name="eager",
    implementation="compiler.Eager",
    image="training",
    proof=("torch", "dynamo_loaded", "graphs_compiled"),
    needs=("torch", "working device"),
    any_shape=True,
)
INDUCTOR_ALONE = Declaration(
    name="inductor",
    implementation="torch_compile.Inductor",
    image="training",
    proof=("torch", "backend", "graph_calls", "unique_graphs", "kernels", "cache"),
    needs=("torch", "working device", "dynamo", "kernels"),
    options=(COMPILE_MODE, DYNAMIC_SHAPES, REGIONAL, FALLBACK_RANDOM),
    any_shape=DYNAMIC_SHAPES,
)
NEURON_XLA = Declaration(
    name="neuron",
    implementation="aws.Neuron",
    image="neuron",
    proof=(*_TRACED, "torch_neuronx", "neuronx_cc", "cache"),
    needs=("torch", "neuron device", "torch_xla", "torch-neuronx", "neuronx-cc"),
    options=(STEP_GRAPHS,),
    computes_on=(NEURON,),
    keeps_accelerator=True,
    stack=StackTable(
        description="the stack of AWS Neuron, and how graphs are compiled.",
        frameworks=("pytorch",),
        version="2.9.0",
        options=(PRECOMPILE, EXTRACTION_STEPS),
    ),
)
TORCH_COMPILE = Declaration(
    name="torch-compile",
    implementation="torch_compile.TorchCompile",
    image="training",
    proof=("torch", "backend", "graph_calls", "unique_graphs", "graphs_left_as_they_were", "cache"),
    needs=("torch", "working device", "dynamo"),
    options=(BACKEND, BACKEND_OPTIONS, *INDUCTOR_ALONE.options),
    any_shape=DYNAMIC_SHAPES,
)
TRAINING_COMPILER = Declaration(
    name="training-compiler",
    implementation="aws.TrainingCompiler",
    image="training-compiler",
    proof=(*_TRACED, CONFIGURED, "configured_by", "debug_mode"),
    needs=("torch", "gpu of xla", "training compiler"),
    options=(STEP_GRAPHS,),
    keeps_accelerator=True,
    stack=StackTable(
        description="the stack, which is one of AWS's images, and debug mode. The defaults are the "
        "newest stack.",
        frameworks=("pytorch", "tensorflow"),
        version="1.13.1",
        transformers=True,
        options=(DEBUG,),
    ),
)
XLA = Declaration(
    name="xla",
    implementation="xla.Xla",
    image="xla",
    proof=_TRACED,
    needs=("torch", "torch_xla"),
    options=(STEP_GRAPHS,),
    computes_on=(),  # its support of GPUs ended with torch_xla 2.9
)

_ALL = (EAGER, INDUCTOR_ALONE, NEURON_XLA, TORCH_COMPILE, TRAINING_COMPILER, XLA)
_DECLARED = MappingProxyType({each.name: each for each in _ALL})


def declarations() -> Mapping[str, Declaration]:
    return _DECLARED


def compiler_options() -> dict[str, Option]:
    """The options of all compilers by name; one that several have is the same in all."""
    return {option.name: option for each in _DECLARED.values() for option in each.options}
