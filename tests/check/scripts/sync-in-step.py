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
