/* What the interpreter's bootstrap loads when all is imported: with the launcher's own files it makes slots, boxes and guests out of the
 * interpreter, which is the template from here on. Every clone is a plain fork of it; the guest's returns to the bootstrap.
 *
 * One thread only, which holds the interpreter's lock throughout. Between the fork and the return the guest does what any guest does before
 * execve (guest.c).
 */

#include "../launcher/launcher.h"

#include "warm.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

static struct plan plan = {.fd = -1, .idmap_fd = -1, .ruleset = -1};
static struct guest *waiting;
static struct request *request;
static void *return_to[5];
static int *own_tid; /* where the C library keeps the thread's id; NULL where the kernel does not tell */
static void *robust_list;
static size_t robust_size;

/* The bootstrap could not import what it should. */
void sn_warm_refuse(int control, int error, const char *item)
{
	struct sn_failure why = {0};
	fail(&why, SN_STAGE_WARM, error, item);
	channel_answer(control, &why, -1);
}

/* What a plain fork leaves as it was in the parent, and the C library's own puts right. */
static void remember_thread(void)
{
	int *at = NULL;
	if (sys(SYS_prctl, PR_GET_TID_ADDRESS, &at) == 0 && at && *at == sys(SYS_gettid))
		own_tid = at;
	if (sys(SYS_get_robust_list, 0, &robust_list, &robust_size) < 0)
		robust_list = NULL;
}

static void renew_thread(void)
{
	if (own_tid)
		*own_tid = (int)sys(SYS_gettid);
	if (robust_list)
		sys(SYS_set_robust_list, robust_list, robust_size);
}

/* Serves the host until it closes the socket: 1. 0 in a clone that is to be a guest, and goes on with sn_warm_wait; -1: a plan that makes no
 * sense, and the host has been told. */
int sn_warm_serve(int control, int plan_fd)
{
	struct sn_failure why = {0};
	int failed = plan_read(plan_fd, &plan, &why);
	sys(SYS_close, plan_fd);
	signal(SIGCHLD, SIG_IGN);
	remember_thread();
	PyOS_BeforeFork();
	channel_answer(control, &why, -1);
	if (failed)
		return -1;
	if (__builtin_setjmp(return_to)) {
		renew_thread();
		PyOS_AfterFork_Child();
		return 0;
	}
	template_serve(&plan, control);
	return 1;
}

/* Off the stack that the clone was made on, to the interpreter's. */
void warm_return(struct guest *guest)
{
	waiting = guest;
	__builtin_longjmp(return_to, 1);
}

/* Until the guest's request has come, and it is confined. The functions below tell of the request then. */
void sn_warm_wait(void)
{
	guest_go_on(waiting);
	sys(SYS_prctl, PR_SET_DUMPABLE, 1);
	signal(SIGCHLD, SIG_DFL);
}

/* What the guest shares with init becomes its own, at the same place: from here on init takes no word from it. */
int warm_part(struct guest *guest)
{
	struct parked *shared = (struct parked *)guest;
	void *own = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (own == MAP_FAILED)
		return fail(&guest->why, SN_STAGE_WARM, errno, "memory of its own");
	memcpy(own, shared, sizeof *shared);
	guest_give_turn(guest, GUEST_WAITS, GUEST_GONE);
	guest_give_turn(guest, GUEST_GOES_ON, GUEST_GONE);
	if (mremap(own, sizeof *shared, sizeof *shared, MREMAP_MAYMOVE | MREMAP_FIXED, shared) != shared)
		sys(SYS_exit_group, 127);
	request = &shared->request;
	return 0;
}

/* Strings of the request; NULL behind the last. */
const char *sn_warm_argument(unsigned at)
{
	return request->argv[at];
}

const char *sn_warm_variable(unsigned at)
{
	return request->env[at];
}
