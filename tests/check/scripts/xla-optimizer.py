import torch, torch_xla.core.xla_model as xm
from torch_xla.amp import GradScaler, syncfree
from transformers import Trainer, TrainingArguments
# ==== fires [training-compiler]: the Trainer's is left, after aws/deep-learning-containers huggingface_pytorch/train.py
training_args = TrainingArguments(output_dir=args.model_dir)  # <- xla-optimizer
Trainer(model=model, args=training_args).train()
# ==== fires: with a scaler it waits
device, scaler = xm.xla_device(), GradScaler()
optimizer = torch.optim.AdamW(model.parameters())  # <- xla-optimizer
# ==== clean: one that waits for nothing, after pytorch/xla test/test_train_mp_imagenet_amp.py
device, scaler = xm.xla_device(), GradScaler()
optimizer = syncfree.SGD(model.parameters(), lr=FLAGS.lr)
