"""A hub that looks as if it had been at work for two weeks, to be judged in two minutes: `make demo`."""
