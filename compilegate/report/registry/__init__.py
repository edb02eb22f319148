"""What a model registry shows of a model: its metrics, and a card that tells how it came to be."""

from compilegate.report.registry.card import model_card
from compilegate.report.registry.statistics import model_quality

__all__ = ["model_card", "model_quality"]
