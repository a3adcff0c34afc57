"""The protocol's own conformance suite against a real hub. `make test-mcp` runs it; see __main__."""
