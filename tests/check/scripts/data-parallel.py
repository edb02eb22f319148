import torch
# ==== fires: where there are several GPUs, and its functional form, after HobbitLong/SupContrast main_supcon.py
def set_model(opt):
    model = SupConResNet(name=opt.model)
    if torch.cuda.device_count() > 1:
        model.encoder = torch.nn.DataParallel(model.encoder)  # <- data-parallel
    return model.cuda()
model = set_model(opt)
for images in train_loader: model(images).mean().backward(); optimizer.step()
class Generator(torch.nn.Module):
    def forward(self, input):
        return torch.nn.parallel.data_parallel(self.main, input, range(8))  # <- data-parallel
# ==== clean: a process for each GPU, after rasbt/LLMs-from-scratch appendix-A/DDP-script.py
from torch.nn.parallel import DistributedDataParallel as DDP
model = DDP(model, device_ids=[rank])
for features, labels in train_loader: model(features).mean().backward(); optimizer.step()
