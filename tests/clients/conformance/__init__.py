"""The hub as the conformance suite needs it: with the tools that it looks for, and a key for clients without one."""
