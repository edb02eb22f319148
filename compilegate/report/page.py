"""The report as one HTML page that needs nothing from anywhere: no script, no font, no network.

The verdict, the registered model and the first chart come first; what to look up is folded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from compilegate.gate.findings import Outcome
from compilegate.gate.observations import Observations
from compilegate.gate.verdict import Verdict
from compilegate.report import formats
from compilegate.report.curves import loss_charts
from compilegate.report.details import sections
from compilegate.report.forest import pictures
from compilegate.report.remedies import baseline_remedies, deciding, remedies
from compilegate.report.summary import (
    About,
    facts_of_verdict,
    registered,
    saved,
    summary_table,
)
from compilegate.report.svg import arm_colours, with_minus_signs

_REASONS_AT_A_GLANCE = 2
"""How many a candidate's card has, each in full; below it are all."""
_REMEDIES_AT_A_GLANCE = 2


@dataclass(frozen=True)
class _Card:
    """An arm at a glance: how it came out, why, and what to do."""

    arm: str
    outcome: Outcome
    reasons: list[str]
    more: int
    """Reasons that decided it and do not stand here."""
    remedies: list[str]


def render_html(verdict: Verdict, observations: Observations, about: About | None = None) -> str:
    """The whole page. Everything that comes from outside is escaped."""
    colours = arm_colours(observations)
    return rendered(
        "page.html.jinja",
        verdict=verdict,
        observations=observations,
        facts=facts_of_verdict(verdict, observations, about),
        registered=registered(verdict, () if about is None else about.models),
        cards=_cards(verdict),
        pictures=pictures(verdict, colours),
        summary_table=summary_table(verdict),
        losses=loss_charts(observations),
        sections=sections(verdict, observations),
        arm_colours=colours,
    )


def _cards(verdict: Verdict) -> list[_Card]:
    """One for each candidate; before them the baseline's, where its model may not be released."""
    baseline, cost = verdict.baseline, verdict.cost
    cards = []
    if baseline.reasons:
        reasons = [reason.sentence for reason in baseline.reasons]
        cards.append(_card(baseline.arm, Outcome.FAIL, reasons, baseline_remedies(baseline)))
    for candidate in verdict.candidates:
        reasons = [reason.sentence for reason in deciding(candidate)]
        ways: list[str] = []
        if candidate.outcome is not Outcome.PASS:
            ways = remedies(verdict, candidate)[:-1]
        elif cost is not None:
            own = (each for each in cost.candidates if each.arm == candidate.arm)
            reasons = [*(f"It saves {saved(each, verdict)}." for each in own), *reasons]
        cards.append(_card(candidate.arm, candidate.outcome, reasons, ways))
    return cards


def _card(arm: str, outcome: Outcome, reasons: list[str], ways: list[str]) -> _Card:
    most = _REASONS_AT_A_GLANCE
    more = max(len(reasons) - most, 0)
    return _Card(arm, outcome, reasons[:most], more, ways[:_REMEDIES_AT_A_GLANCE])


def rendered(name: str, **values: object) -> str:
    """A template of this package, with every value escaped that is not markup."""
    template = _environment().get_template(name)
    return template.render(formats=formats, marks=formats.MARKS, **values)


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
    made.filters["minus"] = with_minus_signs
    made.filters["code"] = with_code
    return made


def with_code(sentence: str) -> Markup:
    """Escaped, with what stands between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(sentence))))  # noqa: S704
