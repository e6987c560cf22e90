"""Models: what a file becomes, and how architectures and projectors are found."""
