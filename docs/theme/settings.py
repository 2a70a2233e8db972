"""Settings in docstrings, written as `name: what it is` at the start of a line, become a list in the reference."""

import re

from griffe import Extension, Object

SETTING = re.compile(r"(?:(?<=^)|(?<=\. )|(?<=\.\n)|(?<=\n))([a-z_]\w*(?:, [a-z_]\w*)*): (?=\S)")


class Settings(Extension):
    """Rewrites docstrings when they are read; the code keeps its plain ones."""

    def on_instance(self, *, obj: Object, **others: object) -> None:
        """Turn settings into list items, each with its name in bold."""
        if obj.docstring is None or "\n" not in obj.docstring.value:
            return
        first, rest = obj.docstring.value.split("\n", 1)
        parts = (SETTING.sub(r"\n\n- **\1**: ", rest)).split("`")
        parts[::2] = [part.replace("[", "\\[") for part in parts[::2]]  # brackets outside code are no links
        obj.docstring.value = first + "\n" + "`".join(parts)
