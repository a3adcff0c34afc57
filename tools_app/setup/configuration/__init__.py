"""Configuration as code: what operators decide, as a YAML file and back.

Belongs here: the form of the file (`document`), reading and writing it, the present state of the hub in that form
(`present`), how one record becomes what the file says (`sections`), and the plan with its transaction (`applying`).
Does not belong here: rules about who may change what, and which values are valid. They are in `governance`.
"""

from __future__ import annotations

from tools_app.setup.configuration.applying import (
    ConfigurationRefusedError,
    Options,
    Plan,
    PlanChangedError,
    apply,
    plan,
)
from tools_app.setup.configuration.document import Document
from tools_app.setup.configuration.present import drift_of, exported
from tools_app.setup.configuration.reading import MOST_BYTES, ConfigurationFileError, read
from tools_app.setup.configuration.writing import written

__all__ = [
    "MOST_BYTES",
    "ConfigurationFileError",
    "ConfigurationRefusedError",
    "Document",
    "Options",
    "Plan",
    "PlanChangedError",
    "apply",
    "drift_of",
    "exported",
    "plan",
    "read",
    "written",
]
