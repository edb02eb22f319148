"""`[model]` and `[recipe]`: what the built-in program trains, and how."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from compilegate.workload.declared.table import Table, Text

Fraction = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


class RandomModel(Table):
    """A BERT encoder initialised at random."""

    source: Literal["random"]
    layers: int = Field(default=2, ge=1, le=96)
    """Transformer blocks."""
    hidden_size: int = Field(default=128, ge=8, le=16384)
    """Width; a multiple of `attention_heads`."""
    attention_heads: int = Field(default=2, ge=1, le=256)
    """In each block."""
    intermediate_size: int = Field(default=512, ge=8, le=65536)
    """Width inside of the feed-forward part."""
    dropout: Fraction = 0.1
    """Share of activations that training drops."""

    @property
    def hub_id(self) -> None:
        """None: it is no model of the hub."""

    @property
    def hyperparameters(self) -> dict[str, str]:
        """What the training program needs to know about the model."""
        return {
            "layers": str(self.layers),
            "hidden_size": str(self.hidden_size),
            "attention_heads": str(self.attention_heads),
            "intermediate_size": str(self.intermediate_size),
            "dropout": repr(self.dropout),
        }

    @model_validator(mode="after")
    def _heads_divide_the_hidden_size(self) -> Self:
        if self.hidden_size % self.attention_heads:
            raise ValueError(
                f"hidden_size is {self.hidden_size}, allowed: "
                f"a multiple of attention_heads ({self.attention_heads})"
            )
        return self


class HubModel(Table):
    """A pretrained encoder: a model id of the Hugging Face hub, or a local folder."""

    source: Literal["hub"]
    id: Text
    """Its id on the hub, or the folder it lies in."""

    @property
    def hub_id(self) -> str:
        """The model's id, or the folder it lies in."""
        return self.id

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
        return {
            "epochs": str(self.epochs),
            "warmup_fraction": repr(self.warmup_fraction),
            "weight_decay": repr(self.weight_decay),
            "gradient_clip": repr(self.gradient_clip),
            "averaging": repr(self.averaging),
            # Those that are set: a default that is spelled out would train every arm anew.
            **{
                name: str(value)
                for name in ("log_every_steps", "evaluate_every_epochs")
                if (value := getattr(self, name))
            },
        }
