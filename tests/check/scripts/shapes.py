# #### varying-shapes
import torch
# ==== fires: a batch of graphs, after snap-stanford/ogb graphproppred/mol/main_pyg.py
from torch_geometric.loader import DataLoader
train_loader = DataLoader(dataset[split["train"]], batch_size=32, shuffle=True)  # <- varying-shapes
for batch in tqdm(train_loader): criterion(model(batch.to(device)), batch.y).backward(); optimizer.step()
# ==== fires: a collator that fills up to the largest, after NVIDIA/tacotron2 train.py
from torch.utils.data import DataLoader
class TextMelCollate:
    def __call__(self, batch):
        mel_padded = torch.FloatTensor(len(batch), 80, max([x[1].size(1) for x in batch]))
        mel_padded.zero_()
        return mel_padded
collate_fn = TextMelCollate()  # <- varying-shapes
train_loader = DataLoader(trainset, batch_size=8, drop_last=True, collate_fn=collate_fn)
for batch in train_loader: model(batch.cuda()).mean().backward(); optimizer.step()
# ==== fires: pad_sequence in a collator, after artidoro/qlora qlora.py
from torch.nn.utils.rnn import pad_sequence
from transformers import Seq2SeqTrainer
class DataCollatorForCausalLM:
    def __call__(self, instances):
        return {"input_ids": pad_sequence([each["input_ids"] for each in instances])}  # <- varying-shapes
Seq2SeqTrainer(model=model, data_collator=DataCollatorForCausalLM()).train()
# ==== fires: groups of one length, and padding rounded up, after tloen/alpaca-lora finetune.py
import transformers
arguments = transformers.TrainingArguments("out", group_by_length=True)  # <- varying-shapes
collator = transformers.DataCollatorForSeq2Seq(tokenizer, pad_to_multiple_of=8, padding=True)  # <- varying-shapes
transformers.Trainer(model=model, args=arguments, data_collator=collator).train()
# ==== clean: a fixed length where the texts are mapped, after aws/deep-learning-containers huggingface_pytorch/train.py
from transformers import DataCollatorWithPadding, Trainer
def tokenize(batch):
    return tokenizer(batch["text"], padding="max_length", truncation=True)
train_dataset = train_dataset.map(tokenize, batched=True)
Trainer(model=model, tokenizer=tokenizer, data_collator=DataCollatorWithPadding(tokenizer)).train()
# ==== clean: a fixed padding in the collator; examples of one size that are stacked
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader
def collate(batch):
    padded = pad_sequence(batch, batch_first=True)
    return torch.nn.functional.pad(padded, (0, max_length - padded.shape[1]))
def stacked(batch):
    return torch.stack([each[0] for each in batch]), torch.tensor([each[1] for each in batch])
for one, other in zip(DataLoader(data, collate_fn=collate), DataLoader(data, collate_fn=stacked)):
    (model(one.cuda()) + model(other.cuda())).mean().backward(); optimizer.step()
# ==== clean [torch-compile]: torch.compile is told that they vary
from torch_geometric.loader import DataLoader
model = torch.compile(model, dynamic=True)
for batch in DataLoader(dataset): model(batch.to(device)).mean().backward(); optimizer.step()
# #### ragged-last-batch
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
