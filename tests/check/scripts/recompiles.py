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
