"""A hub under load while it is upgraded, backed up, pruned, killed and restarted: `make test-soak`."""
