"""Images and clips: torchvision, timm, diffusers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.zoo.architecture import CLASSES, Batch, Library, classifier, regression

tv, timm, diffusers = Library("torchvision.models"), Library("timm"), Library("diffusers")
_ONE, _FOUR, _WIDE = [1, 1, 1, 1], (1, 1, 1, 1), (16, 32, 48, 64)


def _timm(name: str, **sizes: Any) -> Callable[[], Any]:
    return lambda: timm.create_model(name, pretrained=False, num_classes=CLASSES, **sizes)


def _clips() -> Any:
    part = tv.video.resnet
    return part.VideoResNet(part.BasicBlock, [part.Conv3DSimple] * 4, _ONE, part.BasicStem, CLASSES)


_BLOCKS = {"img_size": 64, "patch_size": 8, "embed_dim": 64, "depth": 2, "num_heads": 4}
_PYRAMID = {"depths": _FOUR, "embed_dims": _WIDE, "num_heads": (1, 2, 4, 8)}
_REGULAR = (4, 16, 8.0, 2.0, 8, 0.25)
_ROWS = [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 1, 2]]
_TORCHVISION = {
    "ResNet": lambda: tv.ResNet(tv.resnet.BasicBlock, _ONE, CLASSES),
    "ResNeXt": lambda: tv.ResNet(tv.resnet.Bottleneck, _ONE, CLASSES, groups=8, width_per_group=4),
    "MobileNetV2": lambda: tv.MobileNetV2(CLASSES, inverted_residual_setting=_ROWS),
    "RegNet": lambda: tv.RegNet(tv.regnet.BlockParams.from_init_params(*_REGULAR), CLASSES, 16),
    "ShuffleNetV2": lambda: tv.ShuffleNetV2([1, 2, 1], [24, 24, 48, 96, 128], CLASSES),
    "DenseNet": lambda: tv.DenseNet(8, (2, 2, 2), 16, num_classes=CLASSES, drop_rate=0.1),
    "SqueezeNet": lambda: tv.squeezenet1_1(num_classes=CLASSES),
    "Swin": lambda: tv.SwinTransformer([4, 4], 24, [2, 2], [2, 4], [4, 4], num_classes=CLASSES),
    "ViT": lambda: tv.VisionTransformer(64, 16, 2, 4, 64, 128, num_classes=CLASSES),
    "MaxViT": lambda: tv.MaxVit((64, 64), 16, 2, [16, 32], [1, 1], 8, 0.2, num_classes=CLASSES),
}
_TIMM = {
    "ConvNeXt": _timm("test_convnext"),
    "ConvNeXt, grouped": _timm("test_convnext3"),
    "RepVGG, BYOB": _timm("test_byobnet"),
    "NFNet": _timm("test_nfnet"),
    "MambaOut": _timm("test_mambaout"),
    "EfficientNet": _timm("test_efficientnet"),
    "EfficientNet, EvoNorm": _timm("test_efficientnet_evos"),
    "EfficientNet, GroupNorm": _timm("test_efficientnet_gn"),
    "EfficientNet, LayerNorm": _timm("test_efficientnet_ln"),
    "ConvNeXt, wide": _timm("test_convnext2"),
    "ResNet, bottleneck": _timm("test_resnet"),
    "ViT, small": _timm("test_vit", img_size=64),
    "ViT, pooled": _timm("test_vit2", img_size=64),
    "ViT, registers": _timm("test_vit3", img_size=64),
    "ViT, NaViT": _timm("test_vit4", img_size=64),
    "CaiT": _timm("cait_xxs24_224", **_BLOCKS, init_values=0.1),
    "BEiT": _timm("beit_base_patch16_224", **_BLOCKS, init_values=0.1),
    "XCiT": _timm("xcit_nano_12_p8_224", **_BLOCKS, eta=1.0),
    "PVTv2": _timm("pvt_v2_b0", **_PYRAMID, drop_path_rate=0.1),
    "DaViT": _timm("davit_tiny", **_PYRAMID),
    "LeViT": _timm("levit_128s", img_size=64, depth=(1, 1, 1)),
}


def _diffuser(kind: str, **sizes: Any) -> Callable[[], Any]:
    return lambda: getattr(diffusers, kind)(norm_num_groups=4, **sizes)


def _unet(kind: str, attends: str, **sizes: Any) -> Callable[[], Any]:
    return _diffuser(
        kind, sample_size=16, attention_head_dim=8, layers_per_block=1, block_out_channels=(16, 32),
        down_block_types=("DownBlock2D", f"{attends}DownBlock2D"),
        up_block_types=(f"{attends}UpBlock2D", "UpBlock2D"), **sizes,
    )  # fmt: skip


def _coder(kind: str, **sizes: Any) -> Callable[[], Any]:
    blocks = {"down_block_types": ("DownEncoderBlock2D",) * 2, "layers_per_block": 1}
    blocks |= {"up_block_types": ("UpDecoderBlock2D",) * 2, "block_out_channels": (16, 32)}
    return _diffuser(kind, **blocks, **sizes)


def _noisy(*shape: int) -> tuple[Tensor, Tensor]:
    return torch.randn(4, *shape), torch.randint(1000, (4,))


def _pictures() -> Batch:
    return (torch.randn(4, 3, 32, 32),)


def _noisy_texts() -> Batch:
    return *_noisy(4, 16, 16), torch.randn(4, 6, 32)


def _noisy_classes() -> Batch:
    return *_noisy(4, 8, 8), torch.randint(1000, (4,))


_PLAIN = _unet("UNet2DModel", "Attn")
_CONDITIONAL = _unet("UNet2DConditionModel", "CrossAttn", cross_attention_dim=32)
_TRANSFORMER = _diffuser(
    "DiTTransformer2DModel", num_attention_heads=4, attention_head_dim=16, num_layers=2,
    sample_size=8, num_embeds_ada_norm=1000,
)  # fmt: skip
ARCHITECTURES = (
    *(classifier(name, "torchvision", each, 3, 64, 64) for name, each in _TORCHVISION.items()),
    classifier("R3D", "torchvision", _clips, 3, 4, 32, 32, examples=4),
    *(classifier(name, "timm", each, 3, 64, 64) for name, each in _TIMM.items()),
    regression("UNet2D", "diffusers", _PLAIN, lambda: _noisy(3, 16, 16), "sample"),
    regression("UNet2D, conditional", "diffusers", _CONDITIONAL, _noisy_texts, "sample"),
    regression("Autoencoder, KL", "diffusers", _coder("AutoencoderKL"), _pictures, "sample"),
    regression("DiT", "diffusers", _TRANSFORMER, _noisy_classes, "sample"),
)
