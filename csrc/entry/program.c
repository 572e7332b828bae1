/* The GuardProgram type: packing instructions, and running them from Python for tests. */
#include "entry.h"
#include <structmember.h>

#define OP_NAME(name) #name,
static const char *const op_names[] = {LOAD_OPS(OP_NAME) CHECK_OPS(OP_NAME) FLOW_OPS(OP_NAME)};

/* {name: number} of all instructions, new reference. */
PyObject *
program_opcodes(void)
{
    PyObject *table = PyDict_New();
    for (int op = 0; table != NULL && op < OP_COUNT; op++) {
        PyObject *number = PyLong_FromLong(op);
        if (number == NULL || PyDict_SetItemString(table, op_names[op], number) < 0) {
            Py_CLEAR(table);
        }
        Py_XDECREF(number);
    }
    return table;
}

/* Instructions that may make new references, at most one each. */
static bool
makes_reference(const Instr *in)
{
    switch (in->op) {
    case OP_GETATTR:
    case OP_ORDER:
    case OP_SEQ:
    case OP_PART:
    case OP_KEYS:
        return true;
    case OP_TENSOR:
        return !tensor_layout_verified();
    default:
        return false;
    }
}

/* Turns the key into what the instruction needs at run time. */
static int
prepare(Instr *in, int32_t slots)
{
    switch (in->op) {
    case OP_ATTR:
    case OP_KEY:
    case OP_CLASSITEM:
    case OP_NO_KEY:
    case OP_NO_ATTR:
        in->hash = PyObject_Hash(in->key);
        return in->hash == -1 ? -1 : 0;
    case OP_LEN:
    case OP_TYPE_VERSION:
        in->number = PyLong_AsSsize_t(in->key);
        return in->number == -1 && PyErr_Occurred() ? -1 : 0;
    case OP_TENSOR:
        in->data = tensor_check_new(in->key);
        return in->data == NULL ? -1 : 0;
    case OP_STATE:
        in->data = state_check_new(in->key);
        return in->data == NULL ? -1 : 0;
    case OP_DISTINCT:
        in->data = distinct_new(in->key, slots);
        return in->data == NULL ? -1 : 0;
    case OP_KEYS:
        if (!PyTuple_Check(in->key)) {
            PyErr_SetString(PyExc_TypeError, "KEYS takes a tuple");
            return -1;
        }
        return 0;
    default:
        return 0;
    }
}

static void
release(Instr *in)
{
    if (in->data != NULL) {
        if (in->op == OP_TENSOR) {
            tensor_check_free(in->data);
        }
        else if (in->op == OP_STATE) {
            state_check_free(in->data);
        }
        else if (in->op == OP_DISTINCT) {
            distinct_free(in->data);
        }
    }
    in->data = NULL;
    Py_CLEAR(in->key);
}

static bool
in_range(const Instr *in, int32_t slots, Py_ssize_t length, Py_ssize_t at)
{
    bool second = in->op == OP_ATTR || in->op == OP_NO_ATTR || in->op == OP_SAME;
    bool slots_fit = in->dst >= 0 && in->dst < slots && in->src >= 0 && in->src < slots && in->arg >= 0;
    return in->op < OP_COUNT && slots_fit && (!second || in->arg < slots)
           && (in->op != OP_TAG || (in->arg > at && in->arg <= length))
           && (in->op != OP_HOOKS || in->src + in->arg <= slots);
}

/* Packs (op, dst, src, arg, key, row) tuples. */
static int
pack(Program *program, PyObject *code)
{
    Py_ssize_t length = PyList_GET_SIZE(code);
    program->code = PyMem_Calloc(length + 1, sizeof(Instr));
    if (program->code == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < length; i++) {
        Instr *in = &program->code[i];
        PyObject *item = PyList_GET_ITEM(code, i), *key;
        if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "biiiOi", &in->op, &in->dst, &in->src, &in->arg, &key, &in->row)) {
            return -1;
        }
        in->key = Py_NewRef(key);
        program->length = (int32_t)i + 1;
        if (!in_range(in, program->slots, length, i)) {
            PyErr_Format(PyExc_ValueError, "instruction %zd is out of range", i);
            return -1;
        }
        if (prepare(in, program->slots) < 0) {
            return -1;
        }
        if (in->op == OP_ARG && in->arg >= program->min_args) {
            program->min_args = in->arg + 1;
        }
        program->max_owned += makes_reference(in);
    }
    return 0;
}

static int
pack_loads(Program *program, PyObject *loads)
{
    program->load_count = (int32_t)PyList_GET_SIZE(loads);
    program->loads = PyMem_Calloc(program->load_count + 1, sizeof(int32_t));
    if (program->loads == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (int32_t i = 0; i < program->load_count; i++) {
        long slot = PyLong_AsLong(PyList_GET_ITEM(loads, i));
        if (slot < 0 || slot >= program->slots) {
            PyErr_SetString(PyExc_ValueError, "no such slot");
            return -1;
        }
        program->loads[i] = (int32_t)slot;
    }
    return 0;
}

static PyObject *
program_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"code", "slots", "consts", "loads", "npos", "kwnames", "shape_row", NULL};
    PyObject *code, *consts, *loads, *kwnames = Py_None;
    int slots, npos = -1, shape_row = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!iO!O!|iOi", names, &PyList_Type, &code, &slots, &PyTuple_Type, &consts,
                                     &PyList_Type, &loads, &npos, &kwnames, &shape_row)) {
        return NULL;
    }
    Program *program = (Program *)type->tp_alloc(type, 0);
    if (program == NULL) {
        return NULL;
    }
    program->slots = slots;
    program->npos = npos;
    program->shape_row = shape_row;
    program->kwnames = PyTuple_Check(kwnames) ? Py_NewRef(kwnames) : NULL;
    program->consts = Py_NewRef(consts);
    program->anchor = PyDict_New();
    if (program->anchor == NULL || PyTuple_GET_SIZE(consts) >= slots) {
        PyErr_SetString(PyExc_ValueError, "too few slots");
        goto error;
    }
    if (pack(program, code) < 0 || pack_loads(program, loads) < 0) {
        goto error;
    }
    if (npos >= 0 && program->min_args > npos + (program->kwnames == NULL ? 0 : PyTuple_GET_SIZE(program->kwnames))) {
        PyErr_SetString(PyExc_ValueError, "the call shape has fewer arguments than the program reads");
        goto error;
    }
    program->scratch = scratch_new(program);
    if (program->scratch == NULL) {
        PyErr_NoMemory();
        goto error;
    }
    return (PyObject *)program;
error:
    Py_DECREF(program);
    return NULL;
}

static int
program_traverse(Program *program, visitproc visit, void *arg)
{
    for (int32_t i = 0; i < program->length; i++) {
        Py_VISIT(program->code[i].key);
    }
    Py_VISIT(program->kwnames);
    Py_VISIT(program->consts);
    Py_VISIT(program->anchor);
    Py_VISIT(program->twin);
    return 0;
}

/* Breaks cycles; only an unreachable program is cleared, so nothing runs it any more. */
static int
program_clear(Program *program)
{
    int32_t length = program->length;
    program->length = 0;
    program->load_count = 0;
    program->npos = INT32_MAX;
    for (int32_t i = 0; i < length; i++) {
        release(&program->code[i]);
    }
    Py_CLEAR(program->kwnames);
    Py_CLEAR(program->consts);
    Py_CLEAR(program->anchor);
    Py_CLEAR(program->twin);
    return 0;
}

static void
program_dealloc(Program *program)
{
    PyObject_GC_UnTrack(program);
    program_clear(program);
    PyMem_Free(program->code);
    PyMem_Free(program->loads);
    scratch_free(program->scratch);
    Py_TYPE(program)->tp_free(program);
}

/* Debug mode: asks the twin whether it agrees with the outcome; -1 with an exception if not. */
int
program_compare(Program *program, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames, int32_t row)
{
    if (program->twin == NULL || program->twin == Py_None) {
        return 0;
    }
    Py_ssize_t names = kwnames == NULL ? 0 : PyTuple_GET_SIZE(kwnames);
    PyObject *tuple = PyTuple_New(nargs + names);
    if (tuple == NULL) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < nargs + names; i++) {
        PyTuple_SET_ITEM(tuple, i, Py_NewRef(args[i]));
    }
    PyObject *result = PyObject_CallFunction(program->twin, "OOi", tuple, kwnames == NULL ? Py_None : kwnames, row);
    Py_DECREF(tuple);
    Py_XDECREF(result);
    return result == NULL ? -1 : 0;
}

/* run(args, kwnames=None): the loads, or the number of the failing row. */
static PyObject *
program_run_method(Program *program, PyObject *arguments)
{
    PyObject *args, *kwnames = Py_None;
    if (!PyArg_ParseTuple(arguments, "O!|O", &PyTuple_Type, &args, &kwnames)) {
        return NULL;
    }
    PyObject *names = PyTuple_Check(kwnames) && PyTuple_GET_SIZE(kwnames) > 0 ? kwnames : NULL;
    Py_ssize_t nargs = PyTuple_GET_SIZE(args) - (names == NULL ? 0 : PyTuple_GET_SIZE(names));
    if (nargs < 0) {
        PyErr_SetString(PyExc_ValueError, "more keyword names than arguments");
        return NULL;
    }
    PyObject *loads = PyList_New(program->load_count);
    if (loads == NULL) {
        return NULL;
    }
    PyObject **items = ((PyListObject *)loads)->ob_item;
    int32_t row = program_run(program, ((PyTupleObject *)args)->ob_item, nargs, names, items);
    if (program_compare(program, ((PyTupleObject *)args)->ob_item, nargs, names, row) < 0) {
        Py_DECREF(loads);
        return NULL;
    }
    if (row == HIT) {
        return loads;
    }
    Py_DECREF(loads);
    return PyLong_FromLong(row);
}

static PyMethodDef program_methods[] = {
    {"run", (PyCFunction)program_run_method, METH_VARARGS, "run(args, kwnames=None) -> loads, or number of the failing row"},
    {NULL},
};

static PyMemberDef program_members[] = {
    {"twin", T_OBJECT, offsetof(Program, twin), 0, "called as twin(args, kwnames, row) after each run"},
    {"instructions", T_INT, offsetof(Program, length), READONLY, "number of instructions"},
    {"slots", T_INT, offsetof(Program, slots), READONLY, "number of values"},
    {NULL},
};

PyTypeObject Program_Type = {
    PyVarObject_HEAD_INIT(NULL, 0)
    .tp_name = "stator._entry.GuardProgram",
    .tp_basicsize = sizeof(Program),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .tp_doc = "GuardProgram(code, slots, consts, loads, npos=-1, kwnames=None, shape_row=0)",
    .tp_new = program_new,
    .tp_dealloc = (destructor)program_dealloc,
    .tp_traverse = (traverseproc)program_traverse,
    .tp_clear = (inquiry)program_clear,
    .tp_methods = program_methods,
    .tp_members = program_members,
};
