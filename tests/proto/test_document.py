"""The example of docs/bronze.md runs as it stands."""

import re

from tests.proto.tree import ROOT


def test_example_of_the_document_runs() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/bronze.md").read_text(), re.S)
    names: dict[str, object] = {}
    exec(compile(example, "docs/bronze.md", "exec"), names)
    assert names["records"]
