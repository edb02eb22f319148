"""Charts as inline SVG: pure functions from numbers to markup.

Colours, fonts and line widths are the page's, by class name, so that a chart follows light and
dark. Every chart has a title and a description for those who do not see it, and tells its numbers
to a mouse and to the keyboard (`svg.Mark`).
"""

from compilegate.report.charts.break_even import break_even_chart
from compilegate.report.charts.colours import arm_colours
from compilegate.report.charts.lengths import length_chart
from compilegate.report.charts.loss_curves import loss_charts
from compilegate.report.charts.seeds import SeedPanel, seed_charts
from compilegate.report.charts.step_times import step_time_chart
from compilegate.report.charts.timeline import timeline_chart

__all__ = [
    "SeedPanel",
    "arm_colours",
    "break_even_chart",
    "length_chart",
    "loss_charts",
    "seed_charts",
    "step_time_chart",
    "timeline_chart",
]
