"""Texts, images, sound and series: small random configurations of Hugging Face's transformers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.zoo.architecture import (
    CLASSES,
    Architecture,
    Batch,
    Library,
    own_loss,
    regression,
)

transformers = Library("transformers")
WORDS, LENGTH, TEXTS = 128, 24, 4
_SMALL: dict[str, Any] = {
    **dict.fromkeys(("hidden_size", "d_model", "dim", "n_embd", "word_embed_proj_dim"), 64),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "n_layers", "num_layers"), 2),
    **dict.fromkeys(("encoder_layers", "decoder_layers", "num_decoder_layers"), 2),
    **dict.fromkeys(("num_attention_heads", "n_head", "n_heads", "num_heads"), 4),
    **dict.fromkeys(("encoder_attention_heads", "decoder_attention_heads"), 4),
    **dict.fromkeys(("intermediate_size", "hidden_dim", "d_ff", "d_inner", "ffn_dim"), 128),
    **dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), 128),
    **dict.fromkeys(("d_kv", "d_head", "head_dim", "num_mel_bins"), 16),
    **dict.fromkeys(("max_position_embeddings", "n_positions", "max_target_positions"), 64),
    **{"num_key_value_heads": 2, "num_local_experts": 4, "state_size": 8, "sliding_window": 8},
    **{"vocab_size": WORDS, "embedding_size": 32, "image_size": 32, "patch_size": 8},
    **{"decoder_hidden_size": 32, "decoder_num_hidden_layers": 1, "decoder_intermediate_size": 64},
    **{"decoder_num_attention_heads": 2, "max_source_positions": 32},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1},
}


def _made(kind: str, of: str, own: dict[str, Any]) -> Any:
    """The model with small sizes, as far as its configuration has them, and those of its own."""
    configured = getattr(transformers, f"{kind}Config")
    known = configured().to_dict()
    sizes = {name: each for name, each in _SMALL.items() if name in known}
    config = configured(**{**sizes, **own})
    if of.endswith(("Classification", "Segmentation")):
        config.num_labels = CLASSES
        config.problem_type = "single_label_classification"  # else the second step compiles again
    return getattr(transformers, kind + of)(config)


def _small(kind: str, of: str, **own: Any) -> partial[Any]:
    return partial(_made, kind, of, own)


def _texts(*, mask: bool = True, words: bool = False) -> dict[str, Tensor]:
    """Padded texts of different lengths, labelled with a class or with the words."""
    real = torch.arange(LENGTH) < torch.randint(LENGTH // 2, LENGTH + 1, (TEXTS, 1))
    tokens = torch.where(real, torch.randint(3, WORDS, (TEXTS, LENGTH)), 0)
    labels = tokens if words else torch.randint(CLASSES, (TEXTS,))
    batch = {"input_ids": tokens, "labels": labels}
    return {**batch, "attention_mask": real.long()} if mask else batch


def _images(size: int, *labels: int) -> Callable[[], Batch]:
    def batch() -> Batch:
        made = {"pixel_values": torch.randn(4, 3, size, size)}
        return {**made, "labels": torch.randint(CLASSES, labels)} if labels else made

    return batch


def _waves() -> Batch:
    return {"input_values": torch.randn(2, 1600), "labels": torch.randint(1, 32, (2, 8))}


def _mels() -> Batch:
    labels = torch.randint(3, WORDS, (2, 8))
    return {"input_features": torch.randn(2, 16, 64), "labels": labels}


def _spectra() -> Batch:
    return {"input_values": torch.randn(4, 32, 16), "labels": torch.randint(CLASSES, (4,))}


def _values() -> Batch:
    return {"past_values": torch.randn(4, 32, 3), "future_values": torch.randn(4, 8, 3)}


def _lagged() -> Batch:
    past, future = 16 + 2, 8
    return {
        "past_values": torch.randn(4, past),
        "past_time_features": torch.randn(4, past, 2),
        "past_observed_mask": torch.ones(4, past),
        "future_values": torch.randn(4, future),
        "future_time_features": torch.randn(4, future, 2),
    }


def _pairs() -> Batch:
    texts = {name: each for name, each in _texts().items() if name != "labels"}
    return {**texts, "pixel_values": torch.randn(TEXTS, 3, 32, 32), "return_loss": True}


def _games() -> Batch:
    return {
        "states": torch.randn(4, 6, 5),
        "actions": torch.randn(4, 6, 2),
        "rewards": torch.randn(4, 6, 1),
        "returns_to_go": torch.randn(4, 6, 1),
        "timesteps": torch.arange(6).expand(4, 6).contiguous(),
    }


_CLASSIFIER, _NEXT_WORD = "ForSequenceClassification", "ForCausalLM"
_IMAGE, _SERIES, _ANSWER = "ForImageClassification", "ForPrediction", "ForConditionalGeneration"
_ENCODERS: dict[str, dict[str, Any]] = {
    **{"Bert": {}, "Albert": {}, "DistilBert": {}, "Electra": {}, "MPNet": {}, "MegatronBert": {}},
    "SqueezeBert": {"embedding_size": 64},
    "DebertaV2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "ConvBert": {"head_ratio": 2, "conv_kernel_size": 3},
    "ModernBert": {"cls_token_id": 1, "sep_token_id": 2, "local_attention": 8},
    "Funnel": {"block_sizes": [1, 1], "num_decoder_layers": 1},
}
_DECODERS: dict[str, dict[str, Any]] = {
    **{"GPTNeoX": {}, "Bloom": {}, "Llama": {}, "Qwen3": {}, "Gemma2": {}, "Mixtral": {}},
    **{"OPT": {}, "Phi": {}, "Falcon": {}, "Olmo2": {}, "StableLm": {}, "GPTBigCode": {}},
    **{"Cohere": {}, "Granite": {}, "Starcoder2": {}},
    "Mamba": {"use_mambapy": False},
}
_SOUND = {
    "conv_dim": [32, 32], "conv_kernel": [10, 3], "conv_stride": [5, 2], "vocab_size": 32,
    "num_feat_extract_layers": 2, "num_conv_pos_embeddings": 16, "mask_time_length": 4,
    "num_conv_pos_embedding_groups": 4, "mask_time_prob": 0.3, "ctc_zero_infinity": True,
}  # fmt: skip
_PATCHES = {
    "num_input_channels": 3, "context_length": 32, "prediction_length": 8, "patch_length": 8
}  # fmt: skip
_LAGS = {
    "prediction_length": 8, "context_length": 16, "input_size": 1, "lags_sequence": [1, 2],
    "num_time_features": 2,
}  # fmt: skip
_LAYERS = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
_CLIP = {
    "text_config": {**_LAYERS, "intermediate_size": 128, "vocab_size": WORDS, "eos_token_id": 2},
    "vision_config": {**_LAYERS, "intermediate_size": 128, "image_size": 32, "patch_size": 8},
}
_STAGES = {"depths": [1, 1, 1, 1], "hidden_sizes": [16, 32, 48, 64]}
_NECK = {"hidden_sizes": [32, 48, 64], "neck_hidden_sizes": [8, 16, 24, 32, 48, 64, 96]}
_TREE = {"frequency_stride": 4, "time_stride": 4, "max_length": 32}
_bare, _words = partial(_texts, mask=False), partial(_texts, words=True)
_bare_words = partial(_texts, mask=False, words=True)
_OWN_LOSS = (
    *(("encoder", _small(kind, _CLASSIFIER, **own), _texts) for kind, own in _ENCODERS.items()),
    ("encoder", _small("FNet", _CLASSIFIER, tpu_short_seq_length=LENGTH), _bare),
    *(("decoder", _small(kind, _NEXT_WORD, **own), _bare_words) for kind, own in _DECODERS.items()),
    ("decoder", _small("GPT2", "LMHeadModel"), _bare_words),
    ("encoder-decoder", _small("T5", _ANSWER, decoder_start_token_id=0), _words),
    ("encoder-decoder", _small("Bart", _ANSWER), _words),
    ("images", _small("Dinov2", _IMAGE, mlp_ratio=2, layerscale_value=0.1), _images(32, 4)),
    ("images", _small("ViTMAE", "ForPreTraining"), _images(32)),
    ("images", _small("MobileViT", _IMAGE, **_NECK, image_size=64), _images(64, 4)),
    ("images", _small("ConvNextV2", _IMAGE, **_STAGES, drop_path_rate=0.1), _images(64, 4)),
    (
        "images",
        _small("Segformer", "ForSemanticSegmentation", **_STAGES, num_attention_heads=[1, 2, 4, 8]),
        _images(64, 4, 64, 64),
    ),
    ("audio", _small("Wav2Vec2", "ForCTC", **_SOUND), _waves),
    ("audio", _small("Hubert", "ForCTC", **_SOUND), _waves),
    ("audio", _small("WavLM", "ForCTC", **_SOUND), _waves),
    ("audio", _small("Whisper", _ANSWER), _mels),
    ("audio", _small("AST", "ForAudioClassification", **_TREE), _spectra),
    ("series", _small("PatchTST", _SERIES, **_PATCHES), _values),
    ("series", _small("PatchTSMixer", _SERIES, **_PATCHES), _values),
    ("series", _small("TimeSeriesTransformer", _SERIES, **_LAGS), _lagged),
    ("series", _small("Informer", _SERIES, **_LAGS), _lagged),
    ("siamese", _small("CLIP", "Model", **_CLIP, projection_dim=32), _pairs),
)
_DECISIONS = _small("DecisionTransformer", "Model", state_dim=5, act_dim=2, max_ep_len=64)
ARCHITECTURES: tuple[Architecture, ...] = (
    *(own_loss(build.args[0], family, build, batch) for family, build, batch in _OWN_LOSS),
    regression("DecisionTransformer", "reinforcement", _DECISIONS, _games, "action_preds"),
)
