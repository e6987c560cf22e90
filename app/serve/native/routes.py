"""Which path is answered by what."""

from app.serve.native.state import health, metrics, props, slots
from app.serve.web.refusal import error
from app.serve.web.site import Dialect, with_and_without

NATIVE = Dialect(
    {
        **with_and_without("/v1", {("GET", "/v1/health"): health}),
        ("GET", "/metrics"): metrics,
        ("GET", "/props"): props,
        ("GET", "/slots"): slots,
    },
    error,
)
