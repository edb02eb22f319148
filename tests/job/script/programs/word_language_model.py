"""In the style of pytorch/examples' word_language_model: an LSTM over a long text, chunk by chunk."""

import argparse
import math
import os

import torch
from torch import nn


class RNNModel(nn.Module):
    def __init__(self, ntoken, ninp, nhid, dropout):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.encoder = nn.Embedding(ntoken, ninp)
        self.cells = nn.ModuleList([nn.GRUCell(ninp, nhid), nn.GRUCell(nhid, nhid)])
        self.decoder = nn.Linear(nhid, ntoken)
        self.nhid = nhid

    def forward(self, data, hidden):
        inputs = self.drop(self.encoder(data))
        states, outputs = list(hidden), []
        for step in inputs:
            for number, cell in enumerate(self.cells):
                states[number] = cell(step if number == 0 else states[number - 1], states[number])
            outputs.append(states[-1])
        return self.decoder(self.drop(torch.stack(outputs))), tuple(states)

    def init_hidden(self, bsz):
        return tuple(torch.zeros(bsz, self.nhid) for _ in self.cells)


def batchify(data, bsz):
    nbatch = data.size(0) // bsz
    return data[: nbatch * bsz].view(bsz, -1).t().contiguous()


def repackage_hidden(hidden):
    return tuple(each.detach() for each in hidden)


def get_batch(source, i, bptt):
    return source[i : i + bptt], source[i + 1 : i + 1 + bptt]


def evaluate(model, source, bptt):
    model.eval()
    total, hidden = 0.0, model.init_hidden(source.size(1))
    with torch.no_grad():
        for i in range(0, source.size(0) - bptt, bptt):
            data, targets = get_batch(source, i, bptt)
            output, hidden = model(data, hidden)
            losses = nn.functional.cross_entropy(
                output.flatten(0, 1), targets.flatten(), reduction="none"
            )
            total += losses.mean().item()
    return total / len(range(0, source.size(0) - bptt, bptt))


def train(model, optimizer, source, args):
    model.train()
    hidden = model.init_hidden(source.size(1))
    for i in range(0, source.size(0) - args.bptt, args.bptt):
        data, targets = get_batch(source, i, args.bptt)
        hidden = repackage_hidden(hidden)
        optimizer.zero_grad()
        output, hidden = model(data, hidden)
        loss = nn.functional.cross_entropy(output.flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), args.clip)
        optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=os.environ.get("SM_CHANNEL_DATA", "."))
    parser.add_argument("--batch_size", type=int, default=8)
    parser.add_argument("--bptt", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--clip", type=float, default=0.25)
    parser.add_argument("--seed", type=int, default=1111)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    with open(os.path.join(args.data, "text.txt"), encoding="utf-8") as file:
        words = file.read().split()
    vocabulary = {word: number for number, word in enumerate(sorted(set(words)))}
    ids = torch.tensor([vocabulary[word] for word in words])
    train_data, val_data = batchify(ids[:-400], args.batch_size), batchify(ids[-400:], 4)
    model = RNNModel(len(vocabulary), 16, 24, 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    for epoch in range(1, args.epochs + 1):
        train(model, optimizer, train_data, args)
        val_loss = evaluate(model, val_data, args.bptt)
        print(f"epoch {epoch} valid loss {val_loss:5.2f} ppl {math.exp(val_loss):8.2f}")
    torch.save(model.state_dict(), "model.pt")


if __name__ == "__main__":
    main()
