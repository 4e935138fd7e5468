"""How settings are written for people."""

import re


def setting_label(setting: str) -> str:
    """``"cold-30"`` (30 % of the new nodes' edges removed) as ``"cold 30 %"``; others unchanged."""
    return re.sub(r"^cold-(\d+)$", r"cold \1 %", setting)
