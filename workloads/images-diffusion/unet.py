"""A small UNet that predicts the noise in an image, told how noisy it is."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional


def doubled(x: torch.Tensor) -> torch.Tensor:
    """Every pixel four times: height and width are twice what they were.

    Not `functional.interpolate`: compiled by inductor of torch 2.13 for a CPU, in bf16, its
    gradient in this network is zero, and everything before it stops learning, without a word.
    """
    batch, channels, height, width = x.shape
    pixels = x[:, :, :, None, :, None].expand(-1, -1, -1, 2, -1, 2)
    return pixels.reshape(batch, channels, 2 * height, 2 * width)


class Block(nn.Module):
    """Two convolutions with the noise level between them, around a shortcut."""

    def __init__(self, channels_in: int, channels_out: int, level_size: int) -> None:
        super().__init__()
        self.norm1 = nn.GroupNorm(4, channels_in)
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, padding=1)
        self.level = nn.Linear(level_size, channels_out)
        self.norm2 = nn.GroupNorm(4, channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1)
        self.shortcut = (
            nn.Identity()
            if channels_in == channels_out
            else nn.Conv2d(channels_in, channels_out, 1)
        )

    def forward(self, x: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        h = self.conv1(functional.silu(self.norm1(x)))
        h = h + self.level(level)[:, :, None, None]
        h = self.conv2(functional.silu(self.norm2(h)))
        return h + self.shortcut(x)


class Attention(nn.Module):
    """Every position looks at every other; only affordable where the image is small."""

    def __init__(self, channels: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(4, channels)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels, height, width = x.shape
        q, k, v = (
            part.reshape(batch, self.heads, channels // self.heads, height * width).transpose(2, 3)
            for part in self.qkv(self.norm(x)).chunk(3, dim=1)
        )
        seen = functional.scaled_dot_product_attention(q, k, v)
        return x + self.out(seen.transpose(2, 3).reshape(batch, channels, height, width))


class UNet(nn.Module):
    """(batch, 3, height, width) noisy images and (batch,) noise levels in, the noise out.

    Height and width are halved `halvings` times, and attended to where they are smallest.
    """

    def __init__(self, channels: int, halvings: int) -> None:
        super().__init__()
        size = 4 * channels
        widths = [channels * 2**number for number in range(halvings + 1)]
        frequencies = torch.exp(torch.linspace(0.0, 6.0, channels))
        self.register_buffer("frequencies", frequencies, persistent=False)
        self.level = nn.Sequential(nn.Linear(2 * channels, size), nn.SiLU(), nn.Linear(size, size))
        self.enter = nn.Conv2d(3, channels, 3, padding=1)
        *larger, smallest = pairwise([channels, *widths])
        self.down = nn.ModuleList(Block(before, width, size) for before, width in larger)
        self.middle, self.attention = Block(*smallest, size), Attention(widths[-1])
        self.up = nn.ModuleList(
            Block(below + width, width, size) for width, below in reversed([*pairwise(widths)])
        )
        self.leave = nn.Sequential(
            nn.GroupNorm(4, channels), nn.SiLU(), nn.Conv2d(channels, 3, 3, padding=1)
        )

    def forward(self, x: torch.Tensor, noise_level: torch.Tensor) -> torch.Tensor:
        waves = noise_level[:, None] * self.frequencies
        level = self.level(torch.cat([waves.sin(), waves.cos()], dim=1))
        x, skips = self.enter(x), []
        for block in self.down:
            skips.append(block(x, level))
            x = functional.avg_pool2d(skips[-1], 2)
        x = self.attention(self.middle(x, level))
        for block in self.up:
            x = block(torch.cat([doubled(x), skips.pop()], dim=1), level)
        return self.leave(x)
