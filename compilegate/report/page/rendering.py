"""The templates' environment: escaping on, a missing name an error."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from compilegate.gate.metrics import unit_of
from compilegate.report import cost, formats
from compilegate.report.charts.svg import MOST_TIPS

MINUS = "\N{MINUS SIGN}"


@cache
def environment() -> Environment:
    """What both pages are rendered with."""
    made = Environment(
        loader=PackageLoader("compilegate.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    own: dict[str, Any] = {
        "cost_words": cost,
        "formats": formats,
        "marks": formats.MARKS,
        "most_tips": MOST_TIPS,
        "unit_of": unit_of,
    }
    made.globals.update(own)
    made.filters["minus"] = with_minus_signs
    made.filters["code"] = with_code
    return made


def with_minus_signs(numbers: str) -> str:
    """The text with real minus signs; the hyphens of names and dates stay."""
    return re.sub(r"(?<![^\s(])-(?=\d)", MINUS, numbers)


def with_code(sentence: str) -> Markup:
    """Escaped, with what stands between backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(sentence))))  # noqa: S704
