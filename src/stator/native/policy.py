"""Which C functions may run while capturing. Data only; the default is a break."""

from __future__ import annotations

import types
from typing import Any

# Modules whose C functions and types depend on their arguments alone and change nothing but them.
PURE_MODULES = frozenset(
    [
        "builtins",
        "math",
        "cmath",
        "_operator",
        "operator",
        "itertools",
        "functools",
        "_functools",
        "collections",
        "_collections",
        "_collections_abc",
        "_heapq",
        "heapq",
        "_bisect",
        "bisect",
        "_struct",
        "struct",
        "_json",
        "json",
        "_sre",
        "re",
        "unicodedata",
        "_statistics",
        "binascii",
        "zlib",
        "array",
        "_weakref",
        "weakref",
        "_abc",
        "abc",
        "types",
        "_string",
        "string",
        "_decimal",
        "decimal",
        "_datetime",
        "datetime",
        "enum",
        "_typing",
        "typing",
        "copy",
        "copyreg",
        "_random",
        "fractions",
        "numbers",
        "_csv",
        "_pickle",
        "pickle",
        "_codecs",
        "codecs",
        "_md5",
        "_sha1",
        "_sha256",
        "_sha512",
        "_blake2",
        "_sha3",
        "hashlib",
        "_contextvars",
        "contextvars",
        "errno",
        "_symtable",
        "_ast",
        "ast",
        "_tokenize",
        "_opcode",
        "opcode",
        "_stat",
        "stat",
        "marshal",
        "_bootlocale",
        "_elementtree",
        "reprlib",
    ]
)

# Those among them that work on objects through their methods, and functions that read the memory of an object.
PASSES_OBJECTS = frozenset(
    ["builtins", "_operator", "operator", "itertools", "functools", "_functools", "collections", "_collections",
     "_collections_abc", "_heapq", "heapq", "_bisect", "bisect", "_weakref", "weakref", "_abc", "abc", "types", "copy",
     "math", "cmath", "numbers", "typing", "_typing", "enum"]
)  # fmt: skip
READS_MEMORY = frozenset({"bytes", "bytearray", "memoryview", "from_bytes", "join"})

# Functions of those and other modules that need a decision of their own: (module, name) -> break id, or "run".
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("builtins", "open"): "native-effect",
    ("builtins", "input"): "native-effect",
    ("builtins", "breakpoint"): "interpreter-watched",
    ("sys", "getrecursionlimit"): "run",
    ("sys", "getsizeof"): "run",
    ("sys", "getrefcount"): "run",
    ("sys", "intern"): "run",
    ("sys", "exc_info"): "run",
    ("sys", "exception"): "run",
    ("sys", "is_finalizing"): "run",
    ("sys", "getdefaultencoding"): "run",
    ("sys", "getfilesystemencoding"): "run",
    ("sys", "getfilesystemencodeerrors"): "run",
    ("sys", "get_int_max_str_digits"): "run",
    ("sys", "_getframe"): "frames",
    ("sys", "gettrace"): "run",
    ("sys", "getprofile"): "run",
    ("sys", "get_coroutine_origin_tracking_depth"): "run",
    ("sys", "get_asyncgen_hooks"): "run",
    ("sys", "audit"): "run",
    ("sys", "displayhook"): "native-effect",
    ("scipy.fft._pocketfft.pypocketfft", "good_size"): "run",
    ("scipy.fft._pocketfft.pypocketfft", "prev_good_size"): "run",
    ("gc", "collect"): "run",
    ("gc", "isenabled"): "run",
    ("gc", "is_tracked"): "run",
    ("gc", "get_referents"): "run",
    ("gc", "enable"): "run",
    ("gc", "disable"): "run",
    ("_thread", "get_ident"): "run",
    ("_thread", "get_native_id"): "run",
    ("_thread", "allocate_lock"): "run",
    ("_thread", "RLock"): "run",
    ("_thread", "_local"): "run",
    ("_thread", "lock"): "run",
    ("_io", "StringIO"): "run",
    ("_io", "BytesIO"): "run",
    ("io", "StringIO"): "run",
    ("io", "BytesIO"): "run",
    ("_imp", "lock_held"): "run",
    ("posix", "fspath"): "run",
    ("torch", "Size"): "run",
    ("torch", "device"): "run",
    ("posix", "getpid"): "run",
    ("_locale", "localeconv"): "native-impure",
    ("_locale", "setlocale"): "native-effect",
    ("_codecs", "register"): "native-effect",
    ("_codecs", "unregister"): "native-effect",
    ("_codecs", "register_error"): "native-effect",
    ("_csv", "register_dialect"): "native-effect",
    ("_csv", "unregister_dialect"): "native-effect",
    ("_csv", "get_dialect"): "native-impure",
    ("_csv", "list_dialects"): "native-impure",
    ("_csv", "field_size_limit"): "native-impure",
    ("datetime", "now"): "native-impure",
    ("datetime", "today"): "native-impure",
    ("datetime", "utcnow"): "native-impure",
    ("datetime", "fromtimestamp"): "native-impure",  # reads the local time zone
}

# The clock, threads and event loops.
EXCEPTIONS |= {
    **{("time", name): "native-impure" for name in (
        "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time",
        "process_time_ns", "thread_time", "thread_time_ns", "localtime", "gmtime", "ctime",
    )},
    ("time", "sleep"): "native-effect",
    ("posix", "urandom"): "native-impure",
    ("posix", "getcwd"): "native-impure",
    ("posix", "system"): "native-effect",
    ("_thread", "start_new_thread"): "thread",
    ("_asyncio", "get_event_loop"): "async",
    ("_asyncio", "get_running_loop"): "async",
    ("_asyncio", "_get_running_loop"): "async",
}  # fmt: skip

# What the program sees behind these depends on all that the interpreter does, so stator keeps out of the call.
EXCEPTIONS |= dict.fromkeys(
    [("sys", name) for name in (
        "settrace", "setprofile", "call_tracing", "setrecursionlimit", "getallocatedblocks", "_current_frames",
        "_current_exceptions",
    )]
    + [("gc", name) for name in (
        "get_objects", "get_count", "get_stats", "get_referrers", "set_debug", "set_threshold",
    )]
    + [("_testcapi", name) for name in ("settrace_to_record", "settrace_to_error", "set_nomemory")]
    + [("_tracemalloc", name) for name in ("start", "stop", "clear_traces", "get_traced_memory", "_get_traces")],
    "interpreter-watched",
)  # fmt: skip

# CPython's own test extensions: functions that only hand back or raise what they are given.
EXCEPTIONS |= dict.fromkeys(
    [("_testcapi", name) for name in (
        "meth_varargs", "meth_varargs_keywords", "meth_o", "meth_noargs", "meth_fastcall",
        "meth_fastcall_keywords", "pyobject_fastcall", "pyobject_fastcalldict", "pyobject_vectorcall",
        "pyvectorcall_call", "MethClass", "MethInstance", "MethStatic", "MethodDescriptorBase",
        "MethodDescriptorDerived", "MethodDescriptorNopGet", "MethodDescriptor2", "make_exception_with_doc",
        "raise_exception", "raise_memoryerror", "instancemethod", "test_from_contiguous", "sequence_getitem",
        "mapping_items",
    )]
    + [("xxsubtype", name) for name in ("spamlist", "spamdict", "classmeth", "staticmeth", "setstate", "getstate")],
    "run",
)  # fmt: skip

# Modules whose lru_caches hold immutable values that depend on the arguments alone.
VALUE_CACHES = frozenset({"typing", "re", "fnmatch", "statistics", "decimal", "_pydecimal", "fractions", "colorsys"})

# C types whose outside instances never change: their methods may run on them.
IMMUTABLE_OUTSIDE = frozenset(
    {"re.Pattern", "re.Match", "datetime.datetime", "datetime.date", "datetime.time", "datetime.timedelta",
     "datetime.timezone", "decimal.Decimal", "builtins.range", "builtins.code", "builtins.property",
     "builtins.classmethod", "builtins.staticmethod", "builtins.getset_descriptor", "builtins.member_descriptor",
     "builtins.method_descriptor", "builtins.wrapper_descriptor", "builtins.builtin_function_or_method",
     "types.GenericAlias", "types.UnionType", "builtins.ellipsis", "builtins.function", "builtins.module",
     "builtins.method", "operator.itemgetter", "operator.attrgetter", "operator.methodcaller", "builtins.slice",
     "torch.dtype", "torch.device", "torch.layout", "torch.memory_format", "torch.Size", "builtins.memoryview",
     "weakref.ReferenceType", "builtins.weakref", "builtins.frame", "builtins.traceback", "struct.Struct",
     "_struct.Struct", "_json.Scanner", "builtins.MethInstance"}
)  # fmt: skip


# Methods of other outside C objects that read nothing which changes.
READING_METHODS = frozenset(
    (cls, name)
    for cls, names in {
        "functools._lru_cache_wrapper": ("__copy__", "__deepcopy__", "__reduce__"),
        "decimal.Context": ("copy", "__copy__", "Etiny", "Etop", "radix"),  # the door guards all of a context
    }.items()
    for name in names
)

# torch's C functions that only read its state (which the entry guards).
READ_PREFIXES = ("is_", "_is_", "get_", "_get_", "has_", "_has_", "are_", "_are_", "_len_torch")


C_MEMBERS = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.BuiltinFunctionType,
    staticmethod,  # `__new__` and what C declares static
)


def home(function: Any) -> tuple[str, str]:
    """(module, name) that a C function is looked up by."""
    name = getattr(function, "__name__", "")
    module = getattr(function, "__module__", None)
    if type(module) is str:
        return module, name
    owner = getattr(function, "__self__", None)
    if isinstance(owner, types.ModuleType):
        return owner.__name__, name
    cls = getattr(function, "__objclass__", None) or (
        type if name in type.__dict__ and isinstance(owner, type) else owner
    )
    if not isinstance(cls, type):
        cls = type(cls)
    for base in cls.__mro__:
        if name in base.__dict__ and type(base.__dict__[name]) in C_MEMBERS:
            return base.__module__, name
    return cls.__module__, name


def decide(function: Any) -> str:
    """ "run", "frames" (run with frames in step), or the id of the break."""
    module, name = home(function)
    exception = EXCEPTIONS.get((module, name))
    if exception is not None:
        return exception
    if module in PURE_MODULES:
        return "run"
    if module.startswith("torch") and name.startswith(READ_PREFIXES):
        return "run"
    return "native-unknown"


# Classes of torch that bind C++ objects and whose instances are values, or scopes that change nothing about what is
# recorded: others hold files or programs, or choose how operations are dispatched.
BOUND_VALUES = frozenset(
    {"_DisableFuncTorch", "_DisablePythonDispatcher", "_EnablePythonDispatcher",
     "_EnableTorchFunction", "_InferenceMode",
     "DispatchKey", "DispatchKeySet", "_TorchDispatchModeKey", "_SDPAParams", "_SDPBackend", "DeviceType",
     "ProfilerActivity", "ProfilerState", "ProfilerConfig", "_ExperimentalConfig", "ActiveProfilerType"}
)  # fmt: skip


def decide_class(cls: type) -> str:
    """The same for a class made in C, as a base of the class that is called."""
    module = type.__dict__["__module__"].__get__(cls)
    if module.startswith("torch"):
        is_bound = type(cls).__name__ == "pybind11_type"
        return "native-unknown" if is_bound and cls.__name__ not in BOUND_VALUES else "run"
    return "run" if module == "pybind11_builtins" else decide(cls)
