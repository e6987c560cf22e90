"""How a token came to be: what each layer would say, where heads look, what sampling removed."""
