"""SAM itself and its linter take the template. Offline."""

from cloudformation import TEMPLATE
from programs import run


def test_sam_and_its_linter_accept_the_template():
    assert "is a valid SAM Template" in run("sam", "validate", "--lint", "-t", TEMPLATE, seconds=600).stdout
