"""Imports that the captured program makes."""

from __future__ import annotations

import builtins
import codecs
import itertools
import operator
import sys
from typing import Any

from stator._frames import UNBOUND
from stator.frame import RAISED, Frame, native
from stator.guards import path as paths
from stator.guards.check import IS, KEYS, LEN, NO_KEY
from stator.world.hollow import ABSENT
from stator.world.world import World

# Codecs are modules that Python loads when it is first asked for them, also behind a look at sys.modules.
for _codec in ("ascii", "latin-1", "raw-unicode-escape", "unicode-escape", "utf-7", "utf-16", "utf-32", "utf-8-sig"):
    codecs.lookup(_codec)


def absolute(f: Frame, name: str, level: int) -> str:
    """The whole name of the module that an import names."""
    if not level:
        return name
    package = f.globals.get("__package__") or f.globals.get("__name__", "").rpartition(".")[0]
    parts = package.split(".")
    return ".".join([*parts[: len(parts) - level + 1], *([name] if name else [])])


def would_load(f: Frame, name: str, fromlist: Any, level: int) -> list[str]:
    """The modules that an import names and that are not loaded; these may load others."""
    name = absolute(f, name, level)
    module = sys.modules.get(name)
    names = [part for part in fromlist or () if type(part) is str]
    if module is None:
        homes = itertools.accumulate(name.split("."), "{}.{}".format)
        return [home for home in homes if home not in sys.modules] + [f"{name}.{part}" for part in names]
    if not hasattr(module, "__path__"):  # only packages have parts that are loaded
        return []
    if "*" in names:
        names += getattr(module, "__all__", ())
        names.remove("*")
    return [whole for part in names if not hasattr(module, part) and (whole := f"{name}.{part}") not in sys.modules]


class ImportingWorld(World):
    """The world with sys.modules as the program has left it."""

    def import_name(self, f: Frame, name: str, fromlist: Any, level: int) -> Any:
        importer = self.namespace_get(f.builtins, "__import__")
        if importer is not builtins.__import__:
            names = f.names
            return self.call(f, importer, [name, f.globals, names, fromlist, level], None)
        return self.import_module(f, name, fromlist, level)

    def changed_modules(self) -> dict[str, Any]:
        """Entries of sys.modules that the captured program set or removed (UNBOUND)."""
        record = self.records.get(id(sys.modules))
        if record is not None and record.hollow is not None:
            return {name: UNBOUND if value is ABSENT else value for name, value in record.hollow.now.items()}
        if record is None or record.before is None:
            return {}
        before, now = dict(record.before), record.inner
        changed = {name: now.get(name, UNBOUND) for name in {**before, **now}}
        return {name: module for name, module in changed.items() if before.get(name, UNBOUND) is not module}

    def settle_modules(self) -> None:
        """Modules that were loaded for the first time during the capture are no change of sys.modules."""
        record = self.records.get(id(sys.modules))
        if record is not None and self.guards.has(record.path, KEYS):
            self.guards.replace(record.path, KEYS, tuple(sys.modules))

    def import_module(self, f: Frame, name: str, fromlist: Any, level: int) -> Any:
        """Import, with sys.modules as the program has left it.

        Where the program saw that a module is not there, and this import does not name it but loads it in turn, a
        second capture of the same call finds it.
        """
        changed = self.changed_modules()
        if any(name == other or name.startswith(other + ".") for other in changed) and not level:
            module = changed.get(name, UNBOUND)
            if module is UNBOUND or module is None or (not fromlist and "." in name):
                raise self.refuse(
                    "native-effect", f"import of {name} after sys.modules was changed", function="__import__"
                )
            return module
        if id(sys.modules) in self.records and (loading := would_load(f, name, fromlist, level)):
            missing = self.missing_modules()
            if missing is None or not missing.isdisjoint(loading):
                what = f"import of {loading[0]} after a look at which modules there are"
                raise self.refuse("native-effect", what, function="__import__")
        module = self.imported(f, name, fromlist, level)
        self.guard_loaded(absolute(f, name, level))
        return self.enter_const(module)

    def guard_loaded(self, name: str) -> None:
        """The module is one that need not be loaded: who takes it out of sys.modules asks for another."""
        for home in itertools.accumulate(name.split("."), "{}.{}".format):
            module = sys.modules.get(home)
            if module is not None:
                self.guards.add(paths.const(sys.modules).entry(home), IS, module, self.origin())

    def missing_modules(self) -> set[str] | None:
        """Names of modules that the program has seen not to be loaded; None if it has looked at all of them."""
        home = self.records[id(sys.modules)].path
        missing = set()
        for path, check, value, *_ in self.guards.rows():
            if path is home and check is NO_KEY:
                missing.add(value)
            elif (path is home and check in (KEYS, LEN)) or (
                path is not None and path.parent is home and paths.is_length(path)
            ):
                return None
        return missing

    def imported(self, f: Frame, name: str, fromlist: Any, level: int) -> Any:
        """Import for real, unobserved: loading a module is not an effect of the program being captured."""
        loaded = len(sys.modules)
        try:
            return __import__(name, f.globals, None, fromlist, level)
        except BaseException as error:
            error.__traceback__ = None
            return self.fail(f, error)
        finally:
            if len(sys.modules) != loaded:
                for namespace in self.namespaces.values():
                    namespace.look_again()

    def enter_const(self, obj: Any) -> Any:
        """An outside object reached by name of the interpreter itself: pinned by identity."""
        record = self.records.get(id(obj))
        return record.inner if record is not None else self.enter(obj, paths.const(obj))

    def import_from(self, f: Frame, module: Any, name: str) -> Any:
        try:
            return self.load_attr(f, module, name)
        except BaseException as raised:
            if raised is not RAISED or not isinstance(f.error, AttributeError):
                raise
        f.error = None
        package = self.load_attr(f, module, "__name__")
        full = f"{package}.{name}"
        if full in sys.modules:
            return self.enter_const(sys.modules[full])
        origin = getattr(module, "__file__", None)
        text = f"cannot import name {name!r} from {package!r} ({origin or 'unknown location'})"
        return self.fail(f, ImportError(text, name=package, path=origin))

    def import_star(self, f: Frame, module: Any) -> None:
        record = self.records.get(id(module))
        names = self.namespace_of(record).expose() if record is not None else vars(module)
        public = names.get("__all__")
        for name in public if public is not None else [n for n in names if n[:1] != "_"]:
            value = self.load_attr(f, module, name)
            if type(f.names) is dict:
                self.namespace_set(f.names, name, value)
            else:
                native(f, operator.setitem, f.names, name, value)
