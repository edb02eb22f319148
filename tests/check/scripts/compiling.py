# #### compiled-discarded
import torch
# ==== fires: a method compiles itself, after google-research/timesfm timesfm_2p5_torch.py
class TimesFM(torch.nn.Module):
    def load_checkpoint(self, path):
        self = torch.compile(self)  # <- compiled-discarded
        self.eval()
# ==== fires: errors are passed over, a result is not kept, another is not called
torch._dynamo.config.suppress_errors = True  # <- compiled-discarded
torch.compile(model)  # <- compiled-discarded
fast = torch.compile(model, mode="max-autotune")  # <- compiled-discarded
print(model(inputs))
# ==== clean: kept where it is compiled, after apapiu/transformer_latent_diffusion train.py
if train_config.compile:
    model = torch.compile(model)
model, train_loader = accelerator.prepare(model, train_loader)
# #### compile-order
import torch
# ==== fires: wrapped by a helper afterwards, after huggingface/nanoVLM train.py
from models import VisionLanguageModel
from torch.nn.parallel import DistributedDataParallel as DDP
def wrap_model(model):
    return DDP(model, device_ids=[local_rank])
def train(cfg):
    model = VisionLanguageModel(cfg)
    if cfg.compile:
        model = torch.compile(model)
    model = wrap_model(model)  # <- compile-order
# ==== fires: moved and cast afterwards, in place too
model = torch.compile(torch.nn.Linear(8, 1))
model.to("cuda")  # <- compile-order
other = torch.nn.Linear(8, 1)
other.compile()
other = other.half()  # <- compile-order
# ==== clean: first moved, then compiled, after apapiu/transformer_latent_diffusion train.py
model = Denoiser(config).to(accelerator.device)
model = torch.compile(model)
inputs = inputs.to(accelerator.device)
# #### orig-mod-keys
import torch
from models import GPT
# ==== fires: the checkpoint of an EMA copy, after apapiu/transformer_latent_diffusion train.py
import copy
model = GPT(config)
if train_config.compile:
    model = torch.compile(model)
ema_model = copy.deepcopy(model).to(device)
full_state_dict = {"model_ema": ema_model.state_dict(), "opt_state": o}  # <- orig-mod-keys
accelerator.save(full_state_dict, name)
# ==== clean: the original is saved, after karpathy/nanoGPT train.py
model = GPT(config)
unoptimized_model = model
model = torch.compile(model)
torch.save(unoptimized_model.state_dict(), "ckpt.pt")
# ==== clean: compiled in place, the optimizer's state, a copy within memory
model = torch.nn.Linear(8, 1)
model.compile()
fast = torch.compile(model)
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "ckpt.pt")
ema.load_state_dict(fast.state_dict())
# #### past-the-wrapper
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
# #### recompiles
import torch
# ==== fires: in each call of the model, after ostris/ai-toolkit chroma/src/layers.py
class DoubleStreamBlock(torch.nn.Module):
    def forward(self, x, scale, shift):
        return torch.compile(_modulation_fn)(x, scale, shift)  # <- recompiles
model = DoubleStreamBlock()
for x, scale, shift in loader: model(x, scale, shift).mean().backward(); optimizer.step()
# ==== fires: in each turn, and an update for one rate
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)  # <- recompiles
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 10)
@torch.compile
def update():
    optimizer.step()
for epoch in range(9):
    fast = torch.compile(model)  # <- recompiles
    for inputs in loader: fast(inputs).mean().backward(); update()
# ==== clean: compiled once, the rate fixed, after pytorch-labs/LeanRL dqn_torchcompile.py
optimizer = torch.optim.Adam(q_network.parameters(), lr=args.learning_rate)
def update(data):
    loss = (q_network(data) - data.target).mean()
    loss.backward(); optimizer.step()
    return loss.detach()
update = torch.compile(update)
for global_step in range(args.total_timesteps): loss = update(rb.sample(args.batch_size))
