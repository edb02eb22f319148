import torch, torch.nn.functional as F
# ==== fires: graphs with unlabelled nodes, after snap-stanford/ogb graphproppred/mol/main_pyg.py
def train(model, device, loader, optimizer):
    for step, batch in enumerate(tqdm(loader, desc="Iteration")):
        batch = batch.to(device)
        if batch.x.shape[0] == 1 or batch.batch[-1] == 0:  # <- data-dependent
            continue
        pred = model(batch)
        is_labeled = batch.y == batch.y
        loss = F.l1_loss(pred.to(torch.float32)[is_labeled], batch.y[is_labeled])  # <- data-dependent
        loss.backward(); optimizer.step()
# ==== fires: a loss that is not a number, after AIStream-Peelout/flow-forecast pytorch_training.py
from losses import compute_loss
for src, trg in data_loader:
    loss = compute_loss(trg.to(device), model(src.to(device)))
    if loss > 100:  # <- data-dependent
        print("Warning: high loss detected")
    loss.backward(); opt.step()
    if torch.isnan(loss) or loss == float("inf"):  # <- data-dependent
        raise ValueError("Error infinite or NaN loss detected")
# ==== fires: through a helper, and in models of another file that an if chain chooses
from net import Net, Other
if args.gnn == "gin":
    model = Net()
elif args.gnn == "gcn":
    model = Other()
def broken(value): return value > 1e6
def train(loader, optimizer):
    for images, labels in loader:
        loss = F.mse_loss(model(images.cuda()), labels.cuda())
        if broken(loss):  # <- data-dependent
            continue
        loss.backward(); optimizer.step()
# ---- net.py
import torch
class Net(torch.nn.Module):
    def forward(self, inputs):
        hot = torch.nonzero(inputs)  # <- data-dependent
        mask = ~inputs.bool()
        kept = inputs[inputs > 0].sum() + inputs[mask].sum()  # <- data-dependent
        return torch.where(inputs)[0].sum() + hot.sum() + kept  # <- data-dependent
class Other(torch.nn.Module):
    def forward(self, inputs):
        return inputs.masked_select(inputs > 0)  # <- data-dependent
# ==== clean: a value set where a mask says so, after apapiu/transformer_latent_diffusion train.py
for x, y in tqdm(train_loader):
    label = y.to(device)
    mask = torch.rand(y.size(0), device=device) < 0.15
    label[mask] = 0
    accelerator.backward(F.mse_loss(model(x.to(device), label), x)); optimizer.step()
# ==== clean: what the host knows decides, after HobbitLong/SupContrast main_supcon.py
for idx, (images, labels) in enumerate(train_loader):
    features = model(images.cuda(non_blocking=True))
    if opt.method == "SupCon":
        loss = criterion(features, labels)
    elif features.shape[0] > 1 and features.dim() == 2 and features is not None:
        loss = criterion(features)
    assert features.shape[1] == 128
    loss.backward(); optimizer.step()
