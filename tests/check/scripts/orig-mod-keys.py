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
