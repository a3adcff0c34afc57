"""Pages that stay current: what has changed since, as times, in one event stream per browser.

Belongs here: reading what has changed, once a second for all streams of a process; the stream; the view behind both.
Does not belong here: what has changed in a record. A page that learns of a change fetches itself again, with the rights
that its user has then.
"""
