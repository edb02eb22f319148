# #### missing-mark-step
import torch_xla, torch_xla.core.xla_model as xm
device = xm.xla_device()
# ==== fires: a plain loader and no barrier, after awsdocs/amazon-sagemaker-developer-guide training-compiler-pytorch-models.md before its step 6
for step, (data, target) in enumerate(train_loader):  # <- missing-mark-step
    criterion(model(data.to(device)), target.to(device)).backward(); xm.optimizer_step(optimizer)
# ==== clean: a loader of the device, after scttfrdmn/aws-trainium-tutorial-for-research data_parallel_ner.py
import torch_xla.distributed.parallel_loader as pl
device_loader = pl.MpDeviceLoader(train_loader, device)
for batch in device_loader: model(**batch).loss.backward(); xm.optimizer_step(optimizer)
# ==== clean: by a helper, around the step, and in the update, after opooladz/nanoGPT-TPU train_tpu.py
def finish():
    xm.mark_step()
while True: model(X).mean().backward(); xm.optimizer_step(optimizer); finish()
for inputs in loader:
    with torch_xla.step():
        model(inputs.to(device)).mean().backward(); optimizer.step()
for inputs in loader: model(inputs.to(device)).mean().backward(); xm.optimizer_step(optimizer, barrier=True)
# ==== clean: ParallelLoader ends the steps, under whatever name
import torch_xla.core.xla_model as xm, torch_xla.distributed.parallel_loader as pl
from torch.utils.data import DataLoader
device = xm.xla_device()
para_train_loader = pl.ParallelLoader(DataLoader(data), [device]).per_device_loader(device)
for batch in para_train_loader: model(batch).loss.backward(); xm.optimizer_step(optimizer)
# #### gradients-not-reduced
import torch, torch_xla.core.xla_model as xm
# ==== fires: clipped before they are gathered, after scttfrdmn/aws-trainium-tutorial-for-research data_parallel_ner.py
torch.distributed.init_process_group(backend="xla")
for batch in device_loader:
    model(**batch).loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.grad_clip)  # <- gradients-not-reduced
    xm.optimizer_step(optimizer)
# ==== fires: their sum, not their mean
xm.all_reduce("sum", xm._fetch_gradients(optimizer))  # <- gradients-not-reduced
# ==== clean: gathered, then updated by a scaler, after pytorch/xla test/test_train_mp_imagenet_amp.py
def _mp_fn(index):
    for step, (data, target) in enumerate(loader):
        scaler.scale(loss_fn(model(data), target)).backward()
        xm.all_reduce("sum", xm._fetch_gradients(optimizer), scale=1.0 / xr.world_size())
        scaler.step(optimizer)
# #### no-distributed-sampler
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
# #### no-common-seed
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
# #### cuda-with-xla
import torch
# ==== fires: CUDA's device and precision beside XLA, after awsdocs/amazon-sagemaker-developer-guide training-compiler-pytorch-models.md half done
import torch_xla.core.xla_model as xm
model = model.to(xm.xla_device())
scaler = torch.cuda.amp.GradScaler()  # <- cuda-with-xla
for data, target in train_loader:
    with torch.autocast("cuda"):  # <- cuda-with-xla
        loss = criterion(model(data.cuda()), target)  # <- cuda-with-xla
    scaler.scale(loss).backward()
# ==== clean: the way without XLA, after SarthakYadav/leaf-pytorch train_xla.py
try:
    import torch_xla.core.xla_model as xm
    device = xm.xla_device()
except ImportError:
    device = torch.device("cuda")
for data in loader: model(data.to(device)).mean().backward(); optimizer.step()
# #### torch-save-with-xla
import torch, torch_xla.core.xla_model as xm
# ==== fires: every process writes, after awsdocs/amazon-sagemaker-developer-guide training-compiler-pytorch-models.md without xm.save
model = model.to(xm.xla_device())
torch.save(model.state_dict(), path)  # <- torch-save-with-xla
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)  # <- torch-save-with-xla
# ==== clean: by XLA, after aws-samples/sagemaker-trainium-examples train.py
model = model.to(xm.xla_device())
xm.save(model.state_dict(), f"{args.output_dir}/checkpoint.pt")
# ==== clean: moved to the CPU before, and the way without XLA
weights = model.cpu().state_dict()
torch.save(weights, path)
if not args.xla:
    torch.save(model.state_dict(), path)
# #### xla-optimizer
import torch, torch_xla.core.xla_model as xm
from torch_xla.amp import GradScaler, syncfree
from transformers import Trainer, TrainingArguments
# ==== fires [training-compiler]: the Trainer's is left, after aws/deep-learning-containers huggingface_pytorch/train.py
training_args = TrainingArguments(output_dir=args.model_dir)  # <- xla-optimizer
Trainer(model=model, args=training_args).train()
# ==== fires: with a scaler it waits
device, scaler = xm.xla_device(), GradScaler()
optimizer = torch.optim.AdamW(model.parameters())  # <- xla-optimizer
# ==== clean: one that waits for nothing, after pytorch/xla test/test_train_mp_imagenet_amp.py
device, scaler = xm.xla_device(), GradScaler()
optimizer = syncfree.SGD(model.parameters(), lr=FLAGS.lr)
# #### runs-eagerly
import keras, tensorflow as tf
# ==== fires: a loop with its tape, after aws/deep-learning-containers huggingface_tensorflow/train.py
def fit(model, loss, opt, train_dataset):
    for inputs, targets in tqdm(train_dataset):  # <- runs-eagerly
        with tf.GradientTape() as tape:
            value = loss(targets, model(inputs).logits)
        opt.apply_gradients(zip(tape.gradient(value, weights), weights))
# ==== fires: switched to it
tf.config.run_functions_eagerly(True)  # <- runs-eagerly
model.compile(optimizer="adam", run_eagerly=True)  # <- runs-eagerly
# ==== clean: decorated, and called by what is not, after LynnHo/CycleGAN-Tensorflow-2 train.py
@tf.function
def train_D(A, B):
    with tf.GradientTape() as t:
        D_loss = d_loss_fn(D_A(A), D_B(B))
    D_optimizer.apply_gradients(zip(t.gradient(D_loss, weights), weights))
def train_step(A, B):
    return train_D(A, B)
for A, B in A_B_dataset: train_step(A, B)
# ==== clean: wrapped by name, and an option that is eager, after zzh8829/yolov3-tf2 train.py
def step(inputs):
    with tf.GradientTape() as tape:
        value = model(inputs)
    optimizer.apply_gradients(zip(tape.gradient(value, weights), weights))
fast = tf.function(step, jit_compile=True)
for inputs in dataset: fast(inputs)
model.compile(optimizer=optimizer, run_eagerly=(FLAGS.mode == "eager_fit"))
