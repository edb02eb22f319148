# #### sync-in-step
import torch, torch.nn.functional as F
# ==== fires: printed and recorded in each step, by the rank alone too, after weiaicunzai/pytorch-cifar100 train.py
def train(epoch, net, training_loader, optimizer, loss_function, writer):
    for batch_index, (images, labels) in enumerate(training_loader):
        loss = loss_function(net(images.cuda()), labels.cuda())
        loss.backward(); optimizer.step()
        for name, para in list(net.children())[-1].named_parameters():
            writer.add_scalar("LastLayerGradients/grad_norm2", para.grad.norm(), epoch)  # <- sync-in-step
        print("Loss: {:0.4f}\tLR: {:0.6f}".format(loss.item(), lr))  # <- sync-in-step
        if rank == 0:
            print(f"Loss: {loss:.2f}")  # <- sync-in-step
        writer.add_scalar("Train/loss", loss.item(), epoch)  # <- sync-in-step
# ==== fires: the method that a Trainer calls, after mtr26/NeoREX training/benchmark.py
from transformers import Trainer
class Benchmark(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):
        loss = super().compute_loss(model, inputs, return_outputs)
        csv.writer(f).writerow([self.state.global_step, round(loss.item(), 6)])  # <- sync-in-step
        return loss
# ==== fires: a progress bar's text, after aws/deep-learning-containers huggingface_tensorflow/train.py
import tensorflow as tf
def fit(model, loss, opt, train_dataset):
    pbar = tqdm(train_dataset)
    for inputs, targets in pbar:
        with tf.GradientTape() as tape:
            loss_value = loss(targets, model(inputs).logits)
        opt.apply_gradients(zip(tape.gradient(loss_value, weights), weights))
        pbar.set_description(f"Loss: {loss_value:.4f}")  # <- sync-in-step
# ==== fires: a list, a float, a set of values, the norm that a clip gives, a metric of the host
from sklearn.metrics import accuracy_score
def train(model, loader, optimizer, metric):
    for images, labels in loader:
        images, labels = images.cuda(), labels.cuda()
        logits = model(images)
        F.cross_entropy(logits, labels).backward()
        norms += float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0))  # <- sync-in-step
        seen += labels.tolist()  # <- sync-in-step
        classes += len(labels.unique())  # <- sync-in-step
        accuracy_score(labels.cpu(), logits.argmax(1).cpu())  # <- sync-in-step
        metric.update(logits.argmax(1).cpu().numpy(), labels)  # <- sync-in-step
        optimizer.step()
# ==== fires: a method that the loop calls, and a helper of another file
from records import note
class Learner:
    def __init__(self, model):
        self.model, self.optimizer = model, torch.optim.SGD(model.parameters(), lr=0.1)
    def step(self, batch):
        loss = F.mse_loss(self.model(batch[0].cuda()), batch[1].cuda())
        loss.backward(); self.optimizer.step()
        note(loss)
        return loss.item()  # <- sync-in-step
    def fit(self, loader):
        for batch in loader: self.step(batch)
# ---- records.py
def note(value):
    history.append(value.item())  # <- sync-in-step
# ==== fires: range(steps) with next, a closure and a lambda
def train(model, loader, optimizer, steps):
    batches = iter(loader)
    read = lambda value: value.item()  # <- sync-in-step
    for step in range(steps):
        inputs, labels = next(batches)
        def closure():
            loss = F.mse_loss(model(inputs.cuda()), labels.cuda())
            loss.backward()
            print("loss", loss)  # <- sync-in-step
            return loss
        read(optimizer.step(closure))
# ==== fires: the loop in a generator, and the second loop of two
def epochs(model, loader, optimizer):
    for inputs in loader:
        loss = model(inputs.cuda()).mean()
        loss.backward(); optimizer.step()
        yield loss.item()  # <- sync-in-step
def finetune(model, loader, optimizer):
    while True:
        for inputs in loader:
            loss = model(inputs.cuda()).mean()
            loss.backward(); optimizer.step()
            total.append(loss.cpu())  # <- sync-in-step
# ==== clean: once in many steps, by the rank too, after tysam-code/hlb-CIFAR10 main.py
for epoch_step, (inputs, targets) in enumerate(get_batches(data)):
    outputs = net(inputs)
    loss = F.cross_entropy(outputs, targets)
    if epoch_step % 50 == 0:
        train_acc = (outputs.detach().argmax(-1) == targets.argmax(-1)).float().mean().item()
    if rank == 0:
        if steps % stdout_interval == 0:
            print("Steps : {:d}, Loss : {:4.3f}".format(steps, loss))
    loss.backward(); opt.step()
# ==== clean: added up as a tensor and read after the loop, after scttfrdmn/aws-trainium-tutorial-for-research data_parallel_ner.py
def train(model, device_loader, optimizer, device):
    running = torch.zeros((), device=device)
    for batch in device_loader:
        out = model(**batch)
        out.loss.backward(); optimizer.step()
        running += out.loss.detach()
    print(epoch, running.item())
# ==== clean: a closure that PyTorch/XLA runs between steps, after ronghanghu/vit_10b_fsdp_example run_vit_training.py
import torch_xla.core.xla_model as xm
def run_logging(step, loss):
    xm.master_print(f"step {step}, loss: {loss.item():.4f}")
for step, (data, target) in enumerate(train_loader):
    loss = F.cross_entropy(model(data), target)
    loss.backward(); optimizer.step()
    xm.add_step_closure(run_logging, args=(step, loss))
# ==== clean: evaluation within the loop, set-up, the host's own numbers, a flag that is off
def evaluate(model, loader):
    return sum(model(batch).item() for batch in loader)
def train(model, loader, valid, optimizer, debug=False):
    print(sum(each.numel() for each in model.parameters()), next(model.parameters()).mean().item())
    for step, (inputs, labels) in enumerate(loader):
        loss = F.mse_loss(model(inputs.cuda()), labels.cuda())
        loss.backward(); optimizer.step()
        observed, reward, done, info = env.step(actions)
        bar.set_postfix(lr=scheduler.get_last_lr()[0], size=len(labels), step=step, got=reward.item())
        if debug:
            print(loss.item())
        if step in (100, 1000):
            print(evaluate(model, valid))
# #### data-dependent
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
# #### too-often
import torch
# ==== fires: logged in each step, after huggingface/accelerate examples/finetune_lm_tpu.py
from trl import SFTConfig, SFTTrainer
sft_config = SFTConfig(optim="adafactor", logging_steps=1, dataloader_drop_last=True)  # <- too-often
SFTTrainer(model=model, train_dataset=dataset, args=sft_config).train()
# ==== fires: a checkpoint, an evaluation and pictures in each step
for inputs, labels in loader:
    model(inputs.cuda()).mean().backward(); optimizer.step()
    if rank == 0:
        torch.save(model.state_dict(), "last.pt")  # <- too-often
    evaluate(model, valid)  # <- too-often
    writer.add_histogram("weights", model.weight)  # <- too-often
# ==== clean: a checkpoint every so many steps, after jik876/hifi-gan train.py
for i, batch in enumerate(train_loader):
    generator(batch.to(device)).mean().backward(); optim_g.step()
    if steps % a.checkpoint_interval == 0 and steps != 0:
        torch.save(generator.state_dict(), f"g_{steps:08d}")
    if best is None or steps in (100, 1000):
        writer.add_image("generated", picture)
torch.save(generator.state_dict(), "last.pt")
# ==== clean: once an epoch and every 10 steps, after outerbounds/metaflow-trainium train.py
from transformers import Trainer, TrainingArguments
training_args = TrainingArguments(logging_steps=10, save_strategy="epoch", bf16=args.bf16)
Trainer(model=model, args=training_args).train()
# #### debugging-on
import torch
# ==== fires: all of training is profiled, after gpu-mode/lectures lecture_017/ddp_example.py
from torch.profiler import profile
with profile(record_shapes=True) as prof:  # <- debugging-on
    for i in range(10): loss_fn(ddp_model(inputs), labels).backward(); optimizer.step()
# ==== fires [training-compiler]: the compiler's debug mode, after aws/amazon-sagemaker-examples albert-base-v2.ipynb
from sagemaker.pytorch import PyTorch, TrainingCompilerConfig
optimized_estimator = PyTorch(
    compiler_config=TrainingCompilerConfig(debug=True),  # <- debugging-on
    profiler_config=ProfilerConfig(),  # <- debugging-on
)
# ==== fires [training-compiler]: on by default, where nothing turns it off
from sagemaker.pytorch import PyTorch, TrainingCompilerConfig
PyTorch(entry_point="train.py", compiler_config=TrainingCompilerConfig())  # <- debugging-on
# ==== clean: a schedule profiles some steps, after karpathy/nanoGPT bench.py
schedule = torch.profiler.schedule(wait=5, warmup=5, active=5)
with torch.profiler.profile(schedule=schedule) as prof:
    for k in range(15): model(X).mean().backward(); optimizer.step(); prof.step()
# ==== clean: behind an option, and off; a compiled job with everything off
from sagemaker.pytorch import PyTorch, TrainingCompilerConfig
torch.autograd.set_detect_anomaly(False)
if args.debug:
    torch.autograd.set_detect_anomaly(True)
for inputs in loader: model(inputs).loss.backward(); optimizer.step()
PyTorch(compiler_config=TrainingCompilerConfig(), disable_profiler=True, debugger_hook_config=False)
# #### loader-workers
import torch
from torch.utils.data import DataLoader
# ==== fires: a loader in a helper, after mtr26/NeoREX training/trainer.py
def get_dataloader(vocab_size, batch_size=4):
    dataset = DummyDataset(vocab_size)
    return DataLoader(dataset, batch_size=batch_size, shuffle=True)  # <- loader-workers
def train():
    for batch in tqdm(get_dataloader(32778)): model(batch).loss.backward(); optimizer.step()
# ==== fires: tf.data one at a time, after zzh8829/yolov3-tf2 train.py
import tensorflow as tf
train_dataset = train_dataset.map(lambda x, y: (transform_images(x), y))  # <- loader-workers
train_dataset = train_dataset.prefetch(buffer_size=tf.data.experimental.AUTOTUNE)
model.fit(train_dataset, epochs=FLAGS.epochs)
# ==== clean: workers from the configuration, after kuleshov-group/mdlm dataloader.py
train_loader = DataLoader(train_set, batch_size=8, num_workers=config.loader.num_workers)
for batch in train_loader: model(batch.cuda()).mean().backward(); optimizer.step()
# ==== clean: tensors that lie on the device, a loader that only evaluates, hidden options
from torch.utils.data import TensorDataset
loader = DataLoader(TensorDataset(images.cuda(), labels.cuda()), batch_size=512)
other, valid = DataLoader(data, **read_options()), DataLoader(data, batch_size=8)
for images, labels in [*loader, *other]: model(images).mean().backward(); optimizer.step()
for batch in valid: model(batch)
# ==== clean: the data set itself is on the device
class OnDevice(torch.utils.data.Dataset):
    def __init__(self, images):
        self.images = images.to("cuda")
    def __getitem__(self, index):
        return self.images[index]
for images in DataLoader(OnDevice(images), batch_size=64): model(images).mean().backward(); optimizer.step()
# #### data-parallel
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
# #### full-precision
import torch
# ==== fires: 32-bit floats alone; a script beside that nobody imports says nothing, after weiaicunzai/pytorch-cifar100 train.py
def train(net, training_loader, optimizer):
    for images, labels in training_loader:  # <- full-precision
        loss_function(net(images.cuda()), labels.cuda()).backward(); optimizer.step()
# ---- other.py
import torch
scaler = torch.cuda.amp.GradScaler()
# ==== clean: Accelerator is given one, after apapiu/transformer_latent_diffusion train.py
from accelerate import Accelerator
accelerator = Accelerator(mixed_precision="fp16")
model, train_loader, optimizer = accelerator.prepare(model, train_loader, optimizer)
for x, y in tqdm(train_loader): accelerator.backward(loss_fn(model(x), y)); optimizer.step()
# ==== clean: the Trainer's, from the command line, after outerbounds/metaflow-trainium train.py
from transformers import Trainer, TrainingArguments
training_args = TrainingArguments(output_dir=args.output_dir, bf16=args.bf16)
Trainer(model=model, args=training_args).train()
# ==== clean: the model is cast in a file that the script imports
from net import build
model = build()
for inputs in loader: model(inputs).mean().backward(); optimizer.step()
# ---- net.py
import torch
def build():
    return Net().to(torch.bfloat16)
# #### python-optimizer
import torch
# ==== fires: Muon's update, after KellerJordan/modded-nanogpt 2024-10-10_Muon/train_gpt2.py
class Muon(torch.optim.Optimizer):
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:  # <- python-optimizer
                buf = self.state[p]["momentum_buffer"]
                buf.mul_(group["momentum"]).add_(p.grad)
                p.data.add_(zeropower(buf), alpha=-group["lr"])
# ==== fires: a manual update in the step
for inputs in loader:
    model(inputs).mean().backward()
    for p in model.parameters():  # <- python-optimizer
        p.data.mul_(1 - decay)
        p.data.sub_(rate * p.grad)
# ==== clean: a running mean of the weights in one operation, after seungeunrho/minimalRL sac.py
def soft_update(q, q_target):
    for param_target, param in zip(q_target.parameters(), q.parameters()):
        param_target.data.copy_(param_target.data * (1.0 - tau) + param.data * tau)
for i in range(20):
    q(s, a).mean().backward(); optimizer.step()
    soft_update(q, q_target)
