/* Packing: numbers and keys made by stator.guards.tree become the instructions of a program. */
#include "entry.h"

/* Instructions that may make a new reference, at most one each. */
static bool
makes_reference(int32_t op)
{
    switch (op) {
    case OP_GETATTR:
    case OP_ORDER:
    case OP_SEQ:
    case OP_PART:
    case OP_UPCOMING:
    case OP_BENEATH:
        return true;
    case OP_TENSOR:
        return !tensor_layout_verified();
    default:
        return false;
    }
}

static bool
looks_up(int32_t op)
{
    return op == OP_ATTR || op == OP_KEY || op == OP_CLASSITEM || op == OP_NO_KEY || op == OP_NO_ATTR || op == OP_STILL
           || op == OP_HAS_ELEMENT || op == OP_NO_ELEMENT;
}

static int
pack_lookup(Program *program, Instr *in, Py_ssize_t at, PyObject *key)
{
    Lookup *lookup = in->lookup = &program->lookups[at];
    lookup->key = key;
    lookup->hash = PyObject_Hash(key);
    return lookup->hash == -1 ? -1 : 0;
}

/* Layers of one class have equal specs: each is kept once, the latest are the likeliest. */
static int
pack_tensor(Program *program, Instr *in, PyObject *spec)
{
    TensorCheck *made = tensor_check_new(spec);
    if (made == NULL) {
        return -1;
    }
    for (int32_t i = program->tensor_count - 1; i >= 0 && i >= program->tensor_count - 64; i--) {
        if (tensor_check_equal(program->tensors[i], made)) {
            tensor_check_free(made);
            in->tensor = program->tensors[i];
            return 0;
        }
    }
    in->tensor = program->tensors[program->tensor_count++] = made;
    return 0;
}

static int
pack_key(Program *program, Instr *in, Py_ssize_t at, PyObject *key)
{
    if (looks_up(in->op)) {
        return pack_lookup(program, in, at, key);
    }
    switch (in->op) {
    case OP_LEN:
    case OP_TYPE_VERSION:
        in->number = PyLong_AsSsize_t(key);
        return in->number == -1 && PyErr_Occurred() ? -1 : 0;
    case OP_TENSOR:
        return pack_tensor(program, in, key);
    case OP_STATE:
        in->state = state_check_new(key);
        return in->state == NULL ? -1 : 0;
    case OP_DISTINCT:
        in->distinct = distinct_new(key, program->slots);
        return in->distinct == NULL ? -1 : 0;
    case OP_RELATION:
        in->relation = relation_new(key, program->slots);
        return in->relation == NULL ? -1 : 0;
    case OP_INSTANCE:
        in->key = key == Py_None ? NULL : key;
        return 0;
    case OP_KEYS:
        if (!PyTuple_Check(key)) {
            PyErr_SetString(PyExc_TypeError, "KEYS takes a tuple");
            return -1;
        }
        /* fall through */
    default:
        in->key = key;
        return 0;
    }
}

/* Instructions that compare addresses: the object need not be kept alive. */
static bool
compares_identity(int32_t op)
{
    return op == OP_IS || op == OP_TYPE_IS || op == OP_INSTANCE || op == OP_CODE_IS;
}

/* Lets go of the key of such an instruction. */
static int
release_key(Program *program, Py_ssize_t at)
{
    PyObject *held = mortal_hold(program, PyList_GET_ITEM(program->keys, at));
    return held == NULL ? -1 : PyList_SetItem(program->keys, at, held);
}

/* Lets go of constants in the same way. */
int
program_release_consts(Program *program)
{
    Py_ssize_t count = PyTuple_GET_SIZE(program->consts);
    PyObject *held = PyTuple_New(count);
    program->values = PyMem_Calloc(count + 1, sizeof(PyObject *));
    if (held == NULL || program->values == NULL) {
        Py_XDECREF(held);
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *value = program->values[i] = PyTuple_GET_ITEM(program->consts, i), *one = mortal_hold(program, value);
        if (one == NULL) {
            Py_DECREF(held);
            return -1;
        }
        PyTuple_SET_ITEM(held, i, one);
    }
    Py_SETREF(program->consts, held);
    return 0;
}

static bool
in_range(const Program *program, const Instr *in, Py_ssize_t length)
{
    int32_t slots = program->slots;
    bool tag = in->op == OP_INSTANCE || in->op == OP_STILL || in->op == OP_TAG || in->op == OP_TAGGED;
    bool second = in->op == OP_ATTR || in->op == OP_NO_ATTR || in->op == OP_SAME;
    bool index = in->op == OP_ITEM || in->op == OP_SEQ; /* may count from the end */
    if (in->op < 0 || in->op >= OP_COUNT || in->src < 0 || in->src >= slots || in->dst < 0 || (in->arg < 0 && !index)) {
        return false;
    }
    return in->dst < (in->op == OP_TAGGED ? length : slots) && (!tag || in->arg < program->tags)
           && (!second || in->arg < slots) && (in->op != OP_HOOKS || in->src + in->arg <= slots);
}

static int
allocate(Program *program, Py_ssize_t length)
{
    program->code = PyMem_Calloc(length, sizeof(Instr));
    program->rows = PyMem_Calloc(length, sizeof(int32_t));
    program->lookups = PyMem_Calloc(length, sizeof(Lookup));
    program->tensors = PyMem_Calloc(length, sizeof(TensorCheck *));
    if (program->code == NULL || program->rows == NULL || program->lookups == NULL || program->tensors == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

/* A run must end: the last instruction of each part is END or TAGGED, and blocks start where tags say. */
static bool
well_formed(const Program *program)
{
    for (int32_t i = 0; i < program->tags; i++) {
        if (program->targets[i] <= 0 || program->targets[i] >= program->length) {
            return false;
        }
    }
    int32_t last = program->length == 0 ? OP_COUNT : program->code[program->length - 1].op;
    return last == OP_END || last == OP_TAGGED;
}

int
program_pack(Program *program, const int32_t *numbers, Py_ssize_t length)
{
    if (length != PyList_GET_SIZE(program->keys)) {
        PyErr_SetString(PyExc_ValueError, "numbers and keys differ in length");
        return -1;
    }
    if (allocate(program, length + 1) < 0) {
        return -1;
    }
    for (Py_ssize_t i = 0; i < length; i++) {
        const int32_t *row = numbers + i * COLUMNS;
        Instr *in = &program->code[i];
        *in = (Instr){.op = row[0], .src = row[1], .dst = row[2], .arg = row[3]};
        program->rows[i] = row[4];
        program->length = (int32_t)i + 1;
        if (!in_range(program, in, length)) {
            PyErr_Format(PyExc_ValueError, "instruction %zd is out of range", i);
            return -1;
        }
        if (pack_key(program, in, i, PyList_GET_ITEM(program->keys, i)) < 0
            || (compares_identity(in->op) && release_key(program, i) < 0)) {
            return -1;
        }
        if (in->op == OP_ARG && in->arg >= program->min_args) {
            program->min_args = in->arg + 1;
        }
        program->max_owned += makes_reference(in->op);
    }
    if (!well_formed(program)) {
        PyErr_SetString(PyExc_ValueError, "the program has no end");
        return -1;
    }
    return 0;
}

void
program_unpack(Program *program)
{
    for (int32_t i = 0; i < program->length; i++) {
        Instr *in = &program->code[i];
        if (in->op == OP_STATE && in->state != NULL) {
            state_check_free(in->state);
        }
        if (in->op == OP_DISTINCT && in->distinct != NULL) {
            distinct_free(in->distinct);
        }
        if (in->op == OP_RELATION && in->relation != NULL) {
            relation_free(in->relation);
        }
    }
    for (int32_t i = 0; i < program->tensor_count; i++) {
        tensor_check_free(program->tensors[i]);
    }
    program->length = program->tensor_count = 0;
    PyMem_Free(program->code);
    PyMem_Free(program->rows);
    PyMem_Free(program->lookups);
    PyMem_Free(program->tensors);
    program->code = NULL;
    program->rows = NULL;
    program->lookups = NULL;
    program->tensors = NULL;
}
