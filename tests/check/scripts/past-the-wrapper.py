import torch
from models import GPT
# ==== fires: the loss is a method of the model, after ultralytics/ultralytics engine/trainer.py
model = GPT(config)
model = torch.compile(model)
for batch in train_loader:
    loss, items = model.loss(batch, model(batch["img"]))  # <- past-the-wrapper
    scaler.scale(loss).backward(); optimizer.step()
# ==== fires: forward itself, and within a wrapper
from torch.nn.parallel import DistributedDataParallel as DDP
net = torch.nn.Linear(8, 1)
net.compile()
model = GPT(config)
model = DDP(torch.compile(model))
for inputs in loader:
    loss = net.forward(inputs).mean() + model.module.encode(inputs).mean()  # <- past-the-wrapper
    loss.backward(); optimizer.step()
# ==== clean: now and then, and outside of the step, after karpathy/nanoGPT sample.py
model = GPT(config)
model = torch.compile(model)
for step, (inputs, targets) in enumerate(loader):
    model(inputs, targets).mean().backward(); optimizer.step()
    if step % 500 == 0:
        model.generate(inputs)
for k in range(num_samples): y = model.generate(x, max_new_tokens)
