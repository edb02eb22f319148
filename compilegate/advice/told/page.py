"""Advice as a page that needs nothing from anywhere: a portfolio, sortable, with where to start."""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from compilegate.advice.judging import ORDER, Advice, OptionAdvice, Verdict
from compilegate.advice.portfolio import Portfolio
from compilegate.advice.ranges import Range
from compilegate.advice.rules import rules
from compilegate.advice.told import words
from compilegate.advice.told.text import headline, portfolio_headline

TEMPLATES = Path(__file__).parent / "templates"
STYLES = Path(__file__).parents[2] / "report" / "templates"
"""The pages of this project look alike."""
BADGES = {Verdict.ENABLE: "pass", Verdict.BENCHMARK: "inconclusive", Verdict.OFF: "watched"}


def render_advice_html(portfolio: Portfolio) -> str:
    """The page. Its script sorts the table and does nothing else; without it the table stands in
    the order in which it is worth being worked through."""
    script = (TEMPLATES / "sorting.js").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        _environment()
        .get_template("portfolio.html.jinja")
        .render(
            portfolio=portfolio,
            headline=portfolio_headline(portfolio),
            script=script,
            script_digest=digest,
            rules_date=rules().date,
        )
    )


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader([TEMPLATES, STYLES]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    own: dict[str, Any] = {
        "words": words,
        "badges": BADGES,
        "verdicts": tuple(ORDER),
        "headline_of": headline,
        "sort_key": sort_key,
        "shown": shown,
        "rest": rest,
    }
    made.globals.update(own)
    return made


def sort_key(amount: Range | None) -> str:
    """What the script sorts by: the middle; nothing where it is not known."""
    return "" if amount is None else f"{amount.middle:.2f}"


def shown(advice: Advice) -> tuple[OptionAdvice, ...]:
    """The options with a figure, and those that are worth a look."""
    return tuple(each for each in advice.options if each.verdict is not Verdict.OFF)


def rest(advice: Advice) -> tuple[OptionAdvice, ...]:
    """What stays off."""
    return tuple(each for each in advice.options if each.verdict is Verdict.OFF)
