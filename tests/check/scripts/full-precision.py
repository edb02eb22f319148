import torch
# ==== fires: 32-bit floats alone; a script beside that nobody imports says nothing, after weiaicunzai/pytorch-cifar100 train.py
def train(net, training_loader, optimizer):
    for images, labels in training_loader:  # <- full-precision
        loss_function(net(images.cuda()), labels.cuda()).backward(); optimizer.step()
# ---- other.py
import torch
scaler = torch.cuda.amp.GradScaler()
# ==== clean: Accelerator is given one, after apapiu/transformer_latent_diffusion train.py
from accelerate import Accelerator
accelerator = Accelerator(mixed_precision="fp16")
model, train_loader, optimizer = accelerator.prepare(model, train_loader, optimizer)
for x, y in tqdm(train_loader): accelerator.backward(loss_fn(model(x), y)); optimizer.step()
# ==== clean: the Trainer's, from the command line, after outerbounds/metaflow-trainium train.py
from transformers import Trainer, TrainingArguments
training_args = TrainingArguments(output_dir=args.output_dir, bf16=args.bf16)
Trainer(model=model, args=training_args).train()
# ==== clean: the model is cast in a file that the script imports
from net import build
model = build()
for inputs in loader: model(inputs).mean().backward(); optimizer.step()
# ---- net.py
import torch
def build():
    return Net().to(torch.bfloat16)
