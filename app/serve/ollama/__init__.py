"""Ollama's interface: chat, generate, embed, and what there is."""

from app.serve.ollama.models import embed, embedding, refused, running, show, tags, version_of
from app.serve.ollama.talk import chat, error, generate
from app.serve.web.site import Dialect

OLLAMA = Dialect(
    {
        ("GET", "/api/version"): version_of,
        ("GET", "/api/tags"): tags,
        ("GET", "/api/ps"): running,
        ("POST", "/api/show"): show,
        ("POST", "/api/chat"): chat,
        ("POST", "/api/generate"): generate,
        ("POST", "/api/embed"): embed,
        ("POST", "/api/embeddings"): embedding,
        **{("POST", f"/api/{name}"): refused for name in ("pull", "push", "create", "copy")},
        ("DELETE", "/api/delete"): refused,
        ("POST", "/api/blobs/{digest}"): refused,
    },
    error,
    prefixes=("/api",),
)
