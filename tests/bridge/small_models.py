"""Small random models of transformers, one for each architecture, and something to read."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
import transformers
from torch import Tensor, nn

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

VOCABULARY = 61
LENGTH = 11

WIDE = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": VOCABULARY,
}
GATED = {**WIDE, "num_key_value_heads": 2, "intermediate_size": 40, "head_dim": 6}
READING = {**WIDE, "intermediate_size": 40, "max_position_embeddings": 40}
BOTH_SIDES = {
    "vocab_size": VOCABULARY, "d_model": 24, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 40,
    "decoder_ffn_dim": 40, "max_position_embeddings": 40, "pad_token_id": 0, "eos_token_id": 2,
    "decoder_start_token_id": 1, "forced_eos_token_id": None,
}  # fmt: skip
SIGHT = {
    "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 40,
    "image_size": 12, "patch_size": 4,
}  # fmt: skip


class Small(NamedTuple):
    """How a model is made, what it is called with, and whether it writes."""

    model: str
    config: str
    sizes: Mapping[str, Any]
    reads: str = "text"
    writes: bool = False


def both(sizes: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {**sizes, **more}


SMALL: Mapping[str, Small] = {
    "llama": Small("LlamaForCausalLM", "LlamaConfig", GATED, writes=True),
    "qwen3": Small("Qwen3ForCausalLM", "Qwen3Config", GATED, writes=True),
    "mistral": Small(
        "MistralForCausalLM", "MistralConfig", both(GATED, sliding_window=4), writes=True
    ),
    "gemma2": Small(
        "Gemma2ForCausalLM",
        "Gemma2Config",
        both(GATED, sliding_window=4, attn_logit_softcapping=2.0, query_pre_attn_scalar=5),
        writes=True,
    ),
    "gemma3": Small(
        "Gemma3ForCausalLM", "Gemma3TextConfig", both(GATED, sliding_window=4), writes=True
    ),
    "gpt_oss": Small(
        "GptOssForCausalLM",
        "GptOssConfig",
        both(GATED, sliding_window=4, num_local_experts=2, num_experts_per_tok=1),
        writes=True,
    ),
    "olmo2": Small("Olmo2ForCausalLM", "Olmo2Config", GATED, writes=True),
    "phi": Small("PhiForCausalLM", "PhiConfig", both(READING, num_attention_heads=3), writes=True),
    "gpt2": Small(
        "GPT2LMHeadModel",
        "GPT2Config",
        {"vocab_size": VOCABULARY, "n_positions": 40, "n_embd": 24, "n_layer": 2, "n_head": 4},
        writes=True,
    ),
    "gpt_neox": Small(
        "GPTNeoXForCausalLM", "GPTNeoXConfig", both(READING, num_attention_heads=3), writes=True
    ),
    "opt": Small(
        "OPTForCausalLM",
        "OPTConfig",
        both(WIDE, ffn_dim=40, max_position_embeddings=40, word_embed_proj_dim=24),
        writes=True,
    ),
    "bert": Small("BertForMaskedLM", "BertConfig", READING),
    "roberta": Small("RobertaForMaskedLM", "RobertaConfig", both(READING, pad_token_id=0)),
    "electra": Small("ElectraForMaskedLM", "ElectraConfig", both(READING, embedding_size=24)),
    "albert": Small("AlbertForMaskedLM", "AlbertConfig", both(READING, embedding_size=24)),
    "distilbert": Small(
        "DistilBertForMaskedLM",
        "DistilBertConfig",
        {"vocab_size": VOCABULARY, "dim": 24, "n_layers": 2, "n_heads": 4, "hidden_dim": 40},
    ),
    "modernbert": Small(
        "ModernBertForMaskedLM",
        "ModernBertConfig",
        both(READING, local_attention=4, pad_token_id=0, num_hidden_layers=4),
    ),
    "bart": Small("BartForConditionalGeneration", "BartConfig", BOTH_SIDES, "both", writes=True),
    "mbart": Small("MBartForConditionalGeneration", "MBartConfig", BOTH_SIDES, "both", writes=True),
    "marian": Small("MarianMTModel", "MarianConfig", BOTH_SIDES, "both", writes=True),
    "pegasus": Small(
        "PegasusForConditionalGeneration", "PegasusConfig", BOTH_SIDES, "both", writes=True
    ),
    "t5": Small(
        "T5ForConditionalGeneration",
        "T5Config",
        {
            "vocab_size": VOCABULARY,
            "d_model": 24,
            "d_kv": 6,
            "d_ff": 40,
            "num_layers": 2,
            "num_heads": 4,
            "decoder_start_token_id": 0,
            "relative_attention_num_buckets": 8,
            "relative_attention_max_distance": 10,
        },
        "both",
        writes=True,
    ),
    "whisper": Small(
        "WhisperForConditionalGeneration",
        "WhisperConfig",
        both(
            BOTH_SIDES,
            num_mel_bins=5,
            max_source_positions=8,
            max_target_positions=40,
            bos_token_id=1,
            suppress_tokens=None,
            begin_suppress_tokens=None,
        ),
        "sound",
        writes=True,
    ),
    "vit": Small("ViTForImageClassification", "ViTConfig", SIGHT, "picture"),
    "deit": Small("DeiTForImageClassification", "DeiTConfig", SIGHT, "picture"),
    "dinov2": Small("Dinov2ForImageClassification", "Dinov2Config", SIGHT, "picture"),
    "clip": Small(
        "CLIPModel",
        "CLIPConfig",
        {
            "text_config": both(READING, eos_token_id=2, bos_token_id=1, pad_token_id=0),
            "vision_config": SIGHT,
            "projection_dim": 12,
        },
        "text and picture",
    ),
}
"""Architectures that go through transformers' AttentionInterface."""

WRITERS = [name for name, small in SMALL.items() if small.writes and small.reads == "text"]
"""Those that continue a text."""
READERS = [name for name, small in SMALL.items() if small.reads == "text"]
"""Those that read one text."""
TRANSLATORS = [name for name, small in SMALL.items() if small.reads == "both"]
"""Those that read one text and write another."""


def model_of(name: str, **more: Any) -> Any:
    """The model with weights so large that it looks at some places and not at others."""
    small = SMALL[name]
    config = getattr(transformers, small.config)(**{**small.sizes, **more})
    model = getattr(transformers, small.model)(config).eval()
    model.set_attn_implementation("eager")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.25)
    return model


def text(n_rows: int = 2, length: int = LENGTH) -> Tensor:
    """Random tokens, none of them special."""
    return torch.randint(5, VOCABULARY, (n_rows, length))


def inputs_of(name: str) -> dict[str, Tensor]:
    """Two examples."""
    return {made: make() for made, make in INPUTS[SMALL[name].reads].items()}


INPUTS: Mapping[str, Mapping[str, Callable[[], Tensor]]] = {
    "text": {"input_ids": text},
    "both": {"input_ids": text, "decoder_input_ids": lambda: text(length=7)},
    "sound": {
        "input_features": lambda: torch.randn(2, 5, 16),
        "decoder_input_ids": lambda: text(length=7),
    },
    "picture": {"pixel_values": lambda: torch.randn(2, 3, 12, 12)},
    "text and picture": {"input_ids": text, "pixel_values": lambda: torch.randn(2, 3, 12, 12)},
}
