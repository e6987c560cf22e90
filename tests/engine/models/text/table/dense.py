"""Attention and a feed-forward in every layer."""

from tests.engine.models.text.rows import Fault, Row

TEXT = "engine/models/text"
ATTENTION = "engine/layers/attention.py"
BLOCKS = "engine/layers/blocks.py"
FEED = "engine/layers/feed_forward.py"
DECODER = "engine/models/decoder.py"

ROWS = (
    Row(
        "llama",
        "llama",
        "biases of q, k, v and o; factors of Llama 3 on three kinds of frequencies",
        Fault(f"{TEXT}/llama.py", "factors=by_pair", "factors=None"),
        launches=42,
    ),
    Row(
        "llama-fused",
        "llama",
        "queries, keys and values of one matrix",
        Fault(
            ATTENTION,
            'return q.named("Qcur", i), k.named("Kcur", i), v.named("Vcur", i)',
            'return q.named("Qcur", i), v.named("Kcur", i), k.named("Vcur", i)',
        ),
        launches=30,
    ),
    Row(
        "qwen2",
        "qwen2",
        "biases of q, k and v; no head_dim in the file",
        Fault(f"{TEXT}/qwen2.py", "self.rope(neox=True)", "self.rope(neox=False)"),
        launches=39,
    ),
    Row(
        "qwen3",
        "qwen3",
        "norms of q and k per head; heads wider than the embedding",
        Fault(ATTENTION, 'self.q_norm(q, spec.eps, "Qcur_normed", i),', "q,"),
        launches=30,
    ),
    Row(
        "gemma",
        "gemma",
        "embeddings times a root, GeGLU, tied output",
        Fault(f"{TEXT}/gemma.py", "sqrt(self.params.n_embd)", "1.0"),
        launches=31,
    ),
    Row(
        "gemma2",
        "gemma2",
        "two windowed layers and two full ones; capped scores and logits",
        Fault(f"{TEXT}/gemma2.py", ", softcap=params.score_cap", ""),
        launches=41,
    ),
    Row(
        "phi3",
        "phi3",
        "joint q, k, v and joint gate, up; half a head turns, by LongRoPE's long factors; a window",
        Fault(f"{TEXT}/phi3.py", ", params.magnitude", ""),
        launches=33,
    ),
    Row(
        "phi3-short",
        "phi3",
        "LongRoPE's short factors",
        Fault(f"{TEXT}/phi3.py", "LONG if is_long else SHORT", "LONG"),
        launches=33,
    ),
    Row(
        "mistral3",
        "mistral3",
        "YaRN without its magnitude; queries that rise with their position",
        Fault(f"{TEXT}/mistral3.py", "temperature=self.params.temperature()", "temperature=None"),
        launches=42,
    ),
    Row(
        "olmo2",
        "olmo2",
        "norms behind; norms over all queries, over all keys",
        Fault(BLOCKS, "self.ffn(x, i, spec), spec.eps", "self.ffn(h, i, spec), spec.eps"),
        launches=41,
    ),
    Row(
        "olmo3",
        "olmo2",
        "three windowed layers and a full one with YaRN",
        Fault(f"{TEXT}/olmo2.py", "if self.params.is_windowed(i) else rope", "if False else rope"),
        launches=54,
    ),
    Row(
        "smollm3",
        "smollm3",
        "the last of four layers knows no positions",
        Fault(f"{TEXT}/smollm3.py", "(i + 1) % NO_ROPE_EVERY == 0", "False"),
        launches=40,
    ),
    Row(
        "granite",
        "granite",
        "multipliers of embeddings, both branches, scores and logits",
        Fault(BLOCKS, "h = ops.scale(h, spec.residual)", "pass"),
        launches=44,
    ),
    Row(
        "seed_oss",
        "seed_oss",
        "biases of q, k, v and o; the second norm under the first's other name",
        Fault(f"{DECODER}", "1 / sqrt(self.head_dim)", "1 / self.head_dim"),
        launches=39,
    ),
    Row(
        "exaone4",
        "exaone4",
        "norms behind and of heads; windowed layers turn by Llama 3's factors, the full one not",
        Fault(f"{TEXT}/exaone4.py", "None if self.params.window and", "None if not"),
        launches=49,
    ),
    Row(
        "exaone4-full",
        "exaone4",
        "without a window all layers turn",
        Fault(f"{TEXT}/exaone4.py", "self.params.window and not", "not"),
        launches=35,
    ),
    Row(
        "glm4",
        "glm4",
        "norms on both sides, biases, joint gate and up, half a head turns by neighbours",
        Fault(f"{TEXT}/glm4.py", "neox=False", "neox=True"),
        launches=42,
    ),
    Row(
        "cohere2",
        "cohere2",
        "one LayerNorm for both parts; windowed layers turn, the full one does not; scaled logits",
        Fault(BLOCKS, "self.ffn(entered, i, spec)", "self.ffn(x, i, spec)"),
        launches=46,
    ),
    Row(
        "command-r",
        "command-r",
        "as Command R+: each head normalised less its mean, with a weight of its own",
        Fault(ATTENTION, "ops.layer_norm(t, None, None, spec.eps)", "weightless(t, spec.eps, '')"),
        launches=47,
    ),
    Row(
        "starcoder2",
        "starcoder2",
        "LayerNorms with biases, biases everywhere, a feed-forward without a gate",
        Fault(FEED, "spec.gated.activation(up, None)", "spec.gated.activation(up, up)"),
        launches=55,
    ),
    Row(
        "phi2",
        "phi2",
        "both parts side by side, all with biases, the output too; half a head turns",
        Fault(f"{TEXT}/phi2.py", "neox=True", "neox=False"),
        launches=49,
    ),
    Row(
        "stablelm",
        "stablelm",
        "LayerNorms with biases, biases of q, k and v, half a head turns",
        Fault(DECODER, "return self.n_rot or self.head_dim", "return self.head_dim"),
        launches=46,
    ),
    Row(
        "stablelm-parallel",
        "stablelm",
        "without a second norm both parts stand side by side",
        Fault(f"{TEXT}/stablelm.py", "[Block | Beside]", "[Block]"),
        launches=34,
    ),
    Row(
        "muse-glimmer",
        "muse-glimmer",
        "gated heads, norms on both sides, normalised embeddings, one layer of four without rope",
        Fault(
            f"{TEXT}/muse_glimmer.py",
            'weightless(super().embed(p), self.params.eps, "inp_norm")',
            "super().embed(p)",
        ),
        launches=57,
    ),
    Row(
        "gemma3",
        "gemma3",
        "five windowed layers and a full one with another base; norms of heads; capped logits",
        Fault(f"{TEXT}/gemma3.py", "self.rope_base_local, neox=True", "self.rope_base, neox=True"),
        launches=68,
    ),
)
