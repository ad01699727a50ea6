"""Words that people bring along from other toolkits and papers, and what they are called here."""

import re
from collections.abc import Collection, Mapping

Answers = tuple[str, ...]
"""Names for a word, of which the first that is known where it was written counts; what follows a
colon explains it, and what follows an exclamation mark says it all."""

_EPOCHS = "epochs: it stands in place of steps, the number of updates"
_BATCH = "target_tokens_per_batch: batches are counted in tokens, so that long texts fit too"
_UPDATE = "target_tokens_per_update: an update gathers batches until it has so many target tokens"
_ADAM = "optimiser: Adam's settings are beside it, learning_rate, beta1, beta2, eps, weight_decay"
_LAYERS = ("n_layers", "n_encoder_layers: the decoder's are n_decoder_layers")
_WIDTH = ("d_model", "d_hidden")

_LABELLERS = (
    "classifier", "classification", "classify", "sentiment", "text_classification", "labels",
    "labelling", "labeling",
)  # fmt: skip
_TAGGERS = ("tagger", "tagging", "ner", "pos", "token_classification")
_PREDICT = "predict: a run that gives labels writes those of a text"

FAMILIAR: Mapping[str, Answers] = {
    # training
    **dict.fromkeys(("lr", "max_lr", "base_lr", "peak_lr", "learningrate"), ("learning_rate",)),
    **dict.fromkeys(("n_epochs", "num_epochs", "max_epochs", "epoch"), (_EPOCHS,)),
    "num_train_epochs": (_EPOCHS,),
    **dict.fromkeys(("max_steps", "n_steps", "num_steps", "updates", "iterations"), ("steps",)),
    **dict.fromkeys(("batch_size", "batch", "bs", "per_device_train_batch_size"), (_BATCH,)),
    **dict.fromkeys(("gradient_accumulation_steps", "grad_accum", "accumulate"), (_UPDATE,)),
    **dict.fromkeys(("optimizer", "optim", "adam", "betas"), (_ADAM,)),
    **dict.fromkeys(("lr_scheduler", "scheduler", "lr_schedule"), ("schedule",)),
    **dict.fromkeys(("warmup", "warmup_updates", "num_warmup_steps"), ("warmup_steps",)),
    **dict.fromkeys(("max_grad_norm", "grad_clip", "gradient_clip_val", "clip"), ("clip_norm",)),
    "wd": ("weight_decay",),
    "smoothing": ("label_smoothing",),
    "early_stopping": ("patience: stop_on says what has to improve",),
    # models
    **dict.fromkeys(("hidden_size", "embed_dim", "embedding_dim", "n_embd", "dim"), _WIDTH),
    **dict.fromkeys(("hidden_dim", "model_dim", "width"), _WIDTH),
    **dict.fromkeys(("layers", "num_layers", "n_layer", "num_hidden_layers", "depth"), _LAYERS),
    "n_layers": _LAYERS,
    **dict.fromkeys(("heads", "num_heads", "n_head", "num_attention_heads"), ("n_heads",)),
    **dict.fromkeys(("ffn_dim", "d_ff", "dim_feedforward", "intermediate_size"), ("d_hidden",)),
    **dict.fromkeys(("dropout_rate", "p_dropout", "hidden_dropout"), ("dropout",)),
    **dict.fromkeys(("activation", "hidden_act"), ("feed_forward",)),
    **dict.fromkeys(("tie_embeddings", "tie_weights", "tie_word_embeddings"), ("tied",)),
    **dict.fromkeys(("max_length", "max_seq_len", "seq_len"), ("max_tokens", "max_len")),
    **dict.fromkeys(("vocab_size", "vocab"), ("size",)),
    # mechanisms, as a key where one goes or as their own name
    "rope": ("rotary", 'positions! Write positions = "rotary"'),
    "alibi": ("linear_bias", 'relation! Write relation = "linear_bias"'),
    "t5": ("bucketed", 'relation! Write relation = "bucketed"'),
    "relative_positions": ("shaw", 'relation! Write relation = "shaw"'),
    "bahdanau": ("additive", 'score! Write score = "additive"'),
    "luong": ("general", 'score! Write score = "general"'),
    "softmax": ("soft",),
    "gqa": ("grouped_query",),
    "longformer": ("sliding_window",),
    "absolute": ("sinusoidal",),
    # devices and precisions
    **dict.fromkeys(("fp16", "half", "amp", "16"), ("float16",)),
    **dict.fromkeys(("bf16", "16-mixed", "bf16-mixed"), ("bfloat16",)),
    **dict.fromkeys(("fp32", "float", "32", "single"), ("float32",)),
    # data and tasks
    **dict.fromkeys(("hf", "datasets"), ("huggingface",)),
    **dict.fromkeys(_LABELLERS, ("label", 'encoder: its task is "label"', _PREDICT)),
    **dict.fromkeys(_TAGGERS, ("tags", 'encoder: its task is "tags"', _PREDICT)),
    **dict.fromkeys(("lm", "causal_lm"), ("language_modelling", "language_model")),
    **dict.fromkeys(("mlm", "masked_lm"), ("words",)),
    **dict.fromkeys(("mt", "translate", "seq2seq"), ("translation", "transformer")),
}


def familiar(word: str, known: Collection[str]) -> str | None:
    """What a word is called here, as a sentence, if one of its names is known.

    >>> familiar("lr", ["steps", "learning_rate"])
    "It is called 'learning_rate'."
    """
    for answer in FAMILIAR.get(word.lower(), ()):
        name, *rest = re.split("([:!]) ", answer, maxsplit=1)
        if name in known:
            mark, remark = rest or ("", "")
            called = f"It is called '{name}'{mark} {remark}".rstrip()
            return f"{remark}." if mark == "!" else f"{called}."
    return None
