"""The report: a verdict and what was observed, as a page, Markdown, JUnit XML, lines and a notice.

An execution that came to no verdict has a page of its own (`execution`).
"""

from compilegate.report.execution import (
    ExecutionFacts,
    StepFacts,
    render_execution_html,
    render_execution_markdown,
)
from compilegate.report.junit import render_junit
from compilegate.report.markdown import render_markdown
from compilegate.report.notice import Notice, notice_of
from compilegate.report.page import render_html
from compilegate.report.savings import saves
from compilegate.report.summary import About, decided, summary_lines

__all__ = [
    "About",
    "ExecutionFacts",
    "Notice",
    "StepFacts",
    "decided",
    "notice_of",
    "render_execution_html",
    "render_execution_markdown",
    "render_html",
    "render_junit",
    "render_markdown",
    "saves",
    "summary_lines",
]
