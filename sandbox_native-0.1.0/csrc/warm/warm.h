/* The shared library that the bootstrap loads: what it calls, and what of the interpreter is used. No Python.h: the same file serves
 * every CPython from 3.8 on, free-threaded ones too, so only functions that all of them have, and objects by pointer alone.
 */
#pragma once

#include <stddef.h>
#include <stdio.h>
#include <sys/types.h>

#define PUBLIC __attribute__((visibility("default")))

/* warm.c */
PUBLIC int sn_warm_serve(int control, int plan_fd);
PUBLIC void sn_warm_wait(void);
PUBLIC void sn_warm_refuse(int control, int error, const char *item);
PUBLIC const char *sn_warm_argument(unsigned at);
PUBLIC const char *sn_warm_variable(unsigned at);

/* script.c */
typedef struct _object PyObject;
PUBLIC int sn_warm_script(PyObject *type, PyObject *value, PyObject *trace);
PUBLIC void sn_warm_leave_by(PyObject *set_aside, PyObject *finish);
PUBLIC int sn_warm_exit_code(void);
PUBLIC void sn_warm_exchange(PyObject *one, PyObject *other, size_t header, size_t size);

/* The interpreter's own. */
void PyOS_BeforeFork(void);
void PyOS_AfterFork_Child(void);
PyObject *PyImport_AddModule(const char *name);
PyObject *PyImport_GetModuleDict(void);
PyObject *PyModule_GetDict(PyObject *module);
PyObject *PyDict_GetItemString(PyObject *dict, const char *key);
int PyDict_SetItemString(PyObject *dict, const char *key, PyObject *value);
int PyDict_DelItemString(PyObject *dict, const char *key);
PyObject *PySys_GetObject(const char *name);
int PySys_SetObject(const char *name, PyObject *value);
PyObject *PyRun_FileExFlags(FILE *file, const char *name, int start, PyObject *globals, PyObject *locals, int close, void *flags);
PyObject *PyObject_CallMethod(PyObject *object, const char *name, const char *format, ...);
PyObject *PyObject_CallObject(PyObject *callable, PyObject *arguments);
PyObject *PyObject_GetAttrString(PyObject *object, const char *name);
PyObject *PyErr_Occurred(void);
int PyErr_ExceptionMatches(PyObject *type);
void PyErr_Fetch(PyObject **type, PyObject **value, PyObject **trace);
void PyErr_NormalizeException(PyObject **type, PyObject **value, PyObject **trace);
void PyErr_Restore(PyObject *type, PyObject *value, PyObject *trace);
void PyErr_Clear(void);
void PyErr_Print(void);
void PyErr_WriteUnraisable(PyObject *object);
long PyLong_AsLong(PyObject *number);
ssize_t PyList_Size(PyObject *list);
PyObject *PyList_GetItem(PyObject *list, ssize_t at);
PyObject *PyCapsule_New(void *pointer, const char *name, void (*destructor)(PyObject *));
ssize_t PyGC_Collect(void);
void Py_DecRef(PyObject *object);
void Py_IncRef(PyObject *object);
void Py_Exit(int status) __attribute__((noreturn));
extern PyObject *PyExc_SystemExit, *PyExc_KeyboardInterrupt;
