/* Compiled into the launcher only when SANDBOX_NATIVE_SANITIZE is set (setup.py): the launcher gets no
 * environment to read options from. A finding ends the process, which the host sees as a lost run.
 * Leaks are not looked for: nothing is allocated, and the check would need ptrace. No signal is handled: the guest
 * could send it to init, which as PID 1 is safe from signals only as long as it handles none. */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

const char *__asan_default_options(void)
{
	return "detect_leaks=0:abort_on_error=1:allocator_may_return_null=1:allow_user_segv_handler=1:"
	       "handle_segv=0:handle_sigbus=0:handle_sigfpe=0:handle_sigill=0:handle_abort=0";
}

const char *__ubsan_default_options(void)
{
	return "abort_on_error=1:print_stacktrace=1";
}
