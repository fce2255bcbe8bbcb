"""What the doctor can find is written down, in both languages, with how bad it is."""

import re
from pathlib import Path

import pytest

from weft.data.doctor.findings import KINDS

DOCS = Path(__file__).parents[3] / "docs"
SEVERITIES = {"en": ("error", "warning", "note"), "zh": ("错误", "警告", "提示")}


@pytest.mark.parametrize("language", SEVERITIES)
def test_the_page_lists_every_kind_with_its_severity(language: str) -> None:
    page = (DOCS / language / "doctor.md").read_text(encoding="utf-8")
    names = dict(zip(SEVERITIES[language], SEVERITIES["en"], strict=True))
    listed = re.findall(r"^\| `([a-z ]+)` \| (\S+) \|", page, re.MULTILINE)
    assert [(kind, names[severity]) for kind, severity in listed] == [(k, kind.severity) for k, kind in KINDS.items()]
