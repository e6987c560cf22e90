"""Routes for monitors and llama-server's clients."""

from app.serve.native.completion import completion
from app.serve.native.state import health, metrics, props, slots
from app.serve.native.tokens import apply_template, detokenize, tokenize
from app.serve.web.refusal import error
from app.serve.web.site import Dialect, with_and_without

NATIVE = Dialect(
    {
        **with_and_without(
            "/v1",
            {
                ("GET", "/v1/health"): health,
                ("POST", "/v1/tokenize"): tokenize,
                ("POST", "/v1/detokenize"): detokenize,
                ("POST", "/v1/apply-template"): apply_template,
            },
        ),
        ("GET", "/metrics"): metrics,
        ("POST", "/completion"): completion,
        ("GET", "/props"): props,
        ("GET", "/slots"): slots,
    },
    error,
)
