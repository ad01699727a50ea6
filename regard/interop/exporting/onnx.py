"""Exporting: a run that reads a source → two ONNX graphs, for any runtime of that format.

    encoder.onnx  decoder.onnx     the source once, then a step for each token, with its past
    tokenizer.json  recipe.toml    how texts become tokens
    regard.json  README.md         sizes and names, and how the graphs are used

Before it is done, a search over the graphs answers the run's own examples by onnxruntime.
"""

import importlib.util
import json
import shutil
from pathlib import Path

from regard.data.atomic_writes import write_text, written_beside
from regard.data.subword_kinds import BOS, EOS, PAD
from regard.errors import NotPortable, SettingError
from regard.interop.answers import compared_answers
from regard.interop.exporting.exported import Exported, check_is_new
from regard.interop.onnx import OnnxStepper, write_graphs
from regard.models.portable import tensor_functions
from regard.runs.trained import load
from regard.tasks.loaded_run import subword_files
from regard.training.card_json import MODEL, file_hash

NOT_THERE = "onnxruntime is not installed, so that the graphs were not asked anything"
README = """\
# {name}, as ONNX graphs

```python
import numpy as np
import onnxruntime
from tokenizers import Tokenizer

reads, writes = Tokenizer.from_file("{folder}/{first}"), Tokenizer.from_file("{folder}/{last}")
encoder = onnxruntime.InferenceSession("{folder}/encoder.onnx")
decoder = onnxruntime.InferenceSession("{folder}/decoder.onnx")
source = np.array([[*reads.encode(text).ids, {eos}]])
valid, *sources = encoder.run(None, {{"source": source}})
pasts = [np.zeros((1, {n_heads}, 0, {d_head}), np.float32) for _ in sources]
written, token = [], {bos}
while len(written) < {most} and token != {eos}:
    given = {{"tokens": np.array([[token]]), "valid": valid}}
    given |= {{f"source_{{i}}": one for i, one in enumerate(sources)}}
    given |= {{f"past_{{i}}": one for i, one in enumerate(pasts)}}
    logits, *pasts = decoder.run(None, given)
    logits[:, [{pad}, {bos}]] = -np.inf
    token = int(logits[0].argmax())
    written.append(token)
print(writes.decode([token for token in written if token != {eos}]))
```

- {note}
- a text has at most {longest:,} tokens, the end token counted
"""


def export_onnx(run: Path, out: Path, quantization: str | None = None) -> Exported:
    """Write a new folder, and have onnxruntime answer from it if it is installed."""
    if quantization is not None:
        raise SettingError(
            "export: --quantization is for CTranslate2; the graphs are in float32. Leave it out, "
            "or take --to ctranslate2."
        )
    check_is_new(out)
    trained = load(run, device="cpu")
    try:
        functions = tensor_functions(trained.loaded.model)
    except NotPortable as reason:
        raise SettingError(f"export: no graph is made of the run '{run}': {reason}.") from reason
    sizes = {"n_heads": functions.n_heads, "d_head": functions.d_head}
    vocabularies = subword_files(trained.loaded.recipe)
    with written_beside(out) as partial:
        partial.mkdir(parents=True)
        write_graphs(partial, functions)
        note = NOT_THERE
        if importlib.util.find_spec("onnxruntime") is not None:
            compared = compared_answers(trained, OnnxStepper(partial, **sizes))
            compared.check("export: onnxruntime")
            note = f"onnxruntime: {compared}"
        for name in ("recipe.toml", *vocabularies):
            shutil.copy(run / name, partial / name)
        about = {"version": 1, "weights": file_hash(run / MODEL), **sizes}
        write_text(partial / "regard.json", json.dumps(about, indent=1) + "\n")
        readme = README.format(
            name=run.resolve().name, folder=out.name, first=vocabularies[0], last=vocabularies[-1],
            note=note, longest=trained.longest, most=trained.longest - 1, eos=EOS, bos=BOS, pad=PAD,
            **sizes,
        )  # fmt: skip
        write_text(partial / "README.md", readme)
        names = tuple(sorted(path.name for path in partial.iterdir()))
    return Exported(names, (note,))
