"""The report: a verdict and what was observed, as a page, Markdown, JUnit XML, lines and a notice.

An execution that came to no verdict has a page of its own (`execution`).
"""

from compilegate.report.execution import (
    ExecutionFacts,
    StepFacts,
    render_execution_html,
    render_execution_markdown,
)
from compilegate.report.html import render_html
from compilegate.report.junit import render_junit
from compilegate.report.markdown import render_markdown
from compilegate.report.notice import Notice, notice_of
from compilegate.report.summary import summary_lines

__all__ = [
    "ExecutionFacts",
    "Notice",
    "StepFacts",
    "notice_of",
    "render_execution_html",
    "render_execution_markdown",
    "render_html",
    "render_junit",
    "render_markdown",
    "summary_lines",
]
