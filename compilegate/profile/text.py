"""A profile's meaning for people, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from compilegate.job.profiling.record import BACKWARD, FORWARD, PHASES, UPDATE
from compilegate.profile.analysis import Analysis
from compilegate.profile.breakdown import COMPILED, COMPUTING, KINDS, Share
from compilegate.profile.findings import Finding
from compilegate.profile.lengths import LengthsView

_BAR = 24
_MB = 1e6
_NAMES = {
    FORWARD: "forward",
    BACKWARD: "backward",
    UPDATE: "update",
}
_KIND_NAMES = {
    "matrix": "matrix products",
    "convolution": "convolutions",
    "elementwise": "element-wise, reductions",
    "compiled": "compiled graphs",
    "launches": "host: launches, Python",
}


def text_of(found: Analysis, folder: Path | None = None) -> str:
    """The whole report; `folder` is where the profile's files lie."""
    blocks = [
        list(_head(found)),
        list(_bottleneck(found.bottleneck)),
        list(_parts(found)),
        list(_ceilings(found)),
        list(_others(found)),
        list(_graphs(found)),
        list(_lengths(found.lengths)),
        list(_memory(found)),
        list(_last(found, folder)),
    ]
    return "\n\n".join("\n".join(lines) for lines in blocks if lines)


def _head(found: Analysis) -> Iterator[str]:
    profile = found.profile
    arm = "" if profile.arm is None else f", arm {profile.arm}"
    batch = "" if profile.batch_size is None else f", batch {profile.batch_size}"
    together = "" if profile.processes == 1 else f", {profile.processes} processes"
    yield (
        f"{profile.program}{arm}: {profile.compiler} on {profile.device} ({profile.hardware})"
        f"{batch}{together}, torch {profile.torch}"
    )
    step = found.parts.step
    yield (
        f"a step takes {_time(step)}, over {len(profile.steps)} steps after {profile.warm_up} to "
        "warm up"
    )
    if found.parts.scattered > _SCATTERED:
        yield (
            "The steps scatter: other programs disturbed them, or they differ; --steps takes more "
            "of them."
        )


_SCATTERED = 0.25


def _bottleneck(finding: Finding) -> Iterator[str]:
    yield f"The bottleneck: {finding.kind}"
    yield from _told(finding)


def _told(finding: Finding) -> Iterator[str]:
    yield f"  {finding.sentence}"
    if finding.where:
        yield f"  at {', '.join(finding.where)}"
    yield f"  {finding.remedy}"
    if finding.rule is not None:
        yield f"  rule: {finding.rule} (compilegate check)"


def _parts(found: Analysis) -> Iterator[str]:
    parts = found.parts
    yield "Where a step's time goes"
    rows: list[tuple[str, Share | None, float]] = [
        ("waiting for data", parts.loader, parts.loader.seconds),
        ("copies", parts.copies, parts.copies.seconds),
    ]
    for phase in COMPUTING:
        rows.append((_NAMES[phase], parts.computing[phase], parts.computing[phase].seconds))
        rows += [
            (f"  {_KIND_NAMES[kind]}", None, parts.inside[phase, kind])
            for kind in KINDS
            if parts.share(parts.inside[phase, kind]) >= 0.005
        ]
    rows += [
        ("communication", parts.communication, parts.communication.seconds),
        ("between the steps", parts.between, parts.between.seconds),
        ("idle", parts.idle, parts.idle.seconds),
    ]
    for name, share, seconds in rows:
        of_all = parts.share(seconds)
        bar = "#" * round(of_all * _BAR) if share is not None else ""
        scatter = f"{_plain(seconds):>10}" if share is None else f"{_time(share):>10}"
        yield f"  {name:<28}{of_all:>5.0%}  {scatter}  {bar}".rstrip()
    host = parts.share(parts.of_kind("launches"))
    yield f"  host (launches, Python) in all: {host:.0%}"


def _ceilings(found: Analysis) -> Iterator[str]:
    yield "What each compiler could save, at most"
    for each in found.ceilings:
        yield (
            f"  {each.compiler:<32}{each.saved:>4.0%} of a step, {each.speedup:.2f} times as fast "
            f"(up to {each.speedup_high:.2f} with what is not known well)"
        )
        if each.caveat is not None:
            yield f"    {each.caveat}"
    if found.parts.of_kind(COMPILED):
        yield "  This arm is compiled already: this is what is left."
    yield "  A ceiling is no forecast: real gains lie below it, and compiling takes minutes itself."


def _others(found: Analysis) -> Iterator[str]:
    if len(found.findings) > 1:
        yield "Also found"
        for each in found.findings[1:]:
            yield f"  {each.kind} ({each.score:.0%})"
            yield from (f"  {line}" for line in _told(each))


def _graphs(found: Analysis) -> Iterator[str]:
    captured = found.profile.captured
    if captured is None:
        return
    if captured.obstacle is not None:
        yield f"Graph breaks: not looked for, {captured.obstacle}"
        return
    how = (
        f"{captured.steps} steps that the compiler compiled"
        if captured.by == "compiler"
        else f"{captured.steps} steps that torch captured afterwards, without compiling"
    )
    breaks = sum(each.count for each in captured.breaks)
    anew = sum(each.count for each in captured.recompilations)
    yield f"Graphs: {captured.graphs}, breaks: {breaks}, recompilations: {anew}, in {how}"
    for each in captured.breaks:
        yield f"  break at {each.where}{_times(each.count)}: {each.reason}"
    for each in captured.recompilations:
        yield f"  again for {each.where}{_times(each.count)}: {each.reason}"


def _times(count: int) -> str:
    return f" ({count} times)" if count > 1 else ""


def _lengths(view: LengthsView | None) -> Iterator[str]:
    if view is None:
        return
    by = {
        "mask": "by the attention mask",
        "filling": "by the number that rows end in",
        "shape": "by the batches' own shapes",
    }[view.by]
    yield (
        f"Lengths of {view.examples} examples ({by}): median {view.median:.0f}, longest "
        f"{view.longest}; {view.padding:.0%} of what is computed is padding"
    )
    most = max(count for _, _, count in view.histogram)
    for low, high, count in view.histogram:
        bar = "#" * round(count / most * _BAR)
        yield f"  {f'{low} to {high}':<14}{count:>7}  {bar}".rstrip()
    yield "  way to pad                     positions  against now  graphs"
    for way in view.ways:
        ends = f"  ({', '.join(map(str, way.ends))})" if len(way.ends) > 1 else ""
        yield (
            f"  {way.name:<31}{way.positions:>9.1f}  {_against(view.saved_by(way)):>11}"
            f"{way.graphs:>8}{ends}"
        )
    yield "  With dynamic shapes, each batch to its longest takes one graph or two."


def _against(saved: float) -> str:
    return f"{-saved:+.0%}" if abs(saved) >= 0.005 else "same"


def _memory(found: Analysis) -> Iterator[str]:
    memory = found.profile.memory
    if memory is None:
        return
    peak = "" if memory.peak is None else f", at most {_size(memory.peak)} in all"
    yield (
        f"Memory: weights {_size(memory.weights)}, gradients {_size(memory.gradients)}, optimizer "
        f"{_size(memory.optimizer)}{peak}"
    )
    told = [
        f"{phase} {_size(memory.highest_in[phase])}"
        for phase in PHASES
        if memory.highest_in.get(phase, 0) > 0
    ]
    if told:
        yield f"  most beyond what a step began with: {', '.join(told)}"


def _last(found: Analysis, folder: Path | None) -> Iterator[str]:
    yield from found.profile.notes
    if folder is not None and found.profile.trace is not None:
        yield f"trace: {folder / found.profile.trace} (open it at https://ui.perfetto.dev)"


def _time(share: Share) -> str:
    half = (share.high - share.low) / 2
    return f"{_plain(share.seconds)} ± {_plain(half)}"


def _plain(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"


def _size(size: int) -> str:
    if size < _MB:
        return f"{size / 1e3:,.0f} kB"
    return f"{size / _MB:,.1f} MB" if size < 1e9 else f"{size / 1e9:,.2f} GB"
