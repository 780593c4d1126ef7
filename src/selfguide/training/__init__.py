"""Training: the configuration, the loop, checkpoints and what is written down about a run."""
