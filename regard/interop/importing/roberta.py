"""RoBERTa's layout, and XLM-R's: BERT's encoder, positions that count from 2, a head of its own.

Paper: Liu et al. 2019; Conneau et al. 2020 (XLM-R).
"""

from dataclasses import replace

from regard.interop.importing import bert
from regard.interop.importing.family import (
    READS,
    Family,
    Layout,
    PublishedTensor,
    Roles,
    always,
    by_piece_with_bias,
    modules,
)
from regard.interop.importing.folder import Folder
from regard.models import EncoderSpec

HEAD = "lm_head."
BIAS = "lm_head.bias"
FIRST = 2
"""The position of a text's first token; those before it are padding's."""
POSITIONS = "network.encoder.embedding.positions.P.weight"
PIECES = "network.encoder.embedding.E.weight"
ROLES = Roles(padding="<pad>", begin="<s>", end="</s>", unknown="<unk>", mask="<mask>")


def spec_of(folder: Folder) -> EncoderSpec:
    """config.json → [model]; the names of the weights show whether there is a head."""
    spec = bert.spec_of(folder)
    has_head = any(name.startswith(HEAD) for name in folder.tensor_names())
    task = "words" if has_head else "vectors"
    return replace(spec, task=task, max_len=spec.max_len - FIRST)


def layout_of(folder: Folder, spec: EncoderSpec) -> Layout:
    """Every tensor."""
    whole = bert.layout_of(folder, replace(spec, task="vectors"))
    counted = PublishedTensor(
        ("embeddings.position_embeddings.weight",), lambda found, rows: found[0][FIRST:]
    )
    tables = {POSITIONS: counted}
    if spec.task == "vectors":
        return Layout({**whole.ours, **tables}, bert.LEFT_OUT)
    return Layout(
        {
            **whole.ours,
            **tables,
            PIECES: by_piece_with_bias(bert.PIECES, BIAS),
            **modules({"network.dense": "lm_head.dense", "network.norm.0": "lm_head.layer_norm"}),
        },
        bert.LEFT_OUT,
        {"lm_head.decoder.weight": bert.PIECES, "lm_head.decoder.bias": BIAS},
    )


ROBERTA, XLM_ROBERTA = (
    Family(name, "roberta.", always(ROLES), spec_of, layout_of, READS, bert.notes_on)
    for name in ("roberta", "xlm-roberta")
)
