import torch_xla, torch_xla.core.xla_model as xm
device = xm.xla_device()
# ==== fires: a plain loader and no barrier, after awsdocs/amazon-sagemaker-developer-guide training-compiler-pytorch-models.md before its step 6
for step, (data, target) in enumerate(train_loader):  # <- missing-mark-step
    criterion(model(data.to(device)), target.to(device)).backward(); xm.optimizer_step(optimizer)
# ==== clean: a loader of the device, after scttfrdmn/aws-trainium-tutorial-for-research data_parallel_ner.py
import torch_xla.distributed.parallel_loader as pl
device_loader = pl.MpDeviceLoader(train_loader, device)
for batch in device_loader: model(**batch).loss.backward(); xm.optimizer_step(optimizer)
# ==== clean: by a helper, around the step, and in the update, after opooladz/nanoGPT-TPU train_tpu.py
def finish():
    xm.mark_step()
while True: model(X).mean().backward(); xm.optimizer_step(optimizer); finish()
for inputs in loader:
    with torch_xla.step():
        model(inputs.to(device)).mean().backward(); optimizer.step()
for inputs in loader: model(inputs.to(device)).mean().backward(); xm.optimizer_step(optimizer, barrier=True)
# ==== clean: ParallelLoader ends the steps, under whatever name
import torch_xla.core.xla_model as xm, torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader
device = xm.xla_device()
para_train_loader = pl.ParallelLoader(DataLoader(data), [device]).per_device_loader(device)
for batch in para_train_loader: model(batch).loss.backward(); xm.optimizer_step(optimizer)
