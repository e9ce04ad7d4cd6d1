/* Compiled into the launcher only when SANDBOX_NATIVE_SANITIZE is set (setup.py): the launcher gets no
 * environment to read options from. A finding ends the process, which the host sees as a lost run;
 * leaks are not looked for, since nothing is allocated and the check would need ptrace. */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

const char *__asan_default_options(void)
{
	return "detect_leaks=0:abort_on_error=1:handle_segv=0:allocator_may_return_null=1";
}

const char *__ubsan_default_options(void)
{
	return "abort_on_error=1:print_stacktrace=1";
}
