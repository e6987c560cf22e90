"""Tiny random models that see, one a family, and what float32 transformers computes with them.

A family is `NAME.npz`: its weights, under the names of transformers' state dict (as float16, which
holds them exactly), and for each of its cases pictures, views, ids, rows, logits and a greedy
continuation (`store.py`). `files/NAME.py` lays the same weights out as GGUF files, with NumPy and
`gguf` alone: llama.cpp's two files (text and mmproj) and Ollama's single one. Tests write them when
they need them (`families.py`), with a tower in F32, F16 or Q8_0.

`references/NAME.py` is the transformers model and how its inputs are made; only `make.py` uses it:

    python -m tests.goldens.vision.make [NAME ...]

with torch 2.13.0 and transformers 5.23.0 (`jinja2`, `pillow`, `tokenizers` come with them). The
weights are NumPy's PCG64 draws, so they do not depend on how torch starts its layers.
"""
