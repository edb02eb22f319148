"""When a workload is trained again: EventBridge Scheduler's expressions, read and worked out. Pure.

    from compilegate.workload.schedule import next_times, read_expression, read_time_zone

    next_times(read_expression("cron(0 6 ? * MON *)"), read_time_zone("Europe/Paris"), now, 3)

What the service does not document is refused here: a schedule that is refused at `validate` is
better than a deployment that fails, or a job that never starts.
"""

from compilegate.workload.errors import ScheduleError
from compilegate.workload.schedule.cron import Cron
from compilegate.workload.schedule.expression import (
    Rate,
    next_times,
    read_expression,
    read_time_zone,
)

__all__ = ["Cron", "Rate", "ScheduleError", "next_times", "read_expression", "read_time_zone"]
