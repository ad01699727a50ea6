"""Inside a model of transformers: its attention by our chains, exact, and recorded at any length.

Expected output, among other lines:

    Attachment(GPT2LMHeadModel: 2 layers of Chain(score=scaled_dot, select=soft))
    transformer.h.0.attn fused: a softmax of dot products under a mask
    tensor([[0.0034, 0.0034, 0.0033, 0.0000, 0.0000, 0.0000],
"""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import regard

torch.manual_seed(0)
sizes = GPT2Config(n_layer=2, n_head=4, n_embd=64, vocab_size=100, bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(sizes).eval()
tokens = torch.randint(100, (1, 300))
with torch.no_grad():
    before = model(tokens).logits
    attached = regard.attach(model)
    with regard.capture(model) as record:
        after = model(tokens).logits
print("largest difference", (before - after).abs().max().item())
print(attached)
for name, explanation in attached.explain(300).items():
    print(name, str(explanation).splitlines()[0])
(kind,) = record.attention
print(record.weights(kind, layer=0, head=0, rows=slice(290, 294), columns=slice(288, 294)))
