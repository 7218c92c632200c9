"""Entry of the processes of a recording: `PYTHON path/to/this/folder client PROTOCOL`, or `counterpart`, or `versions`.

Run by path and not by name, so that an environment with pinned SDKs does not need hsa and what hsa needs: two
stand-ins take the places of the parent packages.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from pathlib import Path

PACKAGE = "hsa.capture.generate"
PROCESSES = ("client", "counterpart", "versions")


def _stand_in() -> None:
    folder = Path(__file__).resolve().parent
    for name, inside in (("hsa", []), ("hsa.capture", [str(folder.parent)])):
        parent = types.ModuleType(name)
        parent.__path__ = inside
        sys.modules[name] = parent
    spec = importlib.util.spec_from_file_location(
        PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[PACKAGE] = module
    spec.loader.exec_module(module)


def main(arguments: list[str]) -> int:
    """Run one of the processes; its exit status."""
    if "hsa.capture" not in sys.modules:
        _stand_in()
    if not arguments or arguments[0] not in PROCESSES:
        print(f"one of {', '.join(PROCESSES)} is wanted", file=sys.stderr)
        return 2
    status: int = importlib.import_module(f"{PACKAGE}.{arguments[0]}").main(*arguments[1:])
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
