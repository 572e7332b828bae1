/* The RELATION check: a postfix program of 64-bit integers over sizes, strides and ints. What overflows does not hold. */
#include "entry.h"
#include <math.h>

typedef struct {
    int32_t slot, kind, index;
    double bound; /* KIND_SIDE: whether a float is above, at or below */
} Operand;

enum { KIND_SIZE, KIND_STRIDE, KIND_INT, KIND_SIDE };

typedef struct {
    int64_t op, arg;
} Step;

struct Relation {
    int32_t operands, steps, depth;
    Operand *operand;
    Step *step;
};

/* Pushes: CONST, LOAD. Changes the top: POW, NOT. The others take two values and leave one. */
#define RELATION_OPS(X) \
    X(CONST) X(LOAD) X(POW) X(NOT) X(ADD) X(MUL) X(FLOORDIV) X(MOD) X(MAX) X(MIN) X(EQ) X(NE) X(LT) X(LE) X(GT) X(GE) X(AND) X(OR)
#define RELATION_ENUM(name) REL_##name,
enum { RELATION_OPS(RELATION_ENUM) REL_COUNT };
#define RELATION_NAME(name) #name,
static const char *const names[] = {RELATION_OPS(RELATION_NAME)};
enum { DEEPEST = 64 };

/* {name: number}, new reference. */
PyObject *
relation_ops(void)
{
    PyObject *table = PyDict_New();
    for (int op = 0; table != NULL && op < REL_COUNT; op++) {
        PyObject *number = PyLong_FromLong(op);
        if (number == NULL || PyDict_SetItemString(table, names[op], number) < 0) {
            Py_CLEAR(table);
        }
        Py_XDECREF(number);
    }
    return table;
}

/* True if the stack never runs empty nor too deep, and one value is left. */
static bool
well_formed(const Relation *relation)
{
    int32_t depth = 0;
    for (int32_t i = 0; i < relation->steps; i++) {
        Step step = relation->step[i];
        if (step.op < 0 || step.op >= REL_COUNT || (step.op == REL_LOAD && (step.arg < 0 || step.arg >= relation->operands))
            || (step.op == REL_POW && (step.arg < 0 || step.arg > 64))) {
            return false;
        }
        if (step.op <= REL_LOAD) {
            depth++;
        }
        else if (depth < (step.op <= REL_NOT ? 1 : 2)) {
            return false;
        }
        else if (step.op > REL_NOT) {
            depth--;
        }
        if (depth > DEEPEST) {
            return false;
        }
    }
    return depth == 1;
}

static int
fill(Relation *relation, PyObject *operands, PyObject *code, int32_t slots)
{
    for (int32_t i = 0; i < relation->operands; i++) {
        Operand *operand = &relation->operand[i];
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(operands, i), "iiid", &operand->slot, &operand->kind, &operand->index,
                              &operand->bound)) {
            return -1;
        }
        if (operand->slot < 0 || operand->slot >= slots || operand->kind < 0 || operand->kind > KIND_SIDE || operand->index < 0) {
            PyErr_SetString(PyExc_ValueError, "operand out of range");
            return -1;
        }
    }
    for (int32_t i = 0; i < relation->steps; i++) {
        relation->step[i].op = PyLong_AsLongLong(PyTuple_GET_ITEM(code, 2 * i));
        relation->step[i].arg = PyLong_AsLongLong(PyTuple_GET_ITEM(code, 2 * i + 1));
    }
    if (PyErr_Occurred()) {
        return -1;
    }
    if (!well_formed(relation)) {
        PyErr_SetString(PyExc_ValueError, "malformed relation");
        return -1;
    }
    return 0;
}

/* From ((slot, kind, index, bound), ...), (op, arg, op, arg, ...); the caller owns the result. */
Relation *
relation_new(PyObject *key, int32_t slots)
{
    PyObject *operands, *code;
    if (!PyArg_ParseTuple(key, "O!O!", &PyTuple_Type, &operands, &PyTuple_Type, &code)) {
        return NULL;
    }
    Relation *relation = PyMem_Calloc(1, sizeof(Relation));
    if (relation == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    relation->operands = (int32_t)PyTuple_GET_SIZE(operands);
    relation->steps = (int32_t)(PyTuple_GET_SIZE(code) / 2);
    relation->operand = PyMem_Calloc(relation->operands + 1, sizeof(Operand));
    relation->step = PyMem_Calloc(relation->steps + 1, sizeof(Step));
    if (relation->operand == NULL || relation->step == NULL || fill(relation, operands, code, slots) < 0) {
        if (!PyErr_Occurred()) {
            PyErr_NoMemory();
        }
        relation_free(relation);
        return NULL;
    }
    return relation;
}

void
relation_free(Relation *relation)
{
    PyMem_Free(relation->operand);
    PyMem_Free(relation->step);
    PyMem_Free(relation);
}

static bool
read_operand(const Operand *operand, PyObject *const *values, int64_t *out)
{
    PyObject *value = values[operand->slot];
    if (operand->kind == KIND_SIDE) {
        double number = PyFloat_CheckExact(value) ? PyFloat_AS_DOUBLE(value) : NAN;
        *out = (number > operand->bound) - (number < operand->bound);
        return !isnan(number);
    }
    if (operand->kind != KIND_INT) {
        return tensor_number(value, operand->kind == KIND_STRIDE, operand->index, out);
    }
    if (!PyLong_CheckExact(value)) {
        return false;
    }
    int overflow;
    *out = PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow == 0;
}

static bool
power(int64_t base, int64_t exponent, int64_t *out)
{
    int64_t result = 1;
    while (exponent-- > 0) {
        if (__builtin_mul_overflow(result, base, &result)) {
            return false;
        }
    }
    *out = result;
    return true;
}

/* Division as Python does it. */
static bool
divide(int64_t a, int64_t b, int64_t *quotient, int64_t *rest)
{
    if (b == 0 || (a == INT64_MIN && b == -1)) {
        return false;
    }
    *quotient = a / b;
    *rest = a % b;
    if (*rest != 0 && (*rest < 0) != (b < 0)) {
        *quotient -= 1;
        *rest += b;
    }
    return true;
}

bool
relation_holds(const Relation *relation, PyObject *const *values)
{
    int64_t stack[DEEPEST + 1], *top = stack, quotient = 0, rest = 0; /* stack[0] lies below the first value */
    for (const Step *step = relation->step, *end = step + relation->steps; step < end; step++) {
        bool fits = true;
        int64_t right = step->op > REL_NOT ? *top-- : 0;
        int64_t *left = top;
        switch (step->op) {
        case REL_CONST:
            *++top = step->arg;
            break;
        case REL_LOAD:
            fits = read_operand(&relation->operand[step->arg], values, ++top);
            break;
        case REL_POW:
            fits = power(*left, step->arg, left);
            break;
        case REL_NOT:
            *left = !*left;
            break;
        case REL_ADD:
            fits = !__builtin_add_overflow(*left, right, left);
            break;
        case REL_MUL:
            fits = !__builtin_mul_overflow(*left, right, left);
            break;
        case REL_FLOORDIV:
            fits = divide(*left, right, &quotient, &rest);
            *left = quotient;
            break;
        case REL_MOD:
            fits = right == -1 || divide(*left, right, &quotient, &rest);
            *left = right == -1 ? 0 : rest;
            break;
        case REL_MAX:
            *left = *left > right ? *left : right;
            break;
        case REL_MIN:
            *left = *left < right ? *left : right;
            break;
        case REL_EQ:
            *left = *left == right;
            break;
        case REL_NE:
            *left = *left != right;
            break;
        case REL_LT:
            *left = *left < right;
            break;
        case REL_LE:
            *left = *left <= right;
            break;
        case REL_GT:
            *left = *left > right;
            break;
        case REL_GE:
            *left = *left >= right;
            break;
        case REL_AND:
            *left = *left && right;
            break;
        case REL_OR:
            *left = *left || right;
            break;
        default:
            return false;
        }
        if (!fits) {
            return false;
        }
    }
    return *top != 0;
}
