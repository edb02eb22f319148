"""`[model]` and `[recipe]`: what the built-in program trains, and how."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import (
    Field,
    model_validator,
)

from compilegate.workload.declaration.values import (
    Fraction,
    Table,
    Text,
)


class RandomModel(Table):
    """A BERT encoder initialised at random."""

    source: Literal["random"]
    layers: int = Field(default=2, ge=1, le=96)
    """Transformer blocks."""
    hidden_size: int = Field(default=128, ge=8, le=16384)
    """Width; a multiple of `attention_heads`."""
    attention_heads: int = Field(default=2, ge=1, le=256)
    """Attention heads in each block."""
    intermediate_size: int = Field(default=512, ge=8, le=65536)
    """Width inside of the feed-forward part."""
    dropout: Fraction = 0.1
    """Share of activations that training drops."""

    @property
    def hyperparameters(self) -> dict[str, str]:
        """What the training program needs to know about the model."""
        return {name: repr(value) for name, value in self if name != "source"}

    @model_validator(mode="after")
    def _heads_divide_the_hidden_size(self) -> Self:
        if self.hidden_size % self.attention_heads:
            raise ValueError(
                f"hidden_size is {self.hidden_size}, expected a multiple of attention_heads "
                f"({self.attention_heads})"
            )
        return self


class HubModel(Table):
    """A pretrained encoder: a model id of the Hugging Face hub, or a local folder."""

    source: Literal["hub"]
    id: Text
    """Id on the hub, or a folder."""

    @property
    def hyperparameters(self) -> dict[str, str]:
        """What the training program needs to know about the model."""
        return {"model_id": self.id}


Model = Annotated[RandomModel | HubModel, Field(discriminator="source")]


class Recipe(Table):
    """What all arms share. An arm differs in its compiler, batch, rate and precision only."""

    epochs: int = Field(ge=1, le=10_000)
    """How often the training data are gone through."""
    warmup_fraction: Fraction = 0.1
    """Share of the steps over which the learning rate rises from zero to its peak."""
    weight_decay: float = Field(default=0.01, ge=0, allow_inf_nan=False)
    """AdamW's."""
    gradient_clip: float = Field(default=1.0, ge=0, allow_inf_nan=False)
    """Largest norm of the gradient of one step; 0 turns clipping off."""
    averaging: Fraction = 0.0
    """Decay of the moving average of the weights that is evaluated and saved; 0 turns it off."""
    log_every_steps: int = Field(default=0, ge=0, le=1_000_000)
    """Steps between two lines of the log; 0 is about a second. Each reads a loss."""
    evaluate_every_epochs: int = Field(default=0, ge=0, le=10_000)
    """Epochs between two evaluations on the validation split while training, for the log alone; 0:
    only the trained model is evaluated."""

    @property
    def hyperparameters(self) -> dict[str, str]:
        """What the training program needs to know about the recipe."""
        # Those for the log where they are set: spelled out, a default would train every arm anew.
        return {
            name: repr(value)
            for name, value in self
            if value or name not in ("log_every_steps", "evaluate_every_epochs")
        }
