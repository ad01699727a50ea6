"""A published MiniLM, looked at as it is: its own weights, and a library around it unchanged."""

import numpy as np
import torch
from sentence_transformers import SentenceTransformer

import regard
from regard.interop.transformers_folder import open_folder
from regard.interop.transformers_texts import TextLook
from tests.interop.importing.test_minilm import folder

TEXT = "The animal did not cross the street because it was too tired."
CLOSE = {"atol": 1e-5, "rtol": 0}


def test_its_record_holds_the_weights_of_its_own_code():
    look = TextLook(open_folder(folder()))
    record = look.record(TEXT)
    model, reader = look.published.model, look.published.reader
    with torch.no_grad():
        want = model(**reader(TEXT, return_tensors="pt"), output_attentions=True).attentions
    one = record.attention["encoder"]
    assert one.keys.names[:4] == ("[CLS]", "The", "animal", "did")
    for layer, weights in enumerate(want):
        for head in range(weights.shape[1]):
            got = record.weights("encoder", layer, head)
            torch.testing.assert_close(got, weights[0, head], **CLOSE)


def test_a_library_around_it_is_recorded_and_gives_the_same_vectors():
    model = SentenceTransformer(str(folder()), device="cpu")
    want = model.encode([TEXT])
    with regard.capture(model) as record:
        got = model.encode([TEXT])
    np.testing.assert_allclose(got, want, atol=1e-6)
    assert len(record.attention["encoder"].layers) == 6
