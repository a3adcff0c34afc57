"""What operators are told: finds what only time brings about, decides who is told, and sends it.

Alerts themselves are rows that are written with their causes (`models/alerts.py`).

    words       the sentence of an alert, which the overview says as well, and the page that resolves it
    finding     causes that are a matter of time: expiry, error rates, backups, disks
    routing     which rules an alert concerns; digests
    messages    what is sent of an alert: bodies, signatures, e-mails
    sending     one message, its attempts and its outcome; tests of rules
    sender      the thread that does all this, in one process

Belongs here: everything between the row of an alert and its receiver.
Does not belong here: changes of rules (governance), and the request itself (http).
"""
