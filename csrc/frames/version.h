/* The only place of this module that knows CPython versions. */
#ifndef STATOR_FRAMES_VERSION_H
#define STATOR_FRAMES_VERSION_H

#define PY_SSIZE_T_CLEAN
#define Py_BUILD_CORE 1
#include <Python.h>
#undef _PyGC_FINALIZED /* defined twice by the internal headers */
#include <frameobject.h>
#include <structmember.h>
#include <internal/pycore_frame.h>
#include <internal/pycore_interp.h>
#include <internal/pycore_pylifecycle.h>
#include <internal/pycore_pystate.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030C0000
#error "stator._frames has tables for Python 3.11 only"
#endif

static inline _PyInterpreterFrame *current_frame(PyThreadState *ts) { return ts->cframe->current_frame; }
static inline void set_current_frame(PyThreadState *ts, _PyInterpreterFrame *f) { ts->cframe->current_frame = f; }
static inline int frame_is_generator(_PyInterpreterFrame *f) { return f->owner == FRAME_OWNED_BY_GENERATOR; }
static inline PyGenObject *frame_generator(_PyInterpreterFrame *f) {
    return (PyGenObject *)((char *)f - offsetof(PyGenObject, gi_iframe));
}
static inline int frame_started(_PyInterpreterFrame *f) {
    return f->prev_instr >= _PyCode_CODE(f->f_code);
}
/* Weak references to the subclasses of a class by address; borrowed, NULL if there never was one. */
static inline PyObject *subclasses_of(PyTypeObject *cls) {
    return cls->tp_subclasses && PyDict_CheckExact(cls->tp_subclasses) ? cls->tp_subclasses : NULL;
}
/* What the collector tells of its runs while one goes on; borrowed, NULL outside of runs. */
static inline PyObject *told_of_collection(PyThreadState *ts) {
    return ts->interp->gc.collecting ? ts->interp->gc.callbacks : NULL;
}
/* At how many new objects they are collected from now on, 0: never; returns how many it were. Other threads see and set the
   flag of the process meanwhile, which stays what it is. */
static inline int collect_at(PyThreadState *ts, int threshold) {
    int *known = &ts->interp->gc.generations[0].threshold, before = *known;
    *known = threshold;
    return before;
}
/* How many functions of sys.settrace and sys.setprofile run on a thread, each called from what the one before it runs. */
static inline int tracing_depth(PyThreadState *ts) { return ts->tracing; }

/* How often the filters of warnings have changed. */
static inline long *filters_version_of(PyThreadState *ts) { return &ts->interp->warnings.filters_version; }

#endif
