"""`toolhub demo` (`make demo`): a hub filled with two weeks of invented calls, to look at without setting one up."""
