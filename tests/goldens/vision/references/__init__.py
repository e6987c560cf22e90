"""One module a family: the model in transformers, its prompts, and how its inputs are made."""
