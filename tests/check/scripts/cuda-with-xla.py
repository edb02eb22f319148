import torch
# ==== fires: CUDA's device and precision beside XLA, after awsdocs/amazon-sagemaker-developer-guide training-compiler-pytorch-models.md half done
import torch_xla.core.xla_model as xm
model = model.to(xm.xla_device())
scaler = torch.cuda.amp.GradScaler()  # <- cuda-with-xla
for data, target in train_loader:
    with torch.autocast("cuda"):  # <- cuda-with-xla
        loss = criterion(model(data.cuda()), target)  # <- cuda-with-xla
    scaler.scale(loss).backward()
# ==== clean: the way without XLA, after SarthakYadav/leaf-pytorch train_xla.py
try:
    import torch_xla.core.xla_model as xm
    device = xm.xla_device()
except ImportError:
    device = torch.device("cuda")
for data in loader: model(data.to(device)).mean().backward(); optimizer.step()
