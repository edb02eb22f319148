"""The report as one HTML page that needs nothing from anywhere: no script, no font, no network.

The verdict, the registered model and the first chart come first; what to look up is folded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from compilegate.gate.findings import Outcome
from compilegate.gate.observations import Observations
from compilegate.gate.verdict import CandidateVerdict, Verdict
from compilegate.report import formats
from compilegate.report.curves import loss_charts, timeline_chart
from compilegate.report.details import sections
from compilegate.report.forest import pictures
from compilegate.report.remedies import baseline_remedies, deciding, remedies
from compilegate.report.summary import About, facts_of, glance, registered, saved, with_data
from compilegate.report.svg import MOST_TIPS, arm_colours, with_minus_signs

_REASONS_AT_A_GLANCE = 2
"""How many a candidate's card has, each in full; below it are all."""
_REMEDIES_AT_A_GLANCE = 2


@dataclass(frozen=True)
class _Card:
    """An arm at a glance: how it came out, why, and what to do."""

    arm: str
    outcome: Outcome
    reasons: tuple[str, ...]
    more: int
    """Reasons that decided it and do not stand here."""
    remedies: tuple[str, ...]


def render_html(verdict: Verdict, observations: Observations, about: About | None = None) -> str:
    """The whole page. Everything that comes from outside is escaped."""
    about, colours = with_data(about, observations), arm_colours(observations)
    return rendered(
        "page.html.jinja",
        verdict=verdict,
        observations=observations,
        about=about,
        facts=facts_of(about),
        registered=registered(verdict, about.models),
        cards=[*_baseline(verdict), *(_candidate(verdict, it) for it in verdict.candidates)],
        pictures=pictures(verdict, colours),
        glance=glance(verdict),
        losses=loss_charts(observations, identity="loss"),
        timeline=timeline_chart(about.spans, colours, identity="timeline"),
        sections=sections(verdict, observations),
        arm_colours=colours,
    )


def _baseline(verdict: Verdict) -> list[_Card]:
    """Its card, where its model may not be released."""
    baseline = verdict.baseline
    reasons = [reason.sentence for reason in baseline.reasons]
    return [_card(baseline.arm, Outcome.FAIL, reasons, baseline_remedies(baseline))] * bool(reasons)


def _candidate(verdict: Verdict, candidate: CandidateVerdict) -> _Card:
    outcome = candidate.outcome
    reasons = [it.sentence for it in deciding(candidate)]
    if outcome is not Outcome.PASS:
        return _card(candidate.arm, outcome, reasons, remedies(verdict, candidate)[:-1])
    figures = () if verdict.cost is None else verdict.cost.candidates
    saves = (saved(it.saved) for it in figures if it.arm == candidate.arm)
    reasons = [*(f"Each retraining saves {it}." for it in saves), *reasons]
    return _card(candidate.arm, outcome, reasons, [])


def _card(arm: str, outcome: Outcome, reasons: list[str], ways: list[str]) -> _Card:
    most = _REASONS_AT_A_GLANCE
    return _Card(
        arm,
        outcome,
        tuple(reasons[:most]),
        max(len(reasons) - most, 0),
        tuple(ways[:_REMEDIES_AT_A_GLANCE]),
    )


def rendered(template: str, **values: object) -> str:
    """A template of this package, with every value escaped that is not markup."""
    return _environment().get_template(template).render(**values)


@cache
def _environment() -> Environment:
    """Escaping on, a missing name an error."""
    made = Environment(
        loader=PackageLoader("compilegate.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    own: dict[str, Any] = {"formats": formats, "marks": formats.MARKS, "most_tips": MOST_TIPS}
    made.globals.update(own)
    made.filters["minus"] = with_minus_signs
    made.filters["code"] = with_code
    return made


def with_code(sentence: str) -> Markup:
    """Escaped, with what stands between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(sentence))))  # noqa: S704
