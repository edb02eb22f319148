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
