/* The RELATION check: a postfix program of 64-bit integers over sizes, strides and ints, or of doubles over floats and
   ints as well. What overflows does not hold, nor where Python would raise. */
#include "integers.h"

typedef struct {
    int32_t slot, kind, index; /* KIND_WHOLE: the index is the rounding */
    double bound;              /* KIND_SIDE: whether a float is above, at or below */
    Relation *inner;           /* KIND_WHOLE: calculates the number, which is rounded if it is a double */
} Operand;

enum { KIND_SIZE, KIND_STRIDE, KIND_INT, KIND_SIDE, KIND_FLOAT, KIND_NUMBER, KIND_WHOLE };

/* int, math.floor, math.ceil and round of Python. */
static double (*const roundings[])(double) = {trunc, floor, ceil, rint};
enum { ROUNDINGS = sizeof(roundings) / sizeof(*roundings) };

typedef struct {
    int64_t op, arg;
} Step;

struct Relation {
    int32_t operands, steps;
    bool real; /* calculates with doubles */
    Operand *operand;
    Step *step;
};

/* Pushes: CONST, LOAD. Changes the top: POW, NOT, NEG, CALL1. The others take two values and leave one. */
#define RELATION_OPS(X) \
    X(CONST) X(LOAD) X(POW) X(NOT) X(NEG) X(CALL1) X(SUB) X(DIV) X(CALL2) X(ADD) X(MUL) X(FLOORDIV) X(MOD) X(MAX) X(MIN) X(EQ) X(NE) X(LT) X(LE) X(GT) X(GE) X(AND) X(OR)
#define RELATION_ENUM(name) REL_##name,
enum { RELATION_OPS(RELATION_ENUM) REL_COUNT };
#define RELATION_NAME(name) #name,
static const char *const names[] = {RELATION_OPS(RELATION_NAME)};
enum { DEEPEST = 64 };

/* Functions of libm that Python's math calls as they are. */
#define FUNCTIONS1(X) \
    X(sqrt) X(exp) X(expm1) X(log) X(log1p) X(log2) X(log10) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan) X(sinh) X(cosh) \
    X(tanh) X(fabs)
#define FUNCTIONS2(X) X(pow) X(atan2) X(copysign)
#define POINTER(name) name,
static double (*const functions1[])(double) = {FUNCTIONS1(POINTER)};
static double (*const functions2[])(double, double) = {FUNCTIONS2(POINTER)};
static const char *const names1[] = {FUNCTIONS1(RELATION_NAME)};
static const char *const names2[] = {FUNCTIONS2(RELATION_NAME)};
enum { COUNT1 = sizeof(names1) / sizeof(*names1), COUNT2 = sizeof(names2) / sizeof(*names2) };

#define INT_FUNCTIONS1(X) X(bit_length) X(bit_count) X(isqrt)
#define INT_FUNCTIONS2(X) X(lshift) X(rshift) X(and_) X(or_) X(xor) X(gcd) X(pow)
#define INT_POINTER(name) int_##name,
static bool (*const int_functions1[])(int64_t, int64_t *) = {INT_FUNCTIONS1(INT_POINTER)};
static bool (*const int_functions2[])(int64_t, int64_t, int64_t *) = {INT_FUNCTIONS2(INT_POINTER)};
static const char *const int_names1[] = {INT_FUNCTIONS1(RELATION_NAME)};
static const char *const int_names2[] = {INT_FUNCTIONS2(RELATION_NAME)};
enum { INT_COUNT1 = sizeof(int_names1) / sizeof(*int_names1), INT_COUNT2 = sizeof(int_names2) / sizeof(*int_names2) };

static int
add_names(PyObject *table, const char *const *found, int count, const char *prefix)
{
    for (int i = 0; i < count; i++) {
        PyObject *key = PyUnicode_FromFormat("%s%s", prefix, found[i]), *number = PyLong_FromLong(i);
        int failed = key == NULL || number == NULL || PyDict_SetItem(table, key, number) < 0;
        Py_XDECREF(key);
        Py_XDECREF(number);
        if (failed) {
            return -1;
        }
    }
    return 0;
}

/* {name: number} of operations, and of functions behind "1 " and "2 ", of ints behind "int1 " and "int2 "; new reference. */
PyObject *
relation_ops(void)
{
    PyObject *table = PyDict_New();
    if (table != NULL && (add_names(table, names, REL_COUNT, "") < 0 || add_names(table, names1, COUNT1, "1 ") < 0
                          || add_names(table, names2, COUNT2, "2 ") < 0 || add_names(table, int_names1, INT_COUNT1, "int1 ") < 0
                          || add_names(table, int_names2, INT_COUNT2, "int2 ") < 0)) {
        Py_CLEAR(table);
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
            || (step.op == REL_POW && (step.arg < 0 || step.arg > 64))
            || (step.op == REL_CALL1 && (step.arg < 0 || step.arg >= (relation->real ? COUNT1 : INT_COUNT1)))
            || (step.op == REL_CALL2 && (step.arg < 0 || step.arg >= (relation->real ? COUNT2 : INT_COUNT2)))) {
            return false;
        }
        if (step.op <= REL_LOAD) {
            depth++;
        }
        else if (depth < (step.op <= REL_CALL1 ? 1 : 2)) {
            return false;
        }
        else if (step.op > REL_CALL1) {
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
        PyObject *inner = Py_None;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(operands, i), "iiid|O", &operand->slot, &operand->kind, &operand->index,
                              &operand->bound, &inner)) {
            return -1;
        }
        bool whole = operand->kind == KIND_WHOLE;
        if (operand->slot < 0 || operand->slot >= slots || operand->kind < 0 || operand->kind > KIND_WHOLE || operand->index < 0
            || whole != (inner != Py_None) || (whole && operand->index >= ROUNDINGS)) {
            PyErr_SetString(PyExc_ValueError, "operand out of range");
            return -1;
        }
        if (whole && (operand->inner = relation_new(inner, slots)) == NULL) {
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

/* From ((slot, kind, index, bound, inner or None), ...), (op, arg, op, arg, ...), real; the caller owns the result. */
Relation *
relation_new(PyObject *key, int32_t slots)
{
    PyObject *operands, *code;
    int real = 0;
    if (!PyArg_ParseTuple(key, "O!O!|p", &PyTuple_Type, &operands, &PyTuple_Type, &code, &real)) {
        return NULL;
    }
    Relation *relation = PyMem_Calloc(1, sizeof(Relation));
    if (relation == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    relation->real = real != 0;
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
    for (int32_t i = 0; relation->operand != NULL && i < relation->operands; i++) {
        if (relation->operand[i].inner != NULL) {
            relation_free(relation->operand[i].inner);
        }
    }
    PyMem_Free(relation->operand);
    PyMem_Free(relation->step);
    PyMem_Free(relation);
}

static bool real_value(const Relation *relation, PyObject *const *values, double *out);
static bool int_value(const Relation *relation, PyObject *const *values, int64_t *out);
static const int64_t largest_exact = (int64_t)1 << 53; /* ints up to here are doubles exactly */

static bool
read_operand(const Operand *operand, PyObject *const *values, int64_t *out)
{
    if (operand->kind == KIND_WHOLE && !operand->inner->real) {
        return int_value(operand->inner, values, out);
    }
    if (operand->kind == KIND_WHOLE) {
        double number;
        if (!real_value(operand->inner, values, &number) || !(fabs(number) < (double)largest_exact)) {
            return false;
        }
        *out = (int64_t)roundings[operand->index](number);
        return true;
    }
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

static bool
read_double(const Operand *operand, PyObject *const *values, double *out)
{
    PyObject *value = values[operand->slot];
    int64_t number;
    if (operand->kind == KIND_NUMBER) {
        *out = operand->bound;
        return true;
    }
    if (operand->kind == KIND_FLOAT) {
        *out = PyFloat_CheckExact(value) ? PyFloat_AS_DOUBLE(value) : 0.0;
        return PyFloat_CheckExact(value);
    }
    if (!read_operand(operand, values, &number) || number > largest_exact || number < -largest_exact) {
        return false;
    }
    *out = (double)number;
    return true;
}

/* Comparisons of the two values on top of the stack, in ints and in doubles. */
#define COMPARE(name, op, left, right) \
    case REL_##name: \
        *(left) = *(left) op (right); \
        break;
#define COMPARISONS(left, right) \
    COMPARE(EQ, ==, left, right) \
    COMPARE(NE, !=, left, right) \
    COMPARE(LT, <, left, right) \
    COMPARE(LE, <=, left, right) \
    COMPARE(GT, >, left, right) \
    COMPARE(GE, >=, left, right)

/* What a program of doubles gives. A function that gives no finite number may be one for which Python raises. */
static bool
real_value(const Relation *relation, PyObject *const *values, double *out)
{
    double stack[DEEPEST + 1], *top = stack;
    for (const Step *step = relation->step, *end = step + relation->steps; step < end; step++) {
        double right = step->op > REL_CALL1 ? *top-- : 0.0;
        double *left = top;
        switch (step->op) {
        case REL_LOAD:
            if (!read_double(&relation->operand[step->arg], values, ++top)) {
                return false;
            }
            break;
        case REL_NOT:
            *left = *left == 0.0;
            break;
        case REL_NEG:
            *left = -*left;
            break;
        case REL_CALL1:
            *left = functions1[step->arg](*left);
            if (!isfinite(*left)) {
                return false;
            }
            break;
        case REL_CALL2:
            *left = functions2[step->arg](*left, right);
            if (!isfinite(*left)) {
                return false;
            }
            break;
        case REL_ADD:
            *left += right;
            break;
        case REL_SUB:
            *left -= right;
            break;
        case REL_MUL:
            *left *= right;
            break;
        case REL_DIV:
            if (right == 0.0) {
                return false;
            }
            *left /= right;
            break;
        case REL_MAX: /* as Python: the first of equal ones, and next to nan */
            *left = right > *left ? right : *left;
            break;
        case REL_MIN:
            *left = right < *left ? right : *left;
            break;
        COMPARISONS(left, right)
        default:
            return false;
        }
    }
    *out = *top;
    return true;
}

static bool
int_value(const Relation *relation, PyObject *const *values, int64_t *out)
{
    int64_t stack[DEEPEST + 1], *top = stack, quotient = 0, rest = 0; /* stack[0] lies below the first value */
    for (const Step *step = relation->step, *end = step + relation->steps; step < end; step++) {
        bool fits = true;
        int64_t right = step->op > REL_CALL1 ? *top-- : 0;
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
        case REL_CALL1:
            fits = int_functions1[step->arg](*left, left);
            break;
        case REL_CALL2:
            fits = int_functions2[step->arg](*left, right, left);
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
        COMPARISONS(left, right)
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
    *out = *top;
    return true;
}

bool
relation_holds(const Relation *relation, PyObject *const *values)
{
    double number;
    int64_t whole;
    if (relation->real) {
        return real_value(relation, values, &number) && number != 0.0;
    }
    return int_value(relation, values, &whole) && whole != 0;
}
