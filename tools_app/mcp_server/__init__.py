"""The door for agents: the Model Context Protocol, in both of its eras."""
