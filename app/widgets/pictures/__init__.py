"""Pictures: small ones made in the background, a strip of them, one in full, one under a grid."""
