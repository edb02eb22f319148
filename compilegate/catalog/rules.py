"""The rules of `checks.py`: each checks one aspect of what an arm asks. Pure."""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from compilegate.catalog.compilers import Compiler, Stack, compilers
from compilegate.catalog.findings import Asked, Finding, refusal, warning
from compilegate.catalog.images import BaseImage, patches_of, version_numbers
from compilegate.catalog.instances import accelerator_of, instance_class, instance_of, processor_of
from compilegate.catalog.landscape import graphless, service
from compilegate.catalog.practices import practices

TORCH_COMPILE = ("inductor", "torch-compile")
WITHOUT_BF16 = "use fp16 or fp32 there, or an instance of class g5, g6, p4d or newer"
EMULATES_BF16 = (2, 3)
"""The torch whose autocast first takes a GPU that only emulates bf16; before, it raises. Source:
pytorch/pytorch issue 115900."""
WITHOUT_DISTRIBUTION = "leave it out, and use tf.distribute.MirroredStrategy in the script"


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


def no_graph(case: Case) -> Iterator[Finding]:
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
            f'allowed: {", ".join(compiler.frameworks)}; or take compiler = "eager"',
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
        because = ": the two exclude each other" if asked.distribution == "smdistributed" else ""
        yield refusal(
            "distribution",
            f"{compiler.title} does not work with the distribution {asked.distribution!r}{because}",
            f"allowed: {allowed}",
        )
    elif stack is not None and stack.distribution != asked.distribution:
        yield refusal(
            "distribution",
            f"the image of {stack.label} does not support the distribution {asked.distribution!r}",
            f'allowed: "{stack.distribution}"' if case.distributions else WITHOUT_DISTRIBUTION,
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
        remedy = f"allowed: {accelerators}, or an instance with more"
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
            f"allowed: {', '.join((*compiler.precisions, *compiler.untested_precisions))}",
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


def _practices(case: Case) -> Iterator[Finding]:
    """Warn of what runs and hardly pays."""
    yield from practices(case.asked, case.compiler)


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
    _practices,
    _image,
    _backend,
    _maintenance,
)
