"""Clients that others wrote, against a running hub: the protocol's conformance suite, its Inspector, and its SDKs in
TypeScript and Python. `make setup-node` fetches those that are not Python, `make test-mcp` runs them all."""
