"""The report as one HTML page that needs nothing from anywhere: no script, no font, no network.

The verdict, the registered model and the first chart come first; what to look up is folded.
"""

from __future__ import annotations

import re
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from compilegate.gate.observations import Observations
from compilegate.gate.verdict import Verdict
from compilegate.report import formats
from compilegate.report.curves import loss_charts
from compilegate.report.details import sections
from compilegate.report.forest import pictures
from compilegate.report.summary import (
    About,
    arm_summaries,
    facts_of_verdict,
    registered,
    summary_table,
)
from compilegate.report.svg import arm_colours, with_minus_signs


def render_html(verdict: Verdict, observations: Observations, about: About | None = None) -> str:
    """The whole page. Everything that comes from outside is escaped."""
    return rendered(
        "page.html.jinja",
        verdict=verdict,
        observations=observations,
        facts=facts_of_verdict(verdict, observations, about),
        registered=registered(verdict, () if about is None else about.models),
        arms=arm_summaries(verdict),
        pictures=pictures(verdict),
        summary_table=summary_table(verdict),
        losses=loss_charts(observations),
        sections=sections(verdict, observations),
        arm_colours=arm_colours(observations),
    )


def rendered(name: str, **values: object) -> str:
    """A template of this package, with every value escaped that is not markup."""
    template = _environment().get_template(name)
    return template.render(formats=formats, marks=formats.MARKS, **values)


@cache
def _environment() -> Environment:
    """Escaping on, a missing name an error."""
    environment = Environment(
        loader=PackageLoader("compilegate.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["minus"] = with_minus_signs
    environment.filters["code"] = with_code
    return environment


def with_code(sentence: str) -> Markup:
    """Escaped, with what stands between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(sentence))))  # noqa: S704
