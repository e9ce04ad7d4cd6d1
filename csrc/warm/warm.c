/* What the interpreter's bootstrap loads when all is imported: with the launcher's own files it makes slots, boxes and guests out of the
 * interpreter, which is the template from here on. Every clone is a plain fork of it; the guest's returns to the bootstrap.
 *
 * One thread only. Between the fork and the return the guest does what any guest does before execve (guest.c).
 */

#include "../launcher/launcher.h"

#include <signal.h>
#include <sys/prctl.h>

#define PUBLIC __attribute__((visibility("default")))

static struct plan plan = {.fd = -1, .idmap_fd = -1, .ruleset = -1};
static struct request *request;
static void *return_to[5];

PUBLIC int sn_warm_serve(int control, int plan_fd);
PUBLIC void sn_warm_refuse(int control, int error, const char *item);
PUBLIC const char *sn_warm_argument(unsigned at);
PUBLIC const char *sn_warm_variable(unsigned at);

/* The bootstrap could not import what it should. */
void sn_warm_refuse(int control, int error, const char *item)
{
	struct sn_failure why = {0};
	fail(&why, SN_STAGE_WARM, error, item);
	channel_answer(control, &why, -1);
}

/* Serves the host until it closes the socket: 1. 0 in a guest, whose request the two functions below tell of; -1: a plan that makes no
 * sense, and the host has been told. */
int sn_warm_serve(int control, int plan_fd)
{
	struct sn_failure why = {0};
	int failed = plan_read(plan_fd, &plan, &why);
	sys(SYS_close, plan_fd);
	signal(SIGCHLD, SIG_IGN);
	channel_answer(control, &why, -1);
	if (failed)
		return -1;
	if (__builtin_setjmp(return_to))
		return 0;
	template_serve(&plan, control);
	return 1;
}

void warm_return(struct guest *guest)
{
	request = guest->request;
	sys(SYS_prctl, PR_SET_DUMPABLE, 1);
	signal(SIGCHLD, SIG_DFL);
	guest_give_turn(guest, GUEST_WAITS, GUEST_GONE);
	guest_give_turn(guest, GUEST_GOES_ON, GUEST_GONE);
	__builtin_longjmp(return_to, 1);
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
