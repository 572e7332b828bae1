/* The extension module stator._entry. */
#include "entry.h"
#include <dlfcn.h>
#include <limits.h>

/* The tag of a class's attributes and names, given to it now if it has none; 0 if that is impossible. */
static PyObject *
type_version(PyObject *Py_UNUSED(module), PyObject *cls)
{
    if (!PyType_Check(cls)) {
        PyErr_SetString(PyExc_TypeError, "type_version takes a class");
        return NULL;
    }
    PyTypeObject *type = (PyTypeObject *)cls;
    if (type_tag(type) == 0) {
        PyObject *name = PyUnicode_InternFromString("__class__");
        if (name == NULL) {
            return NULL;
        }
        _PyType_Lookup(type, name);
        Py_DECREF(name);
    }
    return PyLong_FromSsize_t(type_state(type));
}

static PyObject *
same_constant(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *object, *key;
    if (!PyArg_ParseTuple(args, "OO", &object, &key)) {
        return NULL;
    }
    return PyBool_FromLong(constant_same(object, key));
}

/* Fails if an OrderedDict does not keep its order where version.h says. */
static int
verify_ordered(void)
{
    PyObject *ordered = PyODict_New();
    const char *const names[] = {"a", "b", "c"};
    for (int i = 0; ordered != NULL && i < 3; i++) {
        if (PyMapping_SetItemString(ordered, names[i], Py_None) < 0) {
            Py_CLEAR(ordered);
        }
    }
    PyObject *moved = ordered == NULL ? NULL : PyObject_CallMethod(ordered, "move_to_end", "s", "a");
    if (moved == NULL) {
        Py_XDECREF(ordered);
        return -1;
    }
    Py_DECREF(moved);
    OrderedNode *node = ordered_first(ordered);
    for (int i = 0; i < 3 && node != NULL; i++, node = node->next) {
        if (PyUnicode_CompareWithASCIIString(node->key, names[(i + 1) % 3]) != 0) {
            PyErr_SetString(PyExc_ImportError, "OrderedDict has an unknown layout");
            break;
        }
    }
    Py_DECREF(ordered);
    return PyErr_Occurred() ? -1 : 0;
}

static PyMethodDef functions[] = {
    {"type_version", type_version, METH_O, "type_version(cls) -> version of its attributes and names, 0 if there is none"},
    {"same_constant", same_constant, METH_VARARGS, "same_constant(object, key) -> what the EQ check answers"},
    {"mortal", mortal_ask, METH_O, "mortal(object) -> whether guards that compare with it hold it weakly"},
    {"upcoming", (PyCFunction)(void (*)(void))upcoming, METH_FASTCALL, "upcoming(start, iterator) -> some of the elements after the next `start`"},
    {"enumerate_count", enumerate_count, METH_O, "enumerate_count(iterator) -> the number that it gives next"},
    {"recount", recount, METH_VARARGS, "recount(iterator, number): an enumerate gives this number next"},
    {"beneath", beneath, METH_O, "beneath(iterator) -> the iterators and mutable containers it goes over"},
    {"plain_kind", plain_kind, METH_O, "plain_kind(list) -> 1 for a list of bools, 2 with ints, 3 with floats in it; else 0"},
    {"plain_fold", plain_fold, METH_O, "plain_fold(function) -> what a function written in C makes of a list of plain numbers; else None"},
    {"set_layout", set_layout, METH_O, "set_layout(set) -> which places of its table are taken"},
    {"set_like", (PyCFunction)(void (*)(void))set_like, METH_FASTCALL, "set_like(target, source[, items]): target holds what source holds, or these, at the same places"},
    {"keys_from", keys_from, METH_VARARGS, "keys_from(dict, place) -> the keys at this place of its table and behind it"},
    {"dict_version", dict_version, METH_O, "dict_version(dict) -> a number that is another one once the dict has changed"},
    {"method_code", method_code, METH_O, "method_code(method) -> the address of the C function behind it"},
    {"put_hashed", (PyCFunction)(void (*)(void))put_hashed, METH_FASTCALL, "put_hashed(target, hashes, keys[, values]): adds the keys under these hashes; None: the key is asked"},
    {"stored_hashes", stored_hashes, METH_O, "stored_hashes(container) -> list of (key, hash that a dict or set remembers)"},
    {"hash_numbers", hash_numbers, METH_O, "hash_numbers(container) -> these hashes alone, as a tuple"},
    {"cached_key", (PyCFunction)(void (*)(void))cached_key, METH_FASTCALL, "cached_key(args, kwargs, wrapper) -> the key of a call in an lru_cache"},
    {"cached_result", (PyCFunction)(void (*)(void))cached_result, METH_FASTCALL, "cached_result(args, kwargs, default, wrapper) -> what an lru_cache holds"},
    {"cached_store", (PyCFunction)(void (*)(void))cached_store, METH_FASTCALL, "cached_store(wrapper, args, kwargs, result): the call, with this result if it is a miss"},
    {"is_collecting", is_collecting, METH_O, "is_collecting(anything) -> what gc.isenabled() says, also inside of a guard"},
    {"tensor_raw", tensor_raw, METH_O, "tensor_raw(tensor) -> (dtype, device type, device index, layout) as numbers"},
    {"tensor_learn", tensor_learn, METH_O, "tensor_learn(probes) -> whether the layout of tensors is known"},
    {"tensor_learn_grad", tensor_learn_grad, METH_VARARGS, "tensor_learn_grad(plain, leaf, change) -> the same for requires_grad"},
    {"tensor_mode", tensor_mode, METH_NOARGS, "tensor_mode() -> 'direct' or 'python'"},
    {"set_tensor_twin", tensor_set_twin, METH_O, "set_tensor_twin(function): answers TENSOR where C cannot"},
    {"state_words", state_words, METH_NOARGS, "state_words() -> torch's state as bytes, None if it cannot be read in C"},
    {"set_eager_only", compiled_set_eager_only, METH_O, "set_eager_only(flag): every Compiled calls its function, whatever it has compiled"},
    {"watch", (PyCFunction)(void (*)(void))compiled_watch, METH_FASTCALL, "watch(dict, changed): the next call of a Compiled after the dict changed calls changed() first"},
    {"set_state_twin", state_set_twin, METH_O, "set_state_twin(function): answers STATE where C cannot"},
    {"tail", (PyCFunction)(void (*)(void))tail_new, METH_FASTCALL, "tail(step, state, edges, owner, *carried)"},
    {"tail_call", (PyCFunction)(void (*)(void))tail_call, METH_FASTCALL, "tail_call(owner, function, argument), or arguments and keywords"},
    {"set_step_runner", tail_set_runner, METH_O, "set_step_runner(runner)"},
    {"set_own_frames", (PyCFunction)(void (*)(void))traceback_set_own, METH_FASTCALL, "set_own_frames(prefixes, errors)"},
    {NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "stator._entry",
    .m_doc = "What runs on every call: guard programs and the compiled function object.",
    .m_size = -1,
    .m_methods = functions,
};

/* A handle of the loaded libtorch_cpu; look-ups through it also search the libraries it depends on. */
static void *
open_torch(PyObject *torch)
{
    PyObject *file = PyObject_GetAttrString(torch, "__file__");
    const char *text = file == NULL ? NULL : PyUnicode_AsUTF8(file);
    const char *slash = text == NULL ? NULL : strrchr(text, '/');
    void *library = NULL;
    char path[PATH_MAX];
    if (slash != NULL && snprintf(path, sizeof(path), "%.*s/lib/libtorch_cpu.so", (int)(slash - text), text) < PATH_MAX) {
        library = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    }
    Py_XDECREF(file);
    PyErr_Clear();
    return library == NULL ? RTLD_DEFAULT : library;
}

static int
connect_torch(void)
{
    PyObject *torch = PyImport_ImportModule("torch");
    if (torch == NULL) {
        return -1;
    }
    void *library = open_torch(torch);
    int failed = constants_init(torch) < 0 || tensor_init(library) < 0 || state_init(library) < 0;
    Py_DECREF(torch);
    return failed ? -1 : 0;
}

PyMODINIT_FUNC
PyInit__entry(void)
{
    if (verify_ordered() < 0 || hashes_init() < 0 || upcoming_init() < 0 || counting_init() < 0 || cached_init() < 0 || connect_torch() < 0 || PyType_Ready(&Program_Type) < 0 || PyType_Ready(&Compiled_Type) < 0
        || PyType_Ready(&Tail_Type) < 0 || PyType_Ready(&Watch_Type) < 0) {
        return NULL;
    }
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL) {
        return NULL;
    }
    PyObject *opcodes = program_opcodes(), *relations = relation_ops();
    if (opcodes == NULL || PyModule_AddObject(module, "OPCODES", opcodes) < 0
        || relations == NULL || PyModule_AddObject(module, "RELATION_OPS", relations) < 0
        || PyModule_AddObjectRef(module, "GuardProgram", (PyObject *)&Program_Type) < 0
        || PyModule_AddObjectRef(module, "Compiled", (PyObject *)&Compiled_Type) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
