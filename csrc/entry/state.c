/* torch's global and thread state as a few words, read through exported symbols of the loaded libraries. */
#include "entry.h"
#include <dlfcn.h>

typedef bool (*flag)(void);
typedef int64_t (*count)(void);
typedef int8_t (*code)(void);
typedef int8_t (*device_code)(int8_t device);
typedef bool (*context_flag)(const void *context);
typedef struct { const char *begin, *end; } Span;

static struct {
    flag grad, inference, autocast_cache;
    count function_modes, dispatch_modes;
    int (*function_state)(void);
    void (*set_function_state)(int state);
    code default_dtype;
    device_code autocast_dtype;
    const void *(*context)(void);
    context_flag deterministic, warn_only;
    const Span *(*functorch_layers)(void);
} torch_abi;

static const struct {
    const char *symbol;
    void *target;
} symbols[] = {
    {"_ZN3c108GradMode10is_enabledEv", &torch_abi.grad},
    {"_ZN3c1013InferenceMode10is_enabledEv", &torch_abi.inference},
    {"_ZN2at8autocast25is_autocast_cache_enabledEv", &torch_abi.autocast_cache},
    {"_ZN2at4impl22PythonTorchFunctionTLS9stack_lenEv", &torch_abi.function_modes},
    {"_ZN3c104impl20TorchDispatchModeTLS9stack_lenEv", &torch_abi.dispatch_modes},
    {"_ZN2at4impl22PythonTorchFunctionTLS18get_disabled_stateEv", &torch_abi.function_state},
    {"_ZN2at4impl22PythonTorchFunctionTLS18set_disabled_stateENS0_26TorchFunctionDisabledStateE",
     &torch_abi.set_function_state},
    {"_ZN3c1031get_default_dtype_as_scalartypeEv", &torch_abi.default_dtype},
    {"_ZN2at8autocast18get_autocast_dtypeEN3c1010DeviceTypeE", &torch_abi.autocast_dtype},
    {"_ZN2at13globalContextEv", &torch_abi.context},
    {"_ZNK2at7Context23deterministicAlgorithmsEv", &torch_abi.deterministic},
    {"_ZNK2at7Context31deterministicAlgorithmsWarnOnlyEv", &torch_abi.warn_only},
    {"_ZN2at9functorch20getDynamicLayerStackEv", &torch_abi.functorch_layers},
};

#define THREAD_KEYS "_ZN3c104impl26raw_local_dispatch_key_setE"
#define ALL_DISABLED 2

enum { CPU, CUDA };

typedef struct {
    uint64_t flags;          /* one bit or byte per fact, see read_flags */
    uint64_t modes;          /* depth of the function and dispatch mode stacks */
    uint64_t include, exclude; /* dispatch keys of this thread; whether autocast is on for a device is one of them */
    uint64_t functorch;      /* size of the stack of functorch layers */
} Words;

struct StateCheck {
    Words words;
    PyObject *snapshot;      /* borrowed from the instruction */
    bool by_twin;            /* modes are active: their kinds are compared in Python */
};

static bool symbols_found;
static void *torch_library;
static const void *torch_context;
static PyObject *python_twin;
static _Thread_local const uint64_t *thread_keys;

int
state_init(void *library)
{
    torch_library = library;
    symbols_found = dlsym(library, THREAD_KEYS) != NULL;
    for (size_t i = 0; i < Py_ARRAY_LENGTH(symbols); i++) {
        void *found = dlsym(library, symbols[i].symbol);
        memcpy(symbols[i].target, &found, sizeof(found));
        symbols_found = symbols_found && found != NULL;
    }
    if (symbols_found) {
        torch_context = torch_abi.context();
    }
    return 0;
}

static inline uint64_t
read_flags(void)
{
    uint64_t flags = torch_abi.grad();
    flags |= (uint64_t)torch_abi.inference() << 1;
    flags |= (uint64_t)torch_abi.autocast_cache() << 2;
    if (torch_abi.deterministic(torch_context)) {
        flags |= (uint64_t)(1 + torch_abi.warn_only(torch_context)) << 3;
    }
    flags |= (uint64_t)(uint8_t)torch_abi.function_state() << 8;
    flags |= (uint64_t)(uint8_t)torch_abi.default_dtype() << 16;
    flags |= (uint64_t)(uint8_t)torch_abi.autocast_dtype(CPU) << 24;
    flags |= (uint64_t)(uint8_t)torch_abi.autocast_dtype(CUDA) << 32;
    return flags;
}

static inline void
read_words(Words *words)
{
    const uint64_t *keys = thread_keys;
    if (keys == NULL) {
        keys = thread_keys = dlsym(torch_library, THREAD_KEYS);
    }
    words->flags = read_flags();
    words->modes = (uint64_t)torch_abi.function_modes() << 32 | (uint64_t)torch_abi.dispatch_modes();
    words->include = keys[0];
    words->exclude = keys[1];
    words->functorch = 0;
    if (words->include != 0) {
        const Span *layers = torch_abi.functorch_layers();
        words->functorch = (uint64_t)(layers->end - layers->begin);
    }
}

/* The words as bytes, or None if a symbol is missing. */
PyObject *
state_words(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    if (!symbols_found) {
        Py_RETURN_NONE;
    }
    Words words;
    read_words(&words);
    return PyBytes_FromStringAndSize((const char *)&words, sizeof(words));
}

/* What to call as twin(snapshot) when words cannot answer. */
PyObject *
state_set_twin(PyObject *Py_UNUSED(module), PyObject *function)
{
    Py_XSETREF(python_twin, Py_NewRef(function));
    Py_RETURN_NONE;
}

StateCheck *
state_check_new(PyObject *snapshot)
{
    PyObject *words = PyObject_GetAttrString(snapshot, "words");
    StateCheck *check = words == NULL ? NULL : PyMem_Calloc(1, sizeof(StateCheck));
    if (check == NULL) {
        Py_XDECREF(words);
        return NULL;
    }
    check->snapshot = snapshot;
    check->by_twin = true;
    if (symbols_found && PyBytes_Check(words) && PyBytes_GET_SIZE(words) == sizeof(Words)) {
        memcpy(&check->words, PyBytes_AS_STRING(words), sizeof(Words));
        check->by_twin = check->words.modes != 0;
    }
    Py_DECREF(words);
    return check;
}

void
state_check_free(StateCheck *check)
{
    PyMem_Free(check);
}

bool
state_check(const StateCheck *check)
{
    if (symbols_found) {
        Words now;
        read_words(&now);
        if (memcmp(&now, &check->words, sizeof(Words)) != 0) {
            return false;
        }
        if (!check->by_twin) {
            return true;
        }
    }
    PyObject *result = python_twin == NULL ? NULL : PyObject_CallOneArg(python_twin, check->snapshot);
    bool holds = result == Py_True;
    Py_XDECREF(result);
    forgive();
    return holds;
}

/* Switches __torch_function__ off, so that reading a tensor's attribute runs no Python code. */
int
function_modes_off(void)
{
    if (!symbols_found) {
        return 0;
    }
    int before = torch_abi.function_state();
    torch_abi.set_function_state(ALL_DISABLED);
    return before;
}

void
function_modes_restore(int before)
{
    if (symbols_found) {
        torch_abi.set_function_state(before);
    }
}
