import torch, torch_xla.core.xla_model as xm
from torch.utils.data import DataLoader, DistributedSampler
# ==== fires: shuffled alike in each process, after awsdocs/amazon-sagemaker-developer-guide training-compiler-pytorch-models.md without its sampler
def _mp_fn(index):
    train_loader = DataLoader(train_dataset, batch_size=8, shuffle=True)  # <- no-distributed-sampler
    for data in train_loader: model(data).mean().backward(); xm.optimizer_step(optimizer)
# ==== clean: a sampler where there are several, after aws-neuron/aws-neuron-samples mnist_mlp/train_torchrun.py
torch.distributed.init_process_group("xla")
train_sampler = None
if world_size > 1:
    train_sampler = DistributedSampler(train_dataset, num_replicas=world_size, shuffle=True)
train_loader = DataLoader(train_dataset, sampler=train_sampler, shuffle=False if train_sampler else True)
for data in train_loader: model(data).mean().backward(); xm.optimizer_step(optimizer)
