"""Hub cards: the README.md of a folder for Hugging Face's hub, with the metadata that it reads."""

from regard.runs.trained import Trained
from regard.tasks.input_format import form_name

READS = {
    "translation": """\
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

cut, model = AutoTokenizer.from_pretrained(folder), AutoModelForSeq2SeqLM.from_pretrained(folder)
ids = model.generate(**cut([text], return_tensors="pt"))
print(cut.decode(ids[0], skip_special_tokens=True))""",
    "text-generation": """\
from transformers import AutoModelForCausalLM, AutoTokenizer

cut, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
ids = model.generate(**cut([text], return_tensors="pt"), max_new_tokens=50)
print(cut.decode(ids[0], skip_special_tokens=True))""",
    "fill-mask": """\
from transformers import pipeline

print(pipeline("fill-mask", model=folder)(text))""",
    "feature-extraction": """\
from transformers import AutoModel, AutoTokenizer

cut, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
print(model(**cut([text], return_tensors="pt")).last_hidden_state)""",
}
"""How the library answers a text, by what the hub calls the task."""


def hub_card(trained: Trained, tag: str, notes: tuple[str, ...]) -> str:
    """The card of a folder, with what was found when it was asked."""
    form = form_name(trained.loaded.recipe)
    said = [*notes, f"a text has at most {trained.longest:,} tokens, the end token counted"]
    if form is not None:
        said.append(f"texts are read in the form '{form}', to which they must be brought first")
    kind = trained.loaded.recipe.model.kind
    lines = "\n".join(f"- {note}" for note in said)
    return f"""\
---
library_name: transformers
pipeline_tag: {tag}
tags:
- regard
- {kind}
---

# {trained.path.resolve().name}

Trained with regard, and exported from its run.

```python
folder, text = ".", "…"
{READS[tag]}
```

{lines}
"""
