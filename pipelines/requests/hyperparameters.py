"""What a training job is told of its arm: the hyperparameters of `training/train.py`. No SDK."""

from __future__ import annotations

from compilegate.pipelines.requests.checkpoint_folder import compile_cache_hyperparameters
from compilegate.workload import Arm, HubModel, TextClassification, Workload
from compilegate.workload.declaration import BASELINE
from compilegate.workload.recipe import Model


def job_hyperparameters(
    workload: Workload, kind: TextClassification, name: str, arm: Arm, seed: int
) -> dict[str, str]:
    """Of the job that trains an arm with a seed, as text, without those of SageMaker's toolkit."""
    return {
        "arm": name,
        "seed": str(seed),
        "compiler": arm.compiler,
        "batch_size": str(arm.batch_size),
        "learning_rate": repr(arm.learning_rate),
        "precision": arm.precision,
        "epochs": str(kind.recipe.epochs),
        "warmup_fraction": repr(kind.recipe.warmup_fraction),
        "weight_decay": repr(kind.recipe.weight_decay),
        "gradient_clip": repr(kind.recipe.gradient_clip),
        "averaging": repr(kind.recipe.averaging),
        **_model_hyperparameters(kind.model),
        **compile_cache_hyperparameters(workload, arm),
        **_parity_hyperparameters(workload, arm),
        **_torch_compile_hyperparameters(arm),
        **({} if arm.step_graphs is None else {"step_graphs": str(arm.step_graphs)}),
        **_distribution_hyperparameters(arm),
        **_scaling_hyperparameters(arm),
        # A candidate that cannot train is evidence against it, not an outage: the baseline still
        # has to be released. Without a baseline there is nothing to release.
        "on_failure": "stop" if name == BASELINE else "record",
    }


def _model_hyperparameters(model: Model) -> dict[str, str]:
    if isinstance(model, HubModel):
        return {"model_id": model.id}
    return {
        "layers": str(model.layers),
        "hidden_size": str(model.hidden_size),
        "attention_heads": str(model.attention_heads),
        "intermediate_size": str(model.intermediate_size),
        "dropout": repr(model.dropout),
    }


def _torch_compile_hyperparameters(arm: Arm) -> dict[str, str]:
    """Those that are set: a default that is spelled out would train every arm anew."""
    names = {"mode": "compile_mode", "dynamic": "dynamic_shapes"}
    return {
        names.get(key, key): str(value).lower() for key, value in arm.torch_compile_keys.items()
    }


def _distribution_hyperparameters(arm: Arm) -> dict[str, str]:
    """The training program starts torchrun itself, so that it is the same on every platform; the
    toolkit's own `sagemaker_torch_distributed_enabled` would be unknown to most."""
    if arm.distribution != "torchrun":
        return {}
    return {"distribution": "torchrun", "processes": str(arm.processes)}


def _scaling_hyperparameters(arm: Arm) -> dict[str, str]:
    """For the evidence: the learning rate itself is another hyperparameter."""
    scaled = arm.scaled_rate
    if scaled is None:
        return {}
    return {
        "learning_rate_rule": scaled.rule,
        "base_learning_rate": repr(scaled.base_rate),
        "base_global_batch_size": str(scaled.base_batch),
    }


def _parity_hyperparameters(workload: Workload, arm: Arm) -> dict[str, str]:
    """Only where there is something to compare: other steps then train no baseline again."""
    return {} if arm.compiler == "eager" else {"parity_steps": str(workload.gate.parity.steps)}
