"""Training of the two bundled models: tokeniser, architectures, batches, optimiser, evaluation, card."""
