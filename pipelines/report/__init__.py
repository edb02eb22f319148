"""The report: a verdict and what was observed, as a page, Markdown, JUnit XML, lines and a notice.

An execution that came to no verdict has a page of its own (`execution`).
"""

from pipelines.report.execution import (
    ExecutionFacts,
    StepFacts,
    render_execution_html,
    render_execution_markdown,
)
from pipelines.report.html import render_html
from pipelines.report.junit import render_junit
from pipelines.report.markdown import render_brief, render_markdown
from pipelines.report.notice import Notice, notice_of
from pipelines.report.summary import summary_lines

__all__ = [
    "ExecutionFacts",
    "Notice",
    "StepFacts",
    "notice_of",
    "render_brief",
    "render_execution_html",
    "render_execution_markdown",
    "render_html",
    "render_junit",
    "render_markdown",
    "summary_lines",
]
