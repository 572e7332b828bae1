/* What a run of a large program will look at, so that it can be fetched into the cache ahead of time.
 *
 * A hit on a model of hundreds of modules is bound by cache misses, and the addresses are known from the last run.
 * They are only prefetched, never followed, so it does not matter if some have become stale. */
#include "entry.h"
#include <stddef.h>

/* Notes the addresses one instruction touches; their number per opcode is what AHEAD_LINES says. */
static const char **
note(const Instr *in, PyObject *const *values, const char **out)
{
    const char *object = (const char *)values[in->src];
    switch (in->op) {
    case OP_INSTANCE:
        *out++ = object + offsetof(PyObject, ob_type);
        *out++ = (const char *)instance_dict_slot(values[in->src]);
        *out++ = (const char *)values[in->dst] + offsetof(PyDictObject, ma_version_tag);
        break;
    case OP_TAG:
        *out++ = object + offsetof(PyDictObject, ma_version_tag);
        break;
    case OP_HOOKS:
        for (int i = 0; i < AHEAD_HOOKS; i++) {
            *out++ = (const char *)values[in->src + i] + offsetof(PyDictObject, ma_used);
        }
        break;
    case OP_TENSOR:
        out = tensor_lines(values[in->src], out);
        break;
    default:
        break;
    }
    return out;
}

/* To be called right after a hit, when all values are alive. */
void
ahead_note(const Program *program, Scratch *scratch)
{
    const char **out = scratch->ahead;
    for (const Instr *in = program->code; in->op != OP_END; in++) {
        out = note(in, scratch->values, out);
    }
    scratch->ahead_changes = scratch->changes;
    scratch->ahead_patience = AHEAD_PATIENCE;
}

/* Room for the addresses of a large program, and some beyond, since a run reads the list ahead. */
const char **
ahead_new(const Program *program)
{
    size_t lines = AHEAD_DISTANCE + AHEAD_TENSOR;
    int32_t visits = 0;
    for (const Instr *in = program->code; in->op != OP_END; in++, visits++) {
        lines += in->op == OP_INSTANCE ? AHEAD_INSTANCE : in->op == OP_TAG ? AHEAD_TAG : 0;
        lines += in->op == OP_HOOKS ? AHEAD_HOOKS : in->op == OP_TENSOR ? AHEAD_TENSOR : 0;
    }
    return visits < AHEAD_MINIMUM || !tensor_layout_verified() ? NULL : PyMem_Calloc(lines, sizeof(char *));
}
