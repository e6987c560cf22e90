"""Parts of answers that several of OpenAI's interfaces have: usage, times, log-probabilities."""

from typing import Any

from app.serve.gathered import Gathered
from app.version import version
from engine.protocol import Alternative, Stats, TokenInfo

FINISH = {
    "stop": "stop",
    "length": "length",
    "context": "length",
    "loop": "length",
    "calls": "tool_calls",
}
FINGERPRINT = f"cutaway-{version()}"


def usage(choices: list[Gathered]) -> dict[str, Any]:
    """Tokens of a prompt that was read once, and of all its answers."""
    stats = [choice.end.stats for choice in choices]
    prompt, made = stats[0].n_prompt, sum(one.n_generated for one in stats)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": made,
        "total_tokens": prompt + made,
        "prompt_tokens_details": {"cached_tokens": stats[0].n_cached},
    }


def timings(stats: Stats) -> dict[str, Any]:
    """The times of an answer under llama-server's names."""
    read, prompt_ms, predicted_ms = (
        stats.n_prompt - stats.n_cached,
        stats.prefill_s * 1e3,
        stats.decode_s * 1e3,
    )
    return {
        "cache_n": stats.n_cached,
        "prompt_n": read,
        "prompt_ms": round(prompt_ms, 3),
        "prompt_per_second": round(stats.prefill_rate, 3),
        "predicted_n": stats.n_generated,
        "predicted_ms": round(predicted_ms, 3),
        "predicted_per_second": round(stats.decode_rate, 3),
    }


def logprobs(tokens: list[TokenInfo], top: int) -> dict[str, Any]:
    """Tokens with the likeliest `top` in their places, as chats tell them."""
    return {"content": [_entry(token) | {"top_logprobs": _top(token, top)} for token in tokens]}


def _top(token: TokenInfo, top: int) -> list[dict[str, Any]]:
    return [_entry(one) for one in token.top[:top]]


def _entry(token: TokenInfo | Alternative) -> dict[str, Any]:
    data = text_bytes(token)
    return {"token": token.text, "logprob": token.logprob, "bytes": list(data)}


def text_bytes(token: TokenInfo | Alternative) -> bytes:
    """A token's bytes; half a character has no text."""
    return token.data or token.text.encode()
