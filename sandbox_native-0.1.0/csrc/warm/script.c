/* In a guest: runs the script as the interpreter itself does, with no frame beneath it, and leaves fast.
 *
 * The bootstrap ends with an exception, and the interpreter hands that to the hook for unhandled ones, which is sn_warm_script: called
 * from C, with all frames gone, before anything is finalized. An error of the script is printed, and turned into an exit status,
 * by the interpreter.
 *
 * Leaving. What is left to do at the end is the interpreter's (Py_FinalizeEx), but most of its time goes into objects of modules that the
 * template imported, which no guest would miss: so they are set aside when it begins to clear modules, and the process ends when
 * the last, sys, has been cleared. These moments are told by capsules that it destroys on its way.
 */

#include "warm.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

enum { FILE_INPUT = 257 }; /* Py_file_input */

static int exit_code = -1; /* -1: only the interpreter knows */
static PyObject *set_aside, *finish;

static void flush_one(const char *name)
{
	PyObject *stream = PySys_GetObject(name);
	PyObject *done = stream ? PyObject_CallMethod(stream, "flush", NULL) : NULL;
	if (done)
		Py_DecRef(done);
	else
		PyErr_Clear();
}

/* As the interpreter's own flush_io. */
static void flush_streams(void)
{
	PyObject *type, *value, *trace;
	PyErr_Fetch(&type, &value, &trace);
	flush_one("stderr");
	flush_one("stdout");
	PyErr_Restore(type, value, trace);
}

/* What a plain SystemExit will be made of; the exception stays. */
static int code_of_exit(void)
{
	PyObject *type, *value, *trace, *code = NULL;
	int found = -1;
	PyErr_Fetch(&type, &value, &trace);
	PyErr_NormalizeException(&type, &value, &trace);
	if (type == PyExc_SystemExit && value)
		code = PyObject_GetAttrString(value, "code");
	if (code) {
		long number = PyLong_AsLong(code);
		if (!PyErr_Occurred())
			found = (int)number & 0xff;
		PyErr_Clear();
		Py_DecRef(code);
	}
	PyErr_Clear();
	PyErr_Restore(type, value, trace);
	return found;
}

/* As after the interpreter's own PyRun_SimpleFile; a SystemExit does not come back from PyErr_Print. */
static void report_error(PyObject *names)
{
	if (PyErr_ExceptionMatches(PyExc_SystemExit))
		exit_code = code_of_exit();
	else if (PyErr_Occurred() != PyExc_KeyboardInterrupt) /* with which the interpreter ends by the signal */
		exit_code = 1;
	PyErr_Print();
	PyDict_DelItemString(names, "__file__");
	PyErr_Clear();
	PyDict_DelItemString(names, "__cached__");
	PyErr_Clear();
}

static void forget_bootstrap(void)
{
	static const char *const last[] = {"last_exc", "last_type", "last_value", "last_traceback"};
	PySys_SetObject("excepthook", PySys_GetObject("__excepthook__"));
	for (unsigned i = 0; i < sizeof last / sizeof *last; i++)
		PySys_SetObject(last[i], NULL);
	PyErr_Clear();
}

/* The path is the request's first argument, and the names are those of __main__. */
int sn_warm_script(PyObject *type, PyObject *value, PyObject *trace)
{
	(void)type, (void)value, (void)trace;
	const char *path = sn_warm_argument(0);
	forget_bootstrap();
	PyObject *names = PyModule_GetDict(PyImport_AddModule("__main__"));
	FILE *file = fopen(path, "rbe");
	if (!file) {
		fprintf(stderr, "can't open file '%s': [Errno %d] %s\n", path, errno, strerror(errno));
		Py_Exit(2);
	}
	PyObject *done = PyRun_FileExFlags(file, path, FILE_INPUT, names, names, 1, NULL);
	flush_streams();
	if (!done) {
		report_error(names);
		return -1; /* and the interpreter ends with 1, or with the signal */
	}
	Py_DecRef(done);
	PyDict_DelItemString(names, "__file__");
	PyErr_Clear();
	PyDict_DelItemString(names, "__cached__");
	PyErr_Clear();
	exit_code = 0;
	Py_Exit(0);
}

int sn_warm_exit_code(void)
{
	return exit_code;
}

static void call(PyObject *callable)
{
	PyObject *done = PyObject_CallObject(callable, NULL);
	if (done)
		Py_DecRef(done);
	else
		PyErr_WriteUnraisable(callable);
}

static void clearing_begins(PyObject *capsule)
{
	(void)capsule;
	call(set_aside);
}

/* What `finish` gives is called one by one, and what is raised is told as of any finalizer. */
static void finish_objects(void)
{
	PyObject *list = PyObject_CallObject(finish, NULL);
	if (!list)
		PyErr_WriteUnraisable(finish);
	for (long at = 0; list && at < PyList_Size(list); at++)
		call(PyList_GetItem(list, at));
	if (list)
		Py_DecRef(list);
}

static void modules_are_cleared(PyObject *capsule)
{
	(void)capsule;
	finish_objects();
}

static void all_is_cleared(PyObject *capsule)
{
	(void)capsule;
	PyGC_Collect();
	finish_objects();
	fflush(NULL);
	_exit(exit_code);
}

/* Two objects of a type that has no more in it than its basic size change what is behind their headers. */
void sn_warm_exchange(PyObject *one, PyObject *other, size_t header, size_t size)
{
	char *first = (char *)one, *second = (char *)other;
	for (size_t at = header; at < size; at++) {
		char byte = first[at];
		first[at] = second[at];
		second[at] = byte;
	}
}

static int mark(PyObject *names, const char *name, void (*destructor)(PyObject *))
{
	PyObject *capsule = PyCapsule_New(&exit_code, NULL, destructor);
	int failed = !capsule || PyDict_SetItemString(names, name, capsule);
	if (capsule)
		Py_DecRef(capsule);
	return failed;
}

/* Called when all else is done that comes before modules are cleared. `aside` is called when that begins (sys.ps2 is one of the first
 * names that it clears), `after` when all modules but sys and builtins are cleared (of sys names with one underscore come first, then the
 * others in their order). */
void sn_warm_leave_by(PyObject *aside, PyObject *after)
{
	PyObject *sys = PyDict_GetItemString(PyImport_GetModuleDict(), "sys");
	PyObject *names = sys ? PyModule_GetDict(sys) : NULL;
	Py_IncRef(aside);
	Py_IncRef(after);
	set_aside = aside;
	finish = after;
	if (!names || mark(names, "warm", all_is_cleared) || mark(names, "_warm", modules_are_cleared) ||
	    mark(names, "ps2", clearing_begins))
		PyErr_Clear();
}
