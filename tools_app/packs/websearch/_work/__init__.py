"""What the tools of this pack are made of. Imported with the first call, as an agent waits for the start of its hub."""
