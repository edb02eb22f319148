"""Which step waits for which: the dependencies of a definition's steps. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from compilegate.document.expressions import step_references
from compilegate.document.model import Definition, Dependency, Step


@dataclass(frozen=True)
class StepGraph:
    """The steps by name in definition order, and what each one waits for."""

    steps: Mapping[str, Step]
    dependencies: Mapping[str, tuple[Dependency, ...]]
    """Declared ones (DependsOn) and those that follow from expressions, each step once."""

    def parents(self, name: str) -> tuple[str, ...]:
        """All steps that must have ended before `name` can start, its Condition step included."""
        branch = self.steps[name].branch
        own = tuple(dependency.step for dependency in self.dependencies[name])
        return own if branch is None else (*own, branch.condition)

    def dependents(self, name: str) -> tuple[tuple[str, Dependency], ...]:
        """The steps that wait for `name`, with the dependency that makes them wait."""
        return tuple(
            (step, dependency)
            for step, dependencies in self.dependencies.items()
            for dependency in dependencies
            if dependency.step == name
        )


def build_graph(definition: Definition) -> StepGraph:
    """The graph of a definition whose step names are unique and whose references exist."""
    steps = {step.name: step for step in definition.steps}
    return StepGraph(steps, {name: _dependencies(step) for name, step in steps.items()})


def _dependencies(step: Step) -> tuple[Dependency, ...]:
    # A declared dependency says more than an expression: with the trigger Failed a step may read
    # properties of a step that failed.
    declared = {dependency.step: dependency for dependency in step.depends_on}
    for reference in step_references([step.arguments, step.function, dict(step.members)]):
        declared.setdefault(reference.step, Dependency(reference.step))
    return tuple(declared.values())


def find_cycle(graph: StepGraph) -> tuple[str, ...] | None:
    """The names along one cycle in running order, from its first declared step on, or None.
    References to unknown steps are ignored."""
    parents = {
        name: [each for each in graph.parents(name) if each in graph.steps] for name in graph.steps
    }
    try:
        TopologicalSorter(parents).prepare()
    except CycleError as error:
        cycle: list[str] = error.args[1][:-1]  # in running order; its first is also its last
        start = cycle.index(min(cycle, key=list(graph.steps).index))
        return (*cycle[start:], *cycle[:start])
    return None


def most_in_parallel(graph: StepGraph, names: Iterable[str]) -> int:
    """How many of `names` can run at one moment: the largest set in which none waits for another.

    By Dilworth's theorem that is the number of names less the largest matching of the "runs
    before" relation. Steps on the two sides of a Condition count as if both could run.
    """
    chosen = list(names)
    before = {name: ancestors(graph, name) & set(chosen) for name in chosen}
    follower_of: dict[str, str] = {}

    def match(name: str, tried: set[str]) -> bool:
        for earlier in before[name] - tried:
            tried.add(earlier)
            if earlier not in follower_of or match(follower_of[earlier], tried):
                follower_of[earlier] = name
                return True
        return False

    return len(chosen) - sum(match(name, set()) for name in chosen)


def ancestors(graph: StepGraph, name: str, but: Collection[str] = ()) -> set[str]:
    """The steps that have ended when `name` starts, without those in `but` and what only these wait
    for. References to unknown steps are ignored."""
    found: set[str] = set()
    pending = [name]
    while pending:
        step = pending.pop()
        parents = graph.parents(step) if step in graph.steps else ()
        more = {each for each in parents if each in graph.steps and each not in but} - found
        found |= more
        pending += more
    return found
