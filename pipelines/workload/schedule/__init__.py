"""When a workload is trained again: EventBridge Scheduler's expressions, read and worked out. Pure.

    from pipelines.workload.schedule import next_times, read_expression, read_time_zone

    next_times(read_expression("cron(0 6 ? * MON *)"), read_time_zone("Europe/Paris"), now, 3)

What the service does not document is refused here: a schedule that is refused at `validate` is
better than a deployment that fails, or a job that never starts.
"""

from pipelines.workload.schedule.cron import Cron
from pipelines.workload.schedule.errors import ExpressionError
from pipelines.workload.schedule.expression import read_expression
from pipelines.workload.schedule.rate import Rate
from pipelines.workload.schedule.times import next_times
from pipelines.workload.schedule.zones import read_time_zone

__all__ = ["Cron", "ExpressionError", "Rate", "next_times", "read_expression", "read_time_zone"]
