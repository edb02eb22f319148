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
