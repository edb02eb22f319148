import torch, torch_xla.core.xla_model as xm
# ==== fires: a seed of its own in each process, after opooladz/nanoGPT-TPU train_tpu.py
def _mp_fn(rank):
    torch.manual_seed(1337 + rank)  # <- no-common-seed
    model = GPT(config).to(xm.xla_device())
    while True: model(X).mean().backward(); xm.optimizer_step(optimizer)
# ==== clean: by a helper of a library, after outerbounds/metaflow-trainium train.py
from transformers import set_seed
def _mp_fn(index):
    set_seed(args.seed)
    for data in loader: model(data).mean().backward(); xm.optimizer_step(optimizer)
