"""Whether a compiler can do what an arm asks, and whether it pays: a refusal or a warning each.

`check` is the one place that says what a compiler runs on. Pure: plain values in, findings out;
today's date is an argument.
"""

from __future__ import annotations

import datetime
import difflib
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from compilegate.catalog.compilers import Compiler, Stack, compilers, graphless, service
from compilegate.catalog.images import BaseImage, patches_of, version_numbers
from compilegate.catalog.instances import accelerator_of, instance_class, instance_of, processor_of
from compilegate.catalog.tested_models import SUPPORT_PAGE, known_to_compile, rows_of
from compilegate.execution.target import Target

TORCH_COMPILE = ("inductor", "torch-compile")
WITHOUT_BF16 = "use fp16 or fp32 there, or an instance of class g5, g6, p4d or newer"
EMULATES_BF16 = (2, 3)
"""The torch whose autocast first takes a GPU that only emulates bf16; before, it raises. Source:
pytorch/pytorch issue 115900."""
WITHOUT_DISTRIBUTION = "leave it out, and use tf.distribute.MirroredStrategy in the script"


GUIDE = "https://docs.aws.amazon.com/sagemaker/latest/dg"
OVERVIEW = f"{GUIDE}/training-compiler.html"
BEST_PRACTICES = f"{GUIDE}/training-compiler-tips-pitfalls.html"
FAQ = f"{GUIDE}/training-compiler-faq.html"

_MODULES_WITHOUT_A_GRAPH = {
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "catboost": "catboost",
    "sklearn": "scikit-learn",
}
"""Frameworks that have no graph, by the module that a script imports."""
_MODULES_WITH_A_GRAPH = frozenset(
    {"torch", "tensorflow", "keras", "jax", "transformers", "accelerate"}
    | {"lightning", "pytorch_lightning", "torch_xla", "tf_keras"}
)


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What an arm asks for."""

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
    heterogeneous: bool = False
    """Whether the job has groups of different instances."""
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


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One thing that is wrong, or that the workload's owner should know."""

    severity: Literal["refusal", "warning"]
    about: str
    """The field of `Asked` that it concerns."""
    reason: str
    remedy: str
    page: str = ""
    """The address of the page that asks for it; empty where the reason says who does."""

    @property
    def sentence(self) -> str:
        page = f" ({self.page})" if self.page else ""
        return f"{self.reason}; {self.remedy}{page}"


def refusal(about: str, reason: str, remedy: str) -> Finding:
    """A finding that keeps the job from starting."""
    return Finding(severity="refusal", about=about, reason=reason, remedy=remedy)


def warning(about: str, reason: str, remedy: str, *, page: str = "") -> Finding:
    """A finding that the owner should know; the job may start."""
    return Finding(severity="warning", about=about, reason=reason, remedy=remedy, page=page)


@dataclass(frozen=True, kw_only=True)
class Case:
    """What is asked of which compiler on which day."""

    asked: Asked
    compiler: Compiler
    today: datetime.date

    @property
    def stack(self) -> Stack | None:
        """The stack that was asked for, if the compiler has only certain stacks."""
        if self.asked.version is None:
            return None
        return self.compiler.stack(
            self.asked.framework, self.asked.version, self.asked.transformers
        )

    @property
    def image(self) -> BaseImage | None:
        """The AWS image that is asked for; None if there is none or it is not known."""
        return self.asked.image if self.stack is None else self.stack.image

    @property
    def distributions(self) -> tuple[str, ...]:
        """How the request may distribute the job over several accelerators."""
        known = self.compiler.distributions
        if self.stack is None:
            return known
        return tuple(name for name in known if name == self.stack.distribution)

    @property
    def accelerators(self) -> int:
        """How many accelerators all instances have together; 1 for an unlisted type."""
        instance = instance_of(self.asked.instance_type)
        return self.asked.instance_count * (instance.accelerators if instance else 1)


def check(asked: Asked, today: datetime.date) -> tuple[Finding, ...]:
    """Everything that speaks against it, refusals first; empty if nothing does."""
    compiler = compilers().get(asked.compiler)
    if compiler is None:
        known = ", ".join(compilers())
        why = f"{asked.compiler!r} is not in the catalog"
        return (refusal("compiler", why, f"expected one of {known}"),)
    compiler = compiler.backends.get(asked.backend or "", compiler)
    case = Case(asked=asked, compiler=compiler, today=today)
    rules = RULES if graphless(asked.framework) is None else (_no_graph,)
    found = [finding for rule in rules for finding in rule(case)]
    return tuple(sorted(found, key=lambda finding: finding.severity != "refusal"))


def _no_graph(case: Case) -> Iterator[Finding]:
    why = graphless(case.asked.framework)
    if why is not None and case.compiler.name != "eager":
        yield refusal(
            "framework",
            f"{case.compiler.name} does not apply: {why.why}",
            f'take compiler = "eager"; what makes it faster: {why.instead}',
        )


def _where(case: Case) -> Iterator[Finding]:
    if case.asked.target not in case.compiler.targets:
        yield refusal(
            "target",
            f"{case.compiler.title} runs in AWS's images on AWS's instances only",
            "submit the workload to SageMaker, or take another compiler for local runs",
        )


def _instance(case: Case) -> Iterator[Finding]:
    asked, compiler = case.asked, case.compiler
    processor = processor_of(asked.instance_type)
    if processor not in compiler.processors:
        kinds = {"cpu": "no accelerator", "gpu": "GPUs", "neuron": "Trainium"}
        yield refusal(
            "instance_type",
            f"{compiler.title} does not run on {asked.instance_type}, which has {kinds[processor]}",
            compiler.instead.get(processor)
            or "take an instance with " + " or ".join(kinds[kind] for kind in compiler.processors),
        )
    elif compiler.instance_classes and (
        instance_class(asked.instance_type) not in compiler.instance_classes
    ):
        classes = ", ".join(compiler.instance_classes)
        yield refusal(
            "instance_type",
            f"{compiler.title} does not support {asked.instance_type}: "
            f"AWS made it for the classes {classes}",
            'take an instance of one of them, or compiler = "inductor"',
        )


def _accelerator(case: Case) -> Iterator[Finding]:
    """The GPU may be too old for the image or for the precision."""
    asked, compiler, image = case.asked, case.compiler, case.image
    accelerator = accelerator_of(asked.instance_type)
    if accelerator is None:
        return
    last = accelerator.last_pytorch_image
    if (
        last is not None
        and image is not None
        and image.library == "pytorch"
        and version_numbers(image.version)[:2] > version_numbers(last)
    ):
        yield refusal(
            "instance_type",
            f"AWS's image of PyTorch {image.version} has no kernels for the {accelerator.name} of "
            f"{asked.instance_type}, {accelerator.architecture}",
            f"take a newer instance such as ml.g5.xlarge, or PyTorch {last} or older",
        )
    if asked.precision != "bf16" or accelerator.bf16:
        return
    if compiler.name == "training-compiler" or _refuses_bf16(image):
        version = asked.version if image is None else image.version
        yield refusal(
            "precision",
            f"the {accelerator.name} of {asked.instance_type} has no bf16, and training in it ends "
            f"there with an error in the image of {asked.framework} {version}",
            WITHOUT_BF16,
        )
    else:
        yield warning(
            "precision",
            f"the {accelerator.name} of {asked.instance_type} only emulates bf16, which is slow"
            + (", and torch.compile leaves graphs with bf16 inputs or outputs to eager mode there")
            * (compiler.name in TORCH_COMPILE),
            WITHOUT_BF16,
        )


def _refuses_bf16(image: BaseImage | None) -> bool:
    """Whether the image's torch raises where a GPU has no bf16 of its own."""
    return (
        image is not None
        and image.library == "pytorch"
        and version_numbers(image.version)[:2] < EMULATES_BF16
    )


def _versions(case: Case) -> Iterator[Finding]:
    asked, compiler = case.asked, case.compiler
    if compiler.frameworks and asked.framework not in compiler.frameworks:
        yield refusal(
            "framework",
            f"{compiler.title} does not compile {asked.framework}",
            f'expected {", ".join(compiler.frameworks)}; or take compiler = "eager"',
        )
        return
    if asked.version is None:
        return
    if compiler.stacks and case.stack is None:
        wanted = f"{asked.framework} {asked.version}"
        if asked.transformers is not None:
            wanted += f" with Transformers {asked.transformers}"
        known = ", ".join(
            stack.label for stack in compiler.stacks if stack.framework == asked.framework
        )
        yield refusal(
            "version", f"{compiler.title} has no image with {wanted}", f"available: {known}"
        )
    elif compiler.oldest is not None and version_numbers(asked.version) < version_numbers(
        compiler.oldest
    ):
        yield refusal(
            "version",
            f"{compiler.title} needs {asked.framework} {compiler.oldest} or newer, "
            f"not {asked.version}",
            'take a newer image, or compiler = "training-compiler" on an old one',
        )
    elif compiler.newest is not None and version_numbers(asked.version)[:2] > version_numbers(
        compiler.newest
    ):
        yield refusal(
            "version",
            f"{compiler.title} works up to {asked.framework} {compiler.newest}, not with "
            f"{asked.version}",
            'take another backend, such as "inductor"',
        )


def _region(case: Case) -> Iterator[Finding]:
    image, region = case.image, case.asked.region
    if image is None or region is None:
        return
    regions = sorted(image.hosts.keys() - set(case.compiler.absent_in))
    needed_by = f" for {case.compiler.title}" if case.stack else ""
    if region not in regions:
        yield refusal(
            "region",
            f"AWS has no {case.compiler.title} in {region}"
            if region in image.hosts
            else f"AWS has no image {image.name}{needed_by} in {region}",
            f"the regions that have it: {', '.join(regions)}",
        )


def _distribution(case: Case) -> Iterator[Finding]:
    asked, compiler, stack = case.asked, case.compiler, case.stack
    if asked.heterogeneous and compiler.name == "training-compiler":
        yield refusal(
            "heterogeneous",
            f"{compiler.title} does not work with heterogeneous instance groups",
            "give all instances one type",
        )
    if asked.distribution is None:
        yield from _idle_accelerators(case)
        return
    if asked.distribution not in compiler.distributions:
        allowed = " or ".join(f'"{name}"' for name in case.distributions) or "none"
        yield refusal(
            "distribution",
            f"{compiler.title} does not work with the distribution {asked.distribution!r}",
            f"expected {allowed}",
        )
    elif stack is not None and stack.distribution != asked.distribution:
        yield refusal(
            "distribution",
            f"the image of {stack.label} does not support the distribution {asked.distribution!r}",
            f'expected "{stack.distribution}"' if case.distributions else WITHOUT_DISTRIBUTION,
        )


def _processes(case: Case) -> Iterator[Finding]:
    """Check torchrun's number of processes; other launchers count the accelerators."""
    asked, instance = case.asked, instance_of(case.asked.instance_type)
    accelerators = 0 if instance is None else instance.accelerators
    if asked.distribution != "torchrun" or not accelerators or asked.processes == accelerators:
        return
    gpus = f"{accelerators} GPU" + ("s" if accelerators > 1 else "")
    found = f"{asked.processes} on each {asked.instance_type}, which has {gpus}"
    if asked.processes > accelerators:
        remedy = f"expected {accelerators}, or an instance with more"
        yield refusal("processes", f"{found}: each process needs its own", remedy)
    else:
        yield warning("processes", f"{found}: the other GPUs stay idle", f"take {accelerators}")


def _idle_accelerators(case: Case) -> Iterator[Finding]:
    """Warn if several accelerators are paid for and one process uses one of them."""
    asked, stack = case.asked, case.stack
    spread = asked.launches_itself or (stack is not None and stack.distribution == "in the script")
    if case.accelerators > 1 and asked.framework == "pytorch" and not spread:
        allowed = " or ".join(f'"{name}"' for name in case.distributions)
        yield warning(
            "distribution",
            f"{asked.instance_count} x {asked.instance_type} has {case.accelerators} accelerators, "
            "and without a distribution one process uses one of them",
            f"set distribution to {allowed}" if allowed else "take a smaller instance",
        )


def _precision(case: Case) -> Iterator[Finding]:
    asked, compiler = case.asked, case.compiler
    if asked.precision in compiler.untested_precisions:
        yield warning(
            "precision",
            f"AWS tested {compiler.title} with {' and '.join(compiler.precisions)}, "
            f"but not with {asked.precision}",
            "use fp16, or rely on the gate",
        )
    elif asked.precision not in compiler.precisions:
        yield refusal(
            "precision",
            f"{compiler.title} does not train in {asked.precision}",
            f"expected {', '.join((*compiler.precisions, *compiler.untested_precisions))}",
        )


def _overhead(case: Case) -> Iterator[Finding]:
    """Warn of what slows steps down; on one arm alone it makes the comparison unfair."""
    asked = case.asked
    for switched_on, about, what in (
        (asked.profiler, "profiler", "the profiler"),
        (asked.debugger, "debugger", "SageMaker Debugger's hook"),
        (asked.debug_mode, "debug_mode", "the compiler's debug mode"),
    ):
        if switched_on:
            yield warning(
                about,
                f"{what} slows every step down",
                "turn it off when speed is measured",
            )


def _tested(case: Case) -> Iterator[Finding]:
    """The FAQ: what becomes of a model that AWS never tested."""
    asked, compiler = case.asked, case.compiler
    if not compiler.tested_models:
        return
    if asked.model is None:
        reason = f"AWS tested {compiler.title} with models of the hub, and this workload names none"
    elif any(row.framework == asked.framework for row in rows_of(asked.model)):
        return
    elif known_to_compile(asked.model):
        yield warning(
            "model",
            f"AWS names {asked.model} among the models that {compiler.title} makes faster, and "
            f"published no test of it with {asked.framework}",
            "declare a batch_size, and find the largest by trying",
            page=FAQ,
        )
        return
    else:
        reason = f"AWS never tested {compiler.title} with {asked.model}"
    yield warning(
        "model",
        reason,
        "adapt the script first, expect that it may be slower, and tune batch_size and "
        "learning_rate again",
        page=FAQ,
    )


def _half_precision(case: Case) -> Iterator[Finding]:
    """All but three of AWS's 316 tests are in 16 bits."""
    asked, compiler = case.asked, case.compiler
    if compiler.tested_models and asked.precision == "fp32":
        yield warning(
            "precision",
            f"fp32 alone leaves most of what {compiler.title} gains: AWS's tests are in 16 bits, "
            "but for three",
            'take precision = "fp16" in the baseline and here',
            page=SUPPORT_PAGE,
        )


def _rate(case: Case) -> Iterator[Finding]:
    """A batch k times as large asks for k times the rate, or its root."""
    asked = case.asked
    examples, before = asked.examples, asked.baseline_examples
    if examples is None or before is None or examples == before:
        return
    if asked.learning_rate is None or asked.learning_rate != asked.baseline_learning_rate:
        return
    factor = examples / before
    linear, root = (asked.learning_rate * by for by in (factor, math.sqrt(factor)))
    yield warning(
        "learning_rate",
        f"a step takes {examples} examples, {factor:.4g} times the baseline's {before}, at the "
        f"baseline's learning_rate {asked.learning_rate:g}",
        f'take {linear:.4g} (scale_learning_rate = "linear") or {root:.4g} ("square-root")',
        page=BEST_PRACTICES,
    )


def _length(case: Case) -> Iterator[Finding]:
    """What is compiled first has to be repaid by the rest of the job."""
    asked, compiler = case.asked, case.compiler
    compiling, limit = compiler.compiling, asked.limit_seconds
    if compiling is None or limit is None or limit >= compiling.repaid_seconds:
        return
    least, most = (seconds // 60 for seconds in compiling.seconds)
    takes = f"{compiler.title} compiles for {least} to {most} minutes before it trains"
    if limit <= compiling.seconds[1]:
        yield warning(
            "limit_seconds",
            f"jobs are ended after {limit} s (compute.max_runtime_seconds), and {takes}",
            f"allow {compiling.repaid_seconds} s or more",
            page=compiling.source,
        )
    else:
        yield warning(
            "limit_seconds",
            f"jobs take {limit} s at most (compute.max_runtime_seconds), and {takes}, which jobs "
            f"of less than {compiling.repaid_seconds // 60} minutes hardly repay",
            "take a longer training, or none of this compiler",
            page=compiling.source,
        )


def _single_gpus(case: Case) -> Iterator[Finding]:
    asked = case.asked
    instance = instance_of(asked.instance_type)
    if asked.instance_count > 1 and instance is not None and instance.accelerators == 1:
        yield warning(
            "instance_count",
            f"{asked.instance_count} x {asked.instance_type} have one {instance.accelerator.name} "
            "each, and send gradients over the network",
            "take one instance with as many, which is faster",
            page=BEST_PRACTICES,
        )


def _network(case: Case) -> Iterator[Finding]:
    """The compiler's own list where it has one; elsewhere what is known to lack EFA."""
    asked, compiler = case.asked, case.compiler
    instance = instance_of(asked.instance_type)
    fast = compiler.efa_instances
    slow = asked.instance_type not in fast if fast else instance is not None and instance.no_efa
    if asked.instance_count > 1 and slow:
        those = ", ".join(fast) if fast else "an instance with EFA, such as ml.p4d.24xlarge"
        yield warning(
            "instance_type",
            f"{asked.instance_count} x {asked.instance_type} exchange gradients without EFA, "
            "which is slow",
            f"use {those}, or one instance with more GPUs",
            page=BEST_PRACTICES,
        )


def _trees(case: Case) -> Iterator[Finding]:
    """What a script imports shows that it grows trees, whatever its image holds."""
    asked, compiler = case.asked, case.compiler
    if compiler.name == "eager" or asked.libraries & _MODULES_WITH_A_GRAPH:
        return
    for module in sorted(asked.libraries & _MODULES_WITHOUT_A_GRAPH.keys()):
        why = graphless(_MODULES_WITHOUT_A_GRAPH[module])
        if why is not None:
            yield warning(
                "framework",
                f"the program imports {module} and nothing that has a graph, so {compiler.title} "
                f"does nothing for it: {why.why}",
                f"what makes it faster: {why.instead}",
                page=OVERVIEW,
            )
            return


def _maintenance(case: Case) -> Iterator[Finding]:
    """Warn of what is not maintained, or will soon not be."""
    asked, compiler = case.asked, case.compiler
    looked_at = [("compiler", compiler.title, compiler.maintained)]
    if asked.profiler:
        looked_at.append(("profiler", "SageMaker Profiler", service("profiler")))
    if asked.debugger:
        looked_at.append(("debugger", "SageMaker Debugger", service("debugger")))
    for about, title, maintained in looked_at:
        told = maintained.told(title, case.today)
        if told is not None:
            yield warning(about, *told)


def _backend(case: Case) -> Iterator[Finding]:
    """Warn of a name that nobody here knows: it may be a mistake of writing."""
    backend, known = case.asked.backend, compilers()[case.compiler.name].backends
    if backend is None or "." in backend or backend in known:
        return
    close = difflib.get_close_matches(backend, known, n=1)
    yield warning(
        "backend",
        f"{backend!r} is no backend that the catalog knows",
        f"did you mean {close[0]!r}?" if close else "its package has to be in the arm's image",
    )


def _image(case: Case) -> Iterator[Finding]:
    image, stack = case.image, case.stack
    if image is None:
        return
    trainium = processor_of(case.asked.instance_type) == "neuron"
    if stack is None and image.processor == "neuron" and not trainium:
        yield refusal(
            "image",
            f"AWS's image {image.name} is for Trainium, which {case.asked.instance_type} lacks",
            "take another image",
        )
    patches = patches_of(image)
    if patches is not None and patches.ended(case.today):
        about = "version" if stack else "image"
        if patches.until is not None:
            yield warning(
                about,
                f"AWS has not patched the image {image.name} since {patches.until}",
                "use the image of a newer version",
            )
        else:  # AWS names no day where it has ended the whole product
            yield warning(
                about,
                f"AWS no longer patches the image {image.name}",
                "isolate its jobs from the network ([network] isolation)",
            )
    if case.asked.extends_image and stack is not None and not stack.extendable:
        yield warning(
            "extends_image",
            f"AWS does not list the image of {stack.label} as one that may be extended",
            "add packages only, and leave its torch as it is",
        )


Rule = Callable[[Case], Iterator[Finding]]

RULES: tuple[Rule, ...] = (
    _where,
    _versions,
    _instance,
    _accelerator,
    _region,
    _distribution,
    _processes,
    _precision,
    _overhead,
    _tested,
    _half_precision,
    _rate,
    _length,
    _single_gpus,
    _network,
    _trees,
    _image,
    _backend,
    _maintenance,
)
