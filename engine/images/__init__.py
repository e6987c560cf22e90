"""Pictures before any device: decoded, planned, resized, cut into patches."""
