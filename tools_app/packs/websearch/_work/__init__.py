"""The implementation of this pack's tools. Imported at the first call, to keep the start of the hub fast."""
