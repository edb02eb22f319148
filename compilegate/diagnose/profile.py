"""What a profile means: where a step's time goes, what holds it up, and the most that each compiler
could save. `compilegate.job.profiling` writes the profile in the training process.

What operators compute is separated from what the host needs to get them going. An operator that has
next to nothing to compute still takes its microseconds; so much is taken off each operator's time,
and what a step lasts beyond the rest is the host's: Python, dispatch, launches.
"""

from __future__ import annotations

import functools
import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from compilegate.diagnose.jobs import OutputError, read_output
from compilegate.job.contract import PADDINGS, PROFILE_FILE, PROFILE_FOLDER
from compilegate.job.evidence.record import BREAKS, LOADER, RULES, SHAPES, SYNCHRONISATION
from compilegate.job.profiling.record import COMPUTING, HOST, PARTS, PROFILE_SCHEMA, UPDATE, Profile
from compilegate.job.slowdowns import NOTABLE_WAIT, changing, reads_each_step
from compilegate.rules import table

_AGAIN = "it is not a profile of this release, so profile again"


def read_profile(path: Path) -> Profile:
    """The profile in a file, in a folder that holds one, or in a job's output.tar.gz. It may come
    from another machine and release, so it is checked. Raises OutputError."""
    if path.is_dir():
        inner = path / PROFILE_FOLDER / PROFILE_FILE
        path = inner if inner.is_file() else path / PROFILE_FILE
    packed, member = path.name.endswith(".tar.gz"), f"{PROFILE_FOLDER}/{PROFILE_FILE}"
    try:
        content = read_output(path, member) if packed else path.read_bytes()
        profile = TypeAdapter(Profile).validate_json(content)
    except OSError as error:
        raise OutputError(f"{path} cannot be read: {error}") from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or PROFILE_FILE
        raise OutputError(f"{path}: {where}: {first['msg'].lower()}; {_AGAIN}") from error
    if profile.schema != (expected := PROFILE_SCHEMA):
        raise OutputError(f"{path}: schema is {profile.schema}, expected {expected}; {_AGAIN}")
    if not profile.steps:
        raise OutputError(f"{path}: steps is empty, expected one step or more")
    return profile


MATRIX, CONVOLUTION, ELEMENTWISE, COMPILED, LAUNCHES = KINDS = (
    "matrix",  # products of matrices and attention
    "convolution",
    "elementwise",  # everything that moves more than it computes
    "compiled",  # graphs that a compiler made
    "launches",  # the host's own work in between
)
DATA, COPIES, COMMUNICATION, BETWEEN = "data", "copies", "communication", "between steps"
_BY_NAME = {
    COMPILED: re.compile(
        r"CompiledFunction|Torch-Compiled|CompiledFxGraph|triton_|inductor|cpp_fused|GraphLowering"
    ),
    CONVOLUTION: re.compile(r"conv"),
    MATRIX: re.compile(
        r"(^|::|_)(mm|addmm|bmm|baddbmm|addmv|addr|mv|dot|matmul|linear|einsum|gemm|mkl\w*linear)$"
        r"|mkldnn_linear|scaled_dot_product|flash|efficient_attention|lstm|gru|rnn|_trilinear"
    ),
}
_NODE = re.compile(r"^autograd::|Backward\d*$")  # autograd's own work on the host, in between
_HOSTS_PART = 3.0
"""How many times the least that an operator takes is the host's part of any: in a program its code
and its memory are not at hand as in a loop that does nothing else, and most have more to check."""
_NOTHING = 1e-9  # seconds: no clock tells less, so that it is no base for a proportion


@dataclass(frozen=True)
class Breakdown:
    """A typical step, in seconds. The parts add up to it."""

    seconds: float
    margin: float  # half of a 95% interval of it, over the steps
    parts: Mapping[str, float]
    inside: Mapping[str, Mapping[str, float]]  # by part that computes and one of KINDS

    def share(self, seconds: float) -> float:
        return seconds / self.seconds if self.seconds else 0.0

    def of_part(self, part: str) -> float:
        return self.share(self.parts[part])

    def of_kind(self, kind: str, parts: Sequence[str] = PARTS) -> float:
        """Seconds of a kind in these parts."""
        return sum(self.inside[part][kind] for part in parts)


def breakdown_of(profile: Profile) -> Breakdown:
    """The parts of the profile's typical step."""
    seen, computed = profile.profiled, _computed(profile)
    waits = [each.waited for each in profile.steps]
    rests = [max(each.seconds - each.waited, 0.0) for each in profile.steps]
    # What computes is the same in each step, but for what disturbs it: its median counts. Waits for
    # data come in bursts, as of loaders with workers: their mean counts.
    waited, rest = statistics.fmean(waits), statistics.median(rests)
    sums = {part: sum(each.values()) for part, each in computed.items()}
    host = {COMPUTING: seen.computing, UPDATE: seen.update}
    if profile.device == HOST:  # its own work is in operators, too, beyond what they compute
        for each in profile.operators:
            host[each.part] += each.seconds
        host = {part: max(seconds - sums[part], 0.0) for part, seconds in host.items()}
    hosts = sum(host.values())
    taken = sum(sums.values()) + seen.communication + seen.copies + seen.outside
    scale = min(1.0, rest / taken) if taken else 1.0
    if rest > taken + hosts > _NOTHING:
        # The profiler slows the host down, so that plain steps have less of its work. They last
        # longer all the same: the machine was busier then, which slows whatever they do.
        scale = rest / (taken + hosts)
    launches = max(rest - taken * scale, 0.0)
    of_update = host[UPDATE] / hosts if hosts else 0.0
    inside: dict[str, dict[str, float]] = {
        part: {**{kind: seconds * scale for kind, seconds in computed[part].items()}, LAUNCHES: own}
        for part, own in ((COMPUTING, launches * (1 - of_update)), (UPDATE, launches * of_update))
    }
    parts = {
        DATA: waited,
        COPIES: seen.copies * scale,
        **{part: sum(inside[part].values()) for part in PARTS},
        COMMUNICATION: seen.communication * scale,
        BETWEEN: seen.outside * scale,
    }
    return Breakdown(sum(parts.values()), _margin(rests, waits), parts, inside)


def _computed(profile: Profile) -> dict[str, dict[str, float]]:
    """Seconds of a profiled step that operators compute, by part and kind."""
    found: dict[str, dict[str, float]] = {part: dict.fromkeys(KINDS, 0.0) for part in PARTS}
    for each in profile.operators:
        kinds = (kind for kind, names in _BY_NAME.items() if names.search(each.name))
        kind = next(kinds, ELEMENTWISE)
        own = each.seconds - _HOSTS_PART * each.calls * profile.least_seconds
        if _NODE.search(each.name) and kind != COMPILED:
            own = 0.0
        found[each.part][kind] += max(own, 0.0) if profile.device == HOST else each.device_seconds
    return found


def _margin(rests: Sequence[float], waits: Sequence[float]) -> float:
    """Half of a 95% interval of the median of `rests` and the mean of `waits` together."""
    middle = statistics.median(rests)
    # The deviation by the median one, as of a normal distribution; a median's error is larger.
    deviation = 1.48 * statistics.median(abs(each - middle) for each in rests)
    error = math.hypot(1.25 * deviation, statistics.pstdev(waits))
    return 1.96 * error / math.sqrt(len(rests))


MATRIX_MARGIN, CONVOLUTION_MARGIN = 0.1, 0.4
"""What a compiler may save of these after all, in the upper bound: a product's epilogue that is
computed along with it, a layout of images that convolutions take better."""
_GAUGE = 0.1
"""How far the division of a part into work and launches may be off, in the upper bound: the
profiler that it comes from slows small operators more than large ones."""
_FUSES = (LAUNCHES, ELEMENTWISE)
_DYNAMIC = "the steps had {} shapes: set dynamic = true, and expect less"
_STATIC = "the steps had {} shapes, each a graph of its own: give them one first"
_COMPILERS = (
    ("torch-compile", (COMPUTING,), _FUSES, _DYNAMIC),
    ("torch-compile with the update", PARTS, _FUSES, _DYNAMIC),
    ("CUDA graphs alone", (COMPUTING,), (LAUNCHES,), _STATIC),
    ("xla, training-compiler, neuron", PARTS, _FUSES, _STATIC),
)
"""Which parts each compiles, what it spares of them, and what changing shapes mean to it."""


@dataclass(frozen=True)
class Ceiling:
    """The most that one way to compile could save, by Amdahl's law.

    Of what it compiles, a compiler can spare the host its work in between, and fuse what moves more
    than it computes. Both count as gone altogether. Data, copies, communication, what the program
    does beside its steps, and products of matrices, which a library computes, stay as they are.
    """

    compiler: str
    saved: float  # share of a step's time, at most
    speedup: float  # how many times as fast, at most
    speedup_high: float  # the same, with what is not known well
    caveat: str | None


def ceilings_of(profile: Profile, found: Breakdown) -> Iterator[Ceiling]:
    shapes = changing(profile.shapes)
    for compiler, parts, kinds, caveat in _COMPILERS:
        if kinds != _FUSES and profile.device == HOST:
            continue
        spared = sum(found.of_kind(kind, parts) for kind in kinds)
        covered = sum(found.parts[part] for part in parts)
        unknown = _GAUGE * covered + found.margin
        if ELEMENTWISE in kinds:
            unknown += MATRIX_MARGIN * found.of_kind(MATRIX, parts)
            unknown += CONVOLUTION_MARGIN * found.of_kind(CONVOLUTION, parts)
        # In a step that scatters the covered parts may be larger than typical, and others smaller.
        widest, fixed = covered + found.margin, max(found.seconds - covered, 0.0)
        narrowest = max(fixed - found.margin, 0.5 * fixed)
        most, saved = min(spared + unknown, widest), found.share(spared)
        high = max(most / (widest + narrowest) if most > 0 else 0.0, saved)
        speedup, speedup_high = (1 / (1 - min(each, 0.99)) for each in (saved, high))
        text = caveat.format(shapes) if shapes else None
        yield Ceiling(compiler, saved, speedup, speedup_high, text)


WORTH_NAMING = {
    **{DATA: NOTABLE_WAIT, COPIES: 0.2, COMMUNICATION: 0.25, BETWEEN: 0.3, UPDATE: 0.25},
    **{SHAPES: 0.2, SYNCHRONISATION: 0.15, BREAKS: 0.15},
}
"""Share of the step from which a fault is one."""
_RULES = {DATA: RULES[LOADER], **RULES}
_SENTENCES = {
    DATA: "The steps wait for data in {share} of their time, which no compiler shortens.",
    COPIES: "Copies between host and device take {share} of a step, with nothing beside them.",
    COMMUNICATION: "Communication between the processes takes {share} of a step.",
    BETWEEN: "In {share} of the time no operator of torch runs and no loader is waited for: the "
    "program makes a batch itself, logs, saves, sleeps, or waits for a file or a lock.",
    UPDATE: "Changing the weights takes {update} of a step, most of it many small operations on "
    "one tensor after the other.",
    SHAPES: "The operators were called with {shapes} sets of shapes in {steps} steps: a compiler "
    "of static shapes compiles each of them.",
    SYNCHRONISATION: "Each step asks {times} for the value of a tensor. That costs little on a "
    "processor; on a GPU the host cannot run ahead, XLA ends its graph there, and within the model "
    "any compiler's graph breaks.",
    BREAKS: "torch.compile leaves its graph at {places}: {at}.",
    MATRIX: "The steps multiply matrices: {share} of their time is in products that a library "
    "computes, whoever asks for them.",
    CONVOLUTION: "The steps convolve: {share} of their time.",
    ELEMENTWISE: "The steps move memory: {share} of their time is in element-wise operations, "
    "normalisation and reductions.",
    LAUNCHES: "The steps are many small operations: in {share} of their time the host gets the "
    "next one going.",
    COMPILED: "The steps run what a compiler made: {share} of their time.",
}
_CALLS_BETWEEN = 100  # between two reads of a value: enough to fill a device's queue meanwhile
_BREAKS_THAT_MATTER = 4
_MANY_CALLS = 100  # operators of an update that is many small ones and not just a small step
_MOST_PLACES = 5


@dataclass(frozen=True)
class Finding:
    """Something that holds the steps up. A fault is what no compiler mends, or what takes away what
    one would gain; everything else is what steps compute when nothing is wrong with them."""

    kind: str
    score: float  # the share of a step that it takes, or that it keeps a compiler from
    fault: bool
    sentence: str
    remedy: str
    where: tuple[str, ...]
    rule: str | None  # the rule of `compilegate check` that finds it in the source


def findings_of(profile: Profile, parts: Breakdown) -> tuple[Finding, ...]:
    """All that is worth naming; the first is the bottleneck. A fault that counts goes before
    anything that the steps compute."""
    score = attrgetter("score")
    faults = [each for each in _faults(profile, parts) if each.score >= WORTH_NAMING[each.kind]]
    faults.sort(key=score, reverse=True)
    natures = (_finding(profile, kind, parts.share(parts.of_kind(kind))) for kind in KINDS)
    first, *others = sorted(natures, key=score, reverse=True)
    # What is asked for seldom enough, or breaks into few enough parts, is no bottleneck of steps
    # that compute something large.
    minor = (SYNCHRONISATION, BREAKS)
    small = [each for each in faults if each.kind in minor and each.score < first.score / 2]
    large = [each for each in faults if each not in small]
    rest = [] if large else [each for each in others if each.score >= 0.25]
    return (*large, first, *small, *rest)


def _faults(profile: Profile, parts: Breakdown) -> Iterator[Finding]:
    found, computing = functools.partial(_finding, profile), parts.inside[COMPUTING]
    for kind in (DATA, COPIES, COMMUNICATION, BETWEEN):
        yield found(kind, parts.of_part(kind))
    update = parts.share(sum(parts.inside[UPDATE][kind] for kind in _FUSES))
    updates = sum(each.calls for each in profile.operators if each.part == UPDATE)
    if updates >= _MANY_CALLS and update > parts.share(computing[LAUNCHES]):
        yield found(UPDATE, update, update=f"{parts.of_part(UPDATE):.0%}")
    if shapes := changing(profile.shapes):
        yield found(SHAPES, parts.of_part(COMPUTING), shapes=shapes, steps=profile.profiled_steps)
    places = [(each.where, each.count) for each in profile.synchronisations]
    count, lines = reads_each_step(places, profile.profiled_steps)
    if lines:
        calls = sum(each.calls for each in profile.operators)
        dense = min(1.0, count * _CALLS_BETWEEN / calls) if calls else 1.0
        times = f"{count:.0f} times" if count >= 1.5 else "once"
        launches = parts.share(parts.of_kind(LAUNCHES))
        yield found(SYNCHRONISATION, launches * dense, lines, times=times)
    breaks = () if profile.graphs is None else profile.graphs.breaks
    if places := tuple(dict.fromkeys(each.where for each in breaks)):
        gains = parts.share(sum(computing[kind] for kind in (*_FUSES, COMPILED)))
        score = gains * min(1.0, len(places) / _BREAKS_THAT_MATTER)
        count_of = f"{len(places)} place{'s' if len(places) > 1 else ''}"
        yield found(BREAKS, score, places, places=count_of, at=f"{places[0]}, {breaks[0].reason}")


def _finding(
    profile: Profile, kind: str, score: float, where: tuple[str, ...] = (), **words: object
) -> Finding:
    known = table().measured[kind]
    return Finding(
        kind,
        score,
        fault=kind in WORTH_NAMING,
        sentence=_SENTENCES[kind].format(share=f"{score:.0%}", **words),
        remedy=known.remedy if profile.compiler == "eager" else known.compiled_remedy,
        where=where[:_MOST_PLACES],
        rule=_RULES.get(kind),
    )


@dataclass(frozen=True)
class Analysis:
    """All that follows from a profile."""

    profile: Profile
    breakdown: Breakdown
    findings: tuple[Finding, ...]
    ceilings: tuple[Ceiling, ...]

    @property
    def bottleneck(self) -> Finding:
        return self.findings[0]

    @property
    def document(self) -> dict[str, Any]:
        """The conclusions as JSON, beside the measurements."""
        whole = asdict(self)
        seen = ("program", "arm", "compiler", "device", "padding", "graphs", "trace")
        return {
            **{key: whole["profile"][key] for key in seen},
            "shapes": len(set(self.profile.shapes)),
            "bottleneck": self.bottleneck.kind,
            **{key: whole[key] for key in ("breakdown", "findings", "ceilings")},
        }


def analysis_of(profile: Profile) -> Analysis:
    found = breakdown_of(profile)
    ceilings = tuple(ceilings_of(profile, found))
    return Analysis(profile, found, findings_of(profile, found), ceilings)


_NAMES = {
    DATA: "waiting for data",
    COMPUTING: "forward and backward",
    UPDATE: "update (optimizer)",
    BETWEEN: "outside of torch",
    MATRIX: "matrix products",
    CONVOLUTION: "convolutions",
    ELEMENTWISE: "element-wise, reductions",
    COMPILED: "compiled graphs",
    LAUNCHES: "host: launches, Python",
}


def text_of(found: Analysis, folder: Path | None = None) -> str:
    """The whole report for a terminal; `folder` is where the profile's files lie."""
    trace = f"trace: {folder}/{found.profile.trace} (open it at https://ui.perfetto.dev)"
    others = [] if len(found.findings) == 1 else ["Also found"]
    for each in found.findings[1:]:
        others.append(f"  {each.kind} ({each.score:.0%})")
        others += [f"  {line}" for line in _finding_lines(each)]
    blocks = [
        _head(found),
        [f"The bottleneck: {found.bottleneck.kind}", *_finding_lines(found.bottleneck)],
        _part_lines(found.breakdown),
        _ceiling_lines(found),
        others,
        _padding_lines(found.profile),
        _graph_lines(found.profile),
        [] if folder is None else [trace],
    ]
    return "\n\n".join(text for text in map("\n".join, blocks) if text)


def _head(found: Analysis) -> Iterator[str]:
    profile, step = found.profile, found.breakdown
    arm = "" if profile.arm is None else f", arm {profile.arm}"
    batch = "" if profile.batch_size is None else f", batch {profile.batch_size}"
    together = "" if profile.processes == 1 else f", {profile.processes} processes"
    yield (
        f"{profile.program}{arm}: {profile.compiler} on {profile.device} ({profile.hardware})"
        f"{batch}{together}, torch {profile.torch}"
    )
    yield (
        f"a step takes {_time(step.seconds)} ± {_time(step.margin)}, over {len(profile.steps)} "
        f"steps after {profile.warm_up} to warm up"
    )
    if step.share(step.margin) > 0.25:
        yield "The steps scatter: other programs disturbed them, or they differ; try more --steps."


def _finding_lines(finding: Finding) -> Iterator[str]:
    yield f"  {finding.sentence}"
    if finding.where:
        yield f"  at {', '.join(finding.where)}"
    yield f"  {finding.remedy}"
    if finding.rule is not None:
        yield f"  rule: {finding.rule} (compilegate check)"


def _part_lines(step: Breakdown) -> Iterator[str]:
    yield "Where a step's time goes"
    for part, seconds in step.parts.items():
        share = step.share(seconds)
        bar = "#" * round(share * 24)
        yield f"  {_NAMES.get(part, part):<28}{share:>5.0%}  {_time(seconds):>10}  {bar}".rstrip()
        for kind, own in step.inside.get(part, {}).items():
            if step.share(own) >= 0.005:
                yield f"    {_NAMES[kind]:<26}{step.share(own):>5.0%}  {_time(own):>10}"
    yield f"  host (launches, Python) in all: {step.share(step.of_kind(LAUNCHES)):.0%}"


def _ceiling_lines(found: Analysis) -> Iterator[str]:
    yield "What each compiler could save, at most"
    for each in found.ceilings:
        yield (
            f"  {each.compiler:<32}{each.saved:>4.0%} of a step, {each.speedup:.2f} times as fast "
            f"(up to {each.speedup_high:.2f} with what is not known well)"
        )
        if each.caveat is not None:
            yield f"    {each.caveat}"
    if found.breakdown.of_kind(COMPILED):
        yield "  This arm is compiled already: this is what is left."
    yield "  A ceiling is no forecast: real gains lie below it, and compiling takes minutes itself."


def _padding_lines(profile: Profile) -> Iterator[str]:
    if (record := profile.padding) is not None:
        yield f'Padding: {record.share:.0%} of the positions of an epoch, with "{record.padding}"'
        for way in PADDINGS:
            share = 1 - record.tokens / getattr(record.positions, way)
            yield f"  {way:<10}{share:>5.0%}"


def _graph_lines(profile: Profile) -> Iterator[str]:
    if (graphs := profile.graphs) is None:
        return
    breaks = sum(each.count for each in graphs.breaks)
    again = sum(each.count for each in graphs.recompilations)
    yield f"Graphs: {graphs.count}, breaks: {breaks}, recompilations: {again}"
    for what, places in (("break at", graphs.breaks), ("again for", graphs.recompilations)):
        for each in places:
            times = f" ({each.count} times)" if each.count > 1 else ""
            yield f"  {what} {each.where}{times}: {each.reason}"


def _time(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"
