"""Whether a compiler can train an arm as it is declared, and whether that pays: refusals, warnings.

`check` is the one place that says what a compiler runs on: image, instance, precision,
distribution. Pure: plain values in, findings out; today's date is an argument.
"""

from __future__ import annotations

import datetime
import difflib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from compilegate.catalog.compilers import (
    Compiler,
    Maintenance,
    Stack,
    compilers,
    graphless,
    graphless_module,
    service,
)
from compilegate.catalog.images import BaseImage, Patches, patches_of, version_numbers
from compilegate.catalog.instances import (
    Accelerator,
    Instance,
    accelerator_of,
    instance_class,
    instance_of,
    processor_of,
)
from compilegate.catalog.tables import Finding, finding
from compilegate.catalog.tested_models import known_to_compile, rows_of
from compilegate.execution.status import Target

NO_DAY = datetime.date.min
"""Nothing is refused because of the day; only warnings depend on it."""
EMULATES_BF16 = (2, 3)
"""The torch whose autocast first takes a GPU that only emulates bf16; before, it raises. Source:
pytorch/pytorch issue 115900."""


@dataclass(frozen=True, kw_only=True)
class ArmSettings:
    """What decides whether an arm can be compiled."""

    compiler: str
    backend: str | None = None
    """The one to take, where the compiler has several; None where it has none."""
    framework: str = "pytorch"
    """`pytorch`, `tensorflow`, `xgboost`, ..."""
    version: str | None = None
    """The framework's version; None if the image decides it and is not known here."""
    image: BaseImage | None = None
    """AWS's image that the job's image is or extends, if the compiler has no stacks that tell;
    None for any other image."""
    transformers: str | None = None
    """The version in a Hugging Face image; None in any other."""
    instance_type: str
    instance_count: int = 1
    region: str | None = None
    precision: str = "fp32"
    distribution: str | None = None
    """`torchrun`, `pytorchxla`, `sm_dist`; None for one process."""
    launches_itself: bool = False
    """Whether the script may start processes itself, which the request does not show."""
    processes: int = 1
    """Processes on each instance."""
    extends_image: bool = False
    """Whether the image is the user's own and extends AWS's."""
    profiler: bool = False
    debugger: bool = False
    debug_mode: bool = False
    """Training Compiler's debug mode."""
    model: str | None = None
    """The model's name on the hub, as far as it is known."""
    libraries: frozenset[str] = frozenset()
    """What the workload's own training script imports, by the names of the modules."""
    limit_seconds: int | None = None
    """After which the job is ended; None where it is not known."""
    examples: int | None = None
    """In a step, of all processes together."""
    learning_rate: float | None = None
    baseline_examples: int | None = None
    """The same of the arm that it is compared with; None for that arm itself."""
    baseline_learning_rate: float | None = None
    target: Target = Target.SAGEMAKER


@dataclass(frozen=True)
class Case:
    """An arm, its compiler and a day, with what the catalog has on them."""

    arm: ArmSettings
    compiler: Compiler
    today: datetime.date

    @property
    def version(self) -> str | None:
        """The version of a framework that the compiler takes, as far as it is known."""
        return None if _other_framework(self) else self.arm.version

    @property
    def stack(self) -> Stack | None:
        """The arm's stack, if the compiler has only certain stacks."""
        return self.compiler.stack(self.arm.framework, self.arm.version, self.arm.transformers)

    @property
    def image(self) -> BaseImage | None:
        """The arm's AWS image; None if there is none or it is not known."""
        return self.arm.image if self.stack is None else self.stack.image

    @property
    def torch(self) -> tuple[int, ...]:
        """The PyTorch in AWS's image, its first two numbers; empty where there is none."""
        if self.image is None or self.image.library != "pytorch":
            return ()
        return version_numbers(self.image.version)[:2]

    @property
    def patches(self) -> Patches | None:
        """How long the image gets patches; None where they have not ended, or nothing is known."""
        found = None if self.image is None else patches_of(self.image)
        return found if found is not None and found.ended(self.today) else None

    @property
    def instance(self) -> Instance | None:
        """The instance type; None if it has no accelerator or is not listed."""
        return instance_of(self.arm.instance_type)

    @property
    def accelerator(self) -> Accelerator | None:
        return accelerator_of(self.arm.instance_type)

    @property
    def distributions(self) -> tuple[str, ...]:
        """How the request may distribute the job over several accelerators."""
        known, stack = self.compiler.distributions, self.stack
        return known if stack is None else tuple(it for it in known if it == stack.distribution)


def check(arm: ArmSettings, today: datetime.date = NO_DAY) -> tuple[Finding, ...]:
    """Everything that speaks against an arm, refusals first."""
    compiler = compilers()[arm.compiler]
    case = Case(arm, compiler.backends.get(arm.backend or "", compiler), today)
    found = tuple(_findings(case))
    return tuple(sorted(found, key=lambda each: each.severity != "refusal"))


def _findings(case: Case) -> Iterator[Finding]:
    if case.arm.framework in graphless():
        if case.compiler.name != "eager":
            why = graphless()[case.arm.framework]
            yield finding("no-graph", compiler=case.compiler, graphless=why)
        return
    for code, rule in RULES.items():
        found = rule(case)
        if found:
            about = "version" if code in _OF_AN_IMAGE and case.stack is not None else None
            known: dict[str, object] = {name: getattr(case, name) for name in _KNOWN}
            yield finding(code, about=about, **{**known, **({} if found is True else found)})


_KNOWN = ("arm", "compiler", "stack", "image", "patches", "instance", "accelerator")
Values = Mapping[str, object]
"""What fills the sentence of a finding, besides `_KNOWN`."""


def _other_framework(case: Case) -> bool:
    frameworks = case.compiler.frameworks
    return bool(frameworks) and case.arm.framework not in frameworks


def _framework(case: Case) -> Values | None:
    if not _other_framework(case):
        return None
    return {"frameworks": ", ".join(case.compiler.frameworks)}


def _no_stack(case: Case) -> Values | None:
    arm, stacks = case.arm, case.compiler.stacks
    if case.version is None or not stacks or case.stack is not None:
        return None
    with_transformers = f" with Transformers {arm.transformers}" if arm.transformers else ""
    return {
        "wanted": f"{arm.framework} {arm.version}{with_transformers}",
        "known": ", ".join(each.label for each in stacks if each.framework == arm.framework),
    }


def _too_old(case: Case) -> bool:
    oldest = case.compiler.oldest
    if case.version is None or oldest is None:
        return False
    return version_numbers(case.version) < version_numbers(oldest)


def _too_new(case: Case) -> bool:
    newest = case.compiler.newest
    if case.version is None or newest is None or _too_old(case):
        return False
    return version_numbers(case.version)[:2] > version_numbers(newest)


_HAS = {"cpu": "no accelerator", "gpu": "GPUs", "neuron": "Trainium"}


def _processor(case: Case) -> Values | None:
    compiler, processor = case.compiler, processor_of(case.arm.instance_type)
    if processor in compiler.processors:
        return None
    wanted = "take an instance with " + " or ".join(_HAS[each] for each in compiler.processors)
    return {"has": _HAS[processor], "instead": compiler.instead.get(processor) or wanted}


def _instance_class(case: Case) -> Values | None:
    classes = case.compiler.instance_classes
    if not classes or instance_class(case.arm.instance_type) in classes or _processor(case):
        return None
    return {"classes": ", ".join(classes)}


def _no_kernels(case: Case) -> bool:
    last = None if case.accelerator is None else case.accelerator.last_pytorch_image
    return last is not None and case.torch > version_numbers(last)


def _without_bf16(case: Case) -> bool:
    accelerator = case.accelerator
    return case.arm.precision == "bf16" and accelerator is not None and not accelerator.bf16


def _bf16_refused(case: Case) -> Values | None:
    raises = () < case.torch < EMULATES_BF16
    if not _without_bf16(case) or not (raises or case.compiler.name == "training-compiler"):
        return None
    return {"version": case.arm.version if case.image is None else case.image.version}


def _bf16_emulated(case: Case) -> Values | None:
    if not _without_bf16(case) or _bf16_refused(case):
        return None
    eager = ", and torch.compile leaves graphs with bf16 inputs or outputs to eager mode there"
    compiled = case.compiler.name in ("inductor", "torch-compile")
    return {"and_eager": eager if compiled else ""}


def _region(case: Case) -> Values | None:
    image, region, title = case.image, case.arm.region, case.compiler.title
    if image is None or region is None:
        return None
    regions = sorted(image.hosts.keys() - set(case.compiler.absent_in))
    if region in regions:
        return None
    needed_by = f" for {title}" if case.stack else ""
    return {
        "what": title if region in image.hosts else f"image {image.name}{needed_by}",
        "regions": ", ".join(regions),
    }


def _distribution(case: Case) -> Values | None:
    arm = case.arm
    if arm.distribution is None or arm.distribution in case.compiler.distributions:
        return None
    return {"allowed": " or ".join(f'"{name}"' for name in case.distributions) or "none"}


def _stack_distribution(case: Case) -> Values | None:
    arm, stack = case.arm, case.stack
    if arm.distribution is None or stack is None or _distribution(case):
        return None
    if stack.distribution == arm.distribution:
        return None
    in_script = "leave it out, and use tf.distribute.MirroredStrategy in the script"
    return {"instead": f'expected "{stack.distribution}"' if case.distributions else in_script}


def _idle_accelerators(case: Case) -> Values | None:
    arm, stack = case.arm, case.stack
    accelerators = arm.instance_count * (case.instance.accelerators if case.instance else 1)
    spread = arm.launches_itself or (stack is not None and stack.distribution == "in the script")
    alone = arm.distribution is None and arm.framework == "pytorch" and not spread
    if not alone or accelerators == 1:
        return None
    allowed = " or ".join(f'"{name}"' for name in case.distributions)
    instead = f"set distribution to {allowed}" if allowed else "take a smaller instance"
    return {"accelerators": accelerators, "instead": instead}


def _spare_gpus(case: Case) -> int:
    """How many GPUs an instance has more than torchrun starts processes; other launchers count
    the accelerators themselves."""
    if case.instance is None or case.arm.distribution != "torchrun":
        return 0
    return case.instance.accelerators - case.arm.processes


def _gpus(case: Case) -> Values:
    count = 0 if case.instance is None else case.instance.accelerators
    return {"gpus": f"{count} GPU" + ("s" if count > 1 else "")}


def _precision(case: Case) -> Values | None:
    allowed = (*case.compiler.precisions, *case.compiler.untested_precisions)
    return None if case.arm.precision in allowed else {"precisions": ", ".join(allowed)}


def _untested_precision(case: Case) -> Values | None:
    if case.arm.precision not in case.compiler.untested_precisions:
        return None
    return {"precisions": " and ".join(case.compiler.precisions)}


def _untested_model(case: Case) -> Values | None:
    model, title = case.arm.model, case.compiler.title
    if not case.compiler.tested_models:
        return None
    if model is None:
        return {
            "untested": f"AWS tested {title} with models of the hub, and this workload names none"
        }
    if rows_of(model, case.arm.framework) or known_to_compile(model):
        return None
    return {"untested": f"AWS never tested {title} with {model}"}


def _learning_rate(case: Case) -> Values | None:
    """A batch k times as large wants k times the rate, or its root."""
    arm = case.arm
    examples, before, rate = arm.examples, arm.baseline_examples, arm.learning_rate
    if examples is None or before is None or examples == before:
        return None
    if rate is None or rate != arm.baseline_learning_rate:
        return None
    factor = examples / before
    return {"factor": factor, "linear": rate * factor, "root": rate * math.sqrt(factor)}


def _hardly_repaid(case: Case) -> Values | None:
    compiling, limit = case.compiler.compiling, case.arm.limit_seconds
    if compiling is None or limit is None or limit >= compiling.repaid_seconds:
        return None
    least, most = (seconds // 60 for seconds in compiling.seconds)
    return {"least": least, "most": most, "repaid": compiling.repaid_seconds // 60}


def _one_gpu_each(case: Case) -> bool:
    one = case.instance is not None and case.instance.accelerators == 1
    return case.arm.instance_count > 1 and one


def _no_efa(case: Case) -> Values | None:
    """The compiler's own list where it has one; elsewhere what is known to lack EFA."""
    fast, instance = case.compiler.efa_instances, case.instance
    lacks = instance is not None and instance.no_efa
    slow = case.arm.instance_type not in fast if fast else lacks
    if case.arm.instance_count == 1 or not slow:
        return None
    return {"fast": ", ".join(fast) or "an instance with EFA, such as ml.p4d.24xlarge"}


def _trees(case: Case) -> Values | None:
    found = graphless_module(case.arm.libraries)
    return None if found is None or case.compiler.name == "eager" else {"graphless": found}


def _image_for_trainium(case: Case) -> bool:
    trainium = processor_of(case.arm.instance_type) == "neuron"
    image = case.image if case.stack is None else None
    return image is not None and image.processor == "neuron" and not trainium


def _not_extendable(case: Case) -> bool:
    return case.arm.extends_image and case.stack is not None and not case.stack.extendable


def _unknown_backend(case: Case) -> Values | None:
    backend, known = case.arm.backend, compilers()[case.compiler.name].backends
    if backend is None or "." in backend or backend in known:
        return None
    close = difflib.get_close_matches(backend, known, n=1)
    other = "its package has to be in the arm's image"
    return {"meant": f"did you mean {close[0]!r}?" if close else other}


def _end(maintained: Maintenance, case: Case) -> Values | None:
    found = maintained.end(case.compiler.title, case.today)
    return None if found is None else {"end": found}


Rule = Callable[[Case], Values | bool | None]

RULES: Mapping[str, Rule] = {
    "elsewhere": lambda case: case.arm.target not in case.compiler.targets,
    "framework": _framework,
    "no-stack": _no_stack,
    "too-old": _too_old,
    "too-new": _too_new,
    "processor": _processor,
    "instance-class": _instance_class,
    "no-kernels": _no_kernels,
    "bf16-refused": _bf16_refused,
    "bf16-emulated": _bf16_emulated,
    "region": _region,
    "distribution": _distribution,
    "stack-distribution": _stack_distribution,
    "idle-accelerators": _idle_accelerators,
    "too-many-processes": lambda case: _gpus(case) if _spare_gpus(case) < 0 else None,
    "idle-gpus": lambda case: _gpus(case) if _spare_gpus(case) > 0 else None,
    "precision": _precision,
    "untested-precision": _untested_precision,
    # What slows steps down makes the comparison unfair when one arm alone has it.
    "profiler-slows": lambda case: case.arm.profiler,
    "debugger-slows": lambda case: case.arm.debugger,
    "debug-mode-slows": lambda case: case.arm.debug_mode,
    "untested-model": _untested_model,
    # All but three of AWS's 316 tests are in 16 bits.
    "full-precision": lambda case: case.compiler.tested_models and case.arm.precision == "fp32",
    "learning-rate": _learning_rate,
    "hardly-repaid": _hardly_repaid,
    "one-gpu-each": _one_gpu_each,
    "no-efa": _no_efa,
    "trees": _trees,
    "image-for-trainium": _image_for_trainium,
    "patches-ended": lambda case: case.patches is not None and case.patches.until is not None,
    "no-patches": lambda case: case.patches is not None and case.patches.until is None,
    "not-extendable": _not_extendable,
    "unknown-backend": _unknown_backend,
    "compiler-ends": lambda case: _end(case.compiler.maintained, case),
    "profiler-ends": lambda case: case.arm.profiler and _end(service("profiler"), case),
    "debugger-ends": lambda case: case.arm.debugger and _end(service("debugger"), case),
}
"""By code: whether the finding applies to a case, and what fills its sentence."""

_OF_AN_IMAGE = ("patches-ended", "no-patches")
"""Findings about an arm's image; where the arm has a stack, they concern its version."""
