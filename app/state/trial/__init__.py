"""An answer tried with a change of the model."""
