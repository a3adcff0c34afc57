"""Backups of a hub that prove themselves: `making` writes one, `restoring` brings one back, `schedule` repeats them.

A backup is one file (`archive`) with the database, a manifest of its contents (`tables`) and a seal (`seal`). The seal
proves that nothing was changed, and holds the hub's keys if there is a passphrase. `sqlite` and `postgres` know their
database.
"""
