"""Models whose tokens see the whole text."""

from functools import partial

from tests.goldens.text.recipe import ABSENT, NORMS, Config, Recipe, V
from tests.goldens.text.recipes.dense import LLAMA3

HEADS = dict.fromkeys(("num_key_value_heads", "head_dim", "tie_word_embeddings"), ABSENT)
MODERN = {
    **HEADS,
    "num_hidden_layers": 4,
    "local_attention": 16,
    "cls_token_id": 1,
    "sep_token_id": 2,
    "pad_token_id": 0,
}
ENCODER = partial(Recipe, encodes=True)
RANKER = partial(Recipe, ranks=True)


def nomic(config: Config) -> Config:
    """As the model's own code names what transformers calls otherwise."""
    return config | {
        "n_positions": 8192,
        "n_embd": config["hidden_size"],
        "n_inner": config["intermediate_size"],
        "n_head": config["num_attention_heads"],
        "n_layer": config["num_hidden_layers"],
        "activation_function": "swiglu",
        "causal": False,
        "qkv_proj_bias": False,
        "mlp_fc1_bias": False,
        "mlp_fc2_bias": False,
        "prenorm": False,
        "rotary_emb_fraction": 1.0,
        "rotary_emb_base": 1000.0,
        "rotary_emb_interleaved": False,
        "rotary_emb_scale_base": None,
        "layer_norm_epsilon": config["layer_norm_eps"],
    }


def modern(config: Config) -> Config:
    """With the epsilon under a name that the converter knows."""
    return config | {"layer_norm_eps": config["norm_eps"]}


def silent(config: Config) -> Config:
    """As files from before the key of a head's pooling."""
    return {key: value for key, value in modern(config).items() if key != "classifier_pooling"}


def named(name: str, config: Config) -> Config:
    """As a class of the same forward pass that the converter has for another architecture."""
    return config | {"architectures": [name]}


def jina(config: Config) -> Config:
    """As published: XLM-RoBERTa's class, with adapters of tasks."""
    base = config["rope_parameters"]["rope_theta"]
    more = {"architectures": ["XLMRobertaModel"], "lora_adaptations": ["a"], "rope_theta": base}
    return config | more


RECIPES = {
    "bert": ENCODER(
        "BertModel", {**HEADS, "type_vocab_size": 2}, peaked={"query": 4.0, "key": 4.0}
    ),
    "nomic-bert": ENCODER(
        "NomicBertModel",
        {
            **HEADS,
            "type_vocab_size": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e3},
        },
        edit=nomic,
        hparams=True,
        beside={"tokenizer.json": {"model": {"type": "WordPiece"}}},
    ),
    "modern-bert": ENCODER(
        "ModernBertModel",
        MODERN,
        edit=modern,
        peaked={"Wqkv": 4.0},
    ),
    "modern-bert-silu": ENCODER(
        "ModernBertModel",
        {**MODERN, "global_attn_every_n_layers": 2, "hidden_activation": "silu"},
        edit=modern,
        peaked={"Wqkv": 4.0},
    ),
    "gemma-embedding": ENCODER(
        "Gemma3TextModel",
        {
            "num_hidden_layers": 6,
            "sliding_window": 8,
            "use_bidirectional_attention": True,
            "query_pre_attn_scalar": 16,
            "tie_word_embeddings": True,
        },
        peaked=NORMS,
        beside={
            "tokenizer.json": {
                "model": {"vocab": {str(i): i for i in range(V)}},
                "added_tokens": [],
            }
        },
    ),
    "eurobert": ENCODER("EuroBertModel", {"head_dim": 8, "classifier_pooling": "mean"}),
    "llama-embed": ENCODER(
        "EuroBertModel",
        {"head_dim": 8, "rope_parameters": LLAMA3},
        edit=partial(named, "LlamaBidirectionalModel"),
    ),
    "jina-bert-v3": ENCODER(
        "JinaEmbeddingsV3Model",
        {**HEADS, "type_vocab_size": 1},
        edit=jina,
        beside={"tokenizer.json": {"model": {"type": "WordPiece"}}},
    ),
    "xlm-roberta-rank": RANKER(
        "XLMRobertaForSequenceClassification",
        {**HEADS, "type_vocab_size": 1, "num_labels": 1},
        peaked={"query": 4.0, "key": 4.0},
    ),
    "roberta-labels": RANKER(
        "RobertaForSequenceClassification",
        {**HEADS, "type_vocab_size": 1, "id2label": {0: "against", 1: "neither", 2: "for"}},
        peaked={"query": 4.0, "key": 4.0},
    ),
    "modern-bert-rank": RANKER(
        "ModernBertForSequenceClassification",
        {**MODERN, "num_labels": 1, "classifier_pooling": "mean"},
        edit=silent,
        hparams=True,
        peaked={"Wqkv": 4.0},
    ),
    "modern-bert-first": RANKER(
        "ModernBertForSequenceClassification",
        {**MODERN, "num_labels": 1, "classifier_pooling": "cls"},
        edit=modern,
        peaked={"Wqkv": 4.0},
    ),
}
