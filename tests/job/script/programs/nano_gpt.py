"""In the style of nanoGPT's train.py: micro-batches, a scaler, evaluation and saving in the loop."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

eval_interval, eval_iters, max_iters, gradient_accumulation_steps = 10, 4, 24, 2
batch_size, block_size, n_head, n_embd, vocab_size, learning_rate = 4, 16, 2, 32, 40, 3e-3


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.ln, self.c_attn = nn.LayerNorm(n_embd), nn.Linear(n_embd, 3 * n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 64), nn.GELU(), nn.Linear(64, n_embd))
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1), device=idx.device))
        parts = self.c_attn(self.ln(x)).split(n_embd, dim=2)
        q, k, v = (each.unflatten(2, (n_head, -1)).transpose(1, 2) for each in parts)
        x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        logits = self.lm_head(x + self.mlp(x))
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def get_batch(split):
    data = train_data if split == "train" else val_data
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x, y = (torch.stack([data[i + s : i + s + block_size] for i in ix]) for s in (0, 1))
    return x, y


@torch.no_grad()
def estimate_loss():
    model.eval()
    out = {}
    for split in ["train", "val"]:
        out[split] = sum(model(*get_batch(split))[1].item() for _ in range(eval_iters)) / eval_iters
    model.train()
    return out


torch.manual_seed(1337)
tokens = np.random.default_rng(0).integers(0, vocab_size, 2000).cumsum() % vocab_size
train_data, val_data = torch.from_numpy(tokens).split(1600)
model = GPT()
scaler = torch.amp.GradScaler("cpu", enabled=False)
optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95))
iter_num = 0
while True:
    optimizer.param_groups[0]["lr"] = learning_rate * (1 + math.cos(3 * iter_num / max_iters)) / 2
    if iter_num % eval_interval == 0 or iter_num == max_iters:
        losses = estimate_loss()
        if iter_num > 0:
            torch.save({"model": model.state_dict(), "iter_num": iter_num}, "ckpt.pt")
    if iter_num == max_iters:
        break
    for _ in range(gradient_accumulation_steps):
        logits, loss = model(*get_batch("train"))
        scaler.scale(loss / gradient_accumulation_steps).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    optimizer.zero_grad(set_to_none=True)
    iter_num += 1
