"""Architectures without a class of transformers, against llama.cpp's logits."""

from tests.engine.models.text.rows import Fault, Row

TEXT = "engine/models/text"
DECODER = "engine/models/decoder.py"

ROWS = (
    Row(
        "bitnet",
        "bitnet",
        "norms before the last matrices of attention and feed-forward; tied output",
        Fault(f"{TEXT}/bitnet.py", 'self.sub_norm(mixed, spec.eps, "ffn_sub_norm", i)', "mixed"),
        launches=32,
    ),
    Row(
        "internlm2",
        "internlm2",
        "another base of turning, by neighbours",
        Fault(f"{TEXT}/llama.py", "neox = False", "neox = True"),
        launches=23,
    ),
    Row(
        "xverse",
        "xverse",
        "a head of keys and values for two of queries",
        Fault(DECODER, "1 / sqrt(self.head_dim)", "1 / self.head_dim"),
        launches=23,
    ),
    Row(
        "baichuan",
        "baichuan",
        "32 layers, by which the 7B is known",
        Fault(f"{TEXT}/baichuan.py", "neox = False", "neox = True"),
        launches=258,
    ),
    Row(
        "baichuan-large",
        "baichuan",
        "40 layers, by which the 13B is known: scores fall with the distance, nothing turns",
        Fault(f"{TEXT}/baichuan.py", "alibi=MOST", "alibi=0.0"),
        launches=322,
    ),
    Row(
        "refact",
        "refact",
        "slopes of six heads, which share one of keys and values; tied output",
        Fault(
            "engine/graph/ops/attention.py",
            "np.arange(heads - n) + 0.5",
            "np.arange(heads - n) + 1",
        ),
        launches=23,
    ),
    Row(
        "jais",
        "jais",
        "falling scores over the size of a head; joint q, k, v, LayerNorms and biases, SwiGLU",
        Fault(f"{TEXT}/jais.py", "scale=1 / self.head_dim", "scale=self.head_dim**-0.5"),
        launches=33,
    ),
    Row(
        "pangu-embedded",
        "pangu-embedded",
        "biases of q, k, v and o",
        Fault(DECODER, "neox: ClassVar[bool] = True", "neox = False"),
        launches=23,
    ),
    Row(
        "exaone",
        "exaone",
        "NeoX pairs by factors of Llama 3; tied output",
        Fault(DECODER, "factors_by_pair(self.constants)", "None"),
        launches=23,
    ),
    Row(
        "orion",
        "orion",
        "LayerNorms with biases, whole heads turn",
        Fault(DECODER, "neox: ClassVar[bool] = True", "neox = False"),
        launches=30,
    ),
    Row(
        "plamo",
        "plamo",
        "attention and feed-forward side by side behind one norm",
        Fault("engine/layers/blocks.py", "self.ffn(entered, i, spec)", "self.ffn(x, i, spec)"),
        launches=29,
    ),
    Row(
        "jais2",
        "jais2",
        "LayerNorms, squared ReLUs, biases everywhere, whole heads turn",
        Fault(DECODER, "neox: ClassVar[bool] = True", "neox = False"),
        launches=39,
    ),
    Row(
        "minicpm",
        "minicpm",
        "factors of embeddings, branches and logits from the file; tied output",
        Fault(f"{TEXT}/minicpm.py", "x if self.params.embedding_scale else ops", "ops"),
        launches=25,
    ),
    Row(
        "minicpm-early",
        "minicpm",
        "a file without factors",
        Fault(f"{TEXT}/minicpm.py", "DEPTH / sqrt(self.params.n_layer)", "DEPTH"),
        launches=25,
    ),
    Row(
        "maincoder",
        "maincoder",
        "norms of q and k after their turning, by neighbours",
        Fault(f"{TEXT}/maincoder.py", "neox = False", "neox = True"),
        launches=38,
    ),
    Row(
        "nanbeige",
        "nanbeige",
        "two layers passed twice, with four caches in all, and a norm between",
        Fault(f"{TEXT}/nanbeige.py", "not last and not params.bare", "last"),
        launches=31,
    ),
    Row(
        "plamo3",
        "plamo3",
        "windows with a base of their own; one matrix of q, k and v, whose norms are per head;"
        " sandwich norms, gate and up of one matrix; tied output",
        Fault(f"{TEXT}/plamo3.py", "params.rope_base_local, self", "params.rope_base, self"),
        launches=26,
    ),
)
