"""The second consideration: does the option fit framework, model and hardware? Pure.

Checks in the order in which one makes the next pointless; the first that has something to say does.
"""

from __future__ import annotations

from collections.abc import Mapping

from compilegate.advice.known.facts import Facts, Standing
from compilegate.advice.known.gathering import WITHOUT_A_GRAPH
from compilegate.advice.rules import Option
from compilegate.advice.stances import NOT_HERE, Said, Stance
from compilegate.catalog import Asked, Finding, check
from compilegate.catalog.instances import instance_class
from compilegate.catalog.tested_models import TestedModel, rows_of


def fit(facts: Facts, option: Option) -> Said:
    """What is to be said of it."""
    if option.kind in ("none", "money"):
        return NOT_HERE
    checks = (
        _of_trees,
        _of_graphs,
        _of_processor,
        _of_framework,
        _of_compiler,
        _of_instance,
        _of_size,
    )
    found = (check(facts, option) for check in checks)
    return next((said for said in found if said is not None), None) or _of_model(facts, option)


def _of_trees(facts: Facts, option: Option) -> Said | None:
    if option.trees is None:
        return None
    framework = facts.framework
    if not framework.known:
        return Stance.OPEN, framework.source, framework.standing
    if framework.value != option.trees:
        return Stance.STOPS, f"the workload is {framework.value}", framework.standing
    return Stance.FOR, framework.source, framework.standing


def _against(facts: Facts, option: Option) -> Mapping[str, Finding]:
    """What the catalog has against an option's compiler, by code: on the present instance, or on
    the one that the option moves to."""
    if option.compiler is None:
        return {}
    asked = Asked(
        compiler=option.compiler,
        backend=option.backend,
        framework=facts.framework.value or "pytorch",
        instance_type=next(iter(option.instance_types), facts.instance_type or "this machine"),
        model=facts.model,
    )
    return {each.code: each for each in check(asked)}


def _of_graphs(facts: Facts, option: Option) -> Said | None:
    framework = facts.framework
    if framework.value not in WITHOUT_A_GRAPH:
        return None
    none = _against(facts, option).get("no-graph")
    serves = f"it serves neural networks, and the workload is {framework.value}"
    return Stance.STOPS, serves if none is None else none.reason, framework.standing


def _of_compiler(facts: Facts, option: Option) -> Said | None:
    against = _against(facts, option)
    for code, standing in (
        ("processor", Standing.KNOWN),
        ("framework", facts.framework.standing),
        ("instance-class", Standing.KNOWN),
    ):
        if code in against:
            return Stance.STOPS, against[code].reason, standing
    return None


def _of_processor(facts: Facts, option: Option) -> Said | None:
    if not option.processors or facts.processor in option.processors:
        return None
    has = {"cpu": "a CPU alone", "gpu": "GPUs", "neuron": "Trainium"}[facts.processor]
    needs = {"cpu": "a CPU", "gpu": "a GPU", "neuron": "Trainium"}
    return (
        Stance.STOPS,
        f"it needs {' or '.join(needs[each] for each in option.processors)}, and "
        f"{facts.hardware} has {has}{_filter_of_the_article(facts, option)}",
        Standing.KNOWN,
    )


def _filter_of_the_article(facts: Facts, option: Option) -> str:
    if facts.processor == "cpu" and option.name == "torch-compile":
        return (
            "; it compiles for CPUs too, but no gain in training there was published: an "
            "execution would settle it"
        )
    return ""


def _of_framework(facts: Facts, option: Option) -> Said | None:
    framework = facts.framework
    if framework.value is None:
        return Stance.OPEN, framework.source, framework.standing
    if option.frameworks and framework.value not in option.frameworks:
        takes = " or ".join(option.frameworks)
        return Stance.STOPS, f"it takes {takes}, not {framework.value}", framework.standing
    return None


def _of_instance(facts: Facts, option: Option) -> Said | None:
    if option.classes and instance_class(facts.instance_type or "") not in option.classes:
        return (
            Stance.STOPS,
            f"it runs on {', '.join(option.classes)} instances, and {facts.hardware} is none of "
            "them",
            Standing.KNOWN,
        )
    if option.accelerators and facts.accelerator not in option.accelerators:
        return (
            Stance.STOPS,
            f"its gain is on {' and '.join(option.accelerators)}, and {facts.hardware} has "
            f"{facts.accelerator or 'another accelerator'}",
            Standing.KNOWN,
        )
    if option.several_instances and facts.instances == 1:
        return Stance.STOPS, "it serves several instances, and there is one", Standing.KNOWN
    return None


def _of_size(facts: Facts, option: Option) -> Said | None:
    if not option.too_large_only:
        return None
    if facts.too_large.value:
        return Stance.FOR, facts.too_large.source, facts.too_large.standing
    why = f"it is for larger models: {facts.too_large.source}"
    return Stance.STOPS, why, facts.too_large.standing


def _of_model(facts: Facts, option: Option) -> Said:
    end = _against(facts, option).get("compiler-ends") if option.instance_types else None
    if end is not None:
        return Stance.AGAINST, f"it is another machine, and {end.reason}", Standing.KNOWN
    if option.kind == "compiler" or option.families:
        return _of_family(facts, option)
    return Stance.FOR, facts.framework.source, facts.framework.standing


def _of_family(facts: Facts, option: Option) -> Said:
    family = facts.family
    if family.value is None:
        return Stance.OPEN, family.source, family.standing
    if option.families and family.value not in option.families:
        serves = " and ".join(option.families)
        return (
            Stance.STOPS,
            f"it serves {serves} models, and this is {family.value}",
            family.standing,
        )
    if option.name == "training-compiler":
        return _of_tests(facts, option)
    if family.value == "transformer":
        return Stance.FOR, f"{facts.framework.source}; {family.source}", facts.framework.standing
    return Stance.AGAINST, f"gains of {family.value} models vary: {family.source}", family.standing


NO_PATCHES = "its images get no more patches, and the newest has PyTorch 1.13 or TensorFlow 2.11"


def _of_tests(facts: Facts, option: Option) -> Said:
    """What AWS tried: whatever it did not may be slower."""
    against, model = _against(facts, option), facts.model
    if "untested-model" in against:
        which = model or f"this {facts.family.value} model, which has no name of the hub,"
        return (
            Stance.AGAINST,
            f"AWS never tested {which} with it, so it may be slower; adapt the script first",
            facts.family.standing,
        )
    tests = len(tested_rows(facts))
    said = f"AWS tested {model} with it ({tests} of its tests)"
    if not tests:
        said = f"AWS's FAQ names {model}"
    return Stance.FOR, f"{said}; {NO_PATCHES}", facts.framework.standing


def tested_rows(facts: Facts) -> tuple[TestedModel, ...]:
    """AWS's tests of the workload's model with its framework."""
    return () if facts.model is None else rows_of(facts.model, facts.framework.value)
