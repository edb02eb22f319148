"""One name for what libraries offer under several."""

from __future__ import annotations

# The longest prefix wins; what stands on the right is the name that rules ask for.
_PREFIXES = {
    "tensorflow.keras": "keras",
    "tensorflow.python.keras": "keras",
    "tf_keras": "keras",
    "pytorch_lightning": "lightning.pytorch",
    "lightning.LightningModule": "lightning.pytorch.LightningModule",
    "lightning.Trainer": "lightning.pytorch.Trainer",
    "lightning.Callback": "lightning.pytorch.Callback",
    "lightning.LightningDataModule": "lightning.pytorch.LightningDataModule",
    "lightning.pytorch.callbacks.Callback": "lightning.pytorch.Callback",
    "lightning.pytorch.core.LightningModule": "lightning.pytorch.LightningModule",
    "lightning_fabric.Fabric": "lightning.Fabric",
    "lightning.fabric.Fabric": "lightning.Fabric",
    "accelerate.accelerator.Accelerator": "accelerate.Accelerator",
    "torch.nn.parallel.distributed.DistributedDataParallel": (
        "torch.nn.parallel.DistributedDataParallel"
    ),
    "torch.nn.DataParallel": "torch.nn.parallel.DataParallel",
    "torch.nn.parallel.data_parallel.DataParallel": "torch.nn.parallel.DataParallel",
    "torch.nn.modules.Module": "torch.nn.Module",
    "torch.nn.modules.module.Module": "torch.nn.Module",
    "torch.cuda.amp.grad_scaler.GradScaler": "torch.cuda.amp.GradScaler",
    "torch.autocast_mode.autocast": "torch.autocast",
    "torch.amp.autocast": "torch.autocast",
    "torch.utils.data.dataloader.DataLoader": "torch.utils.data.DataLoader",
    "transformers.training_args.TrainingArguments": "transformers.TrainingArguments",
    "transformers.trainer.Trainer": "transformers.Trainer",
    "transformers.data.data_collator.DataCollatorWithPadding": (
        "transformers.DataCollatorWithPadding"
    ),
    "transformers.trainer_callback.TrainerCallback": "transformers.TrainerCallback",
    "torch._dynamo.optimize": "torch.compile",
    "torch.compiler.compile": "torch.compile",
    "torch._dynamo.disable": "torch.compiler.disable",
    "torch_xla.core.xla_model.XM": "torch_xla.core.xla_model",
}


def canonical(name: str) -> str:
    """The name that rules ask for."""
    for _ in range(3):
        end = len(name)
        while end > 0:
            head = name[:end]
            if head in _PREFIXES:
                name = _PREFIXES[head] + name[end:]
                break
            end = name.rfind(".", 0, end)
        else:
            return name
    return name
