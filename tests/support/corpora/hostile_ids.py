"""Strings that are no id of anything, each of which has broken some program."""

HOSTILE_IDS = (
    "\U000f3d39\u00fe",  # fits no column that is ASCII
    "\ud7ff\uffff",
    "a\u0000b",
    "../../etc/passwd",
    "a/b",
    "a\r\nX-Injected: yes",
    "' OR '1'='1",
    "%",
    "x" * 5000,
    "-1",
    "9" * 40,
    " ",
)
