"""Advice as JSON. Pure."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any

from compilegate.advice.judging import Advice, OptionAdvice
from compilegate.advice.known.facts import Facts
from compilegate.advice.portfolio import Portfolio
from compilegate.advice.rules import rules
from compilegate.advice.told.text import headline

SCHEMA_VERSION = 1


def advice_document(advice: Advice) -> dict[str, Any]:
    """One workload. Ranges are `{"low", "high"}`; null is what is not known."""
    best = advice.best
    return {
        "schema_version": SCHEMA_VERSION,
        "workload": advice.facts.workload,
        "headline": headline(advice),
        "best": None if best is None else best.name,
        "rules": rules().date,
        "facts": _facts(advice.facts),
        "options": [_option(each) for each in advice.options],
        "missing": [
            {
                "consideration": each.name,
                "question": each.question,
                "settles": each.settles,
                "find_out": each.find_out,
            }
            for each in advice.missing
        ],
    }


def portfolio_document(portfolio: Portfolio) -> dict[str, Any]:
    """All workloads, where to start first."""
    start = portfolio.start
    return {
        "schema_version": SCHEMA_VERSION,
        "start": None if start is None else start.name,
        "saved_usd_per_year": _plain(portfolio.usd_per_year),
        "not_told_in_dollars": [entry.name for entry in portfolio.untold],
        "workloads": [advice_document(entry.advice) for entry in portfolio.entries],
        "problems": list(portfolio.problems),
    }


def _option(option: OptionAdvice) -> dict[str, Any]:
    return {
        **{
            each.name: _plain(getattr(option, each.name))
            for each in fields(option)
            if each.name not in ("considerations", "predictions")
        },
        "considerations": [_plain(each) for each in option.considerations],
        "predictions": [
            {**_plain(each), "as_predicted": each.overlap} for each in option.predictions
        ],
        "missing": [each.name for each in option.missing],
    }


def _facts(facts: Facts) -> dict[str, Any]:
    return {each.name: _plain(getattr(facts, each.name)) for each in fields(facts)}


def _plain(value: Any) -> Any:
    if isinstance(value, StrEnum):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: _plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    return value
