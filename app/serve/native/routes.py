"""Which path is answered by what."""

from app.serve.native.completion import completion
from app.serve.native.state import health, metrics, props, slots
from app.serve.native.tokens import apply_template, detokenize, tokenize
from app.serve.web.refusal import error
from app.serve.web.site import Dialect, with_and_without

NATIVE = Dialect(
    {
        **with_and_without("/v1", {("GET", "/v1/health"): health}),
        ("GET", "/metrics"): metrics,
        ("POST", "/tokenize"): tokenize,
        ("POST", "/detokenize"): detokenize,
        ("POST", "/apply-template"): apply_template,
        ("POST", "/completion"): completion,
        ("GET", "/props"): props,
        ("GET", "/slots"): slots,
    },
    error,
)
