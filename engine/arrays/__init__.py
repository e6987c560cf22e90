"""Files of arrays next to a model: safetensors and NPZ, never pickle."""
