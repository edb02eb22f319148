"""Charts as inline SVG: pure functions from numbers to markup.

Colours, fonts and line widths are the page's, by class name, so that a chart follows light and
dark. Every chart has a title and a description for those who do not see it.
"""

from compilegate.report.charts.break_even import break_even_chart
from compilegate.report.charts.intervals import Strip, interval_strip
from compilegate.report.charts.loss_curves import loss_chart
from compilegate.report.charts.step_times import step_time_chart

__all__ = ["Strip", "break_even_chart", "interval_strip", "loss_chart", "step_time_chart"]
