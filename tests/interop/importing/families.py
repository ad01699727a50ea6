"""Small models of families of one layout, and how each is asked; several shapes of each."""

import json
from pathlib import Path

import torch
import transformers
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

from regard.data.published_subwords import PATTERNS
from regard.data.subword_kinds import BYTES
from regard.interop.importing.family import NO_LANGUAGES, Languages
from tests.interop.importing.published import (
    GPT2_MERGES,
    WORDS,
    change,
    numbered,
    rewrite,
    saved,
    sentencepieces,
)

ROBERTA_PIECES = [
    "<s>", "<pad>", "</s>", "<unk>", *sorted(BYTES), "th", "the", "Ġthe", "Ġc", "<mask>",
]  # fmt: skip
BART_PIECES = ROBERTA_PIECES
XLM_PIECES = ["<s>", "<pad>", "</s>", "<unk>", *(f"▁{word}" for word in WORDS), "▁", "s", "t",
              "<mask>"]  # fmt: skip
MANY_PIECES = [
    "<s>", "<pad>", "</s>", "<unk>", *(f"▁{word}" for word in WORDS), "▁", "s", "t", "a",
    "de_DE", "en_XX", "fr_XX", "<mask>",
]  # fmt: skip
NLLB_PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁", *"abcdehimnorst", "▁t", "▁th", "▁the", "▁c",
               "deu_Latn", "eng_Latn", "<mask>"]  # fmt: skip
NLLB_MERGES = [("▁", "t"), ("▁t", "h"), ("▁th", "e"), ("▁", "c")]
T5_PIECES = ["<pad>", "</s>", "<unk>", *(f"▁{word}" for word in WORDS), "▁", "s", "t",
             "<extra_id_1>", "<extra_id_0>"]  # fmt: skip
LLAMA_PIECES = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁",
                *"abcdehimnorst", "▁t", "▁th", "▁the", "▁c"]  # fmt: skip
QWEN_PIECES = [*sorted(BYTES), "th", "the", "Ġthe", "Ġc", "<|endoftext|>", "<|im_end|>"]


def byte_pairs(pieces):
    made = Tokenizer(models.BPE(numbered(pieces), GPT2_MERGES))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return made


def spaced_pairs(pieces, *, is_split, has_bytes):
    unknown = {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": has_bytes}
    made = Tokenizer(models.BPE(numbered(pieces), NLLB_MERGES, **unknown))
    made.pre_tokenizer = pre_tokenizers.Metaspace(split=is_split)
    return made


def split_pairs(pieces, pattern):
    made = Tokenizer(models.BPE(numbered(pieces), GPT2_MERGES, ignore_merges=True))
    made.normalizer = normalizers.NFC()
    cut = pre_tokenizers.Split(Regex(pattern), "isolated")
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [cut, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    return made


def _seq2seq(folder, kind, config, tokenizer, first_bias=True):
    model = kind(config)
    if first_bias:
        model.final_logits_bias.copy_(torch.randn(1, config.vocab_size))
    return saved(folder, model, tokenizer), model.eval()


def _sides(width, heads, hidden, layers=(2, 2)):
    return {
        "d_model": width, "encoder_attention_heads": heads, "decoder_attention_heads": heads,
        "encoder_ffn_dim": hidden, "decoder_ffn_dim": hidden, "encoder_layers": layers[0],
        "decoder_layers": layers[1], "max_position_embeddings": 31,
    }  # fmt: skip


def _codes(pieces, **others):
    names = {"bos": "<s>", "pad": "<pad>", "eos": "</s>"}
    codes = {f"{name}_token_id": pieces.index(piece) for name, piece in names.items()}
    return {"vocab_size": len(pieces), **codes, **others}


def bart(folder: Path, width=24, heads=3, hidden=40, layers=(2, 1), activation="gelu"):
    config = transformers.BartConfig(
        **_sides(width, heads, hidden, layers), **_codes(BART_PIECES),
        activation_function=activation, decoder_start_token_id=2, forced_bos_token_id=0,
        forced_eos_token_id=None,
    )  # fmt: skip
    return _seq2seq(folder, transformers.BartForConditionalGeneration, config,
                    byte_pairs(BART_PIECES))  # fmt: skip


def mbart(folder: Path, width=24, heads=3, hidden=40, layers=(2, 1), tokenizer="MBart50Tokenizer"):
    config = transformers.MBartConfig(
        **_sides(width, heads, hidden, layers), **_codes(MANY_PIECES), scale_embedding=True,
        forced_eos_token_id=None,
    )  # fmt: skip
    made = _seq2seq(folder, transformers.MBartForConditionalGeneration, config,
                    sentencepieces(MANY_PIECES))  # fmt: skip
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": tokenizer}))
    return made


def m2m100(folder: Path, width=24, heads=3, hidden=40, layers=(2, 1), is_nllb=False):
    pieces = NLLB_PIECES if is_nllb else MANY_PIECES
    config = transformers.M2M100Config(
        **_sides(width, heads, hidden, layers), **_codes(pieces), scale_embedding=True,
        decoder_start_token_id=2, forced_eos_token_id=None,
    )  # fmt: skip
    cut = (
        spaced_pairs(pieces, is_split=True, has_bytes=False) if is_nllb else sentencepieces(pieces)
    )
    kind = transformers.M2M100ForConditionalGeneration
    return _seq2seq(folder, kind, config, cut, first_bias=False)


def t5(folder: Path, width=24, heads=3, d_kv=8, layers=(3, 2), kind="relu", buckets=(8, 20)):
    is_first = kind == "relu"
    config = transformers.T5Config(
        vocab_size=len(T5_PIECES), d_model=width, d_kv=d_kv, num_heads=heads, d_ff=40,
        num_layers=layers[0], num_decoder_layers=layers[1], feed_forward_proj=kind,
        relative_attention_num_buckets=buckets[0], relative_attention_max_distance=buckets[1],
        tie_word_embeddings=is_first, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1,
    )  # fmt: skip
    model = transformers.T5ForConditionalGeneration(config)
    if not is_first:
        # published files of this version have two tables, and say so
        saved(folder, model, sentencepieces(T5_PIECES))
        model.lm_head.weight = torch.nn.Parameter(torch.randn(len(T5_PIECES), width))
        change(folder, lambda held: held.update({"lm_head.weight": model.lm_head.weight.data}))
        rewrite(folder / "config.json", tie_word_embeddings=False)
        return folder, model
    return saved(folder, model, sentencepieces(T5_PIECES)), model


def roberta(folder: Path, kind="Roberta", has_head=True, width=24, heads=3):
    pieces = XLM_PIECES if kind == "XLMRoberta" else ROBERTA_PIECES
    config = getattr(transformers, f"{kind}Config")(
        hidden_size=width, num_hidden_layers=2, num_attention_heads=heads, intermediate_size=40,
        max_position_embeddings=33, type_vocab_size=1, **_codes(pieces),
    )  # fmt: skip
    model = getattr(transformers, f"{kind}{'ForMaskedLM' if has_head else 'Model'}")(config)
    cut = sentencepieces(pieces) if kind == "XLMRoberta" else byte_pairs(pieces)
    return saved(folder, model, cut), model.eval()


def llama(folder: Path, kind="Llama", sizes=(24, 4, 2, None), is_tied=False, rope=None, **switches):
    width, heads, groups, head_dim = sizes
    is_qwen = kind != "Llama"
    pieces = QWEN_PIECES if is_qwen else LLAMA_PIECES
    ends = {"eos_token_id": len(pieces) - 2, "bos_token_id": None}
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=len(pieces), hidden_size=width, num_attention_heads=heads,
        num_key_value_heads=groups, num_hidden_layers=2, intermediate_size=40,
        max_position_embeddings=65, tie_word_embeddings=is_tied, pad_token_id=None,
        rope_parameters=rope or {"rope_type": "default", "rope_theta": 10000.0},
        **(ends if is_qwen else {"bos_token_id": 1, "eos_token_id": 2}),
        **({} if head_dim is None else {"head_dim": head_dim}), **switches,
    )  # fmt: skip
    model = getattr(transformers, f"{kind}ForCausalLM")(config)
    if is_qwen:
        return saved(folder, model, split_pairs(pieces, PATTERNS[0])), model.eval()
    cut = spaced_pairs(pieces, is_split=False, has_bytes=True)
    cut.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return saved(folder, model, cut), model.eval()


ENCODER_DECODERS = {
    "BART": (bart, {}, NO_LANGUAGES),
    "BART, odd": (bart, {"width": 21, "heads": 7, "hidden": 37, "activation": "relu"},
                  NO_LANGUAGES),
    "BART, wide": (bart, {"width": 64, "heads": 4, "hidden": 256, "layers": (3, 3)}, NO_LANGUAGES),
    "mBART 50": (mbart, {}, Languages("en_XX", "fr_XX")),
    "mBART 50, odd": (mbart, {"width": 15, "heads": 5, "hidden": 17}, Languages("de", "en")),
    "mBART 25": (mbart, {"tokenizer": "MBartTokenizer"}, Languages("en_XX", "de_DE")),
    "M2M100": (m2m100, {}, Languages("en", "fr")),
    "M2M100, odd": (m2m100, {"width": 21, "heads": 3, "hidden": 33}, Languages("en", "fr")),
    "NLLB": (m2m100, {"is_nllb": True}, Languages("eng_Latn", "deu")),
    "T5": (t5, {}, NO_LANGUAGES),
    "T5, heads wider than their share": (t5, {"width": 21, "heads": 5, "d_kv": 16}, NO_LANGUAGES),
    "T5 1.1": (t5, {"kind": "gated-gelu"}, NO_LANGUAGES),
    "T5 1.1, usual buckets": (t5, {"kind": "gated-gelu", "width": 32, "heads": 2, "d_kv": 5,
                                   "buckets": (32, 128)}, NO_LANGUAGES),
}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 16}  # fmt: skip
LANGUAGE_MODELS = {
    "Llama": (llama, {}),
    "Llama, tied, a head of 3 x 10": (llama, {"sizes": (21, 3, 1, 10), "is_tied": True}),
    "Llama 3": (llama, {"sizes": (32, 4, 4, None), "rope": LLAMA3}),
    "Llama, linear, biases": (llama, {"attention_bias": True, "rope": {
        "rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0}}),
    "Qwen2": (llama, {"kind": "Qwen2"}),
    "Qwen2, tied": (llama, {"kind": "Qwen2", "sizes": (30, 3, 3, None), "is_tied": True}),
    "Qwen3": (llama, {"kind": "Qwen3", "sizes": (24, 4, 2, 10)}),
    "Qwen3, one group": (llama, {"kind": "Qwen3", "sizes": (20, 5, 1, 6), "is_tied": True}),
}  # fmt: skip
ENCODERS = {
    "RoBERTa": (roberta, {}),
    "RoBERTa, odd": (roberta, {"width": 21, "heads": 7}),
    "XLM-R": (roberta, {"kind": "XLMRoberta"}),
}
