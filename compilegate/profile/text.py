"""A profile's meaning for people, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from compilegate.job.profiling.record import COMPUTING, PARTS, UPDATE
from compilegate.profile.analysis import Analysis
from compilegate.profile.breakdown import BETWEEN, COMPILED, DATA, KINDS, LAUNCHES, Share
from compilegate.profile.findings import Finding

_BAR = 24
_SCATTERED = 0.25
_NAMES = {
    DATA: "waiting for data",
    COMPUTING: "forward and backward",
    UPDATE: "update (optimizer)",
    BETWEEN: "outside of torch",
    "matrix": "matrix products",
    "convolution": "convolutions",
    "elementwise": "element-wise, reductions",
    "compiled": "compiled graphs",
    "launches": "host: launches, Python",
}


def text_of(found: Analysis, folder: Path | None = None) -> str:
    """The whole report; `folder` is where the profile's files lie."""
    blocks = [
        _head(found),
        [f"The bottleneck: {found.bottleneck.kind}", *_finding(found.bottleneck)],
        _parts(found),
        _ceilings(found),
        _others(found),
        _graphs(found),
        []
        if folder is None
        else [f"trace: {folder / found.profile.trace} (open it at https://ui.perfetto.dev)"],
    ]
    return "\n\n".join(text for text in map("\n".join, blocks) if text)


def _head(found: Analysis) -> Iterator[str]:
    profile = found.profile
    arm = "" if profile.arm is None else f", arm {profile.arm}"
    batch = "" if profile.batch_size is None else f", batch {profile.batch_size}"
    together = "" if profile.processes == 1 else f", {profile.processes} processes"
    yield (
        f"{profile.program}{arm}: {profile.compiler} on {profile.device} ({profile.hardware})"
        f"{batch}{together}, torch {profile.torch}"
    )
    yield (
        f"a step takes {_time(found.breakdown.step)}, over {len(profile.steps)} steps after "
        f"{profile.warm_up} to warm up"
    )
    if found.breakdown.scattered > _SCATTERED:
        yield (
            "The steps scatter: other programs disturbed them, or they differ; --steps takes more "
            "of them."
        )


def _finding(finding: Finding) -> Iterator[str]:
    yield f"  {finding.sentence}"
    if finding.where:
        yield f"  at {', '.join(finding.where)}"
    yield f"  {finding.remedy}"
    if finding.rule is not None:
        yield f"  rule: {finding.rule} (compilegate check)"


def _parts(found: Analysis) -> Iterator[str]:
    parts = found.breakdown
    yield "Where a step's time goes"
    for part, share in parts.parts.items():
        of_all = parts.share(share.seconds)
        bar = "#" * round(of_all * _BAR)
        yield f"  {_NAMES.get(part, part):<28}{of_all:>5.0%}  {_time(share):>10}  {bar}".rstrip()
        for kind in KINDS if part in PARTS else ():
            seconds = parts.inside[part, kind]
            if parts.share(seconds) >= 0.005:
                yield f"    {_NAMES[kind]:<26}{parts.share(seconds):>5.0%}  {_plain(seconds):>10}"
    yield f"  host (launches, Python) in all: {parts.share(parts.of_kind(LAUNCHES)):.0%}"


def _ceilings(found: Analysis) -> Iterator[str]:
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


def _others(found: Analysis) -> Iterator[str]:
    if len(found.findings) > 1:
        yield "Also found"
        for each in found.findings[1:]:
            yield f"  {each.kind} ({each.score:.0%})"
            yield from (f"  {line}" for line in _finding(each))


def _graphs(found: Analysis) -> Iterator[str]:
    graphs = found.profile.graphs
    if graphs is None:
        return
    breaks = sum(each.count for each in graphs.breaks)
    again = sum(each.count for each in graphs.recompilations)
    yield f"Graphs: {graphs.count}, breaks: {breaks}, recompilations: {again}"
    for what, places in (("break at", graphs.breaks), ("again for", graphs.recompilations)):
        for each in places:
            times = f" ({each.count} times)" if each.count > 1 else ""
            yield f"  {what} {each.where}{times}: {each.reason}"


def _time(share: Share) -> str:
    return f"{_plain(share.seconds)} ± {_plain((share.high - share.low) / 2)}"


def _plain(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1e3:.2f} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} us"
