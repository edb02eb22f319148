import torch_xla.core.xla_model as xm, torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader, DistributedSampler
# ==== fires [xla, training-compiler, neuron]: a sampler that is not even, after aws-samples/sagemaker-trainium-examples train.py
sampler = DistributedSampler(train_dataset, num_replicas=world_size, rank=rank)
train_loader = DataLoader(train_dataset, batch_size=8, sampler=sampler)  # <- ragged-last-batch
for batch in pl.MpDeviceLoader(train_loader, device): model(**batch).loss.backward(); xm.optimizer_step(optimizer)
# ==== fires [xla, training-compiler]: tf.data, after aws/sagemaker-python-sdk run_tf.py
import tensorflow as tf
train_dataset = tf.data.Dataset.from_tensor_slices((features, labels)).batch(size)  # <- ragged-last-batch
model.fit(train_dataset, epochs=3)
# ==== fires: CUDA graphs are recorded again
import torch
model = torch.compile(model, mode="reduce-overhead")
loader = DataLoader(data, batch_size=64, shuffle=True)  # <- ragged-last-batch
for inputs in loader: model(inputs.cuda()).mean().backward(); optimizer.step()
# ==== clean: the loader and its sampler drop it, after scttfrdmn/aws-trainium-tutorial-for-research data_parallel_ner.py
sampler = DistributedSampler(train, num_replicas=world_size, rank=rank, drop_last=True)
train_loader = DataLoader(train, batch_size=8, sampler=sampler, drop_last=True)
for batch in pl.MpDeviceLoader(train_loader, device): model(**batch).loss.backward(); xm.optimizer_step(optimizer)
# ==== clean: it may be dropped by an option, tf.data that drops it, after aws/deep-learning-containers huggingface_tensorflow/train.py
import tensorflow as tf
options = dict(batch_size=8)
options.update(drop_last=True)
model.fit(tf.data.Dataset.from_tensor_slices(data).batch(size, drop_remainder=True))
for inputs in DataLoader(data, **options): model(inputs).mean().backward(); optimizer.step()
# ==== clean: batches by a sampler that is even, of one example, and of evaluation
even = DistributedSampler(data, drop_last=True)
train_loader, single = DataLoader(data, batch_size=8, sampler=even), DataLoader(data, shuffle=True)
valid = DataLoader(data, batch_size=8)
for inputs in [*train_loader, *single]: model(inputs).mean().backward(); optimizer.step()
# ==== fires [xla]: a loader behind ParallelLoader, after pytorch/xla test/test_train_mp_mnist.py
import torch, torch_xla.distributed.parallel_loader as pl
train_loader = torch.utils.data.DataLoader(train_dataset, batch_size=64)  # <- ragged-last-batch
para_loader = pl.ParallelLoader(train_loader, [device])
for data, target in para_loader.per_device_loader(device):
    loss_fn(model(data), target).backward(); xm.optimizer_step(optimizer)
