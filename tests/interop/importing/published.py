"""Small models as another library writes them, with vocabularies to go with them."""

import json
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from regard.data.subword_kinds import BYTES
from regard.interop.importing import Imported, read_published
from regard.interop.importing.family import NO_LANGUAGES, Languages
from regard.models import build_model
from regard.training.checkpoints import load_weights, write_tensors

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()

TEXT = "the cat sat on a mat and saw dog run home paris is capital of france"
WORDS = TEXT.split()
SHARED = {"num_hidden_layers": 2, "hidden_size": 24, "num_attention_heads": 3}
BERT_PIECES = [
    "[PAD]", *(f"[unused{i}]" for i in range(5)), "[UNK]", "[CLS]", "[SEP]", "[MASK]",
    *WORDS, "##s", "##ing", ".", ",",
]  # fmt: skip
BIRD_PIECES = [
    "<pad>", "</s>", "<s>", "<unk>", *(f"▁{word}" for word in WORDS), "▁", "s", "t", "a",
    "[SEP]", "[MASK]", "[CLS]",
]  # fmt: skip
MARIAN_PIECES = ["</s>", "<unk>", *(f"▁{word}" for word in WORDS), "▁", "s", "t", "<pad>"]
GPT2_PIECES = [*sorted(BYTES), "th", "the", "Ġthe", "Ġc", "<|endoftext|>"]
GPT2_MERGES = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("Ġ", "c")]


def numbered(pieces):
    return {piece: number for number, piece in enumerate(pieces)}


def wordpieces():
    made = Tokenizer(models.WordPiece(numbered(BERT_PIECES), unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made


def sentencepieces(pieces):
    scored = [(piece, -float(len(pieces) - i) / 10) for i, piece in enumerate(pieces)]
    made = Tokenizer(models.Unigram(scored, pieces.index("<unk>"), byte_fallback=False))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    return made


def byte_pairs():
    made = Tokenizer(models.BPE(numbered(GPT2_PIECES), GPT2_MERGES))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return made


def saved(folder: Path, model, tokenizer) -> Path:
    """A folder with a model whose weights are large enough to tell faults apart."""
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "embed_positions" in name:
                continue
            if "norm" in name.lower() or "ln_" in name or name.endswith("bias"):
                weight.add_(0.3 * torch.randn_like(weight))
            else:
                weight.mul_(6)
    model.eval().save_pretrained(folder)
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def bert(folder: Path, *, has_head: bool = True, activation: str = "gelu"):
    config = transformers.BertConfig(
        vocab_size=len(BERT_PIECES), intermediate_size=40, max_position_embeddings=48,
        hidden_act=activation, **SHARED,
    )  # fmt: skip
    kind = transformers.BertForMaskedLM if has_head else transformers.BertModel
    model = kind(config)
    return saved(folder, model, wordpieces()), model.eval()


def big_bird(folder: Path, attention_type: str = "block_sparse"):
    config = transformers.BigBirdConfig(
        vocab_size=len(BIRD_PIECES), intermediate_size=40, max_position_embeddings=96,
        block_size=4, num_random_blocks=2, attention_type=attention_type,
        pad_token_id=0, eos_token_id=1, bos_token_id=2, sep_token_id=BIRD_PIECES.index("[SEP]"),
        **SHARED,
    )  # fmt: skip
    model = transformers.BigBirdForMaskedLM(config)
    return saved(folder, model, sentencepieces(BIRD_PIECES)), model.eval()


def marian(folder: Path, *, is_scaled: bool = True, activation: str = "swish"):
    size, last = len(MARIAN_PIECES), len(MARIAN_PIECES) - 1
    config = transformers.MarianConfig(
        vocab_size=size, d_model=24, encoder_layers=2, decoder_layers=2, encoder_ffn_dim=40,
        decoder_ffn_dim=40, encoder_attention_heads=3, decoder_attention_heads=3,
        max_position_embeddings=64, activation_function=activation, scale_embedding=is_scaled,
        pad_token_id=last, decoder_start_token_id=last, eos_token_id=0, forced_eos_token_id=0,
    )  # fmt: skip
    model = transformers.MarianMTModel(config)
    model.final_logits_bias.copy_(torch.randn(1, size))
    return saved(folder, model, sentencepieces(MARIAN_PIECES)), model.eval()


def gpt2(folder: Path, *, n_positions: int = 64):
    size = len(GPT2_PIECES)
    config = transformers.GPT2Config(
        vocab_size=size, n_embd=24, n_layer=2, n_head=3, n_positions=n_positions,
        bos_token_id=size - 1, eos_token_id=size - 1,
    )  # fmt: skip
    model = transformers.GPT2LMHeadModel(config)
    return saved(folder, model, byte_pairs()), model.eval()


def imported_model(folder: Path, tmp_path: Path, languages: Languages = NO_LANGUAGES):
    """What a folder holds, and our model with those weights."""
    imported = read_published(folder, languages)
    model = build_model(
        imported.recipe.model,
        n_source_tokens=len(imported.source),
        n_target_tokens=len(imported.target),
    )
    write_tensors(tmp_path / "weights.safetensors", imported.weights)
    load_weights(tmp_path / "weights.safetensors", model)
    return imported, model.eval()


def ours(imported: Imported, ids):
    """Numbers of theirs as numbers of ours."""
    places = {row.number: i for i, row in enumerate(imported.rows["target"]) if row.is_writable}
    return torch.tensor([[places[i] for i in row] for row in ids])


def their_columns(imported: Imported):
    """Our pieces that the published model can say, and the columns they have there."""
    said = [
        (i, row.number)
        for i, row in enumerate(imported.rows["target"])
        if row.is_writable and row.number is not None
    ]
    return [i for i, _ in said], [number for _, number in said]


def change(folder: Path, changing) -> None:
    """Read the weights, change them, and write them back."""
    tensors = load_file(folder / "model.safetensors")
    changing(tensors)
    save_file(tensors, folder / "model.safetensors")


def rewrite(path: Path, **changes) -> None:
    """Change some keys of a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
