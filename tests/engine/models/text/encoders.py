"""The encoders among the text architectures: what each reaches, and what it is to catch."""

from tests.engine.models.text.rows import Fault, Row

TEXT = "engine/models/text"
ENCODERS = [
    Row(
        *("bert", "bert", "learned positions, segments, biases, gelu by erf"),
        Fault(f"{TEXT}/bert.py", "spec import GELU_ERF", "spec import GELU as GELU_ERF"),
        launches=32,
    ),
    Row(
        *("nomic-bert", "nomic-bert", "rotary positions, a gated feed-forward"),
        Fault("engine/models/decoder.py", "neox: ClassVar[bool] = True", "neox = False"),
        launches=33,
    ),
    Row(
        *("modern-bert", "modern-bert", "windows on both sides, a first layer without a norm"),
        Fault(f"{TEXT}/modern_bert.py", "self.params.window // 2", "self.params.window // 2 - 1"),
        launches=46,
    ),
    Row(
        *("gemma-embedding", "gemma-embedding", "windows on both sides, two bases"),
        Fault(f"{TEXT}/gemma_embedding.py", "params.window // 2", "params.window"),
        launches=64,
    ),
    Row(
        *("eurobert", "eurobert", "norms by root mean square, half as many heads of keys"),
        Fault(
            "engine/models/encoder.py", 'self.weights.norm(x, self.params.eps, "result_norm")', "x"
        ),
        launches=26,
    ),
    Row(
        *("llama-embed", "llama-embed", "pairs of neighbours, turned by Llama 3's factors"),
        Fault(f"{TEXT}/llama_embed.py", "neox = False", "neox = True"),
        launches=26,
    ),
    Row(
        *("jina-bert-v2", "jina-bert-v2", "by llama.cpp: scores fall to both sides, two segments"),
        Fault("engine/layers/step.py", "    spans[:count, 3] = at\n", ""),
        launches=30,
    ),
    Row(
        *("jina-bert-v2-code", "jina-bert-v2", "norms of queries and keys, two after attention"),
        Fault(f"{TEXT}/jina_bert_v2.py", "ops.add(h, x), spec.eps", "h, spec.eps"),
        launches=36,
    ),
    Row(
        *("neo-bert", "neo-bert", "by llama.cpp: pairs of neighbours, joint matrices"),
        Fault(f"{TEXT}/neo_bert.py", "neox = False", "neox = True"),
        launches=29,
    ),
    Row(
        *("jina-bert-v3", "jina-bert-v3", "rotary positions, segments, biases, gelu by erf"),
        Fault(f"{TEXT}/jina_bert_v3.py", "spec import GELU_ERF", "spec import GELU as GELU_ERF"),
        launches=36,
    ),
    Row(
        *("modern-bert-silu", "modern-bert", "gates by SiLU, a window in every other layer"),
        Fault(f"{TEXT}/modern_bert.py", '"silu": SWIGLU', '"silu": GEGLU_ERF'),
        launches=46,
    ),
    Row(
        *("t5encoder", "t5encoder", "by llama.cpp: one learned bias for all layers, no scale"),
        Fault("engine/layers/relative.py", "np.where(distances > 0, side, 0)", "0"),
        launches=39,
    ),
    Row(
        *("t5encoder-gated", "t5encoder", "a bias of a layer's own, few buckets, gates by GELU"),
        Fault(
            "engine/layers/attention.py",
            "        if i == 0:\n            p.first_bias",
            "        if i:\n            p.first_bias",
        ),
        launches=34,
    ),
]
