"""Functions that act on events, and the queue of what could not be delivered to them."""

from compilegate.infra.functions.dead_letters import DeadLetters
from compilegate.infra.functions.function import EventFunction, log_name

__all__ = ["DeadLetters", "EventFunction", "log_name"]
