"""Exporting: a run → a folder that CTranslate2 reads, without going through another library.

    model.bin  config.json  *vocabulary.json     CTranslate2's own
    tokenizer.json  recipe.toml                  how texts become its tokens
    regard.json  README.md                       how the folder is used, for programs and for people

Before it is done the folder answers the run's own examples.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

from regard.choices import find
from regard.data.atomic_writes import write_text, written_beside
from regard.data.subword_kinds import EOS, SPECIALS, UNK
from regard.errors import NotPortable, SettingError
from regard.hardware.hardware import CPU
from regard.interop.answers import ComparedAnswers, compared_answers
from regard.interop.ctranslate2.engine import open_model
from regard.interop.ctranslate2.folder import write_model
from regard.interop.ctranslate2.searches import READERS, CTranslate2Search
from regard.interop.exporting.exported import Exported, check_is_new
from regard.runs.trained import Trained, load
from regard.tasks.input_format import form_name
from regard.tasks.loaded_run import subword_files
from regard.training.card_json import MODEL, file_hash

QUANTIZATIONS = ("float32", "float16", "int8")
EXACT = "float32"

USES = {
    "Translator": """\
translator = ctranslate2.Translator("{folder}")
(found,) = translator.translate_batch(
    [cut(text)], beam_size=5, patience=2, length_penalty=0.6, max_input_length=0,
    min_decoding_length=0, max_decoding_length={most})
print(joined(found.hypotheses[0]))""",
    "Generator": """\
{prompt}
generator = ctranslate2.Generator("{folder}")
(found,) = generator.generate_batch(
    [prompt(cut(text))], max_length={most}, include_prompt_in_result=False)
print(joined(found.sequences[0]))""",
    "Encoder": """\
encoder = ctranslate2.Encoder("{folder}")
states = encoder.forward_batch([["<bos>", *cut(text), "<eos>"]]).last_hidden_state""",
}
"""How each class of CTranslate2's is asked."""


def export_ctranslate2(run: Path, out: Path, quantization: str | None = None) -> Exported:
    """Write a new folder, and have CTranslate2 answer from it.

    `quantization` is the precision of its weights: float32 unless given.
    """
    chosen = quantization or EXACT
    find(chosen, dict.fromkeys(QUANTIZATIONS), key="export: --quantization")
    check_is_new(out)
    trained = load(run, device="cpu")
    try:
        with written_beside(out) as partial:
            about = {"weights": file_hash(run / MODEL), "quantization": chosen}
            opened_by = write_model(
                partial, trained.loaded, quantization=chosen, is_closed=True, about=about
            )
            for name in ("recipe.toml", *subword_files(trained.loaded.recipe)):
                shutil.copy(run / name, partial / name)
            compared = _compared(trained, partial, opened_by)
            if chosen == EXACT and compared is not None:
                compared.check("export: CTranslate2")
            notes = tuple(_notes(trained, compared))
            write_text(partial / "README.md", _readme(trained, out, opened_by, notes))
            names = tuple(sorted(path.name for path in partial.iterdir()))
    except NotPortable as reason:
        raise SettingError(
            f"export: CTranslate2 cannot hold the run '{run}': {reason}, and train again."
        ) from reason
    return Exported(names, notes)


def _compared(trained: Trained, folder: Path, opened_by: str) -> ComparedAnswers | None:
    """The answers of the folder beside those of torch; None for an encoder, which has none."""
    if opened_by not in READERS:
        return None
    model = open_model(folder, opened_by, "default", CPU)
    reader = READERS[opened_by](trained.loaded)
    engine = CTranslate2Search("ctranslate2", model, reader, trained.loaded.target)
    return compared_answers(trained, engine, is_closed=True)


def _notes(trained: Trained, compared: ComparedAnswers | None) -> Iterator[str]:
    if compared is None:
        yield (
            "CTranslate2 has encoders without heads: the folder gives the states of every token, "
            "and no answers"
        )
    else:
        yield f"CTranslate2: {compared}"
    form = form_name(trained.loaded.recipe)
    if form is not None:
        yield (
            f"texts are read in the form '{form}' (regard.data.normalisation), which another "
            "program must bring them to first"
        )


def _readme(trained: Trained, out: Path, opened_by: str, notes: tuple[str, ...]) -> str:
    first, last = subword_files(trained.loaded.recipe)[0], subword_files(trained.loaded.recipe)[-1]
    use = USES[opened_by].format(folder=out.name, prompt=_prompt(trained), most=trained.longest - 1)
    lines = "\n".join(f"- {note}" for note in notes)
    return f"""\
# {trained.path.resolve().name}, for CTranslate2

```python
import ctranslate2
from tokenizers import Tokenizer

source, target = Tokenizer.from_file("{out.name}/{first}"), Tokenizer.from_file("{out.name}/{last}")
cut = lambda text: source.encode(text).tokens
joined = lambda tokens: target.decode([target.token_to_id(token) for token in tokens])
{use}
```

{lines}
- a text has at most {trained.longest:,} tokens, the end token counted, and an answer as many
"""


def _prompt(trained: Trained) -> str:
    """How a language model's prompt is made of the pieces of a text, as Python."""
    prompt = trained.loaded.model.prompt
    # an unknown piece stands for the text
    parts = ["*pieces" if token == UNK else repr(SPECIALS[token]) for token in prompt([UNK, EOS])]
    return f"prompt = lambda pieces: [{', '.join(parts)}]"
